/* Grid-stride loops: the number of blocks of a kernel whose threads step through their work by the size of
 * the grid. Any number is correct; the limit keeps it under the largest grid. Tests compile with a limit of a
 * few blocks, so that the loop runs several times where the work is small. */
#ifndef CONVOY_KERNELS_GRID_CUH
#define CONVOY_KERNELS_GRID_CUH

#include "kernels/device/launch.cuh"

#include <stdint.h>

#ifndef CONVOY_GRID_LIMIT
#define CONVOY_GRID_LIMIT (1 << 20)
#endif

static inline unsigned convoy_grid(int64_t work, int64_t work_per_block)
{
    int64_t blocks = convoy_div_up(work, work_per_block);
    return (unsigned)(blocks < CONVOY_GRID_LIMIT ? blocks : CONVOY_GRID_LIMIT);
}

/* In a kernel of one-dimensional blocks: this thread's first piece of work, and the step to its next. */
static __device__ __forceinline__ int64_t convoy_first(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ __forceinline__ int64_t convoy_step(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* May all of these be read or written 16 bytes at a time? */
static inline bool convoy_aligned(const void *a, const void *b)
{
    return ((uintptr_t)a | (uintptr_t)b) % 16 == 0;
}

#endif
