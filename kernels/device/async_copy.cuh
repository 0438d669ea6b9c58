/* Copies from device memory to shared memory that bypass the registers (cp.async), so that a tile is copied
 * while the one before it is used. A thread waits for its own copies; after a barrier all threads see them.
 * Needs sm_80; the emulation copies at once. */
#ifndef CONVOY_KERNELS_ASYNC_COPY_CUH
#define CONVOY_KERNELS_ASYNC_COPY_CUH

#include <cuda_runtime.h>
#include <string.h>

/* BYTES (4 or 16, both ends on a multiple of it) of which the first `bytes` are read and the rest are zeros.
 */
template <int BYTES>
static __device__ __forceinline__ void convoy_copy_async(void *shared, const void *global, int bytes)
{
#ifndef __CUDACC__
    memset(shared, 0, BYTES);
    memcpy(shared, global, (size_t)bytes);
#elif __CUDA_ARCH__ >= 800
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(global), "r"(bytes)
                     : "memory");
#endif
}

/* Ends a group of this thread's copies. */
static __device__ __forceinline__ void convoy_copies_end(void)
{
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until no more than GROUPS of this thread's groups, the last ones, are in flight. */
template <int GROUPS> static __device__ __forceinline__ void convoy_copies_wait(void)
{
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
#endif
}

#endif
