/* Products of a warpgroup on the tensor cores of sm_90a, straight from shared memory (wgmma).
 *
 * A warpgroup is four warps, the first a multiple of four. Together they add to D, 64 rows x 8 NT columns,
 * the product of A, 64 x 16, and B, 16 x 8 NT, both fp16 in shared memory. Warp w holds rows 16 w to
 * 16 w + 15, of D, in tiles of 8 columns that are spread over its lanes as d of mma.cuh.
 *
 * A matrix is described by a word of 64 bits (PTX ISA, "Matrix Descriptor"; no swizzling, the reduction
 * first): it is cut into pieces of 8 rows (of A, columns of B) x 8 numbers of the reduction, 16 bytes of each
 * row, which are contiguous, 128 bytes. So 8 neighbouring cells of whole_net's planes are a piece.
 *
 * The products run asynchronously. Between starting some and their end no thread touches sum or writes to the
 * matrices. What threads wrote to shared memory is visible to the products after each of these threads has
 * called convoy_wgmma_publish() and a barrier. All four warps call everything else here together. */
#ifndef CONVOY_KERNELS_WGMMA_CUH
#define CONVOY_KERNELS_WGMMA_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#define CONVOY_WARPGROUP 128 /* threads */

/* Can the current device run them? They are of compute capability 9.0 alone. */
static inline bool convoy_has_wgmma(void)
{
    int device = 0, major = 0, minor = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
           cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess &&
           major == 9 && minor == 0;
}

/* first: in dynamic shared memory, the bytes of row 0. along: bytes to the next piece of the reduction,
 * across: to the next 8 rows. All multiples of 16. */
static __device__ __forceinline__ uint64_t convoy_matrix(const void *first, int along, int across)
{
#ifdef __CUDACC__
    uint64_t at = (uint64_t)__cvta_generic_to_shared(first);
#else
    uint64_t at = (uint64_t)((const char *)first - (const char *)convoy_emulated_shared());
#endif
    return (at >> 4) | (uint64_t)(along >> 4) << 16 | (uint64_t)(across >> 4) << 32;
}

/* The part of a matrix's word that says that its rows are 128, 64 or 32 bytes of the reduction, swizzled as
 * the copy engine writes them (tensor_copy.cuh). */
static __host__ __device__ __forceinline__ constexpr uint64_t convoy_matrix_layout(int row_bytes)
{
    return (uint64_t)(row_bytes == 128 ? 1 : row_bytes == 64 ? 2 : 3) << 62;
}

/* Such a matrix: the word of one that begins at 0. The next 16 numbers of the reduction are
 * convoy_matrix_at(matrix, 2). */
static __host__ __device__ __forceinline__ uint64_t convoy_matrix_rows(int row_bytes)
{
    return (uint64_t)1 << 16 | (uint64_t)(row_bytes * 8 >> 4) << 32 | convoy_matrix_layout(row_bytes);
}

/* That matrix where it lies, on 8 rows. */
static __device__ __forceinline__ uint64_t convoy_matrix_begin(uint64_t rows, const void *first)
{
    return rows | convoy_matrix(first, 0, 0);
}

template <int ROW_BYTES> static __device__ __forceinline__ uint64_t convoy_matrix_swizzled(const void *first)
{
    return convoy_matrix_begin(convoy_matrix_rows(ROW_BYTES), first);
}

/* B from memory in which its columns are contiguous: rows of 64 numbers, one for each of the reduction, are
 * 128 bytes that are swizzled in the same way. The word is the same, and the next 16 rows are
 * convoy_matrix_at(matrix, 128); that B is read so is said with the product (convoy_wgmma_registers). */

/* The same matrix 16 n bytes on. */
static __device__ __forceinline__ uint64_t convoy_matrix_at(uint64_t matrix, int n)
{
    return (matrix & 0xffffffff00000000u) | ((uint32_t)matrix + (uint32_t)n);
}

/* A number that is the same for all lanes of the warp, made known to the compiler: it does not keep products
 * in flight where it assumes that lanes may diverge. */
static __device__ __forceinline__ int convoy_uniform(int number)
{
    return __shfl_sync(0xffffffffu, number, 0);
}

#ifdef __CUDACC__

/* A barrier of the first threads of the block, a multiple of 32. */
static __device__ __forceinline__ void convoy_threads_sync(int threads)
{
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define CONVOY_WGMMA_CODE(code) code
#else
#define CONVOY_WGMMA_CODE(code) /* another chip: never runs */
#endif

/* Makes this thread's writes to shared memory visible to the products. */
static __device__ __forceinline__ void convoy_wgmma_publish(void)
{
    CONVOY_WGMMA_CODE(asm volatile("fence.proxy.async.shared::cta;" ::: "memory");)
}

/* Before the first product that reads registers that were written otherwise. */
static __device__ __forceinline__ void convoy_wgmma_begin(void)
{
    CONVOY_WGMMA_CODE(asm volatile("wgmma.fence.sync.aligned;" ::: "memory");)
}

/* Every thread of a warpgroup calls this once. It keeps REGISTERS registers a thread and leaves the others to
 * the block, or takes REGISTERS once they are free. Multiples of 8. */
template <int REGISTERS> static __device__ __forceinline__ void convoy_registers_leave(void)
{
    CONVOY_WGMMA_CODE(asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));)
}

