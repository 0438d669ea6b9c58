/* The inner loop of whole_net's convolutions: products of words in shared memory and of weights.
 *
 * A tensor lies there as planes of cells of 16 bytes (8 channels of fp16, 4 of fp32), one for each place; a
 * step of the reduction is two cells of each output, whichever tap and plane they come from. ldmatrix spreads
 * the cells of 16 outputs over the lanes as the instruction wants them: an address and a load for 4 words of
 * a lane, where a load for each word takes four of both. */
#ifndef CONVOY_KERNELS_FUSED_STEPS_CUH
#define CONVOY_KERNELS_FUSED_STEPS_CUH

#include "kernels/device/tensor_steps.cuh"

#define FUSED_STEP_CELLS 2 /* of an output in a step */

/* Loads that stay where they are written: the compiler moves others to where they are used. */
static __device__ __forceinline__ uint2 fused_ask(const uint2 *from)
{
#ifdef __CUDA_ARCH__
    uint2 words;
    asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "l"(from));
    return words;
#else
    return *from;
#endif
}

static __device__ __forceinline__ uint4 fused_ask(const uint4 *from)
{
#ifdef __CUDA_ARCH__
    uint4 words;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(from));
    return words;
#else
    return *from;
#endif
}

/* A lane's share of a step of the outputs. */
template <int MT> struct fused_inputs {
    uint32_t a[MT][4];

    __device__ __forceinline__ void load(const char *tile, const int (&base)[MT], int at)
    {
#pragma unroll
        for (int i = 0; i < MT; i++)
            convoy_load_matrices(a[i], tile, base[i] + at);
    }
};

/* And of the weights. */
template <int MATH, int NT, bool SHARED> struct fused_filters {
    struct tensor_weights<MATH> b[NT];

    __device__ __forceinline__ void load(const struct tensor_weights<MATH> *weights)
    {
#pragma unroll
        for (int j = 0; j < NT; j++)
            b[j].word = SHARED ? weights[j * 32].word : fused_ask(&weights[j * 32].word);
    }
};

/* Adds so many steps (at least one) to sum. Inputs of two steps are in registers, each asked for again as
 * soon as it was multiplied, and where they lie was asked for before. Weights come from further away (a fifth
 * of the loads missed the L1 cache): where registers allow, those of two more steps are on their way; without
 * them waiting for weights was 31 % of the time of cifar10-resnet's products. Past the end is asked for what
 * is never used: in device memory weights go on for FUSED_STEPS_PAST, tables for one more; in shared memory
 * the last weights are read again. weight_stride: from step to step. */
template <int MATH, int MT, int NT, bool SHARED>
static __device__ __forceinline__ void fused_add_steps(const char *tile, const int *offsets,
                                                       const int (&base)[MT],
                                                       const struct tensor_weights<MATH> *weights,
                                                       int weight_stride, int left, float (&sum)[MT * NT][4])
{
    constexpr bool AHEAD = !SHARED && MATH != TENSOR_FP32 && MT * NT <= 12;
    struct fused_inputs<MT> even, odd;
    struct fused_filters<MATH, NT, SHARED> even_filters, odd_filters;
    int last = left - 1; /* the weights' steps to come */
    auto ask = [&](auto &inputs) {
        inputs.load(tile, base, *offsets);
        offsets += FUSED_STEP_CELLS;
    };
    auto ask_filters = [&](auto &filters) {
        filters.load(weights);
        weights += SHARED && last <= 0 ? 0 : weight_stride;
        last--;
    };
    auto multiply = [&](const auto &inputs, const auto &filters) {
#pragma unroll
        for (int k = 0; k < MT; k++)
            tensor_multiply<MATH, NT>(inputs.a[k], filters.b, &sum[k * NT]);
    };
    ask_filters(even_filters);
    ask_filters(odd_filters);
    ask(even);
    ask(odd);
#pragma unroll 1
    for (; left > 1; left -= 2) { /* without a way out in the middle, past which loads would be moved */
        struct fused_filters<MATH, NT, SHARED> next_even, next_odd;
        if constexpr (AHEAD) {
            ask_filters(next_even);
            ask_filters(next_odd);
        }
        multiply(even, even_filters);
        ask(even);
        if constexpr (!AHEAD)
            ask_filters(even_filters);
        multiply(odd, odd_filters);
        ask(odd);
        if constexpr (AHEAD) {
            even_filters = next_even;
            odd_filters = next_odd;
        } else {
            ask_filters(odd_filters);
        }
    }
    if (left > 0)
        multiply(even, even_filters);
}

/* Adds all steps to sum, in fp32 by way of sums that are not too long. SHARED: the weights lie in shared
 * memory. Offsets and bases are bytes. */
template <int MATH, int MT, int NT, bool SHARED>
static __device__ __forceinline__ void
fused_add(const uint32_t *words, const int *offsets, const int (&base)[MT],
          const struct tensor_weights<MATH> *weights, int weight_stride, int steps, float (&sum)[MT * NT][4])
{
    const char *tile = reinterpret_cast<const char *>(words);
    offsets += threadIdx.x % 32 / 16; /* of the row whose address a lane gives */
    if constexpr (MATH != TENSOR_FP32) {
        fused_add_steps<MATH, MT, NT, SHARED>(tile, offsets, base, weights, weight_stride, steps, sum);
    } else {
        for (int begin = 0; begin < steps; begin += FOLD_STEPS) {
            float part[MT * NT][4] = {};
            fused_add_steps<MATH, MT, NT, SHARED>(tile, offsets + begin * FUSED_STEP_CELLS, base,
                                                  weights + begin * weight_stride, weight_stride,
                                                  min(FOLD_STEPS, steps - begin), part);
#pragma unroll
            for (int i = 0; i < MT * NT * 4; i++)
                sum[i / 4][i % 4] += part[i / 4][i % 4];
        }
    }
}

#endif
