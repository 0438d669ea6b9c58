/* nhwc_depthwise:ROWSxCOLUMNS: a filter for each channel, in 16 bits, channels last.
 *
 * A thread makes ROWS x COLUMNS neighbouring outputs of 8 channels. It reads each input of a row once, 16
 * bytes, and adds it to the outputs that it belongs to; what threads share meets in the L1 cache. Threads
 * that follow each other have cells that do. All reads of a row are on their way before the first one is
 * used, and what lies outside of the image is read as zeros, without a branch. Sums are fp32, weights were
 * rounded to fp16. Floor: inputs and outputs once through device memory. A single output for each thread is
 * for one image or a few, where the chip has threads to spare.
 * Measured on an H200, 256 x 1,152 x 7 x 7: 3 x 3 in 47 us, 5 x 5 in 86; floor 14. What holds it was not
 * found. */
#include "kernels/device/conv_shape.h"
#include "kernels/nhwc/nhwc_cells.cuh"
#include "kernels/nhwc/nhwc_common.h"

#define THREADS 128 /* that may take 160 registers each and still be 12 warps on a multiprocessor */

struct depthwise_job {
    struct convoy_conv_shape s;
    const convoy_fp16 *x, *weights, *residual;
    const float *bias;
    convoy_fp16 *y;
    int cells, across, down; /* cells of a pixel; pieces of a row and of a column of outputs */
    struct convoy_overflow overflow;
};

/* The inputs of one row, zeros outside of the image. */
template <int INPUTS>
static __device__ __forceinline__ void load_row(const struct depthwise_job &job, const convoy_fp16 *image,
                                                int y, int x, uint4 (&cells)[INPUTS])
{
    const struct convoy_conv_shape &s = job.s;
    bool inside = (unsigned)y < (unsigned)s.h;
    const convoy_fp16 *row = image + (int64_t)y * s.nhwc.row;
#pragma unroll
    for (int i = 0; i < INPUTS; i++) {
        cells[i] = make_uint4(0, 0, 0, 0);
        if (inside && (unsigned)(x + i) < (unsigned)s.w)
            cells[i] = __ldg(reinterpret_cast<const uint4 *>(row + (int64_t)(x + i) * s.nhwc.pixel));
    }
}

/* Adds a row of inputs, weighted with a row of the filter, to a row of outputs. */
template <int FILTER, int STRIDE, int COLUMNS, int INPUTS>
static __device__ __forceinline__ void add_row(const uint4 *weights, int cells, const uint4 (&inputs)[INPUTS],
                                               float (&sum)[COLUMNS][NHWC_CELL])
{
    float factor[FILTER][NHWC_CELL];
#pragma unroll
    for (int tap = 0; tap < FILTER; tap++)
        nhwc_unpack(__ldg(weights + tap * cells), factor[tap]);
#pragma unroll
    for (int i = 0; i < INPUTS; i++) {
        float input[NHWC_CELL];
        nhwc_unpack(inputs[i], input);
#pragma unroll
        for (int o = 0; o < COLUMNS; o++) {
            if (i < o * STRIDE || i >= o * STRIDE + FILTER)
                continue;
            const int tap = i - o * STRIDE;
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++)
                sum[o][e] = fmaf(input[e], factor[tap][e], sum[o][e]);
        }
    }
}

static __device__ __forceinline__ void finish(const struct depthwise_job &job, int n, int64_t output, int c,
                                              float (&sum)[NHWC_CELL])
{
    const struct convoy_conv_shape &s = job.s;
    float added[NHWC_CELL] = {}, bias[NHWC_CELL];
    if (s.residual)
        nhwc_load(job.residual + output * s.nhwc.residual_pixel + c, added);
    nhwc_load_vector(job.bias, c, s.k, 0.0f, bias);
#pragma unroll
    for (int e = 0; e < NHWC_CELL; e++)
        sum[e] += added[e] + bias[e];
    nhwc_activate(s.act, sum);
    nhwc_store_new(job.y + output * s.nhwc.y_pixel + c, sum, job.overflow, n);
}

template <int FILTER, int STRIDE, int ROWS, int COLUMNS>
__global__ void __launch_bounds__(THREADS) nhwc_depthwise(CONVOY_PARAMETER(struct depthwise_job) job)
{
    const struct convoy_conv_shape &s = job.s;
    constexpr int INPUT_ROWS = (ROWS - 1) * STRIDE + FILTER, INPUTS = (COLUMNS - 1) * STRIDE + FILTER;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    int64_t count = (int64_t)s.n * job.down * job.across * job.cells;
    for (int64_t i = convoy_first(); i < count; i += convoy_step()) {
        int64_t piece = i / job.cells, line = piece / job.across;
        int cell = (int)(i - piece * job.cells), n = (int)(line / job.down), c = cell * NHWC_CELL;
        int y = (int)(line - (int64_t)n * job.down) * ROWS, x = (int)(piece - line * job.across) * COLUMNS;
        const convoy_fp16 *image = job.x + n * s.nhwc.image + c;
        float sum[ROWS][COLUMNS][NHWC_CELL] = {};
#pragma unroll
        for (int j = 0; j < INPUT_ROWS; j++) {
            uint4 inputs[INPUTS];
            load_row(job, image, y * STRIDE - s.pad[0] + j, x * STRIDE - s.pad[1], inputs);
#pragma unroll
            for (int o = 0; o < ROWS; o++) {
                if (j < o * STRIDE || j >= o * STRIDE + FILTER)
                    continue;
                const uint4 *weights = reinterpret_cast<const uint4 *>(job.weights) +
                                       (j - o * STRIDE) * FILTER * job.cells + cell;
                add_row<FILTER, STRIDE>(weights, job.cells, inputs, sum[o]);
            }
        }
#pragma unroll
        for (int o = 0; o < ROWS; o++)
#pragma unroll
            for (int p = 0; p < COLUMNS; p++)
                if (y + o < s.oh && x + p < s.ow)
                    finish(job, n, ((int64_t)n * s.oh + y + o) * s.ow + x + p, c, sum[o][p]);
    }
}

