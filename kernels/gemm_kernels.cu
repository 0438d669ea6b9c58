/* The list of matrix products. Adding one: its file, a line in gemm.h, a line here. */
#include "kernels/gemm.h"

static const struct convoy_gemm_kernel *const kernels[] = {
    &convoy_gemm_tiled,          &convoy_gemm_blocked_128x128, &convoy_gemm_blocked_128x64,
    &convoy_gemm_blocked_64x160, &convoy_gemm_blocked_64x64,   &convoy_gemm_blocked_64x32,
    &convoy_gemm_split,          &convoy_gemm_split_columns,
};

const struct convoy_gemm_kernel *const *convoy_gemm_kernels(int *count)
{
    *count = (int)(sizeof kernels / sizeof kernels[0]);
    return kernels;
}
