/* whole_net in tf32: the idea is in whole_net.cuh. */
#include "kernels/whole_net/whole_net.cuh"

cudaError_t whole_launch_tf32(const struct convoy_whole_plan *plan, const struct whole_job *job,
                              cudaStream_t stream)
{
    return whole_launch<TENSOR_TF32>(plan, job, stream);
}
