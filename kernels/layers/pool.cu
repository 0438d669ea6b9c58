/* Pooling of planes: maximum or average.
 *
 * Three kernels:
 * - 2 x 2 windows with stride 2 and nothing around them: a thread reads 16 (or 8) bytes of two rows and
 *   writes two outputs (or one), so a warp reads and writes contiguous bytes;
 * - one window that is the whole plane (global pooling): a warp for each plane, whose lanes' results are
 *   merged by shuffles in a fixed order, so the answer repeats to the bit;
 * - everything else: a thread for each output; overlapping windows meet in the L1 cache.
 * NaN in a window gives NaN, in maxima too. A window with nothing inside gives 0.
 * Floor: 4 bytes for each input and output: 10,000 x 12 x 66 x 66 into 33 x 33 are 2.6 GB, 0.62 ms at 4.2
 * TB/s.
 * Predicted: 0.7 ms.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/device/unary.cuh"

#define THREADS 256

__device__ static float larger(float a, float b)
{
    return b > a || b != b ? b : a;
}

__device__ static float merge(bool average, float a, float b)
{
    return average ? a + b : larger(a, b);
}

__device__ static float start_of(bool average)
{
    return average ? 0.0f : -INFINITY;
}

/* ---- Any window ---- */

/* The taps of a window at `position` that lie inside 0..size are first..end, step apart. */
struct taps {
    int first, end;
};

__device__ static struct taps inside(int position, int window, int dilation, int size)
{
    int skip = position < 0 ? (-position + dilation - 1) / dilation : 0;
    int fit = size > position ? (size - position + dilation - 1) / dilation : 0;
    return {min(skip, window), min(fit, window)};
}

__global__ void __launch_bounds__(THREADS)
    pool_window(struct convoy_pool_shape shape, const float *x, float *y)
{
    int64_t count = shape.planes * shape.oh * shape.ow;
    for (int64_t i = convoy_first(); i < count; i += convoy_step()) {
        int column = (int)(i % shape.ow);
        int row = (int)(i / shape.ow % shape.oh);
        const float *plane = x + i / shape.ow / shape.oh * shape.h * shape.w;
        int top = row * shape.stride[0] - shape.pad[0];
        int left = column * shape.stride[1] - shape.pad[1];
        struct taps rows = inside(top, shape.window[0], shape.dilation[0], shape.h);
        struct taps columns = inside(left, shape.window[1], shape.dilation[1], shape.w);
        float result = start_of(shape.average);
        for (int r = rows.first; r < rows.end; r++) {
            const float *from = plane + (int64_t)(top + r * shape.dilation[0]) * shape.w;
            for (int c = columns.first; c < columns.end; c++)
                result = merge(shape.average, result, from[left + c * shape.dilation[1]]);
        }
        if (rows.first >= rows.end || columns.first >= columns.end) {
            result = 0;
        } else if (shape.average) {
            if (shape.count_padding) { /* what lies inside the input with its borders */
                rows = inside(top + shape.pad[0], shape.window[0], shape.dilation[0],
                              shape.pad[0] + shape.h + shape.pad[2]);
                columns = inside(left + shape.pad[1], shape.window[1], shape.dilation[1],
                                 shape.pad[1] + shape.w + shape.pad[3]);
            }
            result /= (float)((rows.end - rows.first) * (columns.end - columns.first));
        }
        y[i] = convoy_apply_unary(shape.act, result);
    }
}

/* ---- 2 x 2 ---- */

__device__ static float pool_four(bool average, float a, float b, float c, float d)
{
    return average ? 0.25f * ((a + b) + (c + d)) : larger(larger(a, b), larger(c, d));
}

