/* An activation on its own, where no kernel before it could take it along.
 *
 * Four floats a thread. The tail, and tensors that do not lie on 16 bytes, go one by one.
 * Floor: 8 bytes an element: 4.2 TB/s are 525 elements a nanosecond; 10,000 x 12 x 66 x 66 take 1.0 ms.
 * Predicted: 90 % of that, tanh included.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/device/unary.cuh"

#define THREADS 256

/* fours: how many groups of 4 at the start are read and written 16 bytes at a time. */
__global__ void __launch_bounds__(THREADS)
    unary_elements(int64_t count, int64_t fours, struct convoy_unary act, const float *x, float *y)
{
    int64_t first = convoy_first();
    int64_t step = convoy_step();
    for (int64_t i = first; i < fours; i += step) {
        float4 v = ((const float4 *)x)[i];
        v.x = convoy_apply_any_unary(act, v.x);
        v.y = convoy_apply_any_unary(act, v.y);
        v.z = convoy_apply_any_unary(act, v.z);
        v.w = convoy_apply_any_unary(act, v.w);
        ((float4 *)y)[i] = v;
    }
    for (int64_t i = 4 * fours + first; i < count; i += step)
        y[i] = convoy_apply_any_unary(act, x[i]);
}

cudaError_t convoy_launch_unary(int64_t count, struct convoy_unary act, const float *x, float *y,
                                cudaStream_t stream)
{
    int64_t fours = convoy_aligned(x, y) ? count / 4 : 0;
    return convoy_launch(unary_elements, convoy_grid(fours ? fours : count, THREADS), THREADS, 0, stream,
                         count, fours, act, x, y);
}
