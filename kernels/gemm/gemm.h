/* The matrix products, one constant for each kernel; gemm_kernels.cu makes the list of kernels.h from them.
 * Internal to kernels/gemm. */
#ifndef CONVOY_KERNELS_GEMM_H
#define CONVOY_KERNELS_GEMM_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Columns of a block, in each of three precisions: the template's instances and the list are made from this
 * one line. */
#define CONVOY_GEMM_TENSOR_INSTANCES(X) X(32) X(64) X(80)

#define CONVOY_DECLARE_GEMM_TENSOR(columns)                                                                  \
    extern const struct convoy_gemm_kernel convoy_gemm_tensor_##columns, convoy_gemm_tensor_tf32_##columns,  \
        convoy_gemm_tensor_fp16_##columns;

CONVOY_GEMM_TENSOR_INSTANCES(CONVOY_DECLARE_GEMM_TENSOR)
extern const struct convoy_gemm_kernel convoy_gemm_tiled;
extern const struct convoy_gemm_kernel convoy_gemm_blocked_128x128;
extern const struct convoy_gemm_kernel convoy_gemm_blocked_128x64;
extern const struct convoy_gemm_kernel convoy_gemm_blocked_64x160;
extern const struct convoy_gemm_kernel convoy_gemm_blocked_64x64;
extern const struct convoy_gemm_kernel convoy_gemm_blocked_64x32;
extern const struct convoy_gemm_kernel convoy_gemm_split;
extern const struct convoy_gemm_kernel convoy_gemm_split_columns;

#ifdef __cplusplus
}
#endif
#endif
