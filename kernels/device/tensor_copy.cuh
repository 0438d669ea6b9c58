/* Copies of boxes of a tensor between device memory and shared memory by the copy engine (TMA): one thread
 * starts the copy, the engine counts all of its bytes at a barrier (bulk_copy.cuh). What lies outside of the
 * tensor arrives as zeros and is not written. A box begins at a column or channel that is a multiple of 8: an
 * H200 reports an illegal instruction otherwise. Needs sm_90; older chips compile this to nothing. The
 * emulation copies at once.
 *
 * A tensor map (CUtensorMap) tells the engine where a tensor lies and which box is copied. The host makes it
 * (tensor_map.h); a kernel takes it by value, as CONVOY_PARAMETER, and passes its address.
 *
 * Shared memory holds the rows of a box one after the other, "swizzled" so that 8 rows of a column lie in
 * different banks: in rows of 128, 64 or 32 bytes the 16-byte cell c of row r is at cell
 * convoy_swizzled_cell(). The box begins on a multiple of 8 rows: 1024, 512 or 256 bytes. */
#ifndef CONVOY_KERNELS_TENSOR_COPY_CUH
#define CONVOY_KERNELS_TENSOR_COPY_CUH

#include "kernels/device/bulk_copy.cuh"

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __CUDACC__
#include <cuda.h>
#endif

/* What the number of a cell of row `row` is exchanged with (exclusive or), in rows of 128, 64 or 32 bytes:
 * the engine exchanges bits 4 to 6 of an address with bits 7 to 9. */
static __host__ __device__ __forceinline__ int convoy_swizzle(int row_bytes, int row)
{
    return (row * row_bytes >> 7) & (row_bytes / 16 - 1);
}

/* Where cell `cell` of row `row` lies among the ROW_BYTES / 16 cells of that row. ROW_BYTES: 128, 64, 32. */
template <int ROW_BYTES>
static __host__ __device__ __forceinline__ int convoy_swizzled_cell(int row, int cell)
{
    static_assert(ROW_BYTES == 128 || ROW_BYTES == 64 || ROW_BYTES == 32, "rows that the engine swizzles");
    return cell ^ convoy_swizzle(ROW_BYTES, row);
}

#ifdef __CUDACC__

#if __CUDA_ARCH__ >= 900
#define CONVOY_SM90_CODE(code) code
#else
#define CONVOY_SM90_CODE(code)
#endif

/* Brings a tensor map to where the engine looks for it, so that the first copy does not wait for it. */
static __device__ __forceinline__ void convoy_prefetch_map(const CUtensorMap *map)
{
    CONVOY_SM90_CODE(asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");)
}

/* A box of a matrix: from column and row on. The caller tells the barrier of the bytes. */
static __device__ __forceinline__ void convoy_copy_box(void *shared, const CUtensorMap *map, int column,
                                                       int row, uint64_t *barrier)
{
    CONVOY_SM90_CODE(
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%3, %4}], [%2];" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
                     "l"(map), "r"(convoy_barrier_address(barrier)), "r"(column), "r"(row)
                     : "memory");)
}

/* The inputs that one filter tap multiplies, for outputs that follow each other (im2col): channels from
 * `channel` on; x, y: of the input for the first output and tap 0, in image n; (tap_x, tap_y): how far the
 * tap is from tap 0. */
static __device__ __forceinline__ void convoy_copy_tap(void *shared, const CUtensorMap *map, int channel,
                                                       int x, int y, int n, int tap_x, int tap_y,
                                                       uint64_t *barrier)
{
    CONVOY_SM90_CODE(
        asm volatile(
            "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
            "l"(map), "r"(convoy_barrier_address(barrier)), "r"(channel), "r"(x), "r"(y), "r"(n),
            "h"((uint16_t)tap_x), "h"((uint16_t)tap_y)
            : "memory");)
}

/* A box of images, x by y pixels of one of them, from channel, x and y on. */
static __device__ __forceinline__ void convoy_copy_patch(void *shared, const CUtensorMap *map, int channel,
                                                         int x, int y, int n, uint64_t *barrier)
{
    CONVOY_SM90_CODE(
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"((unsigned)__cvta_generic_to_shared(shared)),
                     "l"(map), "r"(convoy_barrier_address(barrier)), "r"(channel), "r"(x), "r"(y), "r"(n)
                     : "memory");)
}

