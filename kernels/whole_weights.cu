/* A network's weights as whole_net wants them, all in one piece. */
#include "kernels/tensor_layout.cuh"
#include "kernels/whole_planner.h"

#include <string.h>

static void pack_conv(enum tensor_math math, const struct convoy_conv_shape *s, int tiles,
                      const float *weights, uint32_t *packed)
{
    float *to = (float *)(void *)packed;
    if (math == TENSOR_FP32)
        tensor_layout<TENSOR_FP32, 1>::pack_tiles(s, weights, tiles, to);
    else if (math == TENSOR_TF32)
        tensor_layout<TENSOR_TF32, 1>::pack_tiles(s, weights, tiles, to);
    else
        tensor_layout<TENSOR_HALF, 1>::pack_tiles(s, weights, tiles, to);
}

/* places x outputs x words of a place, a multiple of 4. */
static void pack_dense(enum tensor_math math, const struct whole_step *step, const float *weights,
                       uint32_t *packed, int channels)
{
    int per_word = math == TENSOR_HALF ? 2 : 1, words = (int)convoy_div_up(step->in_words, 4) * 4;
    for (int place = 0; place < step->places; place++)
        for (int out = 0; out < step->maps; out++)
            for (int word = 0; word < words; word++, packed++) {
                *packed = 0;
                for (int half = 0; half < per_word; half++) {
                    int c = word * per_word + half;
                    if (c >= channels)
                        continue;
                    float value = weights[((size_t)out * channels + c) * step->places + place];
                    *packed |= math == TENSOR_HALF ? (uint32_t)convoy_half(value) << 16 * half
                                                   : convoy_float_bits(value);
                }
            }
}

void convoy_whole_pack_weights(const struct convoy_whole_plan *plan, const struct convoy_whole_shape *shape,
                               void *packed)
{
    uint32_t *to = (uint32_t *)packed;
    for (int i = 0; i < shape->count; i++) {
        const struct convoy_whole_layer *layer = &shape->layers[i];
        const struct whole_step *step = &plan->steps[i];
        struct convoy_conv_shape s = layer->shape;
        if (layer->kind == CONVOY_WHOLE_CONV)
            pack_conv(plan->math, &s, step->n_tiles, layer->weights, to + step->weights);
        else if (layer->kind == CONVOY_WHOLE_DENSE)
            pack_dense(plan->math, step, layer->weights, to + step->weights, s.c);
        if (step->bias != WHOLE_NO_BIAS)
            memcpy(to + step->bias, layer->bias, (size_t)s.k * sizeof(float));
    }
}
