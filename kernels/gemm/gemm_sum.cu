/* Adding up the partial results of a product whose k was split, then bias and activation.
 *
 * A thread for each output (or four), which reads its partial sums in the order of the splits: the same bits
 * every time. Consecutive threads read consecutive floats. Where outputs are few and splits many, 8 threads
 * share an output's splits and the first adds up what they found, again in a fixed order.
 * Floor: (splits + 1) x batch x m x n x 4 bytes; 5 x 10,000 x 160 outputs are 38 MB, 9 us at 4.2 TB/s, most
 * of it still in the L2 cache.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/device/unary.cuh"
#include "kernels/gemm/gemm_sum.h"

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

/* T is float4 where n and y_stride are multiples of 4. slices of a block's threads share the splits. */
template <typename T, int slices>
__global__ void __launch_bounds__(THREADS)
    gemm_sum(struct sum_job job, const float *partial, const float *bias, float *y)
{
    constexpr int lanes = sizeof(T) / sizeof(float);
    constexpr int width = THREADS / slices; /* outputs, in units of T, of a block */
    __shared__ __align__(16) T sums[THREADS];
    int column = (int)threadIdx.x % width;
    int slice = (int)threadIdx.x / width;
    int piece = (job.splits + slices - 1) / slices;
    int first = slice * piece;
    int end = min(first + piece, job.splits);
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t block = blockIdx.x; block * width * lanes < job.count; block += gridDim.x) {
        int64_t i = (block * width + column) * lanes;
        T sum = zero<T>();
        if (i < job.count) {
#pragma unroll 8
            for (int split = first; split < end; split++)
                add(&sum, *(const T *)(partial + split * job.count + i));
        }
        if (slices > 1) {
            sums[threadIdx.x] = sum;
            __syncthreads();
#pragma unroll
            for (int other = 1; other < slices; other++)
                if (slice == 0)
                    add(&sum, sums[other * width + column]);
            __syncthreads();
        }
        if (slice > 0 || i >= job.count)
            continue;
        if (bias)
            add(&sum, *(const T *)(bias + i % job.n));
        activate(job.act, &sum);
        int64_t image = i / job.size;
        *(T *)(y + image * job.y_stride + (i - image * job.size)) = sum;
    }
}

/* Few outputs with many partial sums: one thread after the other would wait for memory, so 8 share them. */
static bool slices_pay(const struct convoy_gemm_shape *shape, int splits)
{
    return splits >= 8 && shape->m * shape->n * shape->batch < (int64_t)CONVOY_GEMM_SMS * THREADS * 8;
}

template <typename T>
static cudaError_t launch(const struct sum_job &job, bool slices, const float *partial, const float *bias,
                          float *y, cudaStream_t stream)
{
    int64_t pieces = job.count * (int64_t)sizeof(float) / (int64_t)sizeof(T);
    if (slices)
        return convoy_launch_early(gemm_sum<T, 8>, convoy_grid(pieces, THREADS / 8), THREADS, 0, stream, job,
                                   partial, bias, y);
    return convoy_launch_early(gemm_sum<T, 1>, convoy_grid(pieces, THREADS), THREADS, 0, stream, job, partial,
                               bias, y);
}

extern "C" cudaError_t convoy_launch_gemm_sum(const struct convoy_gemm_shape *shape, int splits,
                                              const float *partial, const float *bias, float *y,
                                              cudaStream_t stream)
{
    struct sum_job job = {};
    job.size = shape->m * shape->n;
    job.n = shape->n;
    job.count = job.size * shape->batch;
    job.y_stride = shape->y_stride;
    job.splits = splits;
    job.act = shape->act;
    bias = shape->bias ? bias : nullptr;
    bool slices = slices_pay(shape, splits);
    if (shape->n % 4 == 0 && (shape->batch == 1 || shape->y_stride % 4 == 0) && convoy_aligned(partial, y) &&
        convoy_aligned(bias, bias))
        return launch<float4>(job, slices, partial, bias, y, stream);
    return launch<float>(job, slices, partial, bias, y, stream);
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
    float in_turn = (float)splits / (slices_pay(shape, splits) ? 64 : 8); /* loads, 8 in flight */
    return CONVOY_GEMM_LAUNCH_US + bytes / CONVOY_GEMM_BYTES_PER_US + in_turn * 0.6f;
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
