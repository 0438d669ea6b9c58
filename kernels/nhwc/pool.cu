/* Pooling in 16 bits, channels last.
 *
 * Two kernels: a thread for 8 channels of an output; and, where one window is a whole image, a block for some
 * channels of it (64, or 8 where there are few blocks), whose threads add pixels that lie some apart and then
 * each other's sums, in a fixed order. NaN in a window gives NaN. A window with nothing inside gives 0.
 * Floor: input and output once. Measured on an H200 for 256 images: 3 x 3 of stride 2, 64 x 112 x 112,
 * 205 us (floor 122); 7 x 7 of 1,280 channels 21 us (floor 8). */
#include "kernels/nhwc/nhwc_cells.cuh"

#define MANY_CELLS  8   /* of a block, where blocks are many */
#define MANY_BLOCKS 264 /* twice the multiprocessors */

struct pool_job {
    struct convoy_pool_shape shape;
    int64_t c, cells, x_pixel, y_pixel;
};

static __device__ __forceinline__ void merge(bool average, float (&into)[NHWC_CELL],
                                             const float (&with)[NHWC_CELL])
{
#pragma unroll
    for (int e = 0; e < NHWC_CELL; e++)
        into[e] = average ? into[e] + with[e] : convoy_larger(into[e], with[e]);
}

/* How many of a window's taps from `position` on lie within 0..size. */
static __device__ __forceinline__ int inside(int position, int window, int dilation, int size)
{
    int count = 0;
    for (int i = 0; i < window; i++)
        count += (unsigned)(position + i * dilation) < (unsigned)size;
    return count;
}

static __device__ __forceinline__ int64_t divisor(const struct convoy_pool_shape &s, int top, int left)
{
    if (!s.count_padding)
        return (int64_t)inside(top, s.window[0], s.dilation[0], s.h) *
               inside(left, s.window[1], s.dilation[1], s.w);
    return (int64_t)inside(top + s.pad[0], s.window[0], s.dilation[0], s.pad[0] + s.h + s.pad[2]) *
           inside(left + s.pad[1], s.window[1], s.dilation[1], s.pad[1] + s.w + s.pad[3]);
}

__global__ void __launch_bounds__(NHWC_THREADS)
    nhwc_pool(CONVOY_PARAMETER(struct pool_job) job, const convoy_fp16 *x, convoy_fp16 *y)
{
    const struct convoy_pool_shape &s = job.shape;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    int64_t count = s.planes * s.oh * s.ow * job.cells;
    for (int64_t i = convoy_first(); i < count; i += convoy_step()) {
        int64_t output = i / job.cells, c = (i - output * job.cells) * NHWC_CELL;
        int row = (int)(output / s.ow), column = (int)(output - (int64_t)row * s.ow);
        int n = row / s.oh, top = (row - n * s.oh) * s.stride[0] - s.pad[0];
        int left = column * s.stride[1] - s.pad[1];
        const convoy_fp16 *image = x + (int64_t)n * s.h * s.w * job.x_pixel + c;
        float result[NHWC_CELL];
        bool any = false;
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++)
            result[e] = s.average ? 0.0f : -INFINITY;
        for (int r = 0; r < s.window[0]; r++) {
            int from_y = top + r * s.dilation[0];
            if ((unsigned)from_y >= (unsigned)s.h)
                continue;
            for (int w = 0; w < s.window[1]; w++) {
                int from_x = left + w * s.dilation[1];
                if ((unsigned)from_x >= (unsigned)s.w)
                    continue;
                float values[NHWC_CELL];
                nhwc_load(image + ((int64_t)from_y * s.w + from_x) * job.x_pixel, values);
                merge(s.average, result, values);
                any = true;
            }
        }
        float scale = s.average && any ? 1.0f / (float)divisor(s, top, left) : 1.0f;
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++)
            result[e] = any ? result[e] * scale : 0.0f;
        nhwc_activate(s.act, result);
        nhwc_store(y + output * job.y_pixel + c, result);
    }
}

template <int CELLS>
__global__ void __launch_bounds__(NHWC_THREADS)
    nhwc_pool_global(CONVOY_PARAMETER(struct pool_job) job, const convoy_fp16 *x, convoy_fp16 *y)
{
    __shared__ float sums[NHWC_THREADS * NHWC_CELL];
    constexpr int LANES = NHWC_THREADS / CELLS;
    const struct convoy_pool_shape &s = job.shape;
    int64_t groups = (job.cells + CELLS - 1) / CELLS, pixels = (int64_t)s.h * s.w;
    int lane = (int)threadIdx.x / CELLS;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t block = blockIdx.x; block < s.planes * groups; block += gridDim.x) {
        int64_t n = block / groups, cell = block % groups * CELLS + threadIdx.x % CELLS;
        const convoy_fp16 *from = x + n * pixels * job.x_pixel + cell * NHWC_CELL;
        float result[NHWC_CELL];
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++)
            result[e] = s.average ? 0.0f : -INFINITY;
        if (cell < job.cells) {
#pragma unroll 4
            for (int64_t p = lane; p < pixels; p += LANES) {
                float values[NHWC_CELL];
                nhwc_load(from + p * job.x_pixel, values);
                merge(s.average, result, values);
            }
        }
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++)
            sums[e * NHWC_THREADS + threadIdx.x] = result[e];
        for (int apart = LANES / 2; apart > 0; apart /= 2) {
            __syncthreads();
            if (lane >= apart)
                continue;
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++) {
                float other = sums[e * NHWC_THREADS + threadIdx.x + apart * CELLS];
                result[e] = s.average ? result[e] + other : convoy_larger(result[e], other);
                sums[e * NHWC_THREADS + threadIdx.x] = result[e];
            }
        }
        if (lane == 0 && cell < job.cells) {
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++)
                result[e] = s.average ? result[e] / (float)pixels : result[e];
            nhwc_activate(s.act, result);
            nhwc_store(y + n * job.y_pixel + cell * NHWC_CELL, result);
        }
        __syncthreads();
    }
}

static bool is_global(const struct convoy_pool_shape *s)
{
    return s->oh == 1 && s->ow == 1 && s->window[0] == s->h && s->window[1] == s->w && s->dilation[0] == 1 &&
           s->dilation[1] == 1 && s->pad[0] == 0 && s->pad[1] == 0;
}

cudaError_t convoy_launch_nhwc_pool(const struct convoy_pool_shape *shape, int64_t c, const convoy_fp16 *x,
                                    int64_t x_pixel, convoy_fp16 *y, int64_t y_pixel, cudaStream_t stream)
{
    struct pool_job job = {*shape, c, convoy_div_up(c, NHWC_CELL), x_pixel, y_pixel};
    if (is_global(shape)) {
        int64_t blocks = shape->planes * convoy_div_up(job.cells, MANY_CELLS);
        return blocks >= MANY_BLOCKS
                   ? convoy_launch_early(nhwc_pool_global<MANY_CELLS>, convoy_grid(blocks, 1), NHWC_THREADS,
                                         0, stream, job, x, y)
                   : convoy_launch_early(nhwc_pool_global<1>, convoy_grid(shape->planes * job.cells, 1),
                                         NHWC_THREADS, 0, stream, job, x, y);
    }
    return convoy_launch_early(nhwc_pool,
                               convoy_grid(shape->planes * shape->oh * shape->ow * job.cells, NHWC_THREADS),
                               NHWC_THREADS, 0, stream, job, x, y);
}
