/* The list of matrix products. Adding one: its file, a line in gemm.h, a line here. */
#include "kernels/gemm/gemm.h"

#define LIST_TENSOR(columns)                                                                                 \
    &convoy_gemm_tensor_##columns, &convoy_gemm_tensor_tf32_##columns, &convoy_gemm_tensor_fp16_##columns,

static const struct convoy_gemm_kernel *const kernels[] = {
    &convoy_gemm_tiled,          &convoy_gemm_blocked_128x128, &convoy_gemm_blocked_128x64,
    &convoy_gemm_blocked_64x160, &convoy_gemm_blocked_64x64,   &convoy_gemm_blocked_64x32,
    &convoy_gemm_split,          &convoy_gemm_split_columns,   CONVOY_GEMM_TENSOR_INSTANCES(LIST_TENSOR)};

const struct convoy_gemm_kernel *const *convoy_gemm_kernels(int *count)
{
    *count = (int)(sizeof kernels / sizeof kernels[0]);
    return kernels;
}
