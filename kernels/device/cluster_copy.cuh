/* Copies into the shared memory of all blocks of a cluster at once (multicast), and arrivals at barriers of
 * other blocks: what tensor_copy.cuh and bulk_copy.cuh do within a block. Both name a place by where it lies
 * in the caller's own shared memory; the rules of cluster.cuh hold: a first convoy_cluster_sync() after the
 * barriers were made, and one before any of the blocks ends. */
#ifndef CONVOY_KERNELS_CLUSTER_COPY_CUH
#define CONVOY_KERNELS_CLUSTER_COPY_CUH

#include "kernels/device/cluster.cuh"
#include "kernels/device/tensor_copy.cuh"

#ifdef __CUDACC__

#if __CUDA_ARCH__ >= 900
#define CONVOY_SM90_CODE(code) code
#else
#define CONVOY_SM90_CODE(code)
#endif

/* convoy_copy_row() into each of the blocks 0 to blocks - 1 of the cluster; counted at the barrier of each.
 */
static __device__ __forceinline__ void convoy_copy_row_to_all(void *shared, const void *global, int bytes,
                                                              uint64_t *barrier, int blocks)
{
    CONVOY_SM90_CODE(
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1], %2, [%3], %4;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
                     "l"(global), "r"(bytes), "r"(convoy_barrier_address(barrier)),
                     "h"((uint16_t)((1u << blocks) - 1))
                     : "memory");)
}

/* convoy_copy_patch() into each of these blocks: `bytes`, all of the box, at the barrier of each. */
static __device__ __forceinline__ void convoy_copy_patch_to_all(void *shared, const CUtensorMap *map,
                                                                int channel, int x, int y, int n, int,
                                                                uint64_t *barrier, int blocks)
{
    CONVOY_SM90_CODE(
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
            "l"(map), "r"(convoy_barrier_address(barrier)), "r"(channel), "r"(x), "r"(y), "r"(n),
            "h"((uint16_t)((1u << blocks) - 1))
            : "memory");)
}

/* Copies from this block's shared memory to the same place of block rank, whose barrier there counts the
 * bytes, a multiple of 16. What threads stored must have been published (wgmma.cuh). Both blocks stay until
 * that barrier has counted them. */
static __device__ __forceinline__ void convoy_copy_to_block(const void *shared, int bytes, uint64_t *barrier,
                                                            int rank)
{
    CONVOY_SM90_CODE(
        asm volatile(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
                "r"(convoy_cluster_address(shared, rank)),
            "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(bytes),
            "r"(convoy_cluster_address(barrier, rank))
            : "memory");)
}

/* convoy_barrier_arrive_if() at the barrier of block rank, which may be one's own. */
static __device__ __forceinline__ void convoy_barrier_arrive_at(bool mine, uint64_t *barrier, int rank)
{
    CONVOY_SM90_CODE(asm volatile("{.reg .pred mine;\n\t"
                                  ".reg .b32 there;\n\t"
                                  "setp.ne.u32 mine, %1, 0;\n\t"
                                  "@mine mapa.shared::cluster.u32 there, %0, %2;\n\t"
                                  "@mine mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(
                                      convoy_barrier_address(barrier)),
                                  "r"((int)mine), "r"(rank)
                                  : "memory");)
}

#undef CONVOY_SM90_CODE

#else

/* `from` to where `shared` is in block rank, whose barrier there counts the bytes. */
static inline void convoy_emulated_copy_to(void *shared, const void *from, int bytes, uint64_t *barrier,
                                           int rank)
{
    for (int at = 0; at < bytes; at += 16)
        convoy_emulated_copy_bulk(convoy_emulated_cluster_place((char *)shared + at, rank, 16),
                                  (const char *)from + at, 16);
    convoy_emulated_barrier_came((uint64_t *)convoy_emulated_cluster_place(barrier, rank, sizeof *barrier),
                                 bytes);
}

static inline void convoy_copy_row_to_all(void *shared, const void *global, int bytes, uint64_t *barrier,
                                          int blocks)
{
    for (int rank = 0; rank < blocks; rank++)
        convoy_emulated_copy_to(shared, global, bytes, barrier, rank);
}

static inline void convoy_copy_patch_to_all(void *shared, const CUtensorMap *map, int channel, int x, int y,
                                            int n, int bytes, uint64_t *barrier, int blocks)
{
    /* The caller's own shared memory is one of those that are written. */
    convoy_emulated_copy_patch(shared, map, channel, x, y, n);
    for (int rank = 0; rank < blocks; rank++)
        convoy_emulated_copy_to(shared, shared, bytes, barrier, rank);
}

static inline void convoy_copy_to_block(const void *shared, int bytes, uint64_t *barrier, int rank)
{
    convoy_emulated_copy_to(const_cast<void *>(shared), shared, bytes, barrier, rank);
}

static inline void convoy_barrier_arrive_at(bool mine, uint64_t *barrier, int rank)
{
    if (mine)
        convoy_emulated_barrier_arrive(
            (uint64_t *)convoy_emulated_cluster_place(barrier, rank, sizeof *barrier));
}

#endif
#endif
