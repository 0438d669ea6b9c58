/* What is computed number by number in 16 bits, channels last: sums, products, scales and activations. A
 * thread takes 16 bytes at a time. Floor: each tensor once through device memory. Measured on an H200: a gate
 * of 256 x 32 x 112 x 112 126 us (floor 98), a scale of 256 x 64 x 56 x 56 in a pixel of 256 86 us (floor
 * 49). */
#include "kernels/nhwc/nhwc_cells.cuh"

static __device__ __forceinline__ float apply(enum convoy_binary_operator op, float a, float b)
{
    switch (op) {
    case CONVOY_BINARY_ADD:
        return a + b;
    case CONVOY_BINARY_SUB:
        return a - b;
    case CONVOY_BINARY_MUL:
        return a * b;
    case CONVOY_BINARY_MAX:
        return convoy_larger(a, b);
    case CONVOY_BINARY_MIN:
        return -convoy_larger(-a, -b);
    default:
        return a / b;
    }
}

__global__ void __launch_bounds__(NHWC_THREADS)
    nhwc_binary(struct convoy_nhwc_binary job, const convoy_fp16 *a, const convoy_fp16 *b, convoy_fp16 *y,
                struct convoy_overflow overflow)
{
    int64_t cells = (job.c + NHWC_CELL - 1) / NHWC_CELL;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t i = convoy_first(); i < job.n * job.pixels * cells; i += convoy_step()) {
        int64_t p = i / cells, c = (i - p * cells) * NHWC_CELL;
        int64_t n = p / job.pixels;
        int64_t other = job.b == CONVOY_NHWC_SAME ? p : job.b == CONVOY_NHWC_PIXEL ? 0 : n;
        float left[NHWC_CELL], right[NHWC_CELL];
        nhwc_load(a + p * job.a_pixel + c, left);
        nhwc_load(b + other * job.b_pixel + c, right);
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++) /* channels that fill a pixel up stay finite: 0 / 0 would not */
            left[e] = c + e < job.c ? apply(job.op, left[e], right[e]) : 0.0f;
        nhwc_activate(job.act, left);
        nhwc_store_new(y + p * job.y_pixel + c, left, overflow, n);
    }
}

cudaError_t convoy_launch_nhwc_binary(const struct convoy_nhwc_binary *binary, const convoy_fp16 *a,
                                      const convoy_fp16 *b, convoy_fp16 *y, struct convoy_overflow overflow,
                                      cudaStream_t stream)
{
    int64_t cells = convoy_div_up(binary->c, NHWC_CELL) * binary->n * binary->pixels;
    return convoy_launch_early(nhwc_binary, convoy_grid(cells, NHWC_THREADS), NHWC_THREADS, 0, stream,
                               *binary, a, b, y, overflow);
}

struct scale_job {
    int64_t n, pixels, c, cells, x_pixel, y_pixel;
    struct convoy_unary act;
    struct convoy_overflow overflow;
};

__global__ void __launch_bounds__(NHWC_THREADS)
    nhwc_scale_shift(struct scale_job job, const convoy_fp16 *x, const float *scale, const float *shift,
                     convoy_fp16 *y)
{
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t i = convoy_first(); i < job.n * job.pixels * job.cells; i += convoy_step()) {
        int64_t p = i / job.cells, c = (i - p * job.cells) * NHWC_CELL;
        float values[NHWC_CELL];
        nhwc_load(x + p * job.x_pixel + c, values);
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++)
            values[e] = c + e < job.c ? fmaf(values[e], scale != nullptr ? __ldg(scale + c + e) : 1.0f,
                                             shift != nullptr ? __ldg(shift + c + e) : 0.0f)
                                      : 0.0f;
        if (job.act.kind < CONVOY_UNARY_NHWC_KINDS) {
            nhwc_activate(job.act, values);
        } else {
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++) /* channels that fill a pixel up stay finite */
                values[e] = c + e < job.c ? convoy_apply_any_unary(job.act, values[e]) : 0.0f;
        }
        nhwc_store_new(y + p * job.y_pixel + c, values, job.overflow, p / job.pixels);
    }
}

cudaError_t convoy_launch_nhwc_scale_shift(int64_t n, int64_t pixels, int64_t c, struct convoy_unary act,
                                           const convoy_fp16 *x, int64_t x_pixel, const float *scale,
                                           const float *shift, convoy_fp16 *y, int64_t y_pixel,
                                           struct convoy_overflow overflow, cudaStream_t stream)
{
    struct scale_job job = {n, pixels, c, convoy_div_up(c, NHWC_CELL), x_pixel, y_pixel, act, overflow};
    return convoy_launch_early(nhwc_scale_shift, convoy_grid(n * pixels * job.cells, NHWC_THREADS),
                               NHWC_THREADS, 0, stream, job, x, scale, shift, y);
}
