/* A network's weights as whole_net wants them, all in one piece. */
#include "kernels/whole_planner.h"

#include <string.h>

/* The weight of map k that multiplies the first or the second number of a word; 0 outside. */
static float weight_at(const struct convoy_whole_layer *layer, bool narrow, const struct whole_tap *tap,
                       int k, int second)
{
    const struct convoy_conv_shape *s = &layer->shape;
    int c = tap->channel + (narrow ? 0 : second), column = tap->column + (narrow ? second : 0);
    if (k >= s->k || c >= s->c || column >= s->s)
        return 0;
    return layer->weights[(((size_t)k * s->c + c) * s->r + tap->r) * s->s + column];
}

static void put(enum tensor_math math, float one, float other, uint32_t *to)
{
    if (math == TENSOR_HALF) {
        to[0] = convoy_half(one) | (uint32_t)convoy_half(other) << 16;
        return;
    }
    to[0] = convoy_tf32(one);
    if (math == TENSOR_FP32)
        to[2] = convoy_tf32(one - convoy_bits_float(to[0]));
}

/* What a lane wants for a step beside each other: steps x tiles of 8 maps x lanes x a lane's words, of which
 * the first multiplies words 0 to 3 of the step, the second 4 to 7; in fp32 both high parts, then both low
 * ones. */
static void pack_conv(const struct convoy_whole_plan *plan, int index, const struct convoy_whole_layer *layer,
                      uint32_t *packed)
{
    const struct whole_step *step = &plan->steps[index];
    const struct whole_reduction *reduction = &plan->reductions[index];
    int lane_words = whole_lane_words(plan->math);
    for (int at = 0; at < step->steps * step->n_tiles * 32; at++) {
        int lane = at % 32, k = at / 32 % step->n_tiles * 8 + lane / 4;
        int first = at / 32 / step->n_tiles * TENSOR_STEP + lane % 4;
        for (int i = 0; i < 2; i++) {
            struct whole_tap tap;
            bool real = whole_tap_of(reduction, plan->math, first + i * 4, &tap);
            float one = real ? weight_at(layer, reduction->narrow, &tap, k, 0) : 0,
                  other = real ? weight_at(layer, reduction->narrow, &tap, k, 1) : 0;
            put(plan->math, one, other, packed + (size_t)at * (size_t)lane_words + i);
        }
    }
}

/* places x outputs x words of a place, cell after cell. */
static void pack_dense(enum tensor_math math, const struct whole_step *step, const float *weights,
                       uint32_t *packed, int channels)
{
    int per_word = math == TENSOR_HALF ? 2 : 1, words = whole_planes(step->in_words) * WHOLE_CELL;
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
        if (layer->kind == CONVOY_WHOLE_CONV)
            pack_conv(plan, i, layer, to + step->weights);
        else if (layer->kind == CONVOY_WHOLE_DENSE)
            pack_dense(plan->math, step, layer->weights, to + step->weights, layer->shape.c);
        if (step->bias != WHOLE_NO_BIAS)
            memcpy(to + step->bias, layer->bias, (size_t)layer->shape.k * sizeof(float));
    }
}
