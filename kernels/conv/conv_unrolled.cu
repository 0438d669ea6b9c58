/* unrolled: restrict pointers, read-only loads, unrolled loops.
 *
 * Idea (optimization 7 of the reports): direct, with the filter size known to the compiler, so that its two
 * inner loops are straight code with constant offsets, and with __restrict__ and read-only loads, so that
 * loads of the next products are issued before the present ones are used. A thread first asks whether its
 * window lies inside the image: then there is no test per tap.
 *
 * Takes r = s = 1, 3, 5 or 7, any stride, padding, dilation and groups; floats only; no pooling.
 * Floor at 10,000 images: ece408's layers 1.0 ms and 4.0 ms (51 TFLOP/s). Predicted: 4.5 ms and 17 ms: two
 * loads for a multiply-add, the weight's the same for a whole warp, at a load a clock for each
 * multiprocessor's 32 lanes. Measured: 16.9 ms and 48.7 ms on an H200. */
#include "kernels/conv/conv_common.h"
#include "kernels/conv/conv_epilogue.cuh"

#define THREADS 256

/* A block lies in one output map; the weight address is the same for all its threads. */
template <int FILTER>
static __global__ void __launch_bounds__(THREADS, 3)
    unrolled_kernel(CONVOY_PARAMETER(struct convoy_conv_shape) shape,
                    CONVOY_PARAMETER(struct convoy_conv_operands) operands, const float *__restrict__ input,
                    const float *__restrict__ weights, int plane_blocks)
{
    int plane = blockIdx.x / plane_blocks;
    int pixel = (blockIdx.x % plane_blocks) * THREADS + threadIdx.x;
    if (pixel >= shape.oh * shape.ow)
        return;
    int n = plane / shape.k, k = plane % shape.k;
    int oy = pixel / shape.ow, ox = pixel % shape.ow;
    int group_c = shape.c / shape.groups, first_c = k / (shape.k / shape.groups) * group_c;
    int y0 = oy * shape.stride[0] - shape.pad[0], x0 = ox * shape.stride[1] - shape.pad[1];
    int dy = shape.dilation[0], dx = shape.dilation[1];
    bool inside = y0 >= 0 && x0 >= 0 && y0 + (FILTER - 1) * dy < shape.h && x0 + (FILTER - 1) * dx < shape.w;
    const float *image = input + n * (operands.x.image_bytes / (int64_t)sizeof(float)) +
                         ((int64_t)first_c * shape.h + y0) * shape.w + x0;
    const float *weight = weights + (int64_t)k * group_c * FILTER * FILTER;
    float sum = 0.0f;
    for (int c = 0; c < group_c; c++) {
#pragma unroll
        for (int r = 0; r < FILTER; r++) {
#pragma unroll
            for (int s = 0; s < FILTER; s++) {
                bool tap = inside || ((unsigned)(y0 + r * dy) < (unsigned)shape.h &&
                                      (unsigned)(x0 + s * dx) < (unsigned)shape.w);
                float value = tap ? __ldg(image + (r * dy * shape.w + s * dx)) : 0.0f;
                sum = fmaf(value, __ldg(weight + r * FILTER + s), sum);
            }
        }
        image += (int64_t)shape.h * shape.w;
        weight += FILTER * FILTER;
    }
    int64_t index = convoy_output_index(shape, n, k, oy, ox);
    operands.y[index] = convoy_finish(shape, operands, sum, k, index);
}

static int plane_blocks(const struct convoy_conv_shape *s)
{
    return (int)convoy_div_up((int64_t)s->oh * s->ow, THREADS);
}

static bool unrolled_takes(const struct convoy_conv_shape *s)
{
    return s->r == s->s && (s->r == 1 || s->r == 3 || s->r == 5 || s->r == 7) && !s->u8 && s->pool == 1 &&
           (int64_t)s->n * s->k * plane_blocks(s) <= INT32_MAX;
}

static float unrolled_estimate(const struct convoy_conv_shape *s)
{
    return convoy_conv_estimate(s, (double)s->n * s->k * plane_blocks(s), 0.19, 1.5);
}

template <int FILTER>
static cudaError_t launch(const struct convoy_conv_shape *shape, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    unsigned blocks = (unsigned)(shape->n * shape->k) * (unsigned)plane_blocks(shape);
    return convoy_launch(unrolled_kernel<FILTER>, dim3(blocks), dim3(THREADS), 0, stream, *shape, *operands,
                         static_cast<const float *>(operands->x.data), operands->weights,
                         plane_blocks(shape));
}

static cudaError_t unrolled_launch(const struct convoy_conv_shape *shape,
                                   const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    switch (shape->r) {
    case 1:
        return launch<1>(shape, operands, stream);
    case 3:
        return launch<3>(shape, operands, stream);
    case 5:
        return launch<5>(shape, operands, stream);
    case 7:
        return launch<7>(shape, operands, stream);
    default:
        return cudaErrorInvalidValue;
    }
}

const struct convoy_conv_kernel convoy_conv_unrolled = {
    "unrolled",        CONVOY_COMPUTE_FP32, unrolled_takes,
    unrolled_estimate, convoy_plain_floats, convoy_plain_pack,
    convoy_no_scratch, unrolled_launch,     false,
};
