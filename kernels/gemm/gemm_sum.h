/* Matrix products whose k is split: their partial results and the sum of them; and what estimates of times
 * share.
 *
 * Partial results lie in scratch as splits x batch x m x n. A second launch adds them up in that order:
 * unlike atomics, that gives the same bits every time. Used by kernels/gemm and by fused_net's dense product.
 */
#ifndef CONVOY_KERNELS_GEMM_SUM_H
#define CONVOY_KERNELS_GEMM_SUM_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the estimates assume: an H100 or H200. */
#define CONVOY_GEMM_SMS            132
#define CONVOY_GEMM_FMA_PER_US     (128 * 1.75e3f) /* of one multiprocessor */
#define CONVOY_GEMM_BYTES_PER_US   3.6e6f          /* of device memory */
#define CONVOY_GEMM_LAUNCH_US      2.0f
#define CONVOY_GEMM_SCRATCH_FLOATS (INT64_C(64) << 20) /* partial results never take more */

/* Bytes that the partial results of so many splits take; 0 for one split. */
size_t convoy_gemm_partial_bytes(const struct convoy_gemm_shape *shape, int splits);
/* The estimated time of adding them up, in microseconds. */
float convoy_gemm_sum_us(const struct convoy_gemm_shape *shape, int splits);
/* The time that device memory needs for the operands and the result, in microseconds. */
float convoy_gemm_memory_us(const struct convoy_gemm_shape *shape);

/* Launches y = act(sum over splits of partial + bias). Returns the launch's error. */
cudaError_t convoy_launch_gemm_sum(const struct convoy_gemm_shape *shape, int splits, const float *partial,
                                   const float *bias, float *y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
