/* What the kernels that make gates (excite.cu, excited.cuh) have in common: sums of channels over pixels, and
 * numbers of the two dense layers. */
#ifndef CONVOY_KERNELS_NHWC_EXCITE_LAYERS_CUH
#define CONVOY_KERNELS_NHWC_EXCITE_LAYERS_CUH

#include "kernels/nhwc/nhwc_cells.cuh"
#include "kernels/nhwc/nhwc_common.h"

#define EXCITE_MAX_SQUEEZED 1024
#define EXCITE_LANES        4 /* of a gate's sum */

/* 8 sums of a patch. */
static __device__ __forceinline__ void excite_load_sums(const float *from, float (&values)[NHWC_CELL])
{
    const float4 low = reinterpret_cast<const float4 *>(from)[0],
                 high = reinterpret_cast<const float4 *>(from)[1];
    const float loaded[NHWC_CELL] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int e = 0; e < NHWC_CELL; e++)
        values[e] = loaded[e];
}

/* How the threads of a block sum cells of pixels: each a cell of every lanes-th pixel, or patch. */
template <int THREADS> struct excite_lanes {
    int together, lanes; /* cells at a time; threads for a cell */

    __device__ __forceinline__ excite_lanes(int cells)
        : together(cells < THREADS ? cells : THREADS), lanes(THREADS / together)
    {
    }

    /* Sums pixels `begin` to `end` - 1 of x, `apart` numbers from one to the next, of up to `together` cells
     * from `first` on; each thread's sums go to its place in own, which has 8 for each. SUMMED: x are float32
     * sums of patches, otherwise fp16 pixels. The block waits before it reads them. */
    template <bool SUMMED>
    __device__ __forceinline__ void sum(float *own, const void *x, int64_t apart, int first, int cells,
                                        int64_t begin, int64_t end) const
    {
        int lane = (int)threadIdx.x / together, cell = (int)threadIdx.x - lane * together;
        int64_t channel = (int64_t)(first + cell) * NHWC_CELL;
        float sum[NHWC_CELL] = {};
        if (lane < lanes && cell < cells) {
#pragma unroll 4
            for (int64_t p = begin + lane; p < end; p += lanes) {
                float values[NHWC_CELL];
                if constexpr (SUMMED)
                    excite_load_sums(static_cast<const float *>(x) + p * apart + channel, values);
                else
                    nhwc_load(static_cast<const convoy_fp16 *>(x) + p * apart + channel, values);
#pragma unroll
                for (int e = 0; e < NHWC_CELL; e++)
                    sum[e] += values[e];
            }
        }
        float4 *place = reinterpret_cast<float4 *>(own) + threadIdx.x * 2;
        place[0] = make_float4(sum[0], sum[1], sum[2], sum[3]);
        place[1] = make_float4(sum[4], sum[5], sum[6], sum[7]);
    }

    /* Channel i of what sum() left. */
    __device__ __forceinline__ float total(const float *own, int i) const
    {
        float total = 0;
        for (int lane = 0; lane < lanes; lane++)
            total += own[lane * together * NHWC_CELL + i];
        return total;
    }
};

/* The sum of 8 numbers times 8 weights, added to `sum`. */
static __device__ __forceinline__ float excite_multiply(const uint4 &weights, const float *values, float sum)
{
    float w[NHWC_CELL];
    nhwc_unpack(weights, w);
#pragma unroll
    for (int e = 0; e < NHWC_CELL; e++)
        sum = fmaf(w[e], values[e], sum);
    return sum;
}

template <int COUNT> static __device__ __forceinline__ float excite_sum_of_lanes(float sum)
{
#pragma unroll
    for (int apart = COUNT / 2; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    return sum;
}

/* A number of a layer from its sum: with bias, where there is one, and activation. */
static __device__ __forceinline__ float excite_finish(struct convoy_unary act, const float *bias, int row,
                                                      float sum)
{
    float values[1][2] = {{sum + (bias != nullptr ? __ldg(bias + row) : 0.0f), 0.0f}};
    nhwc_activate_all(act, values);
    return values[0][0];
}

#endif
