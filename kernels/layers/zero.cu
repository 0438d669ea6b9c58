/* Zeros, by a kernel rather than cudaMemsetAsync, so that the request path stays with the few calls of the
 * runtime that the worker counts.
 *
 * Floor: 4 bytes an element, 1,050 elements a nanosecond at 4.2 TB/s.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/kernels.h"

#define THREADS 256

__global__ void __launch_bounds__(THREADS) zero_elements(int64_t count, int64_t fours, float *y)
{
    int64_t first = convoy_first();
    int64_t step = convoy_step();
    for (int64_t i = first; i < fours; i += step)
        ((float4 *)y)[i] = make_float4(0, 0, 0, 0);
    for (int64_t i = 4 * fours + first; i < count; i += step)
        y[i] = 0;
}

cudaError_t convoy_launch_zero(int64_t count, float *y, cudaStream_t stream)
{
    int64_t fours = convoy_aligned(y, y) ? count / 4 : 0;
    return convoy_launch(zero_elements, convoy_grid(fours ? fours : count, THREADS), THREADS, 0, stream,
                         count, fours, y);
}

cudaError_t convoy_kernels_run_here(void)
{
    struct cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, zero_elements);
}
