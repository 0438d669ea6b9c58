/* tiled: the input tile and the weights in shared memory.
 *
 * Idea (optimization 1 of the reports): a block of 16 x 16 threads computes a tile of one output map; for
 * each input channel it first loads the tile with its rim and the r x s weights into shared memory, then
 * every input is read from there r x s times. Still one output a thread: two shared loads for one
 * multiply-add, so shared memory, at 32 words a clock for 128 multiply-adds, holds it to an eighth to a
 * quarter of the peak (the weight is the same for all lanes and costs one word).
 *
 * Takes any stride, dilation and padding whose tile fits 48 KiB; 8-bit images; groups; no pooling.
 * Floor at 10,000 images: ece408's layers 1.0 ms and 4.0 ms (51 TFLOP/s). Predicted: 6.5 ms and 25 ms: two
 * loads of a word for a multiply-add at a load a clock for each quarter of a multiprocessor, and the rims.
 * Measured: 27.9 ms and 88.7 ms on an H200. */
#include "kernels/conv/conv_common.h"
#include "kernels/conv/conv_epilogue.cuh"

#define TILE 16

/* Rows or columns of input under a tile, by dimension (0: rows). */
static __host__ __device__ __forceinline__ int tile_input(const struct convoy_conv_shape &s, int dimension)
{
    return (TILE - 1) * s.stride[dimension] + ((dimension ? s.s : s.r) - 1) * s.dilation[dimension] + 1;
}

static __global__ void __launch_bounds__(TILE *TILE, 3)
    tiled_kernel(CONVOY_PARAMETER(struct convoy_conv_shape) shape,
                 CONVOY_PARAMETER(struct convoy_conv_operands) operands, int tiles_x, int tiles_y)
{
    CONVOY_DYNAMIC_SHARED(float, shared);
    int rows = tile_input(shape, 0), columns = tile_input(shape, 1);
    float *input = shared, *weights = shared + rows * columns;
    int block = blockIdx.x;
    int tile_x = block % tiles_x;
    block /= tiles_x;
    int tile_y = block % tiles_y;
    block /= tiles_y;
    int n = block / shape.k, k = block % shape.k;
    int group_c = shape.c / shape.groups, first_c = k / (shape.k / shape.groups) * group_c;
    int tx = threadIdx.x % TILE, ty = threadIdx.x / TILE;
    int oy = tile_y * TILE + ty, ox = tile_x * TILE + tx;
    int y0 = tile_y * TILE * shape.stride[0] - shape.pad[0],
        x0 = tile_x * TILE * shape.stride[1] - shape.pad[1];
    const float *corner = input + ty * shape.stride[0] * columns + tx * shape.stride[1];

    float sum = 0.0f;
    for (int c = 0; c < group_c; c++) {
        __syncthreads();
        for (int y = ty; y < rows; y += TILE)
            for (int x = tx; x < columns; x += TILE)
                input[y * columns + x] =
                    convoy_padded_input(shape, operands.x, n, first_c + c, y0 + y, x0 + x);
        for (int i = threadIdx.x; i < shape.r * shape.s; i += TILE * TILE)
            weights[i] = operands.weights[((int64_t)k * group_c + c) * shape.r * shape.s + i];
        __syncthreads();
        for (int r = 0; r < shape.r; r++)
            for (int s = 0; s < shape.s; s++)
                sum = fmaf(corner[r * shape.dilation[0] * columns + s * shape.dilation[1]],
                           weights[r * shape.s + s], sum);
    }
    if (oy < shape.oh && ox < shape.ow) {
        int64_t index = convoy_output_index(shape, n, k, oy, ox);
        operands.y[index] = convoy_finish(shape, operands, sum, k, index);
    }
}

static size_t tiled_shared(const struct convoy_conv_shape *s)
{
    return ((size_t)tile_input(*s, 0) * tile_input(*s, 1) + (size_t)s->r * s->s) * sizeof(float);
}

static int64_t tiled_blocks(const struct convoy_conv_shape *s)
{
    return convoy_div_up(s->oh, TILE) * convoy_div_up(s->ow, TILE) * s->n * s->k;
}

static bool tiled_takes(const struct convoy_conv_shape *s)
{
    return s->pool == 1 && tiled_shared(s) <= CONVOY_STATIC_SHARED_MAX && tiled_blocks(s) <= INT32_MAX;
}

static float tiled_estimate(const struct convoy_conv_shape *s)
{
    double useful = (double)s->n * s->k * s->oh * s->ow / ((double)tiled_blocks(s) * TILE * TILE);
    return convoy_conv_estimate(s, (double)tiled_blocks(s), 0.16 * useful, 1.5);
}

static cudaError_t tiled_launch(const struct convoy_conv_shape *shape,
                                const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    return convoy_launch(tiled_kernel, dim3((unsigned)tiled_blocks(shape)), dim3(TILE * TILE),
                         tiled_shared(shape), stream, *shape, *operands, (int)convoy_div_up(shape->ow, TILE),
                         (int)convoy_div_up(shape->oh, TILE));
}

const struct convoy_conv_kernel convoy_conv_tiled = {
    "tiled",           CONVOY_COMPUTE_FP32, tiled_takes,  tiled_estimate, convoy_plain_floats,
    convoy_plain_pack, convoy_no_scratch,   tiled_launch, false,
};
