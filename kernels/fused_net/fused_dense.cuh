/* The layers of whole_net that make a vector of a tensor: dense ones, and the mean over all places. */
#ifndef CONVOY_KERNELS_FUSED_DENSE_CUH
#define CONVOY_KERNELS_FUSED_DENSE_CUH

#include "kernels/device/cluster.cuh"
#include "kernels/device/unary.cuh"
#include "kernels/fused_net/fused_words.cuh"

#include <float.h>

/* Where a place of a dense layer's or a mean's input begins, in words of a plane. */
static __device__ __forceinline__ int fused_place(const struct fused_step &step, int place)
{
    int row = tensor_divide(place, step.by_w);
    return step.first + (row * step.width + place - row * step.real_w) * FUSED_CELL;
}

/* What a dense layer or a mean has found for one output: into the result, or into the vector that the next
 * layer reads. */
template <int MATH>
static __device__ __forceinline__ void fused_keep_one(const struct fused_step &step, float *y,
                                                      uint32_t *shared, int at, float value)
{
    if (step.result)
        y[at] = value;
    else if constexpr (fused_pairs<MATH>)
        reinterpret_cast<uint16_t *>(shared + step.out)[at] = (uint16_t)convoy_half2(value, 0.0f);
    else
        shared[step.out + at] = fused_word<MATH>(value);
}

static __device__ __forceinline__ float fused_bias(const struct fused_job &job, const struct fused_step &step,
                                                   int at)
{
    return step.bias == FUSED_NO_BIAS ? 0.0f
                                      : __ldg(reinterpret_cast<const float *>(job.weights + step.bias) + at);
}

template <int MATH>
static __device__ __forceinline__ void fused_finish_dense(const struct fused_step &step, float *y,
                                                          uint32_t *shared, int at, float sum, float bias)
{
    fused_keep_one<MATH>(step, y, shared, at, convoy_apply_unary(step.act, sum + bias));
}

/* 4 words of weights, 4 of the input. */
template <int MATH> static __device__ __forceinline__ float fused_dot(uint4 input, uint4 weights, float sum)
{
    const uint32_t x[FUSED_CELL] = {input.x, input.y, input.z, input.w};
    const uint32_t w[FUSED_CELL] = {weights.x, weights.y, weights.z, weights.w};
#pragma unroll
    for (int j = 0; j < FUSED_CELL; j++) {
        if constexpr (fused_pairs<MATH>) {
            float2 a = fused_halves(x[j]), b = fused_halves(w[j]);
            sum = fmaf(a.y, b.y, fmaf(a.x, b.x, sum));
        } else {
            sum = fmaf(convoy_bits_float(x[j]), convoy_bits_float(w[j]), sum);
        }
    }
    return sum;
}

/* A dense layer: a warp takes FUSED_OUTS outputs, its lanes a cell each of the input. Products of fp16 are
 * exact in fp32, so this is what tensor cores would give, or better. Undivided it is the first block's alone.
 * Divided by places, as the layer before it, each block sends its sums to the first. Several teams divide the
 * outputs among them. */
