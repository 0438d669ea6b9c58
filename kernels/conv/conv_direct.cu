/* direct: one thread per output, everything from global memory.
 *
 * Idea: the serial loop nest of a convolution with its outer four loops (image, map, row, column) spread over
 * threads. It is milestone 3 of the reports, and the fallback here: any stride, padding, dilation, groups,
 * activation, pooling window, residual and 8-bit images. Nothing is reused but by the caches, so the load
 * unit, two loads for one multiply-add, holds it to a quarter of the arithmetic peak or less.
 *
 * Floor at 10,000 images (51 TFLOP/s, 4.2 TB/s): ece408's layer 1: 51.2 GFLOP and 2.3 GB, 1.0 ms; layer 2:
 * 205.7 GFLOP and 1.2 GB, 4.0 ms. Predicted: 8 ms and 30 ms, at 7 TFLOP/s. Measured: 40.2 ms and
 * 137.9 ms on an H200, five times what was predicted: why was not looked into yet. */
#include "kernels/conv/conv_common.h"
#include "kernels/conv/conv_epilogue.cuh"

#define THREADS 256

/* The convolution's sum at output (n, k, oy, ox). */
static __device__ float direct_sum(const struct convoy_conv_shape &shape,
                                   const struct convoy_conv_operands &operands, int n, int k, int oy, int ox)
{
    int group_c = shape.c / shape.groups;
    int first_c = k / (shape.k / shape.groups) * group_c;
    const float *weight = operands.weights + (int64_t)k * group_c * shape.r * shape.s;
    int y0 = oy * shape.stride[0] - shape.pad[0], x0 = ox * shape.stride[1] - shape.pad[1];
    float sum = 0.0f;
    for (int c = 0; c < group_c; c++) {
        for (int r = 0; r < shape.r; r++) {
            for (int s = 0; s < shape.s; s++, weight++) {
                sum = fmaf(convoy_padded_input(shape, operands.x, n, first_c + c, y0 + r * shape.dilation[0],
                                               x0 + s * shape.dilation[1]),
                           *weight, sum);
            }
        }
    }
    return sum;
}

static __global__ void __launch_bounds__(THREADS, 4)
    direct_kernel(CONVOY_PARAMETER(struct convoy_conv_shape) shape,
                  CONVOY_PARAMETER(struct convoy_conv_operands) operands)
{
    int ph = shape.oh / shape.pool, pw = shape.ow / shape.pool;
    int64_t index = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (index >= (int64_t)shape.n * shape.k * ph * pw)
        return;
    int64_t plane = index / (ph * pw);
    int pixel = (int)(index - plane * (ph * pw));
    int n = (int)(plane / shape.k), k = (int)(plane - (int64_t)n * shape.k);
    int py = pixel / pw, px = pixel - py * pw;
    float best = 0.0f;
    for (int dy = 0; dy < shape.pool; dy++) {
        for (int dx = 0; dx < shape.pool; dx++) {
            float sum = direct_sum(shape, operands, n, k, py * shape.pool + dy, px * shape.pool + dx);
            float value = convoy_finish(shape, operands, sum, k, index);
            best = dy + dx == 0 ? value : convoy_larger(best, value);
        }
    }
    operands.y[index] = best;
}

static int64_t direct_blocks(const struct convoy_conv_shape *s)
{
    return convoy_div_up((int64_t)s->n * s->k * (s->oh / s->pool) * (s->ow / s->pool), THREADS);
}

static bool direct_takes(const struct convoy_conv_shape *)
{
    return true;
}

static float direct_estimate(const struct convoy_conv_shape *s)
{
    return convoy_conv_estimate(s, (double)direct_blocks(s), 0.11, 1.5);
}

static cudaError_t direct_launch(const struct convoy_conv_shape *shape,
                                 const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    return convoy_launch(direct_kernel, dim3((unsigned)direct_blocks(shape)), dim3(THREADS), 0, stream,
                         *shape, *operands);
}

const struct convoy_conv_kernel convoy_conv_direct = {
    "direct",          CONVOY_COMPUTE_FP32, direct_takes,  direct_estimate, convoy_plain_floats,
    convoy_plain_pack, convoy_no_scratch,   direct_launch, false,
};
