/* whole_net in fp16 with some of its convolutions on warpgroups: the idea is in fused_wgmma.cuh. */
#include "kernels/fused_net/fused_net.cuh"

cudaError_t fused_launch_wgmma(const struct convoy_fused_plan *plan, const struct fused_job *job,
                               cudaStream_t stream)
{
    return convoy_launch(fused_net<TENSOR_HALF, false, true>, dim3((unsigned)plan->blocks),
                         dim3((unsigned)job->threads + CONVOY_WARPGROUP), plan->shared_bytes, stream, *job);
}
