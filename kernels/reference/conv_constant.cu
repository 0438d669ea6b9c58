/* constant: the weights in constant memory.
 *
 * Idea (optimization 2 of the reports): all threads of a warp read the same weight at the same time, which is
 * what the constant cache is made for; a thread then loads one word, its input, for a multiply-add. The
 * reports found it slower than plain (on a V100 86 ms for 29 ms in layer 1): their index order missed the 2
 * KiB cache closest to the units.
 *
 * Kept for comparison alone. The bank is one per module, 64 KiB, and every launch copies the weights into it
 * on its own stream: two streams would overwrite each other's weights. Takes what has at most 16,384 weights;
 * any stride, padding, dilation, groups, 8-bit images; no pooling. Floor at 10,000 images: ece408's
 * layers 1.0 ms and 4.0 ms (51 TFLOP/s). Predicted: 5 ms and 20 ms, if the weights stay in the cache (layer 2
 * has 28 KiB of them, so perhaps not). Measured: 42.4 ms and 158.1 ms on an H200: no
 * faster than direct. */
#include "kernels/conv/conv_common.h"
#include "kernels/conv/conv_epilogue.cuh"
#include "kernels/reference/reference.h"

#define THREADS     256
#define BANK_FLOATS 16384

static __constant__ float constant_bank[BANK_FLOATS];

/* Blocks are whole in one output map, so that k is the same for all threads of a warp. */
static __global__ void __launch_bounds__(THREADS, 4)
    constant_kernel(CONVOY_PARAMETER(struct convoy_conv_shape) shape,
                    CONVOY_PARAMETER(struct convoy_conv_operands) operands, int plane_blocks)
{
    int plane = blockIdx.x / plane_blocks;
    int pixel = (blockIdx.x % plane_blocks) * THREADS + threadIdx.x;
    if (pixel >= shape.oh * shape.ow)
        return;
    int n = plane / shape.k, k = plane % shape.k;
    int oy = pixel / shape.ow, ox = pixel % shape.ow;
    int group_c = shape.c / shape.groups, first_c = k / (shape.k / shape.groups) * group_c;
    int y0 = oy * shape.stride[0] - shape.pad[0], x0 = ox * shape.stride[1] - shape.pad[1];
    int weight = k * group_c * shape.r * shape.s;
    float sum = 0.0f;
    for (int c = 0; c < group_c; c++)
        for (int r = 0; r < shape.r; r++)
            for (int s = 0; s < shape.s; s++, weight++)
                sum = fmaf(convoy_padded_input(shape, operands.x, n, first_c + c, y0 + r * shape.dilation[0],
                                               x0 + s * shape.dilation[1]),
                           constant_bank[weight], sum);
    int64_t index = convoy_output_index(shape, n, k, oy, ox);
    operands.y[index] = convoy_finish(shape, operands, sum, k, index);
}

static int plane_blocks(const struct convoy_conv_shape *s)
{
    return (int)convoy_div_up((int64_t)s->oh * s->ow, THREADS);
}

static bool constant_takes(const struct convoy_conv_shape *s)
{
    return s->pool == 1 && convoy_plain_floats(s) <= BANK_FLOATS &&
           (int64_t)s->n * s->k * plane_blocks(s) <= INT32_MAX;
}

static float constant_estimate(const struct convoy_conv_shape *s)
{
    return convoy_conv_estimate(s, (double)s->n * s->k * plane_blocks(s), 0.15, 1.5);
}

static cudaError_t constant_launch(const struct convoy_conv_shape *shape,
                                   const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    cudaError_t error =
        cudaMemcpyToSymbolAsync(constant_bank, operands->weights, convoy_plain_floats(shape) * sizeof(float),
                                0, cudaMemcpyDeviceToDevice, stream);
    if (error != cudaSuccess)
        return error;
    unsigned blocks = (unsigned)(shape->n * shape->k) * (unsigned)plane_blocks(shape);
    return convoy_launch(constant_kernel, dim3(blocks), dim3(THREADS), 0, stream, *shape, *operands,
                         plane_blocks(shape));
}

const struct convoy_conv_kernel convoy_conv_constant = {
    "constant",        CONVOY_COMPUTE_FP32, constant_takes,
    constant_estimate, convoy_plain_floats, convoy_plain_pack,
    convoy_no_scratch, constant_launch,     false,
};
