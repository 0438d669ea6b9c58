/* Copies from device memory to shared memory by the bulk copy engine: one thread starts the copy, the others
 * wait at a barrier in shared memory that counts the bytes. Needs sm_90; older chips compile this to nothing.
 * The emulation copies at once.
 *
 * A barrier has phases. A phase ends when the barrier has counted its arrivals and all expected bytes have
 * arrived. A thread that waits names the phase by its parity, 0 for the first. */
#ifndef CONVOY_KERNELS_BULK_COPY_CUH
#define CONVOY_KERNELS_BULK_COPY_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __CUDACC__

#if __CUDA_ARCH__ >= 900
#define CONVOY_SM90_CODE(code) code
#else
#define CONVOY_SM90_CODE(code)
#endif

static __device__ __forceinline__ unsigned convoy_barrier_address(uint64_t *barrier)
{
    return (unsigned)__cvta_generic_to_shared(barrier);
}

/* By one thread, before a barrier of the block. */
static __device__ __forceinline__ void convoy_barrier_make(uint64_t *barrier, int arrivals)
{
    CONVOY_SM90_CODE(asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n\t"
                                  "fence.proxy.async.shared::cta;" ::"r"(convoy_barrier_address(barrier)),
                                  "r"(arrivals)
                                  : "memory");)
}

static __device__ __forceinline__ void convoy_barrier_wait(uint64_t *barrier, int parity)
{
    CONVOY_SM90_CODE(asm volatile("{.reg .pred there;\n"
                                  "again:\n\t"
                                  "mbarrier.try_wait.parity.shared::cta.b64 there, [%0], %1;\n\t"
                                  "@!there bra again;}" ::"r"(convoy_barrier_address(barrier)),
                                  "r"(parity)
                                  : "memory");)
}

/* Arrives at the barrier, whose phase ends when the bytes are there too. All multiples of 16. */
static __device__ __forceinline__ void convoy_copy_bulk(void *shared, const void *global, int bytes,
                                                        uint64_t *barrier)
{
    CONVOY_SM90_CODE(
        asm volatile(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%3], %2;\n\t"
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                (unsigned)__cvta_generic_to_shared(shared)),
            "l"(global), "r"(bytes), "r"(convoy_barrier_address(barrier))
            : "memory");)
}

/* Brings bytes into the L2 cache, without anything that tells when they are there; all multiples of 16. */
static __device__ __forceinline__ void convoy_prefetch_bulk(const void *global, int bytes)
{
    CONVOY_SM90_CODE(asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes)
                                  : "memory");)
}

/* Brings the 32 bytes around it into the multiprocessor's L1 cache. Of constants alone: that cache does not
 * see what other multiprocessors write. */
static __device__ __forceinline__ void convoy_prefetch_constant(const float *global)
{
    CONVOY_SM90_CODE(asm volatile("{.reg .f32 unused;\n\t"
                                  "ld.global.nc.f32 unused, [%0];}" ::"l"(global));)
}

/* By some of the threads that call it, without a branch: over one the compiler keeps no products of
 * warpgroups in flight. */
static __device__ __forceinline__ void convoy_barrier_arrive_if(bool mine, uint64_t *barrier)
{
    CONVOY_SM90_CODE(
        asm volatile("{.reg .pred mine;\n\t"
                     "setp.ne.u32 mine, %1, 0;\n\t"
                     "@mine mbarrier.arrive.shared::cta.b64 _, [%0];}" ::"r"(convoy_barrier_address(barrier)),
                     "r"((int)mine)
                     : "memory");)
}

#undef CONVOY_SM90_CODE

#else

static inline void convoy_barrier_make(uint64_t *barrier, int arrivals)
{
    convoy_emulated_barrier_make(barrier, arrivals);
}

static inline void convoy_barrier_wait(uint64_t *barrier, int parity)
{
    convoy_emulated_barrier_wait(barrier, parity);
}

static inline void convoy_barrier_arrive_if(bool mine, uint64_t *barrier)
{
    if (mine)
        convoy_emulated_barrier_arrive(barrier);
}

static inline void convoy_prefetch_bulk(const void *, int)
{
}

static inline void convoy_prefetch_constant(const float *)
{
}

static inline void convoy_copy_bulk(void *shared, const void *global, int bytes, uint64_t *barrier)
{
    convoy_emulated_barrier_expect(barrier, bytes);
    convoy_emulated_barrier_came(barrier, convoy_emulated_copy_bulk(shared, global, bytes));
}

#endif
#endif
