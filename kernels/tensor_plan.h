/* How tensor's blocks cover a layer, and where what they need lies in shared memory. */
#ifndef CONVOY_KERNELS_TENSOR_PLAN_H
#define CONVOY_KERNELS_TENSOR_PLAN_H

#include "kernels/conv_common.h"

/* fp32 is three products of tf32: (high + low) (high + low) without low times low. */
enum tensor_math { TENSOR_FP32, TENSOR_TF32, TENSOR_HALF };

#define TENSOR_THREADS 128
#define TENSOR_STEP    8 /* words of the reduction in one instruction */

/* Division by a number that is the same for a launch, of dividends under 2^16. */
struct tensor_divider {
    uint32_t divisor, magic;
};

static inline struct tensor_divider tensor_divider(int divisor)
{
    return (struct tensor_divider){(uint32_t)divisor, (1u << 31) / (uint32_t)divisor + 1};
}

static __host__ __device__ __forceinline__ int tensor_divide(int x, struct tensor_divider by)
{
    return (int)((uint64_t)(uint32_t)x * by.magic >> 31);
}

/* A block computes `units` units of all images' units in a row, for some maps: a unit is an output, 2 x 2
 * outputs where they are pooled. In shared memory lies, for some channels at a time, all input that they
 * need: the rows under the units of the first image, then those of the next ones, each `width` columns,
 * padding included. */
struct tensor_plan {
    int words;       /* planes in shared memory: channels of a chunk, or pairs of channels */
    int chunks;      /* of channels */
    int steps;       /* of the reduction, in a chunk */
    int tap_columns; /* filter columns; half as many where a word is two of them */
    bool tap_pairs;
    int units, unit_h, unit_w; /* in a block; in an image */
    int64_t all_units;
    int width, full_rows; /* of the tile; rows of a whole image */
    int plane;            /* words from plane to plane */
    int map_tiles;        /* blocks beside each other for all maps of a group */
    struct tensor_divider by_width, by_full_rows;
    int64_t blocks;
    size_t shared_bytes;
};

/* Where a block begins, and the rows that it needs. */
struct tensor_span {
    int first_image, first_row; /* first_row: in units */
    int first_rows, rows;       /* in the tile: of the first image, of all */
};

/* Input rows under some rows of units. */
static __host__ __device__ __forceinline__ int tensor_input_rows(const struct convoy_conv_shape &s,
                                                                 int unit_rows)
{
    return (unit_rows * s.pool - 1) * s.stride[0] + (s.r - 1) * s.dilation[0] + 1;
}

static __host__ __device__ __forceinline__ struct tensor_span
tensor_span(const struct convoy_conv_shape &s, const struct tensor_plan &plan, int64_t first)
{
    struct tensor_span span;
    int image_units = plan.unit_h * plan.unit_w;
    int count = (int)(plan.all_units - first < plan.units ? plan.all_units - first : plan.units);
    span.first_image = (int)(first / image_units);
    int begin = (int)(first - (int64_t)span.first_image * image_units);
    int in_first = count < image_units - begin ? count : image_units - begin;
    span.first_row = begin / plan.unit_w;
    span.first_rows = tensor_input_rows(s, (begin + in_first - 1) / plan.unit_w - span.first_row + 1);
    int whole = (count - in_first) / image_units, tail = (count - in_first) % image_units;
    span.rows = span.first_rows + whole * plan.full_rows;
    if (tail > 0)
        span.rows += tensor_input_rows(s, (tail - 1) / plan.unit_w + 1);
    return span;
}

static inline int tensor_common_divisor(int a, int b)
{
    return b == 0 ? a : tensor_common_divisor(b, a % b);
}

/* The most rows that any block needs. Blocks begin at multiples of units, which repeat against the images. */
static inline int tensor_most_rows(const struct convoy_conv_shape *s, const struct tensor_plan *plan)
{
    int image_units = plan->unit_h * plan->unit_w, most = 0;
    int64_t different = image_units / tensor_common_divisor(image_units, plan->units);
    int64_t blocks = convoy_div_up(plan->all_units, plan->units);
    /* The last block, which is shorter, needs no more than another that begins like it. */
    for (int64_t i = 0; i < different && i < blocks; i++) {
        int rows = tensor_span(*s, *plan, i * plan->units).rows;
        most = rows > most ? rows : most;
    }
    return most;
}

/* Channels in a chunk, and words for them: of c, k, r, s and groups alone, because the weights are laid out
 * so. */
static inline void tensor_reduction(const struct convoy_conv_shape *s, enum tensor_math math,
                                    struct tensor_plan *plan)
{
    int channels = s->c / s->groups;
    plan->tap_pairs = math == TENSOR_HALF && channels == 1;
    plan->tap_columns = plan->tap_pairs ? (s->s + 1) / 2 : s->s;
    int per_word = math == TENSOR_HALF && !plan->tap_pairs ? 2 : 1;
    int all = (channels + per_word - 1) / per_word;
    /* 16 planes of a 3 x 3 layer's tile take some 25 KB, so that several blocks share a multiprocessor;
     * without filter taps there is less to do with each word, and no rows beside the block's own. */
    int most = s->r * s->s == 1 ? 32 : 16;
    plan->chunks = all <= most * 3 / 2 ? 1 : (all + most - 1) / most;
    plan->words = (all + plan->chunks - 1) / plan->chunks;
    plan->steps = (s->r * plan->tap_columns * plan->words + TENSOR_STEP - 1) / TENSOR_STEP;
}

/* For blocks of `outputs` outputs x `maps` maps. False if it does not fit. */
static inline bool tensor_make_plan(const struct convoy_conv_shape *s, enum tensor_math math, int outputs,
                                    int maps, struct tensor_plan *plan)
{
    *plan = (struct tensor_plan){};
    tensor_reduction(s, math, plan);
    plan->units = outputs / (s->pool * s->pool);
    plan->unit_h = s->oh / s->pool;
    plan->unit_w = s->ow / s->pool;
    plan->all_units = (int64_t)s->n * plan->unit_h * plan->unit_w;
    plan->width = (plan->unit_w * s->pool - 1) * s->stride[1] + (s->s - 1) * s->dilation[1] + 1;
    plan->full_rows = tensor_input_rows(*s, plan->unit_h);
    if (plan->all_units == 0 || plan->all_units >= INT32_MAX - outputs || plan->width > 4096)
        return false;
    int64_t words = (int64_t)tensor_most_rows(s, plan) * plan->width;
    /* Neighbouring outputs are neighbouring words; the same of the next plane is to lie 8 banks on, so that
     * the 8 outputs x 4 planes of a fragment lie in 32 banks. */
    words = convoy_div_up(words, 32) * 32 + 8;
    int64_t bytes = (words * plan->words + (int64_t)plan->steps * TENSOR_STEP) * 4;
    if (words >= 1 << 16 || bytes > 200 * 1024)
        return false;
    plan->plane = (int)words;
    plan->shared_bytes = (size_t)bytes;
    plan->by_width = tensor_divider(plan->width);
    plan->by_full_rows = tensor_divider(plan->full_rows);
    plan->map_tiles = (int)convoy_div_up(s->k / s->groups, maps);
    plan->blocks = convoy_div_up(plan->all_units, plan->units) * plan->map_tiles;
    return plan->blocks <= INT32_MAX && s->groups <= 65535;
}

#endif
