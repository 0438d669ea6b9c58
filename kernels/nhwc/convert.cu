/* Into 16 bits, channels last, and back: images as they arrive, and dense tensors of float32.
 *
 * A thread makes 16 bytes. Threads that follow each other take pixels that do where planes are read or
 * written, and cells that do where a tensor has one pixel. Floor of a batch of 256 x 3 x 224 x 224 bytes with
 * 4 channels a pixel: 38.5 MB in, 103 MB out, 34 us at 4.2 TB/s; of floats 61 us, measured 115 (H200). */
#include "kernels/nhwc/nhwc_cells.cuh"

template <typename Shape> struct read_job {
    Shape shape;
    int cells; /* of a row, or of a patch */
    struct convoy_images images;
    struct convoy_overflow overflow;
};

/* Channel c of pixel x of a row, 0 outside. */
template <typename Shape>
static __device__ __forceinline__ float input_at(const struct read_job<Shape> &job, int n, int y, int x,
                                                 int c)
{
    const Shape &shape = job.shape;
    if ((unsigned)x >= (unsigned)shape.w || c >= shape.c)
        return 0.0f;
    const unsigned char *image =
        static_cast<const unsigned char *>(job.images.data) + n * job.images.image_bytes;
    if (job.images.u8)
        return fmaf((float)image[((int64_t)y * shape.w + x) * shape.c + c], job.images.multiply[c & 3],
                    job.images.add[c & 3]);
    return reinterpret_cast<const float *>(image)[((int64_t)c * shape.h + y) * shape.w + x];
}

__global__ void __launch_bounds__(NHWC_THREADS)
    nhwc_read(CONVOY_PARAMETER(struct read_job<struct convoy_nhwc_rows>) job, convoy_fp16 *y)
{
    const struct convoy_nhwc_rows &rows = job.shape;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    int64_t count = (int64_t)rows.n * rows.h * job.cells;
    for (int64_t i = convoy_first(); i < count; i += convoy_step()) {
        int cell = (int)(i % job.cells);
        int row = (int)(i / job.cells % rows.h), n = (int)(i / job.cells / rows.h);
        float values[NHWC_CELL];
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++) {
            int at = cell * NHWC_CELL + e, pixel = at / rows.pixel;
            values[e] = input_at(job, n, row, pixel - rows.left, at - pixel * rows.pixel);
        }
        nhwc_store_new(y + i * NHWC_CELL, values, job.overflow, n);
    }
}

cudaError_t convoy_launch_nhwc_read(const struct convoy_images *images, const struct convoy_nhwc_rows *rows,
                                    convoy_fp16 *y, struct convoy_overflow overflow, cudaStream_t stream)
{
    struct read_job<struct convoy_nhwc_rows> job = {
        *rows, rows->row * rows->pixel / NHWC_CELL, *images, overflow
    };
    return convoy_launch_early(nhwc_read, convoy_grid((int64_t)rows->n * rows->h * job.cells, NHWC_THREADS),
                               NHWC_THREADS, 0, stream, job, y);
}

__global__ void __launch_bounds__(NHWC_THREADS)
    nhwc_read_patches(CONVOY_PARAMETER(struct read_job<struct convoy_nhwc_patches>) job, convoy_fp16 *y)
{
    const struct convoy_nhwc_patches &shape = job.shape;
    int64_t image_cells = (int64_t)shape.down * shape.across * job.cells, count = shape.n * image_cells;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t i = convoy_first(); i < count; i += convoy_step()) {
        int n = (int)(i / image_cells);
        int in_image = (int)(i - n * image_cells), patch = in_image / job.cells, down = patch / shape.across;
        int at = (in_image - patch * job.cells) * NHWC_CELL, across = patch - down * shape.across;
        int row = at / shape.columns, column = at - row * shape.columns;
        int channel = row / shape.rows;
        row -= channel * shape.rows;
        float values[NHWC_CELL];
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++) {
            values[e] = input_at(job, n, down * shape.rows + row, across * shape.columns + column, channel);
            if (++column == shape.columns) {
                column = 0;
                if (++row == shape.rows) {
                    row = 0;
                    channel++;
                }
            }
        }
        nhwc_store_new(y + i * NHWC_CELL, values, job.overflow, n);
    }
}

