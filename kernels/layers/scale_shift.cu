/* y = act(x scale[c] + shift[c]): what is left of a batch normalisation that no convolution took in.
 *
 * Four neighbours a thread where they have one channel (inner a multiple of 4) or lie in four channels side
 * by side (inner 1, channels a multiple of 4); otherwise one. The division that finds the channel is free
 * beside the way to memory: at 8 bytes an element a multiprocessor has time for some 50 instructions each.
 * Floor: 8 bytes an element.
 * Predicted: 90 % of it.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/device/unary.cuh"

#define THREADS 256

enum side { PLANES, /* 4 neighbours have one channel */ ROWS /* 4 neighbours have 4 channels */ };

template <enum side side>
__global__ void __launch_bounds__(THREADS)
    scale_shift_fours(int64_t fours, int64_t channels, int64_t inner, struct convoy_unary act, const float *x,
                      const float *scale, const float *shift, float *y)
{
    for (int64_t i = convoy_first(); i < fours; i += convoy_step()) {
        float4 v = ((const float4 *)x)[i];
        float4 a, b;
        if (side == PLANES) {
            int64_t c = 4 * i / inner % channels;
            float a1 = scale[c];
            float b1 = shift[c];
            a = make_float4(a1, a1, a1, a1);
            b = make_float4(b1, b1, b1, b1);
        } else {
            int64_t c = i % (channels / 4);
            a = ((const float4 *)scale)[c];
            b = ((const float4 *)shift)[c];
        }
        v.x = convoy_apply_unary(act, v.x * a.x + b.x);
        v.y = convoy_apply_unary(act, v.y * a.y + b.y);
        v.z = convoy_apply_unary(act, v.z * a.z + b.z);
        v.w = convoy_apply_unary(act, v.w * a.w + b.w);
        ((float4 *)y)[i] = v;
    }
}

__global__ void __launch_bounds__(THREADS)
    scale_shift_ones(int64_t count, int64_t channels, int64_t inner, struct convoy_unary act, const float *x,
                     const float *scale, const float *shift, float *y)
{
    for (int64_t i = convoy_first(); i < count; i += convoy_step()) {
        int64_t c = i / inner % channels;
        y[i] = convoy_apply_unary(act, x[i] * scale[c] + shift[c]);
    }
}

cudaError_t convoy_launch_scale_shift(int64_t outer, int64_t channels, int64_t inner, struct convoy_unary act,
                                      const float *x, const float *scale, const float *shift, float *y,
                                      cudaStream_t stream)
{
    int64_t count = outer * channels * inner;
    unsigned blocks = convoy_grid(convoy_div_up(count, 4), THREADS);
    if (convoy_aligned(x, y) && inner % 4 == 0)
        return convoy_launch(scale_shift_fours<PLANES>, blocks, THREADS, 0, stream, count / 4, channels,
                             inner, act, x, scale, shift, y);
    if (convoy_aligned(x, y) && convoy_aligned(scale, shift) && inner == 1 && channels % 4 == 0)
        return convoy_launch(scale_shift_fours<ROWS>, blocks, THREADS, 0, stream, count / 4, channels, inner,
                             act, x, scale, shift, y);
    return convoy_launch(scale_shift_ones, convoy_grid(count, THREADS), THREADS, 0, stream, count, channels,
                         inner, act, x, scale, shift, y);
}