/* outputs: 2 where rows of x lie on 16 bytes (w a multiple of 4), 1 where they lie on 8. */
template <int outputs>
__global__ void __launch_bounds__(THREADS) pool_2x2(struct convoy_pool_shape shape, const float *x, float *y)
{
    int row_pieces = shape.ow / outputs;
    int64_t count = shape.planes * shape.oh * row_pieces;
    for (int64_t i = convoy_first(); i < count; i += convoy_step()) {
        int piece = (int)(i % row_pieces);
        int64_t row = i / row_pieces;
        int64_t x_row = shape.h == 2 * shape.oh ? 2 * row : row / shape.oh * shape.h + row % shape.oh * 2;
        const float *from = x + x_row * shape.w + 2 * outputs * piece;
        float *to = y + row * shape.ow + outputs * piece;
        if (outputs == 2) {
            float4 a = *(const float4 *)from;
            float4 b = *(const float4 *)(from + shape.w);
            float2 v;
            v.x = convoy_apply_unary(shape.act, pool_four(shape.average, a.x, a.y, b.x, b.y));
            v.y = convoy_apply_unary(shape.act, pool_four(shape.average, a.z, a.w, b.z, b.w));
            *(float2 *)to = v;
        } else {
            float2 a = *(const float2 *)from;
            float2 b = *(const float2 *)(from + shape.w);
            *to = convoy_apply_unary(shape.act, pool_four(shape.average, a.x, a.y, b.x, b.y));
        }
    }
}

/* ---- The whole plane ---- */

__global__ void __launch_bounds__(THREADS)
    pool_global(int64_t planes, int64_t size, int64_t fours, bool average, struct convoy_unary act,
                const float *x, float *y)
{
    int lane = (int)threadIdx.x % 32;
    int64_t step = convoy_step() / 32;
    for (int64_t plane = convoy_first() / 32; plane < planes; plane += step) {
        const float *from = x + plane * size;
        float result = start_of(average);
        for (int64_t i = lane; i < fours; i += 32) {
            float4 v = ((const float4 *)from)[i];
            result =
                merge(average, result, merge(average, merge(average, v.x, v.y), merge(average, v.z, v.w)));
        }
        for (int64_t i = 4 * fours + lane; i < size; i += 32)
            result = merge(average, result, from[i]);
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2)
            result = merge(average, result, __shfl_xor_sync(0xffffffffu, result, offset));
        if (lane == 0)
            y[plane] = convoy_apply_unary(act, average ? result / (float)size : result);
    }
}

/* ---- The host's side ---- */

static bool is_2x2(const struct convoy_pool_shape *shape)
{
    return shape->window[0] == 2 && shape->window[1] == 2 && shape->stride[0] == 2 && shape->stride[1] == 2 &&
           shape->dilation[0] == 1 && shape->dilation[1] == 1 && shape->pad[0] == 0 && shape->pad[1] == 0 &&
           2 * shape->oh <= shape->h && 2 * shape->ow <= shape->w;
}

static bool is_global(const struct convoy_pool_shape *shape)
{
    return shape->oh == 1 && shape->ow == 1 && shape->window[0] == shape->h && shape->window[1] == shape->w &&
           shape->dilation[0] == 1 && shape->dilation[1] == 1 && shape->pad[0] == 0 && shape->pad[1] == 0;
}

cudaError_t convoy_launch_pool(const struct convoy_pool_shape *shape, const float *x, float *y,
                               cudaStream_t stream)
{
    int64_t outputs = shape->planes * shape->oh * shape->ow;
    if (is_2x2(shape) && shape->w % 4 == 0 && 2 * shape->ow == shape->w && convoy_aligned(x, y))
        return convoy_launch(pool_2x2<2>, convoy_grid(outputs / 2, THREADS), THREADS, 0, stream, *shape, x,
                             y);
    if (is_2x2(shape) && shape->w % 2 == 0 && convoy_aligned(x, x))
        return convoy_launch(pool_2x2<1>, convoy_grid(outputs, THREADS), THREADS, 0, stream, *shape, x, y);
    if (is_global(shape)) {
        int64_t size = (int64_t)shape->h * shape->w;
        int64_t fours = size % 4 == 0 && convoy_aligned(x, x) ? size / 4 : 0;
        return convoy_launch(pool_global, convoy_grid(shape->planes, THREADS / 32), THREADS, 0, stream,
                             shape->planes, size, fours, shape->average, shape->act, x, y);
    }
    return convoy_launch(pool_window, convoy_grid(outputs, THREADS), THREADS, 0, stream, *shape, x, y);
}