cudaError_t convoy_launch_nhwc_read_patches(const struct convoy_images *images,
                                            const struct convoy_nhwc_patches *patches, convoy_fp16 *y,
                                            struct convoy_overflow overflow, cudaStream_t stream)
{
    struct read_job<struct convoy_nhwc_patches> job = {
        *patches, patches->pixel / NHWC_CELL, *images, overflow
    };
    int64_t count = (int64_t)patches->n * patches->down * patches->across * job.cells;
    return convoy_launch_early(nhwc_read_patches, convoy_grid(count, NHWC_THREADS), NHWC_THREADS, 0, stream,
                               job, y);
}

struct planes_job {
    struct convoy_nhwc_planes planes;
    int64_t cells;    /* of a pixel */
    bool cells_first; /* threads that follow each other take cells that do */
};

/* Pixel and cell of piece i of all. */
static __device__ __forceinline__ void piece(const struct planes_job &job, int64_t i, int64_t *n, int64_t *p,
                                             int64_t *cell)
{
    int64_t pixels = job.planes.pixels, rest = i % (pixels * job.cells);
    *n = i / (pixels * job.cells);
    *p = job.cells_first ? rest / job.cells : rest % pixels;
    *cell = job.cells_first ? rest % job.cells : rest / pixels;
}

/* Where the float32 of channel c of a pixel is. */
static __device__ __forceinline__ int64_t float_at(const struct convoy_nhwc_planes &planes, int64_t n,
                                                   int64_t p, int64_t c)
{
    return n * planes.image + (planes.channels_last ? p * planes.c + c : c * planes.pixels + p);
}

__global__ void __launch_bounds__(NHWC_THREADS)
    nhwc_from_planes(struct planes_job job, const float *x, convoy_fp16 *y, struct convoy_overflow overflow)
{
    const struct convoy_nhwc_planes &planes = job.planes;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t i = convoy_first(); i < planes.n * planes.pixels * job.cells; i += convoy_step()) {
        int64_t n, p, cell;
        float values[NHWC_CELL];
        piece(job, i, &n, &p, &cell);
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++) {
            int64_t c = cell * NHWC_CELL + e;
            values[e] = c < planes.c ? x[float_at(planes, n, p, c)] : 0.0f;
        }
        nhwc_store_new(y + (n * planes.pixels + p) * planes.pixel + cell * NHWC_CELL, values, overflow, n);
    }
}

__global__ void __launch_bounds__(NHWC_THREADS)
    nhwc_to_planes(struct planes_job job, const convoy_fp16 *x, float *y)
{
    const struct convoy_nhwc_planes &planes = job.planes;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t i = convoy_first(); i < planes.n * planes.pixels * job.cells; i += convoy_step()) {
        int64_t n, p, cell;
        float values[NHWC_CELL];
        piece(job, i, &n, &p, &cell);
        nhwc_load(x + (n * planes.pixels + p) * planes.pixel + cell * NHWC_CELL, values);
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++) {
            int64_t c = cell * NHWC_CELL + e;
            if (c < planes.c)
                y[float_at(planes, n, p, c)] = values[e];
        }
    }
}

static struct planes_job planes_job(const struct convoy_nhwc_planes *planes)
{
    struct planes_job job = {*planes, convoy_div_up(planes->c, NHWC_CELL),
                             planes->channels_last || planes->pixels < 8};
    if (job.planes.image == 0)
        job.planes.image = planes->c * planes->pixels;
    return job;
}

cudaError_t convoy_launch_nhwc_from_planes(const struct convoy_nhwc_planes *planes, const float *x,
                                           convoy_fp16 *y, struct convoy_overflow overflow,
                                           cudaStream_t stream)
{
    struct planes_job job = planes_job(planes);
    return convoy_launch_early(nhwc_from_planes,
                               convoy_grid(planes->n * planes->pixels * job.cells, NHWC_THREADS),
                               NHWC_THREADS, 0, stream, job, x, y, overflow);
}

cudaError_t convoy_launch_nhwc_to_planes(const struct convoy_nhwc_planes *planes, const convoy_fp16 *x,
                                         float *y, cudaStream_t stream)
{
    struct planes_job job = planes_job(planes);
    return convoy_launch_early(nhwc_to_planes,
                               convoy_grid(planes->n * planes->pixels * job.cells, NHWC_THREADS),
                               NHWC_THREADS, 0, stream, job, x, y);
}
