/* Products of a warpgroup with numbers of columns that are no power of two: 64 rows x 8 NT columns by one
 * instruction, where convoy_wgmma_tiles() would take several, each of which reads A again. Both matrices lie
 * in shared memory, swizzled in rows of 128 bytes; the rules of wgmma.cuh hold. */
#ifndef CONVOY_KERNELS_WGMMA_COLUMNS_CUH
#define CONVOY_KERNELS_WGMMA_COLUMNS_CUH

#include "kernels/device/wgmma.cuh"

#ifdef __CUDACC__

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define CONVOY_WGMMA_CODE(code) code
#else
#define CONVOY_WGMMA_CODE(code) /* another chip: never runs */
#endif

/* Names and operands of the sums of the first NT tiles. */
#define CONVOY_SUMS_3 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11"
#define CONVOY_SUMS_5 CONVOY_SUMS_3 ", %12, %13, %14, %15, %16, %17, %18, %19"
#define CONVOY_SUMS_6 CONVOY_SUMS_5 ", %20, %21, %22, %23"
#define CONVOY_SUMS_7 CONVOY_SUMS_6 ", %24, %25, %26, %27"
#define CONVOY_SUMS_9 CONVOY_SUMS_7 ", %28, %29, %30, %31, %32, %33, %34, %35"
#define CONVOY_SUMS_13                                                                                       \
    CONVOY_SUMS_9 ", %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51"
#define CONVOY_SUMS_15  CONVOY_SUMS_13 ", %52, %53, %54, %55, %56, %57, %58, %59"
#define CONVOY_SUMS_18  CONVOY_SUMS_15 ", %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71"
#define CONVOY_TILE(i)  "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
#define CONVOY_TILES_3  CONVOY_TILE(0), CONVOY_TILE(1), CONVOY_TILE(2)
#define CONVOY_TILES_5  CONVOY_TILES_3, CONVOY_TILE(3), CONVOY_TILE(4)
#define CONVOY_TILES_6  CONVOY_TILES_5, CONVOY_TILE(5)
#define CONVOY_TILES_7  CONVOY_TILES_6, CONVOY_TILE(6)
#define CONVOY_TILES_9  CONVOY_TILES_7, CONVOY_TILE(7), CONVOY_TILE(8)
#define CONVOY_TILES_13 CONVOY_TILES_9, CONVOY_TILE(9), CONVOY_TILE(10), CONVOY_TILE(11), CONVOY_TILE(12)
#define CONVOY_TILES_15 CONVOY_TILES_13, CONVOY_TILE(13), CONVOY_TILE(14)
#define CONVOY_TILES_18 CONVOY_TILES_15, CONVOY_TILE(15), CONVOY_TILE(16), CONVOY_TILE(17)

/* a_name, b_name: the numbers of the operands behind the sums, in quotes. */
#define CONVOY_WGMMA_COLUMNS(NT, COLUMNS, a_name, b_name)                                                    \
    static __device__ __forceinline__ void convoy_wgmma_columns(float(&sum)[NT][4], uint64_t a, uint64_t b)  \
    {                                                                                                        \
        CONVOY_WGMMA_CODE(asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0;\n\t"                             \
                                       "wgmma.mma_async.sync.aligned.m64n" COLUMNS                           \
                                       "k16.f32.f16.f16 {" CONVOY_SUMS_##NT "}, " a_name ", " b_name         \
                                                                            ", p, 1, 1, 0, 0;}"              \
                                       : CONVOY_TILES_##NT                                                   \
                                       : "l"(a), "l"(b));)                                                   \
    }

CONVOY_WGMMA_COLUMNS(3, "24", "%12", "%13")
CONVOY_WGMMA_COLUMNS(5, "40", "%20", "%21")
CONVOY_WGMMA_COLUMNS(6, "48", "%24", "%25")
CONVOY_WGMMA_COLUMNS(7, "56", "%28", "%29")
CONVOY_WGMMA_COLUMNS(9, "72", "%36", "%37")
CONVOY_WGMMA_COLUMNS(13, "104", "%52", "%53")
CONVOY_WGMMA_COLUMNS(15, "120", "%60", "%61")
CONVOY_WGMMA_COLUMNS(18, "144", "%72", "%73")

#undef CONVOY_WGMMA_COLUMNS
#undef CONVOY_SUMS_3
#undef CONVOY_SUMS_5
#undef CONVOY_SUMS_6
#undef CONVOY_SUMS_7
#undef CONVOY_SUMS_9
#undef CONVOY_SUMS_13
#undef CONVOY_SUMS_15
#undef CONVOY_SUMS_18
#undef CONVOY_TILES_3
#undef CONVOY_TILES_5
#undef CONVOY_TILES_6
#undef CONVOY_TILES_7
#undef CONVOY_TILES_9
#undef CONVOY_TILES_13
#undef CONVOY_TILES_15
#undef CONVOY_TILES_18
#undef CONVOY_TILE
#undef CONVOY_WGMMA_CODE

/* Of 2, 4, 8 and 16 tiles. */
template <int NT>
static __device__ __forceinline__ void convoy_wgmma_columns(float (&sum)[NT][4], uint64_t a, uint64_t b)
{
    convoy_wgmma(sum, a, b);
}

#else

template <int NT> static inline void convoy_wgmma_columns(float (&sum)[NT][4], uint64_t a, uint64_t b)
{
    convoy_emulated_wgmma(sum, NT, a, b);
}

#endif
#endif
