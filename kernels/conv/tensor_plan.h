/* How tensor's blocks cover a layer, and where what they need lies in shared memory. */
#ifndef CONVOY_KERNELS_TENSOR_PLAN_H
#define CONVOY_KERNELS_TENSOR_PLAN_H

#include "kernels/conv/conv_common.h"
#include "kernels/device/divider.cuh"
#include "kernels/device/tensor_products.cuh"
#include "kernels/device/tensor_steps.cuh"

#define TENSOR_THREADS 128
#define TENSOR_WARPS   (TENSOR_THREADS / 32)
#ifndef TENSOR_LEAST_BLOCKS /* before a block makes several passes; tests make them do so at once */
#define TENSOR_LEAST_BLOCKS (8 * CONVOY_ESTIMATE_SMS)
#endif

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
    int passes, units, unit_h, unit_w; /* units: in a block; the others: in an image */
    int image_units, all_units;
    int width, full_rows; /* of the tile; rows of a whole image */
    int plane;            /* words from plane to plane */
    int map_tiles;        /* blocks that share the maps of a group */
    struct tensor_divider by_width, by_full_rows, by_unit_w, by_image_units, by_words, by_tap_columns;
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
tensor_span(const struct convoy_conv_shape &s, const struct tensor_plan &plan, int first)
{
    struct tensor_span span;
    int count = plan.all_units - first < plan.units ? plan.all_units - first : plan.units;
    span.first_image = tensor_divide(first, plan.by_image_units);
    int begin = first - span.first_image * plan.image_units;
    int in_first = count < plan.image_units - begin ? count : plan.image_units - begin;
    span.first_row = tensor_divide(begin, plan.by_unit_w);
    span.first_rows =
        tensor_input_rows(s, tensor_divide(begin + in_first - 1, plan.by_unit_w) - span.first_row + 1);
    int whole = tensor_divide(count - in_first, plan.by_image_units);
    int tail = count - in_first - whole * plan.image_units;
    span.rows = span.first_rows + whole * plan.full_rows;
    if (tail > 0)
        span.rows += tensor_input_rows(s, tensor_divide(tail - 1, plan.by_unit_w) + 1);
    return span;
}

static inline int tensor_common_divisor(int a, int b)
{
    return b == 0 ? a : tensor_common_divisor(b, a % b);
}

/* The most rows that any block needs. Blocks begin at multiples of units, which repeat against the images. */
static inline int tensor_most_rows(const struct convoy_conv_shape *s, const struct tensor_plan *plan)
{
    int most = 0, different = plan->image_units / tensor_common_divisor(plan->image_units, plan->units);
    /* The last block, which is shorter, needs no more than another that begins like it. */
    for (int i = 0; i < different && (int64_t)i * plan->units < plan->all_units; i++) {
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

/* Shared memory for blocks of so many passes: 0 if it does not fit. */
static inline size_t tensor_lay_out(const struct convoy_conv_shape *s, int outputs, int passes,
                                    struct tensor_plan *plan)
{
    plan->passes = passes;
    plan->units = outputs / (s->pool * s->pool) * passes;
    int64_t words = (int64_t)tensor_most_rows(s, plan) * plan->width;
    /* Neighbouring outputs are neighbouring words; the same of the next plane is to lie 8 banks on, so that
     * the 8 outputs x 4 planes of a fragment lie in 32 banks. */
    words = convoy_div_up(words, 32) * 32 + 8;
    int64_t bytes = (words * plan->words + (int64_t)plan->steps * TENSOR_STEP) * 4;
    plan->plane = (int)words;
    return bytes > 200 * 1024 ? 0 : (size_t)bytes;
}

/* Blocks of `outputs` outputs x `maps` maps in a pass. False if it does not fit. */
static inline bool tensor_make_plan(const struct convoy_conv_shape *s, enum tensor_math math, int outputs,
                                    int maps, struct tensor_plan *plan)
{
    *plan = (struct tensor_plan){};
    tensor_reduction(s, math, plan);
    plan->unit_h = s->oh / s->pool;
    plan->unit_w = s->ow / s->pool;
    plan->width = (plan->unit_w * s->pool - 1) * s->stride[1] + (s->s - 1) * s->dilation[1] + 1;
    plan->full_rows = tensor_input_rows(*s, plan->unit_h);
    int64_t all_units = (int64_t)s->n * plan->unit_h * plan->unit_w;
    if (all_units == 0 || all_units >= INT32_MAX - (1 << 20) || plan->width > 1 << 16)
        return false;
    plan->all_units = (int)all_units;
    plan->image_units = plan->unit_h * plan->unit_w;
    plan->by_width = tensor_divider(plan->width);
    plan->by_full_rows = tensor_divider(plan->full_rows);
    plan->by_unit_w = tensor_divider(plan->unit_w);
    plan->by_image_units = tensor_divider(plan->image_units);
    plan->by_words = tensor_divider(plan->words);
    plan->by_tap_columns = tensor_divider(plan->tap_columns);
    plan->map_tiles = (int)convoy_div_up(s->k / s->groups, maps);
    plan->shared_bytes = tensor_lay_out(s, outputs, 1, plan);
    if (plan->shared_bytes == 0)
        return false;
    /* More passes share more of their input, as long as there are blocks enough for the whole chip and
     * several find room on a multiprocessor. */
    for (int passes = 2; plan->chunks == 1 && passes <= 8; passes *= 2) {
        struct tensor_plan more = *plan;
        more.shared_bytes = tensor_lay_out(s, outputs, passes, &more);
        if (more.shared_bytes == 0 || more.shared_bytes > 40 * 1024 ||
            plan->all_units / more.units * plan->map_tiles * s->groups < TENSOR_LEAST_BLOCKS)
            break;
        *plan = more;
    }
    plan->blocks = convoy_div_up(plan->all_units, plan->units) * plan->map_tiles;
    return plan->blocks <= INT32_MAX && s->groups <= 65535;
}

#endif
