/* A network's weights in whole_net's layout, all in one piece. */
#include "kernels/device/tensor_steps.cuh"
#include "kernels/fused_net/fused_planner.h"

#include <string.h>

float fused_weight_at(const struct convoy_fused_layer *layer, const struct fused_reduction *reduction,
                      enum tensor_math math, int number, int map, int phase)
{
    const struct convoy_conv_shape *s = &layer->shape;
    struct fused_tap tap;
    bool real = fused_tap_of(reduction, math, number, &tap) && map < s->k && tap.channel < s->c;
    int column = tap.column - phase;
    if (!real || column < 0 || column >= s->s)
        return 0;
    return layer->weights[(((size_t)map * s->c + tap.channel) * s->r + tap.r) * s->s + column];
}

/* The words of a lane for one step, contiguous: steps x tiles of 8 maps x lanes x a lane's words, of which
 * the first multiplies words 0 to 3 of the step, the second 4 to 7; in fp32 both high parts, then both low
 * ones. */
static void pack_conv(const struct convoy_fused_plan *plan, int index, const struct convoy_fused_layer *layer,
                      uint32_t *packed)
{
    const struct fused_step *step = &plan->steps[index];
    const struct fused_reduction *reduction = &plan->reductions[index];
    int lane_words = fused_lane_words(plan->math);
    int per_word = fused_word_channels(plan->math);
    for (int at = 0; at < step->steps * step->n_tiles * 32; at++) {
        int lane = at % 32, column = at / 32 % step->n_tiles * 8 + lane / 4;
        int map = column / reduction->phases, phase = column % reduction->phases;
        int first = at / 32 / step->n_tiles * TENSOR_STEP + lane % 4;
        for (int i = 0; i < 2; i++) {
            int number = (first + i * 4) * per_word;
            tensor_put_weights(
                plan->math, packed + (size_t)at * (size_t)lane_words + i,
                fused_weight_at(layer, reduction, plan->math, number, map, phase),
                per_word == 2 ? fused_weight_at(layer, reduction, plan->math, number + 1, map, phase) : 0);
        }
    }
}

static void pack_bias(const struct convoy_fused_plan *plan, int index, const struct convoy_fused_layer *layer,
                      float *packed)
{
    const struct fused_step *step = &plan->steps[index];
    if (layer->kind != CONVOY_FUSED_CONV) {
        memcpy(packed, layer->bias, (size_t)layer->shape.k * sizeof(float));
        return;
    }
    for (int i = 0; i < step->n_tiles * 8; i++) {
        int map = i / plan->reductions[index].phases;
        packed[i] = map < layer->shape.k ? layer->bias[map] : 0;
    }
}

/* places x outputs x words of a place, cell after cell. */
static void pack_dense(enum tensor_math math, const struct fused_step *step, const float *weights,
                       uint32_t *packed, int channels)
{
    int per_word = math == TENSOR_HALF ? 2 : 1, words = fused_planes(step->in_words) * FUSED_CELL;
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

void convoy_fused_pack_weights(const struct convoy_fused_plan *plan, const struct convoy_fused_shape *shape,
                               void *packed)
{
    uint32_t *to = (uint32_t *)packed;
    for (int i = 0; i < plan->job.count; i++) {
        const struct convoy_fused_layer *layer = &shape->layers[i];
        const struct fused_step *step = &plan->steps[i];
        if (step->wgmma)
            fused_pack_wgmma(plan, i, layer, to + step->weights);
        else if (layer->kind == CONVOY_FUSED_CONV)
            pack_conv(plan, i, layer, to + step->weights);
        else if (layer->kind == CONVOY_FUSED_DENSE)
            pack_dense(plan->math, step, layer->weights, to + step->weights, layer->shape.c);
        if (step->bias != FUSED_NO_BIAS)
            pack_bias(plan, i, layer, (float *)(void *)(to + step->bias));
    }
    if (plan->kernel->product)
        fused_pack_product(plan, &shape->layers[plan->job.count], to);
}
