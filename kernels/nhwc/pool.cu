/* Pooling in 16 bits, channels last.
 *
 * Three kernels. Of windows of 3 x 3 or 2 x 2 (nhwc_pool_rows) a thread makes ROWS outputs below each other,
 * 8 channels of each, so that rows of inputs that several of them read are loaded once; a block's threads
 * take 64 channels, a line of memory, of neighbouring columns. Of other windows (nhwc_pool) a thread makes 8
 * channels of an output. Where one window is a whole image (nhwc_pool_global) a block makes some channels of
 * it (64, or 8 where there are few blocks), whose threads add pixels that lie some apart and then each
 * other's sums, in a fixed order. NaN in a window gives NaN. A window with nothing inside gives 0.
 *
 * Floor: input and output once. Measured on an H200 for 256 images, nhwc_pool_rows after nhwc_pool: means of
 * 3 x 3 of stride 1, 768 x 17 x 17, 84 us after 217 (floor 57, predicted 70); maxima of 3 x 3 of stride 2,
 * 64 x 147 x 147, 227 us after 346 (floor 220, predicted 240). A branch for each tap and 64-bit divisions for
 * each output made nhwc_pool wait. nhwc_pool_global: 7 x 7 of 1,280 channels 21 us (floor 8). */
#include "kernels/device/divider.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"
#include "kernels/nhwc/nhwc_common.h"

#define MANY_CELLS  8              /* of a block, where blocks are many */
#define MANY_BLOCKS (2 * NHWC_SMS) /* on each multiprocessor two */
#define SIDE_CELLS  8              /* that threads of nhwc_pool_rows take side by side */
#define COLUMNS     (NHWC_THREADS / SIDE_CELLS)
#define LOWEST      0xfc00fc00u /* minus infinity, twice */

struct pool_job {
    struct convoy_pool_shape shape;
    int64_t c, cells, x_pixel, y_pixel;
    const float *padding; /* of each channel; NULL: zeros */
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

static __device__ __forceinline__ int64_t taps_of(const struct convoy_pool_shape &s, int top, int left,
                                                  bool padding)
{
    if (!padding)
        return (int64_t)inside(top, s.window[0], s.dilation[0], s.h) *
               inside(left, s.window[1], s.dilation[1], s.w);
    return (int64_t)inside(top + s.pad[0], s.window[0], s.dilation[0], s.pad[0] + s.h + s.pad[2]) *
           inside(left + s.pad[1], s.window[1], s.dilation[1], s.pad[1] + s.w + s.pad[3]);
}

/* Adds so many taps of padding to the sums of a cell's channels, from c on. */
static __device__ __forceinline__ void add_padding(const struct pool_job &job, int64_t c, float taps,
                                                   float (&sum)[NHWC_CELL])
{
#pragma unroll
    for (int e = 0; e < NHWC_CELL; e++)
        sum[e] += c + e < job.c ? taps * __ldg(&job.padding[c + e]) : 0.0f;
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
        int64_t taps = s.average ? taps_of(s, top, left, s.count_padding) : 1;
        if (s.average && job.padding != nullptr)
            add_padding(job, c, (float)(taps - taps_of(s, top, left, false)), result);
        float scale = 1.0f / (float)taps;
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++)
            result[e] = any ? result[e] * scale : 0.0f;
        nhwc_activate(s.act, result);
        nhwc_store(y + output * job.y_pixel + c, result);
    }
}

/* What nhwc_pool_rows is given besides: strips of ROWS rows of outputs, in each image and `columns` of all
 * together; blocks of COLUMNS of them by SIDE_CELLS cells, `sides` to all cells. */
struct pool_rows_job {
    struct pool_job pool;
    int columns, blocks, sides, strips;
    struct tensor_divider by_sides, by_ow, by_strips;
};

/* The taps of a window from `first` to first + side - 1 that count of a size with these pads. */
static __device__ __forceinline__ int counted(int first, int side, int size, int before, int after)
{
    return min(first + side, size + after) - max(first, -before);
}

/* The cell of a pixel, or `outside` where there is none. */
static __device__ __forceinline__ uint4 cell_or(bool inside, const convoy_fp16 *from, uint32_t outside)
{
    uint4 words = make_uint4(outside, outside, outside, outside);
    if (inside)
        words = *reinterpret_cast<const uint4 *>(from);
    return words;
}

/* Of a thread: maxima of windows, two in a word, or sums. */
struct maxima {
    static constexpr uint32_t OUTSIDE = LOWEST; /* what a tap is that lies outside of the image */
    uint4 words = make_uint4(LOWEST, LOWEST, LOWEST, LOWEST);