/* Like convoy_copy_bulk(), but the caller tells the barrier of the bytes. */
static __device__ __forceinline__ void convoy_copy_row(void *shared, const void *global, int bytes,
                                                       uint64_t *barrier)
{
    CONVOY_SM90_CODE(
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                (unsigned)__cvta_generic_to_shared(shared)),
            "l"(global), "r"(bytes), "r"(convoy_barrier_address(barrier))
            : "memory");)
}

/* Arrives at the barrier, whose phase ends when so many bytes are there too. */
static __device__ __forceinline__ void convoy_barrier_expect(uint64_t *barrier, int bytes)
{
    CONVOY_SM90_CODE(asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                                      convoy_barrier_address(barrier)),
                                  "r"(bytes)
                                  : "memory");)
}

/* Writes a box of shared memory into a matrix. What threads stored there must have been published
 * (wgmma.cuh). */
static __device__ __forceinline__ void convoy_store_box(const CUtensorMap *map, const void *shared,
                                                        int column, int row)
{
    CONVOY_SM90_CODE(
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
                     "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(column), "r"(row)
                     : "memory");)
}

/* The same of images. */
static __device__ __forceinline__ void convoy_store_patch(const CUtensorMap *map, const void *shared,
                                                          int channel, int x, int y, int n)
{
    CONVOY_SM90_CODE(
        asm volatile(
            "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
            "r"((unsigned)__cvta_generic_to_shared(shared)), "r"(channel), "r"(x), "r"(y), "r"(n)
            : "memory");)
}

/* Ends this thread's group of stores. */
static __device__ __forceinline__ void convoy_store_end(void)
{
    CONVOY_SM90_CODE(asm volatile("cp.async.bulk.commit_group;" ::: "memory");)
}

/* Waits until no more than GROUPS of this thread's groups, the last ones, still read shared memory. */
template <int GROUPS> static __device__ __forceinline__ void convoy_store_wait(void)
{
    CONVOY_SM90_CODE(asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(GROUPS) : "memory");)
}

#undef CONVOY_SM90_CODE

#else

static inline void convoy_prefetch_map(const CUtensorMap *)
{
}

static inline void convoy_copy_box(void *shared, const CUtensorMap *map, int column, int row,
                                   uint64_t *barrier)
{
    convoy_emulated_barrier_came(barrier, convoy_emulated_copy_box(shared, map, column, row));
}

static inline void convoy_copy_tap(void *shared, const CUtensorMap *map, int channel, int x, int y, int n,
                                   int tap_x, int tap_y, uint64_t *barrier)
{
    convoy_emulated_barrier_came(barrier,
                                 convoy_emulated_copy_tap(shared, map, channel, x, y, n, tap_x, tap_y));
}

static inline void convoy_copy_patch(void *shared, const CUtensorMap *map, int channel, int x, int y, int n,
                                     uint64_t *barrier)
{
    convoy_emulated_barrier_came(barrier, convoy_emulated_copy_patch(shared, map, channel, x, y, n));
}

static inline void convoy_store_patch(const CUtensorMap *map, const void *shared, int channel, int x, int y,
                                      int n)
{
    convoy_emulated_store_patch(map, shared, channel, x, y, n);
}

static inline void convoy_copy_row(void *shared, const void *global, int bytes, uint64_t *barrier)
{
    convoy_emulated_barrier_came(barrier, convoy_emulated_copy_bulk(shared, global, bytes));
}

static inline void convoy_barrier_expect(uint64_t *barrier, int bytes)
{
    convoy_emulated_barrier_expect(barrier, bytes);
}

static inline void convoy_store_box(const CUtensorMap *map, const void *shared, int column, int row)
{
    convoy_emulated_store_box(map, shared, column, row);
}

static inline void convoy_store_end(void)
{
}

template <int GROUPS> static inline void convoy_store_wait(void)
{
}

#endif
#endif
