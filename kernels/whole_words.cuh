/* What whole_net keeps in shared memory: the words of a tensor, and the rows of its tables. */
#ifndef CONVOY_KERNELS_WHOLE_WORDS_CUH
#define CONVOY_KERNELS_WHOLE_WORDS_CUH

#include "kernels/mma.cuh"
#include "kernels/tensor_products.cuh"
#include "kernels/whole_plan.h"

/* Two channels of a tensor are a word, or each is one. */
template <int MATH> static constexpr bool whole_pairs = MATH == TENSOR_HALF;

/* What a single channel takes. */
template <int MATH> struct whole_element {
    using type = uint32_t;
};
template <> struct whole_element<TENSOR_HALF> {
    using type = uint16_t;
};

template <int MATH> static __device__ __forceinline__ uint32_t whole_word(float x)
{
    return MATH == TENSOR_TF32 ? convoy_tf32(x) : convoy_float_bits(x);
}

static __device__ __forceinline__ float2 whole_halves(uint32_t word)
{
    return make_float2(convoy_from_half(word & 0xffffu), convoy_from_half(word >> 16));
}

/* From shared memory, or by way of the cache for what does not change. */
template <bool SHARED, typename T> static __device__ __forceinline__ T whole_load(const T *at)
{
    if constexpr (SHARED)
        return *at;
    else
        return __ldg(at);
}

template <bool SHARED>
static __device__ __forceinline__ struct whole_row whole_row(const struct whole_row *rows, int at)
{
    uint2 words = whole_load<SHARED>(reinterpret_cast<const uint2 *>(rows) + at);
    struct whole_row row;
    row.in = (uint16_t)words.x;
    row.out = (uint16_t)(words.x >> 16);
    row.first = (uint8_t)words.y;
    row.last = (uint8_t)(words.y >> 8);
    return row;
}

#endif