template <int REGISTERS> static __device__ __forceinline__ void convoy_registers_take(void)
{
    CONVOY_WGMMA_CODE(asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));)
}

/* Ends a group of products. */
static __device__ __forceinline__ void convoy_wgmma_end(void)
{
    CONVOY_WGMMA_CODE(asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");)
}

/* Waits until no more than GROUPS groups, the last ones, are in flight. */
template <int GROUPS> static __device__ __forceinline__ void convoy_wgmma_wait(void)
{
    CONVOY_WGMMA_CODE(asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");)
}

#define CONVOY_TILE(i) "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])

static __device__ __forceinline__ void convoy_wgmma(float (&sum)[2][4], uint64_t a, uint64_t b)
{
    CONVOY_WGMMA_CODE(asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0;\n\t"
                                   "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
                                   "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;}"
                                   : CONVOY_TILE(0), CONVOY_TILE(1)
                                   : "l"(a), "l"(b));)
}

static __device__ __forceinline__ void convoy_wgmma(float (&sum)[4][4], uint64_t a, uint64_t b)
{
    CONVOY_WGMMA_CODE(asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0;\n\t"
                                   "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
                                   "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                                   "%16, %17, p, 1, 1, 0, 0;}"
                                   : CONVOY_TILE(0), CONVOY_TILE(1), CONVOY_TILE(2), CONVOY_TILE(3)
                                   : "l"(a), "l"(b));)
}

static __device__ __forceinline__ void convoy_wgmma(float (&sum)[8][4], uint64_t a, uint64_t b)
{
    CONVOY_WGMMA_CODE(asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0;\n\t"
                                   "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                                   "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                                   "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
                                   "%30, %31}, %32, %33, p, 1, 1, 0, 0;}"
                                   : CONVOY_TILE(0), CONVOY_TILE(1), CONVOY_TILE(2), CONVOY_TILE(3),
                                     CONVOY_TILE(4), CONVOY_TILE(5), CONVOY_TILE(6), CONVOY_TILE(7)
                                   : "l"(a), "l"(b));)
}

static __device__ __forceinline__ void convoy_wgmma(float (&sum)[16][4], uint64_t a, uint64_t b)
{
    CONVOY_WGMMA_CODE(asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0;\n\t"
                                   "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                                   "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                                   "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
                                   "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
                                   "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "
                                   "%58, %59, %60, %61, %62, %63}, "
                                   "%64, %65, p, 1, 1, 0, 0;}"
                                   : CONVOY_TILE(0), CONVOY_TILE(1), CONVOY_TILE(2), CONVOY_TILE(3),
                                     CONVOY_TILE(4), CONVOY_TILE(5), CONVOY_TILE(6), CONVOY_TILE(7),
                                     CONVOY_TILE(8), CONVOY_TILE(9), CONVOY_TILE(10), CONVOY_TILE(11),
                                     CONVOY_TILE(12), CONVOY_TILE(13), CONVOY_TILE(14), CONVOY_TILE(15)
                                   : "l"(a), "l"(b));)
}

/* A from registers, 64 x 16: each warp has its 16 rows, as a of mma.cuh. B, 16 x 64, has its columns
 * contiguous. Neither a nor sum is touched until the product has been waited for. */
static __device__ __forceinline__ void convoy_wgmma_registers(float (&sum)[8][4], const uint32_t (&a)[4],
                                                              uint64_t b)
{
    CONVOY_WGMMA_CODE(asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0;\n\t"
                                   "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
                                   "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                                   "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
                                   "%30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;}"
                                   : CONVOY_TILE(0), CONVOY_TILE(1), CONVOY_TILE(2), CONVOY_TILE(3),
                                     CONVOY_TILE(4), CONVOY_TILE(5), CONVOY_TILE(6), CONVOY_TILE(7)
                                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));)
}

/* The same with B as in convoy_wgmma(): the reduction first. */
static __device__ __forceinline__ void convoy_wgmma_rows(float (&sum)[4][4], const uint32_t (&a)[4],
                                                         uint64_t b)
{
    CONVOY_WGMMA_CODE(asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0;\n\t"
                                   "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
                                   "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
                                   "%14, %15"
                                   "}, {%16, %17, %18, %19}, %20, p, 1, 1, 0;}"
                                   : CONVOY_TILE(0), CONVOY_TILE(1), CONVOY_TILE(2), CONVOY_TILE(3)
                                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));)
}

