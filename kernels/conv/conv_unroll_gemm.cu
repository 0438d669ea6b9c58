/* unroll_gemm: the image unrolled into global memory, then a tiled matrix product.
 *
 * Idea (optimization 3 of the reports; im2col): every output pixel's window becomes a column of a matrix X of
 * (c r s) x pixels in scratch memory, and y = W X is a plain product of matrices, tiled through shared
 * memory. Images go through in chunks, so that X stays below 256 MiB. X costs r s times the input's bytes,
 * once written and, from the cache or not, read again once per 64 maps: that traffic is what fused_gemm then
 * saves.
 *
 * Takes any stride, dilation, padding and groups, 8-bit images, activation and residual; no pooling; images
 * whose unrolled form alone is larger than 256 MiB are not taken. Floor at 10,000 images: ece408's layers 1.0
 * ms and 4.0 ms (51 TFLOP/s); with X written and read at 4.2 TB/s (8.5 and 17.2 GB, twice) 4.0 ms and 8.2 ms.
 * Predicted: 9 ms and 21 ms: that traffic, the arithmetic of unrolling, and a product of 4 x 4 outputs a
 * thread at a third of the peak, 12 and 24 of 64 maps used. Measured: 31.8 ms and 54.8 ms on an H200. */
#include "kernels/conv/conv_common.h"
#include "kernels/conv/conv_epilogue.cuh"

#define UNROLL_THREADS 256
#ifndef CONVOY_UNROLL_BYTES /* smaller in emulation, so that small shapes take several chunks too */
#define CONVOY_UNROLL_BYTES (256ll << 20)
#endif
#define TILE 64 /* maps and pixels of a block of the product */
#define STEP 16 /* of the reduction at a time */

/* Elements (row, pixel) of X for images first_n .. + images: row is (channel, r, s) over all channels. */
static __global__ void __launch_bounds__(UNROLL_THREADS)
    unroll_kernel(CONVOY_PARAMETER(struct convoy_conv_shape) shape,
                  CONVOY_PARAMETER(struct convoy_conv_operands) operands, int first_n, int pixels,
                  int pixel_blocks)
{
    int row = blockIdx.x / pixel_blocks;
    int pixel = blockIdx.x % pixel_blocks * UNROLL_THREADS + threadIdx.x;
    if (pixel >= pixels)
        return;
    int s = row % shape.s, r = row / shape.s % shape.r, c = row / shape.s / shape.r;
    int plane = shape.oh * shape.ow;
    int n = pixel / plane, inner = pixel - n * plane, oy = inner / shape.ow, ox = inner - oy * shape.ow;
    int y = oy * shape.stride[0] - shape.pad[0] + r * shape.dilation[0];
    int x = ox * shape.stride[1] - shape.pad[1] + s * shape.dilation[1];
    static_cast<float *>(operands.scratch)[(int64_t)row * pixels + pixel] =
        convoy_padded_input(shape, operands.x, first_n + n, c, y, x);
}

/* y = W X of one group (blockIdx.y): TILE maps x TILE pixels, 4 x 4 a thread, its maps and pixels 16 apart so
 * that the shared loads and the stores of neighbouring lanes are neighbours. */
static __global__ void __launch_bounds__(256, 4)
    product_kernel(CONVOY_PARAMETER(struct convoy_conv_shape) shape,
                   CONVOY_PARAMETER(struct convoy_conv_operands) operands, int first_n, int pixels,
                   int map_tiles)
{
    __shared__ float a[STEP][TILE + 1], b[STEP][TILE];
    int group_k = shape.k / shape.groups, depth = shape.c / shape.groups * shape.r * shape.s;
    int group = blockIdx.y;
    int first_map = blockIdx.x % map_tiles * TILE, first_pixel = blockIdx.x / map_tiles * TILE;
    const float *weights = operands.weights + (int64_t)group * group_k * depth;
    const float *unrolled = static_cast<const float *>(operands.scratch) + (int64_t)group * depth * pixels;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    float sum[4][4] = {};
    for (int first = 0; first < depth; first += STEP) {
        __syncthreads();
        for (int i = 0; i < 4; i++) {
            int map = first_map + ty + 16 * i;
            bool real = map < group_k && first + tx < depth;
            a[tx][ty + 16 * i] = real ? weights[(int64_t)map * depth + first + tx] : 0.0f;
        }
        for (int i = 0; i < 4; i++) {
            int row = threadIdx.x / TILE + 4 * i, pixel = first_pixel + threadIdx.x % TILE;
            bool real = first + row < depth && pixel < pixels;
            b[row][threadIdx.x % TILE] = real ? unrolled[(int64_t)(first + row) * pixels + pixel] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < STEP; q++)
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++)
                    sum[i][j] = fmaf(a[q][ty + 16 * i], b[q][tx + 16 * j], sum[i][j]);
    }
    int plane = shape.oh * shape.ow;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int pixel = first_pixel + tx + 16 * j, n = pixel / plane, inner = pixel - n * plane;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int map = first_map + ty + 16 * i, k = group * group_k + map;
            if (pixel < pixels && map < group_k) {
                int64_t index = ((int64_t)(first_n + n) * shape.k + k) * plane + inner;
                operands.y[index] = convoy_finish(shape, operands, sum[i][j], k, index);
            }
        }
    }
}

