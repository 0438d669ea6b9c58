/* Where a matrix product whose k may be split writes, on the host. */
#ifndef CONVOY_KERNELS_GEMM_TARGET_CUH
#define CONVOY_KERNELS_GEMM_TARGET_CUH

#include "kernels/gemm/gemm_sum.h"

/* Tells the job how its results lie and what is done to them: y itself, with bias and activation, or partial
 * sums in scratch without. Returns where. job has splits already. */
template <typename Job>
static inline float *convoy_gemm_target(const struct convoy_gemm_shape *shape,
                                        const struct convoy_gemm_operands *operands, Job *job)
{
    if (job->splits == 1) {
        job->y_stride = shape->y_stride;
        job->bias = shape->bias;
        job->act = shape->act;
        return operands->y;
    }
    job->y_stride = shape->m * shape->n;
    job->split_stride = job->y_stride * shape->batch;
    return static_cast<float *>(operands->scratch);
}

/* After the product was launched with status: adds up the partial sums, if there are any. */
static inline cudaError_t convoy_gemm_finish(cudaError_t status, const struct convoy_gemm_shape *shape,
                                             const struct convoy_gemm_operands *operands, int64_t splits,
                                             cudaStream_t stream)
{
    if (status != cudaSuccess || splits == 1)
        return status;
    return convoy_launch_gemm_sum(shape, (int)splits, static_cast<const float *>(operands->scratch),
                                  operands->bias, operands->y, stream);
}

#endif
