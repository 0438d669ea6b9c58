/* Layer, instance, group and RMS normalisation: along the middle of outer x length x inner.
 *
 * Numbers are taken as differences to the first, the mean of these is found, and the variance from the
 * differences to that, so that a large mean cancels nothing;
 * both passes and the one that writes read the row from the caches after the first. Rows that are contiguous
 * get a warp each, or a block where they are long; sums are merged by shuffles in a fixed order. Otherwise a
 * thread takes a column, and neighbours read neighbours. Sums are fp32, a lane's in one chain: of 4096
 * numbers with a block that is 16 a lane. Floor: 8 bytes an element. Not timed by itself yet
 * (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/kernels.h"

#define THREADS 256
#define WARPS   (THREADS / 32)
#define LONG    1024 /* rows of so many numbers get a block */

__device__ static float sum_of_warp(float v)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

/* The sum over all threads of the row: a warp, or with a block's shared[WARPS] the block. */
template <bool BLOCK> __device__ static float sum_of_row(float v, float *shared)
{
    v = sum_of_warp(v);
    if (!BLOCK)
        return v;
    __syncthreads(); /* the last sum has been read */
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++)
        v += shared[i];
    return v;
}

__device__ static float affine(float v, const float *scale, const float *shift, int64_t i)
{
    if (scale != nullptr)
        v *= scale[i];
    return shift != nullptr ? v + shift[i] : v;
}

template <bool BLOCK>
__global__ void __launch_bounds__(THREADS) normalize_rows(struct convoy_normalize_shape shape, const float *x,
                                                          const float *scale, const float *shift, float *y)
{
    __shared__ float shared[WARPS];
    int threads = BLOCK ? THREADS : 32;
    int lane = (int)threadIdx.x % threads;
    float length = (float)shape.length;
    int64_t step = convoy_step() / threads;
    for (int64_t row = convoy_first() / threads; row < shape.outer; row += step) {
        const float *from = x + row * shape.length;
        float *to = y + row * shape.length;
        float pivot = shape.rms ? 0.0f : from[0];
        float mean = 0;
        for (int64_t i = lane; i < shape.length && !shape.rms; i += threads)
            mean += from[i] - pivot;
        mean = sum_of_row<BLOCK>(mean, shared) / length;
        float squares = 0;
        for (int64_t i = lane; i < shape.length; i += threads) {
            float v = from[i] - pivot - mean;
            squares += v * v;
        }
        float factor = 1.0f / sqrtf(sum_of_row<BLOCK>(squares, shared) / length + shape.epsilon);
        for (int64_t i = lane; i < shape.length; i += threads)
            to[i] = affine((from[i] - pivot - mean) * factor, scale, shift, i);
    }
}

__global__ void __launch_bounds__(THREADS)
    normalize_columns(struct convoy_normalize_shape shape, const float *x, const float *scale,
                      const float *shift, float *y)
{
    float length = (float)shape.length;
    for (int64_t column = convoy_first(); column < shape.outer * shape.inner; column += convoy_step()) {
        int64_t start = column / shape.inner * shape.length * shape.inner + column % shape.inner;
        float pivot = shape.rms ? 0.0f : x[start];
        float mean = 0;
        for (int64_t i = 0; i < shape.length && !shape.rms; i++)
            mean += x[start + i * shape.inner] - pivot;
        mean /= length;
        float squares = 0;
        for (int64_t i = 0; i < shape.length; i++) {
            float v = x[start + i * shape.inner] - pivot - mean;
            squares += v * v;
        }
        float factor = 1.0f / sqrtf(squares / length + shape.epsilon);
        for (int64_t i = 0; i < shape.length; i++)
            y[start + i * shape.inner] =
                affine((x[start + i * shape.inner] - pivot - mean) * factor, scale, shift, i);
    }
}

cudaError_t convoy_launch_normalize(const struct convoy_normalize_shape *shape, const float *x,
                                    const float *scale, const float *shift, float *y, cudaStream_t stream)
{
    if (shape->inner == 1 && shape->length >= LONG)
        return convoy_launch(normalize_rows<true>, convoy_grid(shape->outer, 1), THREADS, 0, stream, *shape,
                             x, scale, shift, y);
    if (shape->inner == 1)
        return convoy_launch(normalize_rows<false>, convoy_grid(shape->outer, WARPS), THREADS, 0, stream,
                             *shape, x, scale, shift, y);
    return convoy_launch(normalize_columns, convoy_grid(shape->outer * shape->inner, THREADS), THREADS, 0,
                         stream, *shape, x, scale, shift, y);
}
