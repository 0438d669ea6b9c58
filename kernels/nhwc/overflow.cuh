/* Numbers that fp16 does not hold. */
#ifndef CONVOY_KERNELS_NHWC_OVERFLOW_CUH
#define CONVOY_KERNELS_NHWC_OVERFLOW_CUH

#include "kernels/device/mma.cuh"
#include "kernels/kernels.h"

#include <cuda_runtime.h>

/* True of NaN, and of what is rounded to infinity: 65,519.99 is still rounded to 65,504. */
static __device__ __forceinline__ bool nhwc_is_over(float x)
{
    return !(fabsf(x) < 65520.0f);
}

/* Two numbers as a word of fp16; *over: or one that it does not hold. */
static __device__ __forceinline__ uint32_t nhwc_word(float low, float high, bool *over)
{
    *over |= nhwc_is_over(low) || nhwc_is_over(high);
    return convoy_half2(low, high);
}

/* Says that of image n. Several threads may, and write the same. */
static __device__ __forceinline__ void nhwc_tell(const struct convoy_overflow &overflow, bool over, int64_t n)
{
    if (over && overflow.images != nullptr)
        overflow.images[n] = overflow.mark;
}

#endif
