/* Division by a number that is the same for a whole launch, as a multiplication and a shift. */
#ifndef CONVOY_KERNELS_DIVIDER_CUH
#define CONVOY_KERNELS_DIVIDER_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* Division of what is not negative by a number that is the same for a launch: a product and a shift, where
 * the hardware has no division. Exact below 2^31: magic = ceil(2^(31 + l) / divisor) with 2^l >= divisor is
 * too large by less than 2^l / 2^(31 + l) of it (Granlund and Montgomery, Division by Invariant Integers
 * using Multiplication, 1994). */
struct tensor_divider {
    uint32_t magic;
    int shift;
};

static inline struct tensor_divider tensor_divider(int divisor)
{
    int log = 0;
    while ((1ll << log) < divisor)
        log++;
    return (struct tensor_divider){
        (uint32_t)(((1ull << (31 + log)) + (uint64_t)divisor - 1) / (uint64_t)divisor), 31 + log};
}

static __host__ __device__ __forceinline__ int tensor_divide(int x, struct tensor_divider by)
{
    return (int)((uint64_t)(uint32_t)x * by.magic >> by.shift);
}

#endif
