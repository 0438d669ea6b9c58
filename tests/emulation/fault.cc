/* kernels/layers/fault.cu for a GPU that is not there: what the runtime would say. */
#include "emulation.h"
#include "kernels/kernels.h"

cudaError_t convoy_launch_fault(enum convoy_fault_kind kind, cudaStream_t stream)
{
    return convoy_emulated_fault(stream, kind == CONVOY_FAULT_ILLEGAL ? cudaErrorIllegalAddress
                                         : kind == CONVOY_FAULT_TRAP  ? cudaErrorLaunchFailure
                                                                      : cudaErrorNotReady);
}
