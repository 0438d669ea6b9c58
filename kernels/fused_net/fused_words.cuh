/* What whole_net keeps in shared memory: the words of a tensor, and the rows of its tables. */
#ifndef CONVOY_KERNELS_FUSED_WORDS_CUH
#define CONVOY_KERNELS_FUSED_WORDS_CUH

#include "kernels/device/mma.cuh"
#include "kernels/device/tensor_products.cuh"
#include "kernels/fused_net/fused_plan.h"

/* Where a warp's rows and maps of a convolution begin, in tiles of 16 and of 8. */
struct fused_task {
    int tile, map;
};

/* Two channels of a tensor are a word, or each is one. */
template <int MATH> static constexpr bool fused_pairs = MATH == TENSOR_HALF;

/* What a single channel takes. */
template <int MATH> struct fused_element {
    using type = uint32_t;
};
template <> struct fused_element<TENSOR_HALF> {
    using type = uint16_t;
};

template <int MATH> static __device__ __forceinline__ uint32_t fused_word(float x)
{
    return MATH == TENSOR_TF32 ? convoy_tf32(x) : convoy_float_bits(x);
}

static __device__ __forceinline__ float2 fused_halves(uint32_t word)
{
    return make_float2(convoy_from_half(word & 0xffffu), convoy_from_half(word >> 16));
}

/* From shared memory, or by way of the cache for what does not change. */
template <bool SHARED, typename T> static __device__ __forceinline__ T fused_load(const T *at)
{
    if constexpr (SHARED)
        return *at;
    else
        return __ldg(at);
}

/* Bytes from the tensor's beginning to what row `at` reads. */
template <bool SHARED>
static __device__ __forceinline__ int fused_row_in(const struct fused_row *rows, int at)
{
    return fused_load<SHARED>(&rows[at].in) * 4;
}

/* Where the result of row `at` goes. Read when it is needed, not kept while the products are made: registers
 * are what these kernels are short of. */
template <bool CLUSTER>
static __device__ __forceinline__ struct fused_target fused_row_target(const struct fused_row *rows, int at)
{
    struct fused_target target = {};
    uint32_t word = fused_load<CLUSTER>(reinterpret_cast<const uint32_t *>(&rows[at].target));
    target.out = (uint16_t)word;
    if constexpr (CLUSTER) {
        target.first = (uint8_t)(word >> 16);
        target.last = (uint8_t)(word >> 24);
    }
    return target;
}

/* The rows of a patch of 8 x 8 results, of which a lane has those of one column: what a table would say. */
struct fused_patch {
    int out;   /* of the first line */
    int line;  /* words to the next one */
    int lines; /* that are real; 0 for a column that is not */
};

template <bool CLUSTER>
static __device__ __forceinline__ struct fused_target fused_row_target(const struct fused_patch &patch,
                                                                       int at)
{
    struct fused_target target = {};
    int line = at / 8 % 8;
    target.out = (uint16_t)(line < patch.lines ? patch.out + line * patch.line : FUSED_NOWHERE);
    return target;
}

/* Writes a pixel of so many numbers, at once, as the `before`th of a cell. */
template <int PIXEL, int PER_WORD, int WORDS>
static __device__ __forceinline__ void fused_put(uint32_t *cell, int before, const uint32_t (&words)[WORDS])
{
    if constexpr (PIXEL < PER_WORD)
        reinterpret_cast<uint16_t *>(cell)[before] = (uint16_t)words[0];
    else if constexpr (WORDS == 4)
        *reinterpret_cast<uint4 *>(cell) = make_uint4(words[0], words[1], words[2], words[3]);
    else if constexpr (WORDS == 2)
        reinterpret_cast<uint2 *>(cell)[before] = make_uint2(words[0], words[1]);
    else
        cell[before] = words[0];
}

/* A word of a tensor, from the beginning of its place in the first plane. */
static __device__ __forceinline__ int fused_word_of(int plane, int word)
{
    return word / FUSED_CELL * plane + word % FUSED_CELL;
}

#endif
