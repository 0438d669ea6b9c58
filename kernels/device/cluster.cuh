/* Thread block clusters: up to 16 neighbouring blocks of a grid (in x) that run at the same time and write
 * into each other's shared memory, and read it, so that results reach the other blocks without device
 * memory. Launched by convoy_launch_as() (launch.cuh). Needs sm_90: older chips compile this to nothing,
 * and a launcher asks convoy_has_clusters() first.
 *
 * Two rules of the hardware. No block writes to another, or reads there, before a first
 * convoy_cluster_sync(), because only then is it certain that the other has started; and no block ends before
 * a convoy_cluster_sync() after the last write to it and read from it, because its shared memory may be given
 * to another block from then on. The emulation stops
 * with a message where a kernel breaks one of them.
 *
 * What is written or read lies in dynamic shared memory (CONVOY_DYNAMIC_SHARED), which starts at the same
 * place in every block of a launch; in the emulation __shared__ variables are one for the whole cluster. */
#ifndef CONVOY_KERNELS_CLUSTER_CUH
#define CONVOY_KERNELS_CLUSTER_CUH

#include "kernels/device/launch.cuh"

#include <cuda_runtime.h>
#include <stdint.h>

/* Most blocks of a cluster; beyond 8 a kernel must allow it (convoy_launch_as() does) and not every chip
 * has room, which cudaOccupancyMaxActiveClusters() tells. */
#define CONVOY_CLUSTER_MAX 16

/* Can the current device run them? */
static inline bool convoy_has_clusters(void)
{
    return convoy_has_capability(9);
}

/* This block's number in its cluster, from 0; 0 in a launch without clusters. */
static __device__ __forceinline__ int convoy_cluster_rank(void)
{
#ifndef __CUDACC__
    return convoy_emulated_cluster_rank();
#elif __CUDA_ARCH__ >= 900
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
#else
    return 0;
#endif
}

/* Waits for all threads of all blocks of the cluster: what they wrote before, to shared memory (their own and
 * others') as to device memory, is seen by all after it. All threads of a warp call it together. */
static __device__ __forceinline__ void convoy_cluster_sync(void)
{
#ifndef __CUDACC__
    convoy_emulated_cluster_sync();
#elif __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#endif
}

/* convoy_cluster_sync() in two halves: a thread says that it is there, and waits later, so that it need not
 * stand still for the others meanwhile. Only what was before the first half is seen by the others after the
 * second one. All threads call both, once each. The emulation does all in the second half. */
static __device__ __forceinline__ void convoy_cluster_arrive(void)
{
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

/* convoy_cluster_arrive() of threads that have nothing to show to others: the blocks only wait for each other
 * before they end. */
static __device__ __forceinline__ void convoy_cluster_leave(void)
{
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

static __device__ __forceinline__ void convoy_cluster_wait(void)
{
#ifndef __CUDACC__
    convoy_emulated_cluster_sync();
#elif __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

#if defined(__CUDACC__) && __CUDA_ARCH__ >= 900
/* The address in the cluster's shared memory of what lies at `at` in block rank's. */
static __device__ __forceinline__ unsigned convoy_cluster_address(const void *at, int rank)
{
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(there)
        : "r"((unsigned)__cvta_generic_to_shared(at)), "r"(rank));
    return there;
}
#endif

/* Writes value to the place in block rank's shared memory that corresponds to `at` in one's own; rank may be
 * one's own. Seen there after the next convoy_cluster_sync(). */
static __device__ __forceinline__ void convoy_cluster_store(uint32_t *at, int rank, uint32_t value)
{
#ifndef __CUDACC__
    *(uint32_t *)convoy_emulated_cluster_place(at, rank, sizeof value) = value;
#elif __CUDA_ARCH__ >= 900
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(convoy_cluster_address(at, rank)), "r"(value)
                 : "memory");
#endif
}

static __device__ __forceinline__ void convoy_cluster_store(float *at, int rank, float value)
{
#ifndef __CUDACC__
    *(float *)convoy_emulated_cluster_place(at, rank, sizeof value) = value;
#elif __CUDA_ARCH__ >= 900
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(convoy_cluster_address(at, rank)),
                 "r"(__float_as_uint(value))
                 : "memory");
#endif
}

static __device__ __forceinline__ void convoy_cluster_store(uint16_t *at, int rank, uint16_t value)
{
#ifndef __CUDACC__
    *(uint16_t *)convoy_emulated_cluster_place(at, rank, sizeof value) = value;
#elif __CUDA_ARCH__ >= 900
    asm volatile("st.shared::cluster.b16 [%0], %1;" ::"r"(convoy_cluster_address(at, rank)), "h"(value)
                 : "memory");
#endif
}

/* Reads from the place in block rank's shared memory that corresponds to `at`, on 16 bytes, in one's own:
 * what was there at the last convoy_cluster_sync(). */
static __device__ __forceinline__ float4 convoy_cluster_load(const float4 *at, int rank)
{
#ifndef __CUDACC__
    return *(const float4 *)convoy_emulated_cluster_place(at, rank, sizeof(float4));
#elif __CUDA_ARCH__ >= 900
    float4 value;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(convoy_cluster_address(at, rank))
                 : "memory");
    return value;
#else
    return *at;
#endif
}

#endif