    __device__ __forceinline__ void take(const uint4 &cell)
    {
        words = nhwc_larger(words, cell);
    }
    __device__ __forceinline__ void take(const maxima &other)
    {
        take(other.words);
    }
};

/* PADDED: the padding may hold other numbers than zeros. */
template <bool PADDED> struct sums {
    static constexpr uint32_t OUTSIDE = 0;
    float values[NHWC_CELL] = {};

    __device__ __forceinline__ void take(const uint4 &cell)
    {
        float others[NHWC_CELL];
        nhwc_unpack(cell, others);
        merge(true, values, others);
    }
    __device__ __forceinline__ void take(const sums &other)
    {
        merge(true, values, other.values);
    }
};

/* Those of ROWS windows below each other, of which the first begins at `top`, `left`. */
template <int SIDE, int STRIDE, int ROWS, typename POOLED>
static __device__ __forceinline__ void pool_windows(const struct pool_job &job, const convoy_fp16 *image,
                                                    int top, int left, POOLED (&pooled)[ROWS])
{
    const struct convoy_pool_shape &s = job.shape;
#pragma unroll
    for (int i = 0; i < (ROWS - 1) * STRIDE + SIDE; i++) {
        int y = top + i;
        bool inside = (unsigned)y < (unsigned)s.h;
        int64_t row = (int64_t)y * s.w;
        POOLED line;
#pragma unroll
        for (int j = 0; j < SIDE; j++)
            line.take(cell_or(inside && (unsigned)(left + j) < (unsigned)s.w,
                              image + (row + left + j) * job.x_pixel, POOLED::OUTSIDE));
#pragma unroll
        for (int o = 0; o < ROWS; o++)
            if (i >= o * STRIDE && i < o * STRIDE + SIDE)
                pooled[o].take(line);
    }
}

/* taps_of() without dilation. */
template <int SIDE>
static __device__ __forceinline__ int near_taps(const struct convoy_pool_shape &s, int top, int left,
                                                bool padding)
{
    return counted(top, SIDE, s.h, padding ? s.pad[0] : 0, padding ? s.pad[2] : 0) *
           counted(left, SIDE, s.w, padding ? s.pad[1] : 0, padding ? s.pad[3] : 0);
}

/* The window at `top`, `left`, of a cell's channels, from c on. */
template <int SIDE>
static __device__ __forceinline__ uint4 pool_end(const struct pool_job &job, int64_t, int, int,
                                                 const maxima &pooled)
{
    const struct convoy_pool_shape &s = job.shape;
    if (s.act.kind == CONVOY_UNARY_NONE)
        return pooled.words;
    float values[NHWC_CELL];
    nhwc_unpack(pooled.words, values);
    nhwc_activate(s.act, values);
    return nhwc_pack(values);
}

template <int SIDE, bool PADDED>
static __device__ __forceinline__ uint4 pool_end(const struct pool_job &job, int64_t c, int top, int left,
                                                 sums<PADDED> &pooled)
{
    const struct convoy_pool_shape &s = job.shape;
    int taps = near_taps<SIDE>(s, top, left, s.count_padding);
    int padding = PADDED ? taps - near_taps<SIDE>(s, top, left, false) : 0;
    if (padding > 0)
        add_padding(job, c, (float)padding, pooled.values);
    float scale = 1.0f / (float)taps;
#pragma unroll
    for (int e = 0; e < NHWC_CELL; e++)
        pooled.values[e] *= scale;
    nhwc_activate(s.act, pooled.values);
    return nhwc_pack(pooled.values);
}