template <int MATH, bool CLUSTER>
static __device__ __forceinline__ void fused_dense(const struct fused_job &job, const struct fused_step &step,
                                                   int rank, int team, float *y, uint32_t *shared)
{
    bool divided = CLUSTER && step.parts > 1;
    if (rank > 0 && !divided)
        return;
    int lane = threadIdx.x % 32, warps = job.threads / 32, cells = fused_planes(step.in_words);
    int begin = step.tile_begin, end = step.tile_end, outs = step.maps, first_out = 0;
    if (CLUSTER && job.teams > 1) {
        int groups = (outs + FUSED_OUTS - 1) / FUSED_OUTS;
        first_out = groups * team / job.teams * FUSED_OUTS;
        outs = min(outs, groups * (team + 1) / job.teams * FUSED_OUTS);
    }
    const uint4 *weights = reinterpret_cast<const uint4 *>(job.weights + step.weights);
    for (int out = first_out + threadIdx.x / 32 * FUSED_OUTS; out < outs; out += warps * FUSED_OUTS) {
        float sum[FUSED_OUTS] = {};
        float bias = fused_bias(job, step, min(out + lane, step.maps - 1));
#pragma unroll 2
        for (int i = begin * cells + lane; i < end * cells; i += 32) {
            int place = tensor_divide(i, step.by_cells), cell = i - place * cells;
            uint4 x = *reinterpret_cast<const uint4 *>(shared + step.in + fused_place(step, place) +
                                                       cell * step.in_plane);
#pragma unroll
            for (int k = 0; k < FUSED_OUTS; k++) {
                int64_t at = ((int64_t)place * step.maps + min(out + k, step.maps - 1)) * cells + cell;
                sum[k] = fused_dot<MATH>(x, __ldg(weights + at), sum[k]);
            }
        }
        float mine = 0.0f; /* lane k keeps output k */
#pragma unroll
        for (int k = 0; k < FUSED_OUTS; k++) {
#pragma unroll
            for (int other = 16; other > 0; other /= 2)
                sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], other);
            mine = lane == k ? sum[k] : mine;
        }
        int at = out + lane;
        if (lane >= FUSED_OUTS || at >= outs)
            continue;
        if (divided)
            convoy_cluster_store(reinterpret_cast<float *>(shared + job.partial + rank * step.maps + at), 0,
                                 mine);
        else
            fused_finish_dense<MATH>(step, y, shared, at, mine, bias);
    }
    if (!divided)
        return;
    convoy_cluster_sync();
    for (int at = first_out + threadIdx.x; rank == 0 && at < outs; at += job.threads) {
        float sum = 0.0f, bias = fused_bias(job, step, at);
        for (int part = 0; part < step.parts; part++)
            sum += convoy_bits_float(shared[job.partial + part * step.maps + at]);
        fused_finish_dense<MATH>(step, y, shared, at, sum, bias);
    }
}

/* The mean of each channel, by the first block. */
template <int MATH>
static __device__ __forceinline__ void fused_mean(const struct fused_job &job, const struct fused_step &step,
                                                  int rank, float *y, uint32_t *shared)
{
    int lane = threadIdx.x % 32;
    for (int word = threadIdx.x / 32; rank == 0 && word < step.in_words; word += job.threads / 32) {
        float2 sum = make_float2(0.0f, 0.0f);
        for (int place = lane; place < step.places; place += 32) {
            uint32_t x = shared[step.in + fused_word_of(step.in_plane, word) + fused_place(step, place)];
            float2 add = fused_pairs<MATH> ? fused_halves(x) : make_float2(convoy_bits_float(x), 0.0f);
            sum.x += add.x;
            sum.y += add.y;
        }
#pragma unroll
        for (int other = 16; other > 0; other /= 2) {
            sum.x += __shfl_xor_sync(0xffffffffu, sum.x, other);
            sum.y += __shfl_xor_sync(0xffffffffu, sum.y, other);
        }
        float scale = 1.0f / (float)step.places;
        int map = fused_pairs<MATH> ? word * 2 : word;
        if (lane == 0)
            fused_keep_one<MATH>(step, y, shared, map, sum.x * scale);
        if (fused_pairs<MATH> && lane == 1 && map + 1 < step.maps)
            fused_keep_one<MATH>(step, y, shared, map + 1, sum.y * scale);
    }
}

/* The softmax of what other threads have written before a barrier, and blocks of the cluster, in its place.
 * By a warp. */
static __device__ __forceinline__ void fused_softmax(float *y, int count)
{
    const volatile float *from = y; /* of others: not by way of this multiprocessor's cache */
    int lane = threadIdx.x % 32;
    float most = -FLT_MAX, sum = 0.0f; /* finite, so that -infinity minus it is no NaN */
    for (int i = lane; i < count; i += 32)
        most = fmaxf(most, from[i]);
#pragma unroll
    for (int other = 16; other > 0; other /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, other));
    for (int i = lane; i < count; i += 32)
        sum += expf(from[i] - most); /* a NaN comes here */
#pragma unroll
    for (int other = 16; other > 0; other /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, other);
    for (int i = lane; i < count; i += 32)
        y[i] = expf(from[i] - most) / sum;
}

#endif
