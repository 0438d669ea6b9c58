/* whole_net in fp16 with some of its convolutions on warpgroups: the idea is in whole_wgmma.cuh. */
#include "kernels/whole_net/whole_net.cuh"

cudaError_t whole_launch_wgmma(const struct convoy_whole_plan *plan, const struct whole_job *job,
                               cudaStream_t stream)
{
    return convoy_launch(whole_net<TENSOR_HALF, false, true>, dim3((unsigned)plan->blocks),
                         dim3((unsigned)job->threads + CONVOY_WARPGROUP), plan->shared_bytes, stream, *job);
}
