/* Numbers that fp16 does not hold. */
#ifndef CONVOY_KERNELS_NHWC_OVERFLOW_CUH
#define CONVOY_KERNELS_NHWC_OVERFLOW_CUH

#include "kernels/device/mma.cuh"
#include "kernels/kernels.h"

#include <cuda_runtime.h>

/* Collects in *over, which begins at 0, whether one of the two fp16 numbers of a word is not finite: 0 times
 * such a number is NaN, and stays it. One instruction for two numbers, none of which waits for a comparison.
 */
static __device__ __forceinline__ void nhwc_collect_over(uint32_t word, uint32_t *over)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
    (void)word; /* never runs */
#elif defined(__CUDA_ARCH__)
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(*over) : "r"(word), "r"(0));
#else
    uint32_t low = (word & 0x7c00u) == 0x7c00u, high = (word & 0x7c000000u) == 0x7c000000u;
    *over |= low * 0x7fffu | high * 0x7fff0000u;
#endif
}

static __device__ __forceinline__ void nhwc_collect_over(const uint4 &words, uint32_t *over)
{
    nhwc_collect_over(words.x, over);
    nhwc_collect_over(words.y, over);
    nhwc_collect_over(words.z, over);
    nhwc_collect_over(words.w, over);
}

static __device__ __forceinline__ bool nhwc_any_over(uint32_t over)
{
    return (over & 0x7fff7fffu) != 0;
}

/* Two numbers as a word of fp16; collects in *over those that it does not hold. */
static __device__ __forceinline__ uint32_t nhwc_word(float low, float high, uint32_t *over)
{
    uint32_t word = convoy_half2(low, high);
    nhwc_collect_over(word, over);
    return word;
}

/* Says that of image n. Several threads may, and write the same. */
static __device__ __forceinline__ void nhwc_tell(const struct convoy_overflow &overflow, bool over, int64_t n)
{
    if (over && overflow.images != nullptr)
        overflow.images[n] = overflow.mark;
}

#endif
