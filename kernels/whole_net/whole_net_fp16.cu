/* whole_net in fp16: the idea is in whole_net.cuh. */
#include "kernels/whole_net/whole_net.cuh"

cudaError_t whole_launch_fp16(const struct convoy_whole_plan *plan, const struct whole_job *job,
                              cudaStream_t stream)
{
    return whole_launch<TENSOR_HALF>(plan, job, stream);
}
