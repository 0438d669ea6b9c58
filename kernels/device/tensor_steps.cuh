/* The inner loop of convolutions on the tensor cores, and the maximum of what it gives over 2 x 2 outputs.
 *
 * In shared memory lie planes of words. A lane brings fragments of A (mma.cuh) for MT x 16 outputs, each an
 * offset from its output's own place, and fragments of B, the weights, as they were laid out for it
 * (tensor_layout.cuh). */
#ifndef CONVOY_KERNELS_TENSOR_STEPS_CUH
#define CONVOY_KERNELS_TENSOR_STEPS_CUH

#include "kernels/device/tensor_products.cuh"
#include "kernels/device/unary.cuh"

#define TENSOR_STEP 8  /* words of the reduction in one instruction */
#define FOLD_STEPS  16 /* of 8 terms, until sums are carried to fp32 registers */

/* What a lane needs for a step. */
template <int MATH, int MT, int NT, bool SHARED> struct tensor_step {
    uint32_t a[MT][4];
    struct tensor_weights<MATH> b[NT];

    __device__ __forceinline__ void load(const char *tile, const int (&base)[MT][2], int near, int far,
                                         const struct tensor_weights<MATH> *weights, int map_stride)
    {
#pragma unroll
        for (int j = 0; j < NT; j++)
            b[j].word = SHARED ? weights[j * map_stride].word : __ldg(&weights[j * map_stride].word);
#pragma unroll
        for (int i = 0; i < MT; i++) {
            a[i][0] = *reinterpret_cast<const uint32_t *>(tile + (base[i][0] + near));
            a[i][1] = *reinterpret_cast<const uint32_t *>(tile + (base[i][1] + near));
            a[i][2] = *reinterpret_cast<const uint32_t *>(tile + (base[i][0] + far));
            a[i][3] = *reinterpret_cast<const uint32_t *>(tile + (base[i][1] + far));
        }
    }
};

/* Adds the steps from begin to end to sum. Two steps are in registers, each asked for again as soon as it was
 * multiplied; where its words lie was asked for a turn before. Past the end the last is asked for again. */
template <int MATH, int MT, int NT, bool SHARED>
static __device__ __forceinline__ void add_steps(const uint32_t *words, const int *offsets,
                                                 const int (&base)[MT][2],
                                                 const struct tensor_weights<MATH> *weights, int map_stride,
                                                 int begin, int end, float (&sum)[MT * NT][4])
{
    const char *tile = reinterpret_cast<const char *>(words);
    const int *at = offsets + threadIdx.x % 4;
    struct tensor_step<MATH, MT, NT, SHARED> even, odd;
    int last = end - 1, step = begin, next = min(begin + 1, last), later = min(begin + 2, last);
    even.load(tile, base, at[step * TENSOR_STEP], at[step * TENSOR_STEP + 4], weights + step * 32,
              map_stride);
    odd.load(tile, base, at[next * TENSOR_STEP], at[next * TENSOR_STEP + 4], weights + next * 32, map_stride);
    int near = at[later * TENSOR_STEP], far = at[later * TENSOR_STEP + 4];
#pragma unroll 1
    for (;;) {
#pragma unroll
        for (int k = 0; k < MT; k++)
            tensor_multiply<MATH, NT>(even.a[k], even.b, &sum[k * NT]);
        if (++step == end)
            break;
        even.load(tile, base, near, far, weights + later * 32, map_stride);
        later = min(step + 2, last);
        near = at[later * TENSOR_STEP];
        far = at[later * TENSOR_STEP + 4];
#pragma unroll
        for (int k = 0; k < MT; k++)
            tensor_multiply<MATH, NT>(odd.a[k], odd.b, &sum[k * NT]);
        if (++step == end)
            break;
        odd.load(tile, base, near, far, weights + later * 32, map_stride);
        later = min(step + 2, last);
        near = at[later * TENSOR_STEP];
        far = at[later * TENSOR_STEP + 4];
    }
}

/* Adds all steps to sum, in fp32 by way of sums that are not too long. SHARED: the weights lie in shared
 * memory. Offsets and bases are bytes. */
template <int MATH, int MT, int NT, bool SHARED>
static __device__ __forceinline__ void
tensor_add(const uint32_t *tile, const int *offsets, const int (&base)[MT][2],
           const struct tensor_weights<MATH> *weights, int map_stride, int steps, float (&sum)[MT * NT][4])
{
    if constexpr (MATH != TENSOR_FP32) {
        add_steps<MATH, MT, NT, SHARED>(tile, offsets, base, weights, map_stride, 0, steps, sum);
    } else {
        for (int begin = 0; begin < steps; begin += FOLD_STEPS) {
            float part[MT * NT][4] = {};
            add_steps<MATH, MT, NT, SHARED>(tile, offsets, base, weights, map_stride, begin,
                                            min(begin + FOLD_STEPS, steps), part);
#pragma unroll
            for (int i = 0; i < MT * NT * 4; i++)
                sum[i / 4][i % 4] += part[i / 4][i % 4];
        }
    }
}

/* The greatest of each 2 x 2: above and below are a lane's own, beside it those of the lane 4 on. Of two maps
 * one lane of the pair keeps the first, the other the second. */
template <int TILES>
static __device__ __forceinline__ void tensor_pool(const float (&sum)[TILES][4], float (&pooled)[TILES][1])
{
    bool odd = threadIdx.x / 4 % 2 != 0;
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        float first = convoy_larger(sum[i][0], sum[i][2]), second = convoy_larger(sum[i][1], sum[i][3]);
        float give = odd ? first : second, keep = odd ? second : first;
        pooled[i][0] = convoy_larger(keep, __shfl_xor_sync(0xffffffffu, give, 4));
    }
}

#endif