static int64_t image_bytes(const struct convoy_conv_shape *s)
{
    return (int64_t)sizeof(float) * s->c * s->r * s->s * s->oh * s->ow;
}

/* Images of a chunk: as many as fit, all chunks of nearly one size. */
static int chunk_images(const struct convoy_conv_shape *s)
{
    int64_t most = CONVOY_UNROLL_BYTES / image_bytes(s);
    return (int)convoy_div_up(s->n, convoy_div_up(s->n, most));
}

static bool unroll_gemm_takes(const struct convoy_conv_shape *s)
{
    return s->pool == 1 && image_bytes(s) <= CONVOY_UNROLL_BYTES && s->groups <= 65535;
}

static float unroll_gemm_estimate(const struct convoy_conv_shape *s)
{
    int chunk = chunk_images(s), group_k = s->k / s->groups, map_tiles = (int)convoy_div_up(group_k, TILE);
    double chunks = (double)convoy_div_up(s->n, chunk);
    double blocks = (double)map_tiles * s->groups * chunk * s->oh * s->ow / TILE;
    double unrolling = 2.0 * s->n * (double)image_bytes(s) / CONVOY_ESTIMATE_BYTES_PER_US;
    return convoy_conv_estimate(s, blocks < 1 ? 1 : blocks, 0.3 * group_k / (map_tiles * TILE), 1.3) +
           (float)(unrolling + chunks * CONVOY_ESTIMATE_LAUNCH_US);
}

static size_t unroll_gemm_scratch(const struct convoy_conv_shape *s)
{
    return (size_t)(image_bytes(s) * chunk_images(s));
}

static cudaError_t unroll_gemm_launch(const struct convoy_conv_shape *shape,
                                      const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    int chunk = chunk_images(shape), map_tiles = (int)convoy_div_up(shape->k / shape->groups, TILE);
    for (int first_n = 0; first_n < shape->n; first_n += chunk) {
        int images = shape->n - first_n < chunk ? shape->n - first_n : chunk;
        int pixels = images * shape->oh * shape->ow;
        int pixel_blocks = (int)convoy_div_up(pixels, UNROLL_THREADS);
        int rows = shape->c * shape->r * shape->s;
        cudaError_t error =
            convoy_launch(unroll_kernel, dim3((unsigned)rows * (unsigned)pixel_blocks), dim3(UNROLL_THREADS),
                          0, stream, *shape, *operands, first_n, pixels, pixel_blocks);
        if (error != cudaSuccess)
            return error;
        dim3 grid((unsigned)map_tiles * (unsigned)convoy_div_up(pixels, TILE), (unsigned)shape->groups);
        error = convoy_launch(product_kernel, grid, dim3(256), 0, stream, *shape, *operands, first_n, pixels,
                              map_tiles);
        if (error != cudaSuccess)
            return error;
    }
    return cudaSuccess;
}

const struct convoy_conv_kernel convoy_conv_unroll_gemm = {
    "unroll_gemm",        CONVOY_COMPUTE_FP32, unroll_gemm_takes,
    unroll_gemm_estimate, convoy_plain_floats, convoy_plain_pack,
    unroll_gemm_scratch,  unroll_gemm_launch,  false,
};
