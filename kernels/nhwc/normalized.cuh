/* Layer and RMS normalisation in the 1 x 1 convolution behind it: the normalised tensor is never made.
 *
 * With weights u_kc = w_kc scale_c and the mean m and variance v of a pixel's c inputs,
 *     sum_c w_kc (scale_c (x_c - m) f + shift_c) + b_k = f (sum_c u_kc x_c) - f m (sum_c u_kc) + b'_k,
 *     f = 1 / sqrt(v + epsilon),  b'_k = b_k + sum_c w_kc shift_c,
 * so the product is made of inputs as they are, and the end of a tile needs f and f m of each of its outputs
 * and sum_c u_kc of each map, which was summed of the weights as rounded: what all channels of a pixel have
 * in common so falls out as exactly as before. (RMSNorm: m = 0, and v is the mean of the squares.) f and m
 * come from sums of the inputs and of their squares in float32, of 64 channels each, which the kernel
 * that made the inputs wrote from its registers. That the variance is the difference of two larger numbers
 * costs (m / deviation)^2 2^-24 of it at most, less than the rounding of such inputs to fp16 does to them.
 *
 * Predicted: 3 us less for each normalisation of few images. Measured: 0.1 to 1.8 (docs/kernels.md). A kernel
 * that summed inputs itself, of the chunks in shared memory while these are multiplied, took 1.3 to 2 us
 * longer for one image. */
#ifndef CONVOY_KERNELS_NHWC_NORMALIZED_CUH
#define CONVOY_KERNELS_NHWC_NORMALIZED_CUH

#include "kernels/nhwc/conv_job.cuh"
#include "kernels/nhwc/inputs.cuh"
#include "kernels/nhwc/tile_end.cuh"

/* A normalised sum is factor times the sum plus shift times the sum of its map's weights. */
struct nhwc_scaling {
    float factor, shift;

    __device__ __forceinline__ nhwc_scaling(const struct nhwc_job &job, const struct nhwc_moments &all)
    {
        float count = (float)job.c, mean = job.input_rms ? 0.0f : all.total / count;
        float variance = all.squares / count - mean * mean;
        variance = variance < 0.0f ? 0.0f : variance; /* NaN stays */
        factor = job.input_factor / sqrtf(variance + job.input_epsilon);
        shift = -mean * factor;
    }
    __device__ __forceinline__ nhwc_scaling(float factor_, float shift_) : factor(factor_), shift(shift_)
    {
    }
};

/* Moments of a pixel as far as registers keep them. */
static inline bool nhwc_takes_few_moments(const struct convoy_conv_shape *s)
{
    return convoy_nhwc_moments(s->c) <= NHWC_MOMENTS && nhwc_takes_normalized(s);
}

/* Of conv_wgmma.cuh and conv_turns.cuh. Two lanes take a row, every other moment each; the rows of a warp are
 * those of its sums. Moments are loaded before a tile is multiplied, and wanted behind it. */
template <int ROWS, int DEPTH> struct nhwc_normalized : nhwc_as_is<ROWS, DEPTH> {
    static constexpr bool READS = true;
    static constexpr int PARTS = NHWC_MOMENTS / 2;
    float2 parts[ROWS][PARTS];

    __device__ __forceinline__ void begin(const struct nhwc_job &job, int output)
    {
        int row = (int)threadIdx.x % CONVOY_WARPGROUP / 2, half = (int)threadIdx.x % 2;
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            int m = output + i * NHWC_PIECE + row;
            const float2 *from = job.input_moments + (int64_t)m * job.input_parts;
#pragma unroll
            for (int k = 0; k < PARTS; k++)
                parts[i][k] =
                    m < job.m && k * 2 + half < job.input_parts ? from[k * 2 + half] : make_float2(0, 0);
        }
    }
    template <int NT>
    __device__ __forceinline__ void end(const struct nhwc_job &job, int column, float (&sum)[ROWS][NT][4])
    {
        int lane = (int)threadIdx.x % 32;
        float2 of_map[NT];
        nhwc_load_columns(job.input_sums, job.k, column, lane, of_map);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            struct nhwc_moments all = {0, 0};
#pragma unroll
            for (int k = 0; k < PARTS; k++)
                all.add(parts[i][k]);
            all.template join<2>();
            const nhwc_scaling mine(job, all);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int from = (lane / 4 + half * 8) * 2;
                const nhwc_scaling row(__shfl_sync(0xffffffffu, mine.factor, from),
                                       __shfl_sync(0xffffffffu, mine.shift, from));
#pragma unroll
                for (int j = 0; j < NT; j++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        float &of = sum[i][j][half * 2 + e];
                        of = fmaf(of, row.factor, row.shift * (e == 0 ? of_map[j].x : of_map[j].y));
                    }
            }
        }
    }
};

/* Of conv_maps.cuh: so many threads make the scalings of a tile's outputs from `output` on, one each. What a
 * thread loads is under way together. thread: from 0 on. */
template <int OUTPUTS, int THREADS>
static __device__ __forceinline__ void nhwc_make_scalings(const struct nhwc_job &job, int output, int thread,
                                                          float2 *scalings)
{
    constexpr int BATCH = 12;
    for (int row = thread; row < OUTPUTS; row += THREADS) {
        int m = output + row < job.m ? output + row : job.m - 1;
        const float2 *from = job.input_moments + (int64_t)m * job.input_parts;
        struct nhwc_moments all = {0, 0};
        for (int first = 0; first < job.input_parts; first += BATCH) {
            float2 parts[BATCH];
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                parts[k] = first + k < job.input_parts ? from[first + k] : make_float2(0, 0);
#pragma unroll
            for (int k = 0; k < BATCH; k++)
                all.add(parts[k]);
        }
        const nhwc_scaling scaling(job, all);
        scalings[row] = make_float2(scaling.factor, scaling.shift);
    }
}

#endif
