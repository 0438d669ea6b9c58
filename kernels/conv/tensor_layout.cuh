/* How tensor's weights lie in memory: the words of a lane for one step are contiguous, a coalesced load for a
 * warp. groups x tiles of 8 maps (to a multiple of NT) x chunks x steps x lanes x a lane's words. The same
 * for all numbers of outputs in a block, so that kernels that differ in these alone share one copy. */
#ifndef CONVOY_KERNELS_TENSOR_LAYOUT_CUH
#define CONVOY_KERNELS_TENSOR_LAYOUT_CUH

#include "kernels/conv/tensor_plan.h"

/* A place in a chunk's reduction: the tap and the channel of its word, or nothing past the end. */
struct tensor_place {
    bool real;
    int r, column, word;
};

static inline struct tensor_place tensor_place(const struct convoy_conv_shape *s,
                                               const struct tensor_plan *plan, int chunk, int k_word)
{
    int tap = k_word / plan->words;
    struct tensor_place place = {tap / plan->tap_columns < s->r, tap / plan->tap_columns,
                                 tap % plan->tap_columns, chunk * plan->words + k_word % plan->words};
    return place;
}

/* The weight of a group's map k at that place; 0 outside. second: the other half of a word of fp16. */
static inline float tensor_weight_at(const struct convoy_conv_shape *s, const struct tensor_plan *plan,
                                     const struct tensor_place *place, const float *weights, int group, int k,
                                     bool halves, int second)
{
    int group_k = s->k / s->groups, group_c = s->c / s->groups;
    bool pairs = halves && !plan->tap_pairs;
    int c = pairs ? place->word * 2 + second : place->word;
    int column = plan->tap_pairs ? place->column * 2 + second : place->column;
    if (!place->real || k >= group_k || c >= group_c || column >= s->s)
        return 0;
    return weights[((((size_t)group * group_k + k) * group_c + c) * s->r + place->r) * s->s + column];
}

template <int MATH, int NT> struct tensor_layout {
    static constexpr int lane_words = sizeof(struct tensor_weights<MATH>) / 4;

    static int tiles(const struct convoy_conv_shape *s)
    {
        return (int)convoy_div_up(s->k / s->groups, NT * 8) * NT;
    }

    static size_t packed_floats(const struct convoy_conv_shape *s)
    {
        struct tensor_plan reduction = {};
        tensor_reduction(s, (enum tensor_math)MATH, &reduction);
        return (size_t)s->groups * tiles(s) * reduction.chunks * reduction.steps * 32 * lane_words;
    }

    static void pack(const struct convoy_conv_shape *s, const float *weights, float *packed)
    {
        pack_tiles(s, weights, tiles(s), packed);
    }

    /* For so many tiles of maps in each group. */
    static void pack_tiles(const struct convoy_conv_shape *s, const float *weights, int count, float *packed)
    {
        struct tensor_plan reduction = {};
        tensor_reduction(s, (enum tensor_math)MATH, &reduction);
        size_t tile_words = (size_t)reduction.chunks * reduction.steps * 32 * lane_words;
        for (int word = 0; word < reduction.chunks * reduction.steps * TENSOR_STEP; word++) {
            int chunk = word / (reduction.steps * TENSOR_STEP),
                k_word = word % (reduction.steps * TENSOR_STEP);
            struct tensor_place place = tensor_place(s, &reduction, chunk, k_word);
            /* Words 0 to 3 of a step are a lane's first, 4 to 7 its second. */
            uint32_t *to = reinterpret_cast<uint32_t *>(packed) +
                           ((size_t)(word / TENSOR_STEP) * 32 + word % 4) * lane_words +
                           word % TENSOR_STEP / 4;
            for (int group = 0; group < s->groups; group++)
                for (int tile = 0; tile < count; tile++, to += tile_words)
                    for (int row = 0; row < 8; row++) {
                        int k = tile * 8 + row;
                        tensor_put_weights((enum tensor_math)MATH, to + row * 4 * lane_words,
                                           tensor_weight_at(s, &reduction, &place, weights, group, k,
                                                            MATH == TENSOR_HALF, 0),
                                           MATH == TENSOR_HALF ? tensor_weight_at(s, &reduction, &place,
                                                                                  weights, group, k, true, 1)
                                                               : 0);
                    }
        }
    }
};

#endif
