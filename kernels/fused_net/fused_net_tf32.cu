/* whole_net in tf32: the idea is in fused_net.cuh. */
#include "kernels/fused_net/fused_net.cuh"

cudaError_t fused_launch_tf32(const struct convoy_fused_plan *plan, const struct fused_job *job,
                              cudaStream_t stream)
{
    return fused_launch<TENSOR_TF32>(plan, job, stream);
}
