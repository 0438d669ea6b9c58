/* The three arithmetics on the tensor cores (fp32 by three products of tf32, tf32, fp16) that convolutions
 * and matrix products share: packing of weights, and one step of products for a row of fragments. */
#ifndef CONVOY_KERNELS_TENSOR_PRODUCTS_CUH
#define CONVOY_KERNELS_TENSOR_PRODUCTS_CUH

#include "kernels/device/launch.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/kernels.h"

/* fp32 is three products of tf32: (high + low) (high + low) without low times low. */
enum tensor_math { TENSOR_FP32, TENSOR_TF32, TENSOR_HALF };

static inline bool tensor_allows(enum tensor_math math, enum convoy_compute_type least_exact)
{
    return (int)math <= (int)least_exact;
}

/* Can the current device run them? mma.sync with tf32 and cp.async came with compute capability 8.0. */
static inline bool convoy_has_mma(void)
{
    return convoy_has_capability(8);
}

/* A lane's share of 8 words x 8 columns of B (mma.cuh). */
template <int MATH> struct tensor_weights {
    uint2 word;
};
template <> struct tensor_weights<TENSOR_FP32> {
    uint4 word; /* high, high, low, low */
};

/* A word of a lane's weights: in fp16 two of them, otherwise the first alone; in fp32 what is left of it two
 * words on. */
static inline void tensor_put_weights(enum tensor_math math, uint32_t *to, float first, float second)
{
    if (math == TENSOR_HALF) {
        to[0] = convoy_half(first) | (uint32_t)convoy_half(second) << 16;
        return;
    }
    to[0] = convoy_tf32(first);
    if (math == TENSOR_FP32)
        to[2] = convoy_tf32(first - convoy_bits_float(to[0]));
}

/* From words as they are, of a lane's two rows. */
template <int MATH>
static __device__ __forceinline__ struct tensor_weights<MATH> tensor_weights_of(uint32_t first,
                                                                                uint32_t second) {
    struct tensor_weights<MATH> weights;
    weights.word.x = first;
    weights.word.y = second;
    if constexpr (MATH == TENSOR_FP32) {
        weights.word.x = convoy_tf32(convoy_bits_float(first));
        weights.word.y = convoy_tf32(convoy_bits_float(second));
        weights.word.z = convoy_float_bits(convoy_bits_float(first) - convoy_bits_float(weights.word.x));
        weights.word.w = convoy_float_bits(convoy_bits_float(second) - convoy_bits_float(weights.word.y));
    }
    return weights;
}

template <int MATH, int NT>
static __device__ __forceinline__ void
tensor_multiply_once(const uint32_t (&a)[4], const struct tensor_weights<MATH> (&b)[NT], float (*sum)[4])
{
#pragma unroll
    for (int j = 0; j < NT; j++) {
        if constexpr (MATH == TENSOR_HALF)
            convoy_mma_half(sum[j], a, b[j].word.x, b[j].word.y);
        else
            convoy_mma_tf32(sum[j], a, b[j].word.x, b[j].word.y);
    }
}

/* The small products first. */
template <int NT>
static __device__ __forceinline__ void
multiply_fp32(const uint32_t (&a)[4], const struct tensor_weights<TENSOR_FP32> (&b)[NT], float (*sum)[4])
{
    uint32_t high[4], low[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        high[i] = convoy_tf32(convoy_bits_float(a[i]));
        low[i] = convoy_float_bits(convoy_bits_float(a[i]) - convoy_bits_float(high[i]));
    }
#pragma unroll
    for (int j = 0; j < NT; j++)
        convoy_mma_tf32(sum[j], low, b[j].word.x, b[j].word.y);
#pragma unroll
    for (int j = 0; j < NT; j++)
        convoy_mma_tf32(sum[j], high, b[j].word.z, b[j].word.w);
#pragma unroll
    for (int j = 0; j < NT; j++)
        convoy_mma_tf32(sum[j], high, b[j].word.x, b[j].word.y);
}

/* sum[j] += a b[j] for NT adjacent tiles; a in fp32 is not rounded yet, otherwise it is. */
template <int MATH, int NT>
static __device__ __forceinline__ void
tensor_multiply(const uint32_t (&a)[4], const struct tensor_weights<MATH> (&b)[NT], float (*sum)[4])
{
    if constexpr (MATH == TENSOR_FP32)
        multiply_fp32<NT>(a, b, sum);
    else
        tensor_multiply_once<MATH, NT>(a, b, sum);
}

#endif
