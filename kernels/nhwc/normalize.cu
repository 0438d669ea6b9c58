/* Layer and RMS normalisation of tensors in 16 bits, channels last: along the channels of each pixel.
 *
 * LANES neighbouring threads take a pixel and keep its numbers in registers, CELLS times 8 each, so that it
 * is read once. As in kernels/layers/normalize.cu numbers are differences to the first one, and the variance
 * is found from the differences to the mean. Sums are fp32, merged by shuffles in a fixed order. Floor: 4
 * bytes an element. */
#include "kernels/nhwc/nhwc_cells.cuh"

struct normalize_job {
    struct convoy_nhwc_normalize shape;
    const float *scale, *shift;
    struct convoy_overflow overflow;
};

template <int LANES> __device__ static __forceinline__ float sum_of_pixel(float v)
{
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

template <int LANES, int CELLS>
__global__ void __launch_bounds__(NHWC_THREADS)
    nhwc_normalize(CONVOY_PARAMETER struct normalize_job job, const convoy_fp16 *x, convoy_fp16 *y)
{
    const struct convoy_nhwc_normalize &shape = job.shape;
    int lane = (int)threadIdx.x % LANES, c = (int)shape.c;
    int64_t pixels = shape.n * shape.pixels, step = convoy_step() / LANES;
    /* Every lane of a warp takes part in the shuffles: those beyond the last pixel compute it once more. */
    int64_t turns = (pixels + step - 1) / step;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t turn = 0, at = convoy_first() / LANES; turn < turns; turn++, at += step) {
        int64_t p = at < pixels ? at : pixels - 1;
        const convoy_fp16 *from = x + p * shape.x_pixel;
        float pivot = shape.rms ? 0.0f : convoy_from_half(from[0]);
        float values[CELLS][NHWC_CELL], sum = 0, squares = 0;
#pragma unroll
        for (int k = 0; k < CELLS; k++) {
            int first = (k * LANES + lane) * NHWC_CELL;
            if (first < c)
                nhwc_load(from + first, values[k]);
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++) {
                values[k][e] = first + e < c ? values[k][e] - pivot : 0.0f;
                sum += values[k][e];
            }
        }
        float mean = shape.rms ? 0.0f : sum_of_pixel<LANES>(sum) / (float)c;
#pragma unroll
        for (int k = 0; k < CELLS; k++)
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++)
                if ((k * LANES + lane) * NHWC_CELL + e < c) {
                    values[k][e] -= mean;
                    squares += values[k][e] * values[k][e];
                }
        float factor = 1.0f / sqrtf(sum_of_pixel<LANES>(squares) / (float)c + shape.epsilon);
#pragma unroll
        for (int k = 0; k < CELLS; k++) {
            int first = (k * LANES + lane) * NHWC_CELL;
            if (first >= c || at >= pixels)
                continue;
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++)
                if (first + e < c)
                    values[k][e] = fmaf(values[k][e] * factor,
                                        job.scale != nullptr ? __ldg(job.scale + first + e) : 1.0f,
                                        job.shift != nullptr ? __ldg(job.shift + first + e) : 0.0f);
            nhwc_store_new(y + p * shape.y_pixel + first, values[k], job.overflow, p / shape.pixels);
        }
    }
}

template <int LANES, int CELLS>
static cudaError_t launch(const struct normalize_job &job, const convoy_fp16 *x, convoy_fp16 *y,
                          cudaStream_t stream)
{
    return convoy_launch_early(nhwc_normalize<LANES, CELLS>,
                               convoy_grid(job.shape.n * job.shape.pixels, NHWC_THREADS / LANES),
                               NHWC_THREADS, 0, stream, job, x, y);
}

cudaError_t convoy_launch_nhwc_normalize(const struct convoy_nhwc_normalize *shape, const convoy_fp16 *x,
                                         const float *scale, const float *shift, convoy_fp16 *y,
                                         struct convoy_overflow overflow, cudaStream_t stream)
{
    const struct normalize_job job = {*shape, scale, shift, overflow};
    int64_t cells = convoy_div_up(shape->c, NHWC_CELL);
    if (cells <= 16)
        return launch<8, 2>(job, x, y, stream);
    if (cells <= 32)
        return launch<16, 2>(job, x, y, stream);
    if (cells <= 64)
        return launch<16, 4>(job, x, y, stream);
    if (cells <= 128)
        return launch<32, 4>(job, x, y, stream);
    return cells <= CONVOY_NHWC_NORMALIZE_CHANNELS / NHWC_CELL ? launch<32, 8>(job, x, y, stream)
                                                               : cudaErrorInvalidValue;
}
