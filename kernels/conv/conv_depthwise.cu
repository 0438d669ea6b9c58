/* depthwise: each output channel has one input channel (groups == c).
 *
 * Idea (the mobile networks' convolution; not in the reports): with r s multiply-adds for a float read and a
 * float written there is nothing to reuse between channels, and memory alone bounds it. A thread computes
 * ROWS outputs below each other and reads each input of its column of windows once, from the first-level
 * cache, which holds what its neighbours read too; lanes lie along rows. A window that lies inside the image
 * is loaded without tests.
 *
 * Takes r = s = 3, 5 or 7, stride 1 or 2, dilation 1, k a multiple of c, activation and residual; floats; no
 * pooling. Floor: the bytes of input and output at 4.2 TB/s: 64 images x 96 x 112 x 112, 3x3: 617 MB, 0.15 ms
 * (1.4 GFLOP: nothing). Predicted: 0.20 ms, 75 % of it. Not timed on such a shape yet. Of ece408's layers
 * it takes the first, which has one channel but 12 maps that each read it again: 9.69 ms for 10,000 images on
 * an H200, where per_layer takes 2.21. */
#include "kernels/conv/conv_common.h"
#include "kernels/conv/conv_epilogue.cuh"

#define THREADS 256
#define ROWS    4

template <int FILTER, int STRIDE>
static __global__ void __launch_bounds__(THREADS, 2)
    depthwise_kernel(CONVOY_PARAMETER(struct convoy_conv_shape) shape,
                     CONVOY_PARAMETER(struct convoy_conv_operands) operands, const float *__restrict__ input,
                     int row_groups)
{
    constexpr int INPUTS = (ROWS - 1) * STRIDE + FILTER;
    /* Tasks are columns of ROWS outputs: x, then group of rows, then map, then image. */
    unsigned task = blockIdx.x * THREADS + threadIdx.x;
    unsigned column = task / shape.ow, plane = column / row_groups;
    int ox = (int)(task - column * shape.ow), oy = (int)(column - plane * row_groups) * ROWS;
    int n = (int)(plane / shape.k), k = (int)(plane - (unsigned)n * shape.k);
    if (n >= shape.n)
        return;
    int c = k / (shape.k / shape.c);
    int y0 = oy * STRIDE - shape.pad[0], x0 = ox * STRIDE - shape.pad[1];
    const float *image = input + n * (operands.x.image_bytes / (int64_t)sizeof(float)) +
                         ((int64_t)c * shape.h + y0) * shape.w + x0;
    const float *weights = operands.weights + (int64_t)k * FILTER * FILTER;
    bool inside = y0 >= 0 && x0 >= 0 && y0 + INPUTS <= shape.h && x0 + FILTER <= shape.w;

    float sum[ROWS] = {};
#pragma unroll
    for (int s = 0; s < FILTER; s++) {
        float value[INPUTS];
#pragma unroll
        for (int i = 0; i < INPUTS; i++) {
            bool tap =
                inside || ((unsigned)(y0 + i) < (unsigned)shape.h && (unsigned)(x0 + s) < (unsigned)shape.w);
            value[i] = tap ? __ldg(image + ((int64_t)i * shape.w + s)) : 0.0f;
        }
#pragma unroll
        for (int r = 0; r < FILTER; r++) {
            float weight = __ldg(weights + r * FILTER + s);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                sum[i] = fmaf(value[i * STRIDE + r], weight, sum[i]);
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        if (oy + i < shape.oh) {
            int64_t index = convoy_output_index(shape, n, k, oy + i, ox);
            operands.y[index] = convoy_finish(shape, operands, sum[i], k, index);
        }
    }
}

static int64_t depthwise_tasks(const struct convoy_conv_shape *s)
{
    return (int64_t)s->n * s->k * convoy_div_up(s->oh, ROWS) * s->ow;
}

static bool depthwise_takes(const struct convoy_conv_shape *s)
{
    return s->groups == s->c && !s->u8 && s->pool == 1 && depthwise_tasks(s) <= INT32_MAX - THREADS &&
           ((convoy_is_square(s, 3, 1) || convoy_is_square(s, 3, 2)) ||
            (convoy_is_square(s, 5, 1) || convoy_is_square(s, 5, 2)) ||
            (convoy_is_square(s, 7, 1) || convoy_is_square(s, 7, 2)));
}

static float depthwise_estimate(const struct convoy_conv_shape *s)
{
    return convoy_conv_estimate(s, (double)convoy_div_up(depthwise_tasks(s), THREADS), 0.25, 1.3);
}

template <int FILTER, int STRIDE>
static cudaError_t launch(const struct convoy_conv_shape *shape, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    dim3 grid((unsigned)convoy_div_up(depthwise_tasks(shape), THREADS));
    return convoy_launch(depthwise_kernel<FILTER, STRIDE>, grid, dim3(THREADS), 0, stream, *shape, *operands,
                         static_cast<const float *>(operands->x.data), (int)convoy_div_up(shape->oh, ROWS));
}

static cudaError_t depthwise_launch(const struct convoy_conv_shape *shape,
                                    const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    switch (shape->r * 10 + shape->stride[0]) {
    case 31:
        return launch<3, 1>(shape, operands, stream);
    case 32:
        return launch<3, 2>(shape, operands, stream);
    case 51:
        return launch<5, 1>(shape, operands, stream);
    case 52:
        return launch<5, 2>(shape, operands, stream);
    case 71:
        return launch<7, 1>(shape, operands, stream);
    case 72:
        return launch<7, 2>(shape, operands, stream);
    default:
        return cudaErrorInvalidValue;
    }
}

const struct convoy_conv_kernel convoy_conv_depthwise = {
    "depthwise",        CONVOY_COMPUTE_FP32, depthwise_takes,
    depthwise_estimate, convoy_plain_floats, convoy_plain_pack,
    convoy_no_scratch,  depthwise_launch,    false,
};