/* So many outputs of a thread do not fit into its registers but with the smallest filter. */
template <int ROWS, int COLUMNS> static bool takes(const struct convoy_conv_shape *s)
{
    return (ROWS * COLUMNS < 8 || convoy_is_square(s, 3, 1)) && s->nhwc.on && !s->nhwc.images &&
           s->nhwc.input == CONVOY_NHWC_AS_IS && s->nhwc.window == 0 && s->groups == s->c && s->k == s->c &&
           s->pool == 1 && s->compute_type >= CONVOY_COMPUTE_FP16 && convoy_has_capability(8) &&
           (convoy_is_square(s, 3, 1) || convoy_is_square(s, 3, 2) || convoy_is_square(s, 5, 1) ||
            convoy_is_square(s, 5, 2) || convoy_is_square(s, 7, 1));
}

/* Inputs that a thread reads for each of its outputs cost, and waves of threads that do not fill the chip. */
template <int ROWS, int COLUMNS> static float estimate(const struct convoy_conv_shape *s)
{
    double bytes = 2.0 * s->n * s->c * ((double)s->h * s->w + (double)s->oh * s->ow * (s->residual ? 2 : 1));
    double reads = (double)((ROWS - 1) * s->stride[0] + s->r) * ((COLUMNS - 1) * s->stride[1] + s->s);
    double threads = (double)s->n * s->oh * s->ow * s->c / NHWC_CELL / (ROWS * COLUMNS);
    double waves = ceil(threads / (CONVOY_ESTIMATE_SMS * 3.0 * THREADS));
    double us = waves * (1.5 + reads * 0.05); /* made up */
    double least = bytes * 1.1 / CONVOY_ESTIMATE_BYTES_PER_US;
    return (float)(us > least ? us + 0.1 * least : least + 0.1 * us) + CONVOY_ESTIMATE_LAUNCH_US;
}

static size_t packed_floats(const struct convoy_conv_shape *s)
{
    return (size_t)s->r * s->s * convoy_nhwc_channels(s->c) / 2;
}

/* Tap after tap, a pixel of channels. */
static void pack(const struct convoy_conv_shape *s, const float *weights, float *packed)
{
    convoy_fp16 *to = reinterpret_cast<convoy_fp16 *>(packed);
    int taps = s->r * s->s;
    for (int c = 0; c < s->c; c++)
        for (int tap = 0; tap < taps; tap++)
            to[tap * convoy_nhwc_channels(s->c) + c] = convoy_half(weights[c * taps + tap]);
}

template <int FILTER, int STRIDE, int ROWS, int COLUMNS>
static cudaError_t launch_as(const struct depthwise_job *job, cudaStream_t stream)
{
    int64_t count = (int64_t)job->s.n * job->down * job->across * job->cells;
    return convoy_launch_early(nhwc_depthwise<FILTER, STRIDE, ROWS, COLUMNS>, convoy_grid(count, THREADS),
                               THREADS, 0, stream, *job);
}

template <int ROWS, int COLUMNS>
static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    struct depthwise_job job = {*s,
                                static_cast<const convoy_fp16 *>(operands->x.data),
                                reinterpret_cast<const convoy_fp16 *>(operands->weights),
                                reinterpret_cast<const convoy_fp16 *>(operands->residual),
                                s->bias ? operands->bias : nullptr,
                                reinterpret_cast<convoy_fp16 *>(operands->y),
                                (int)(convoy_nhwc_channels(s->c) / NHWC_CELL),
                                (int)convoy_div_up(s->ow, COLUMNS),
                                (int)convoy_div_up(s->oh, ROWS),
                                operands->overflow};
    if constexpr (ROWS * COLUMNS == 8)
        return launch_as<3, 1, ROWS, COLUMNS>(&job, stream);
    else
        switch (s->r * 10 + s->stride[0]) {
        case 31:
            return launch_as<3, 1, ROWS, COLUMNS>(&job, stream);
        case 32:
            return launch_as<3, 2, ROWS, COLUMNS>(&job, stream);
        case 51:
            return launch_as<5, 1, ROWS, COLUMNS>(&job, stream);
        case 52:
            return launch_as<5, 2, ROWS, COLUMNS>(&job, stream);
        case 71:
            return launch_as<7, 1, ROWS, COLUMNS>(&job, stream);
        default:
            return cudaErrorInvalidValue;
        }
}

#define KERNEL(ROWS, COLUMNS)                                                                                \
    {"nhwc_depthwise:" #ROWS "x" #COLUMNS,                                                                   \
     CONVOY_COMPUTE_FP16,                                                                                    \
     takes<ROWS, COLUMNS>,                                                                                   \
     estimate<ROWS, COLUMNS>,                                                                                \
     packed_floats,                                                                                          \
     pack,                                                                                                   \
     convoy_no_scratch,                                                                                      \
     launch<ROWS, COLUMNS>,                                                                                  \
     true},

const struct convoy_conv_kernel convoy_conv_nhwc_depthwise[CONVOY_NHWC_DEPTHWISE_KERNELS] = {
    KERNEL(1, 1) KERNEL(1, 2) KERNEL(1, 4) KERNEL(2, 2) KERNEL(2, 4)};
