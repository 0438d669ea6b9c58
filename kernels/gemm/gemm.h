/* What the files of matrix products share; nobody outside kernels/ needs it.
 *
 * A product whose k is split leaves partial results in scratch, laid out as splits x batch x m x n, and a
 * second launch adds them up in that order: unlike atomics, that gives the same bits every time. */
#ifndef CONVOY_KERNELS_GEMM_H
#define CONVOY_KERNELS_GEMM_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the estimates reckon with: an H100 or H200. */
#define CONVOY_GEMM_SMS            132
#define CONVOY_GEMM_FMA_PER_US     (128 * 1.75e3f) /* of one multiprocessor */
#define CONVOY_GEMM_BYTES_PER_US   3.6e6f          /* of device memory */
#define CONVOY_GEMM_LAUNCH_US      2.0f
#define CONVOY_GEMM_SCRATCH_FLOATS (INT64_C(64) << 20) /* partial results never take more */

/* Columns of a block, in each of three precisions: the template's instances and the list cannot part. */
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

/* Bytes of splits partial results. */
size_t convoy_gemm_partial_bytes(const struct convoy_gemm_shape *shape, int splits);
/* An estimate of the time of adding them up. */
float convoy_gemm_sum_us(const struct convoy_gemm_shape *shape, int splits);
/* The time that device memory needs for the operands and the result. */
float convoy_gemm_memory_us(const struct convoy_gemm_shape *shape);

/* y = act(sum over splits of partial + bias). */
cudaError_t convoy_launch_gemm_sum(const struct convoy_gemm_shape *shape, int splits, const float *partial,
                                   const float *bias, float *y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
