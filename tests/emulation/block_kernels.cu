/* The first threads of a block meet without the others; each fault leaves out what the hardware wants. */
#include "tests/emulation/block_kernels.h"

#include "kernels/device/launch.cuh"
#include "kernels/device/wgmma.cuh"

static __global__ void parts(uint32_t *seen, int part, enum block_fault fault)
{
    CONVOY_DYNAMIC_SHARED(uint32_t, laid);
    uint32_t *next = laid + part;
    int thread = (int)threadIdx.x;
    if (thread < part) {
        laid[thread] = block_number(blockIdx.x, threadIdx.x);
        if (fault == BLOCK_ENDED && thread < 32)
            return;
        if (fault != BLOCK_NO_SYNC)
            convoy_threads_sync(part);
        next[thread] = laid[(thread + 1) % part];
    } else if (fault == BLOCK_TWO_PLACES) {
        __syncthreads();
        return;
    }
    __syncthreads();
    seen[blockIdx.x * blockDim.x + threadIdx.x] = next[thread % part];
}

cudaError_t block_parts(uint32_t *seen, unsigned blocks, unsigned threads, unsigned part,
                        enum block_fault fault, cudaStream_t stream)
{
    return convoy_launch_as(convoy_launch_form{1, false}, parts, dim3(blocks), dim3(threads),
                            2 * part * sizeof(uint32_t), stream, seen, (int)part, fault);
}
