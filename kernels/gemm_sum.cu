/* Adding up the partial results of a product whose k was split, then bias and activation.
 *
 * A thread for each output (or four), which reads its partial sums in the order of the splits: the same bits
 * every time. Consecutive threads read consecutive floats.
 * Floor: (splits + 1) x batch x m x n x 4 bytes; 5 x 10,000 x 160 outputs are 38 MB, 9 us at 4.2 TB/s, most
 * of it still in the L2 cache.
 * Measured: not yet. */
#include "kernels/gemm.h"
#include "kernels/grid.cuh"
#include "kernels/unary.cuh"

#define THREADS 256

struct sum_job {
    int64_t size, n; /* of one result */
    int64_t count;   /* of all */
    int64_t y_stride;
    int splits;
    struct convoy_unary act;
};

template <typename T> __device__ static T zero(void);
template <> __device__ float zero<float>(void)
{
    return 0;
}
template <> __device__ float4 zero<float4>(void)
{
    return make_float4(0, 0, 0, 0);
}

__device__ static void add(float *sum, float v)
{
    *sum += v;
}

__device__ static void add(float4 *sum, float4 v)
{
    sum->x += v.x;
    sum->y += v.y;
    sum->z += v.z;
    sum->w += v.w;
}

__device__ static void activate(struct convoy_unary act, float *v)
{
    *v = convoy_apply_unary(act, *v);
}

__device__ static void activate(struct convoy_unary act, float4 *v)
{
    v->x = convoy_apply_unary(act, v->x);
    v->y = convoy_apply_unary(act, v->y);
    v->z = convoy_apply_unary(act, v->z);
    v->w = convoy_apply_unary(act, v->w);
}

/* T is float4 where n and y_stride are multiples of 4. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    gemm_sum(struct sum_job job, const float *partial, const float *bias, float *y)
{
    constexpr int lanes = sizeof(T) / sizeof(float);
    for (int64_t i = convoy_first() * lanes; i < job.count; i += convoy_step() * lanes) {
        T sum = zero<T>();
#pragma unroll 4
        for (int split = 0; split < job.splits; split++)
            add(&sum, *(const T *)(partial + split * job.count + i));
        if (bias)
            add(&sum, *(const T *)(bias + i % job.n));
        activate(job.act, &sum);
        int64_t image = i / job.size;
        *(T *)(y + image * job.y_stride + (i - image * job.size)) = sum;
    }
}

cudaError_t convoy_launch_gemm_sum(const struct convoy_gemm_shape *shape, int splits, const float *partial,
                                   const float *bias, float *y, cudaStream_t stream)
{
    struct sum_job job = {};
    job.size = shape->m * shape->n;
    job.n = shape->n;
    job.count = job.size * shape->batch;
    job.y_stride = shape->y_stride;
    job.splits = splits;
    job.act = shape->act;
    bias = shape->bias ? bias : nullptr;
    if (shape->n % 4 == 0 && (shape->batch == 1 || shape->y_stride % 4 == 0) && convoy_aligned(partial, y) &&
        convoy_aligned(bias, bias))
        return convoy_launch(gemm_sum<float4>, convoy_grid(job.count / 4, THREADS), THREADS, 0, stream, job,
                             partial, bias, y);
    return convoy_launch(gemm_sum<float>, convoy_grid(job.count, THREADS), THREADS, 0, stream, job, partial,
                         bias, y);
}

extern "C" size_t convoy_gemm_partial_bytes(const struct convoy_gemm_shape *shape, int splits)
{
    return splits == 1 ? 0 : (size_t)(shape->m * shape->n * shape->batch) * splits * sizeof(float);
}

extern "C" float convoy_gemm_sum_us(const struct convoy_gemm_shape *shape, int splits)
{
    if (splits == 1)
        return 0;
    float bytes = (float)(shape->m * shape->n * shape->batch) * (float)(2 * splits + 1) * 4;
    return CONVOY_GEMM_LAUNCH_US + bytes / CONVOY_GEMM_BYTES_PER_US;
}

extern "C" float convoy_gemm_memory_us(const struct convoy_gemm_shape *shape)
{
    float matrices_of_a = shape->a_stride ? (float)shape->batch : 1;
    float matrices_of_b = shape->b_stride ? (float)shape->batch : 1;
    float floats = (float)shape->m * (float)shape->k * matrices_of_a +
                   (float)shape->k * (float)shape->n * matrices_of_b +
                   (float)shape->m * (float)shape->n * (float)shape->batch;
    return floats * 4 / CONVOY_GEMM_BYTES_PER_US;
}