template <int SIDE, int STRIDE, int ROWS, typename POOLED>
__global__ void __launch_bounds__(NHWC_THREADS)
    nhwc_pool_rows(CONVOY_PARAMETER(struct pool_rows_job) job, const convoy_fp16 *x, convoy_fp16 *y)
{
    const struct convoy_pool_shape &s = job.pool.shape;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int block = (int)blockIdx.x; block < job.blocks; block += (int)gridDim.x) {
        int patch = tensor_divide(block, job.by_sides);
        int at = patch * COLUMNS + (int)threadIdx.x / SIDE_CELLS;
        int cell = (block - patch * job.sides) * SIDE_CELLS + (int)threadIdx.x % SIDE_CELLS;
        if (at >= job.columns || cell >= job.pool.cells)
            continue;
        int strip = tensor_divide(at, job.by_ow), column = at - strip * s.ow;
        int n = tensor_divide(strip, job.by_strips), first = (strip - n * job.strips) * ROWS;
        int top = first * STRIDE - s.pad[0], left = column * STRIDE - s.pad[1];
        const convoy_fp16 *image = x + (int64_t)n * s.h * s.w * job.pool.x_pixel + cell * NHWC_CELL;
        convoy_fp16 *to =
            y + (((int64_t)n * s.oh + first) * s.ow + column) * job.pool.y_pixel + cell * NHWC_CELL;
        POOLED pooled[ROWS];
        pool_windows<SIDE, STRIDE, ROWS>(job.pool, image, top, left, pooled);
#pragma unroll
        for (int o = 0; o < ROWS; o++) {
            if (first + o >= s.oh)
                break;
            *reinterpret_cast<uint4 *>(to + (int64_t)o * s.ow * job.pool.y_pixel) =
                pool_end<SIDE>(job.pool, cell * NHWC_CELL, top + o * STRIDE, left, pooled[o]);
        }
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

/* Are all windows of side x side, the same distance apart in both directions, with something of the image in
 * each? nhwc_pool_rows looks for none that is empty. */
static bool has_side(const struct convoy_pool_shape *s, int side)
{
    for (int i = 0; i < 2; i++)
        if (s->window[i] != side || s->stride[i] != s->stride[0] || s->dilation[i] != 1 ||
            s->pad[i] >= side ||
            ((i == 0 ? s->oh : s->ow) - 1) * s->stride[i] - s->pad[i] >= (i == 0 ? s->h : s->w))
            return false;
    return true;
}

static struct pool_rows_job rows_job(const struct pool_job *pool, int rows)
{
    const struct convoy_pool_shape *s = &pool->shape;
    int strips = (int)convoy_div_up(s->oh, rows), sides = (int)convoy_div_up(pool->cells, SIDE_CELLS);
    int columns = (int)s->planes * strips * s->ow;
    return (struct pool_rows_job){*pool,
                                  columns,
                                  (int)convoy_div_up(columns, COLUMNS) * sides,
                                  sides,
                                  strips,
                                  tensor_divider(sides),
                                  tensor_divider(s->ow),
                                  tensor_divider(strips)};
}

/* Several rows a thread, where there are blocks enough all the same. */
template <int SIDE, int STRIDE, int ROWS>
static cudaError_t launch_rows(const struct pool_job *pool, const convoy_fp16 *x, convoy_fp16 *y,
                               cudaStream_t stream)
{
    struct pool_rows_job job = rows_job(pool, ROWS);
    if (ROWS > 1 && job.blocks < MANY_BLOCKS)
        return launch_rows<SIDE, STRIDE, 1>(pool, x, y, stream);
    return convoy_launch_early(!pool->shape.average    ? nhwc_pool_rows<SIDE, STRIDE, ROWS, maxima>
                               : pool->padding != NULL ? nhwc_pool_rows<SIDE, STRIDE, ROWS, sums<true>>
                                                       : nhwc_pool_rows<SIDE, STRIDE, ROWS, sums<false>>,
                               convoy_grid(job.blocks, 1), NHWC_THREADS, 0, stream, job, x, y);
}

cudaError_t convoy_launch_nhwc_pool(const struct convoy_pool_shape *shape, int64_t c, const convoy_fp16 *x,
                                    int64_t x_pixel, const float *padding, convoy_fp16 *y, int64_t y_pixel,
                                    cudaStream_t stream)
{
    struct pool_job job = {*shape, c, convoy_div_up(c, NHWC_CELL), x_pixel, y_pixel, padding};
    if (is_global(shape)) {
        int64_t blocks = shape->planes * convoy_div_up(job.cells, MANY_CELLS);
        return blocks >= MANY_BLOCKS
                   ? convoy_launch_early(nhwc_pool_global<MANY_CELLS>, convoy_grid(blocks, 1), NHWC_THREADS,
                                         0, stream, job, x, y)
                   : convoy_launch_early(nhwc_pool_global<1>, convoy_grid(shape->planes * job.cells, 1),
                                         NHWC_THREADS, 0, stream, job, x, y);
    }
    /* Numbers of blocks and columns, and the step to the next, stay in an int. */
    if (shape->planes * shape->oh * shape->ow * convoy_div_up(job.cells, SIDE_CELLS) < INT32_MAX / 2) {
        if (has_side(shape, 3) && shape->stride[0] == 1)
            return launch_rows<3, 1, 4>(&job, x, y, stream);
        if (has_side(shape, 3) && shape->stride[0] == 2)
            return launch_rows<3, 2, 2>(&job, x, y, stream);
        if (has_side(shape, 2) && shape->stride[0] == 2)
            return launch_rows<2, 2, 1>(&job, x, y, stream);
    }
    return convoy_launch_early(nhwc_pool,
                               convoy_grid(shape->planes * shape->oh * shape->ow * job.cells, NHWC_THREADS),
                               NHWC_THREADS, 0, stream, job, x, y);
}
