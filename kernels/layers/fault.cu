/* Kernels that go wrong, so that tests see what the daemon does when one of its own does. */
#include "kernels/device/launch.cuh"
#include "kernels/kernels.h"

static __global__ void write_nowhere(int *nowhere)
{
    *nowhere = 1;
}

static __global__ void stop(void)
{
    asm("trap;");
}

static __global__ void spin(volatile int *never)
{
    /* Memory that nobody writes, which the compiler cannot know. */
    while (*never == 0)
        ;
}

static __device__ int zero;

extern "C" cudaError_t convoy_launch_fault(enum convoy_fault_kind kind, cudaStream_t stream)
{
    void *address = NULL;
    switch (kind) {
    case CONVOY_FAULT_ILLEGAL:
        return convoy_launch(write_nowhere, dim3(1), dim3(1), 0, stream, (int *)64);
    case CONVOY_FAULT_TRAP:
        return convoy_launch(stop, dim3(1), dim3(1), 0, stream);
    default: {
        cudaError_t code = cudaGetSymbolAddress(&address, zero);
        return code != cudaSuccess
                   ? code
                   : convoy_launch(spin, dim3(1), dim3(1), 0, stream, (volatile int *)address);
    }
    }
}
