/* channel_split: input channels in parallel, their sums added with atomics.
 *
 * Idea (optimization 5 of the reports): a thread sums one input channel of one output, so there are c times
 * more threads, and adds its part to the output with an atomic. For a network with many images that
 * parallelism is not needed, and each output is read and written c times by atomics.
 *
 * Kept for comparison alone: the order of the atomics varies, so the last bits of the answers do too. Takes
 * any stride, padding, dilation, groups and 8-bit images, but no activation, pooling or residual (no
 * thread knows when a sum is finished). Floor at 10,000 images: ece408's layers 1.0 ms and 4.0 ms (51
 * TFLOP/s). Predicted: 9 ms and 37 ms: direct's time and the atomics (2.1 G of them in layer 2, at perhaps
 * one a clock for each of 96 slices of the L2 cache and 32 lanes together). Measured: 30.1 ms and 120.1 ms on
 * an H200. */
#include "kernels/conv/conv_common.h"
#include "kernels/conv/conv_epilogue.cuh"
#include "kernels/reference/reference.h"

#define THREADS 256

/* blockIdx.x counts pixels, then channels, then maps and images: neighbours in the grid share a map. */
static __global__ void __launch_bounds__(THREADS, 4)
    channel_split_kernel(CONVOY_PARAMETER(struct convoy_conv_shape) shape,
                         CONVOY_PARAMETER(struct convoy_conv_operands) operands, int plane_blocks)
{
    int group_c = shape.c / shape.groups;
    int64_t block = blockIdx.x;
    int pixel = (int)(block % plane_blocks) * THREADS + threadIdx.x;
    block /= plane_blocks;
    int c = (int)(block % group_c);
    block /= group_c;
    int n = (int)(block / shape.k), k = (int)(block % shape.k);
    if (pixel >= shape.oh * shape.ow)
        return;
    int oy = pixel / shape.ow, ox = pixel % shape.ow;
    int y0 = oy * shape.stride[0] - shape.pad[0], x0 = ox * shape.stride[1] - shape.pad[1];
    int first_c = k / (shape.k / shape.groups) * group_c;
    const float *weight = operands.weights + ((int64_t)k * group_c + c) * shape.r * shape.s;
    float sum = shape.bias && c == 0 ? operands.bias[k] : 0.0f;
    for (int r = 0; r < shape.r; r++)
        for (int s = 0; s < shape.s; s++, weight++)
            sum = fmaf(convoy_padded_input(shape, operands.x, n, first_c + c, y0 + r * shape.dilation[0],
                                           x0 + s * shape.dilation[1]),
                       *weight, sum);
    atomicAdd(operands.y + convoy_output_index(shape, n, k, oy, ox), sum);
}

static int plane_blocks(const struct convoy_conv_shape *s)
{
    return (int)convoy_div_up((int64_t)s->oh * s->ow, THREADS);
}

static int64_t channel_split_blocks(const struct convoy_conv_shape *s)
{
    return (int64_t)plane_blocks(s) * (s->c / s->groups) * s->k * s->n;
}

static bool channel_split_takes(const struct convoy_conv_shape *s)
{
    return s->pool == 1 && !s->residual && s->act.kind == CONVOY_UNARY_NONE &&
           channel_split_blocks(s) <= INT32_MAX;
}

static float channel_split_estimate(const struct convoy_conv_shape *s)
{
    return convoy_conv_estimate(s, (double)channel_split_blocks(s), 0.09, 2.0 + s->c / s->groups);
}

static cudaError_t channel_split_launch(const struct convoy_conv_shape *shape,
                                        const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    size_t bytes = (size_t)shape->n * shape->k * shape->oh * shape->ow * sizeof(float);
    cudaError_t error = cudaMemsetAsync(operands->y, 0, bytes, stream);
    if (error != cudaSuccess)
        return error;
    return convoy_launch(channel_split_kernel, dim3((unsigned)channel_split_blocks(shape)), dim3(THREADS), 0,
                         stream, *shape, *operands, plane_blocks(shape));
}

const struct convoy_conv_kernel convoy_conv_channel_split = {
    "channel_split",        CONVOY_COMPUTE_FP32,  channel_split_takes,
    channel_split_estimate, convoy_plain_floats,  convoy_plain_pack,
    convoy_no_scratch,      channel_split_launch, false,
};