static __device__ __forceinline__ void convoy_wgmma_rows(float (&sum)[8][4], const uint32_t (&a)[4],
                                                         uint64_t b)
{
    CONVOY_WGMMA_CODE(asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0;\n\t"
                                   "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
                                   "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
                                   "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                                   "%26, %27, %28, %29, %30, %31"
                                   "}, {%32, %33, %34, %35}, %36, p, 1, 1, 0;}"
                                   : CONVOY_TILE(0), CONVOY_TILE(1), CONVOY_TILE(2), CONVOY_TILE(3),
                                     CONVOY_TILE(4), CONVOY_TILE(5), CONVOY_TILE(6), CONVOY_TILE(7)
                                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));)
}

static __device__ __forceinline__ void convoy_wgmma_rows(float (&sum)[12][4], const uint32_t (&a)[4],
                                                         uint64_t b)
{
    CONVOY_WGMMA_CODE(asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0;\n\t"
                                   "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
                                   "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
                                   "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                                   "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
                                   "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
                                   "}, {%48, %49, %50, %51}, %52, p, 1, 1, 0;}"
                                   : CONVOY_TILE(0), CONVOY_TILE(1), CONVOY_TILE(2), CONVOY_TILE(3),
                                     CONVOY_TILE(4), CONVOY_TILE(5), CONVOY_TILE(6), CONVOY_TILE(7),
                                     CONVOY_TILE(8), CONVOY_TILE(9), CONVOY_TILE(10), CONVOY_TILE(11)
                                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));)
}

static __device__ __forceinline__ void convoy_wgmma_rows(float (&sum)[20][4], const uint32_t (&a)[4],
                                                         uint64_t b)
{
    CONVOY_WGMMA_CODE(asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0;\n\t"
                                   "wgmma.mma_async.sync.aligned.m64n160k16.f32.f16.f16 {"
                                   "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
                                   "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
                                   "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
                                   "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
                                   "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
                                   "%62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "
                                   "%74, %75, %76, %77, %78, %79"
                                   "}, {%80, %81, %82, %83}, %84, p, 1, 1, 0;}"
                                   : CONVOY_TILE(0), CONVOY_TILE(1), CONVOY_TILE(2), CONVOY_TILE(3),
                                     CONVOY_TILE(4), CONVOY_TILE(5), CONVOY_TILE(6), CONVOY_TILE(7),
                                     CONVOY_TILE(8), CONVOY_TILE(9), CONVOY_TILE(10), CONVOY_TILE(11),
                                     CONVOY_TILE(12), CONVOY_TILE(13), CONVOY_TILE(14), CONVOY_TILE(15),
                                     CONVOY_TILE(16), CONVOY_TILE(17), CONVOY_TILE(18), CONVOY_TILE(19)
                                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));)
}

#undef CONVOY_TILE
#undef CONVOY_WGMMA_CODE

#else

/* The emulation multiplies at the wait, the last moment at which the hardware may. */
static inline void convoy_wgmma_publish(void)
{
}

static inline void convoy_wgmma_begin(void)
{
}

template <int REGISTERS> static inline void convoy_registers_leave(void)
{
}

template <int REGISTERS> static inline void convoy_registers_take(void)
{
}

static inline void convoy_wgmma_end(void)
{
    convoy_emulated_wgmma_end();
}

template <int GROUPS> static inline void convoy_wgmma_wait(void)
{
    convoy_emulated_wgmma_wait(GROUPS);
}

static inline void convoy_threads_sync(int threads)
{
    convoy_emulated_threads_sync(threads);
}

template <int NT> static inline void convoy_wgmma(float (&sum)[NT][4], uint64_t a, uint64_t b)
{
    convoy_emulated_wgmma(sum, NT, a, b);
}

static inline void convoy_wgmma_registers(float (&sum)[8][4], const uint32_t (&a)[4], uint64_t b)
{
    convoy_emulated_wgmma_registers(sum, 8, a, b, true);
}

template <int NT>
static inline void convoy_wgmma_rows(float (&sum)[NT][4], const uint32_t (&a)[4], uint64_t b)
{
    convoy_emulated_wgmma_registers(sum, NT, a, b, false);
}

#endif

/* NT tiles from the first one on, 16, 8, 4 or 2 at a time; of b, pieces of 8 columns that lie beside each
 * other. */
template <int NT, int FIRST = 0, int TILES>
static __device__ __forceinline__ void convoy_wgmma_tiles(float (&sum)[TILES][4], uint64_t a, uint64_t b)
{
    constexpr int PART = NT >= 16 ? 16 : NT >= 8 ? 8 : NT >= 4 ? 4 : 2;
    convoy_wgmma(reinterpret_cast<float(&)[PART][4]>(sum[FIRST]), a, b);
    if constexpr (NT > PART)
        convoy_wgmma_tiles<NT - PART, FIRST + PART>(sum, a, convoy_matrix_at(b, PART * 8));
}

#endif
