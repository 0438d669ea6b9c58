/* Sums over the outputs of a patch of inverted.cu, for each channel: what squeeze and excitation takes its
 * means from (excite.cu), which then does not read the depthwise layer's results. They are sums of the
 * rounded results.
 *
 * Predicted to cost 2 % of inverted.cu's time. On an H200 with 256 images it is 3 to 10 %, less than what
 * excite.cu gains: efficientnet_b0 4.76 -> 4.67 ms, mobilenet_v3_large 2.41 -> 2.33. */
#ifndef CONVOY_KERNELS_NHWC_INVERTED_SUMS_CUH
#define CONVOY_KERNELS_NHWC_INVERTED_SUMS_CUH

#include "kernels/nhwc/inverted_layers.cuh"

/* Zeros in place of what is no output. */
static __device__ __forceinline__ void inv_keep_outputs(const struct inv_job &job,
                                                        const struct inv_place &place,
                                                        uint32_t (&words)[INV_CHANNELS / 16][4])
{
    int output = inv_row((int)threadIdx.x % 32 / 4);
    bool is[2] = {inv_is_output(job, place, output), inv_is_output(job, place, output + INV_SIDE)};
    if (is[0] && is[1])
        return;
#pragma unroll
    for (int i = 0; i < INV_CHANNELS / 16; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            words[i][e] = is[e % 2] ? words[i][e] : 0;
}

/* results: the patch's outputs as inv_store() left them, for channels from `channel` on. A warp sums 16 of
 * these: a product with ones. */
static __device__ __forceinline__ void inv_sum(const struct inv_job &job, const struct inv_place &place,
                                               const char *results, int channel)
{
    const uint32_t ones[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
    float sum[2][4] = {};
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % CONVOY_WARPGROUP / 32;
    int outputs = job.side * job.side;
#pragma unroll
    for (int first = 0; first < NHWC_PIECE; first += 16) {
        int output = first + lane % 16, row = output < outputs ? output : NHWC_PIECE - 1;
        uint32_t b[4];
        convoy_load_transposed(b, results + row * INV_ROW_BYTES,
                               convoy_swizzled_cell<INV_ROW_BYTES>(row, warp * 2 + lane / 16) * 16);
        convoy_mma_half(sum[0], ones, b[0], b[1]);
        convoy_mma_half(sum[1], ones, b[2], b[3]);
    }
    /* All rows of the product are the same: a lane in 4 has two channels of each. */
    channel += warp * 16 + lane * 2;
    int64_t patch = ((int64_t)place.n * job.down + place.y / job.side) * job.across + place.x / job.side;
    float *to = job.sums_out + patch * job.mid + channel;
    if (lane < 4 && channel < job.mid)
        *reinterpret_cast<float2 *>(to) = make_float2(sum[0][0], sum[0][1]);
    if (lane < 4 && channel + 8 < job.mid)
        *reinterpret_cast<float2 *>(to + 8) = make_float2(sum[1][0], sum[1][1]);
}

#endif
