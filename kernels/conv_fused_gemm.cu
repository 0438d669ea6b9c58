/* fused_gemm: a matrix product that unrolls the image while it loads its tiles (implicit GEMM).
 *
 * Idea (optimization 4 of the reports, with register blocks as every fast matrix product has them): y = W X
 * where W is k x (r s c), X is (r s c) x pixels of the whole batch, and X is never written: a block loads the
 * 8 x BN piece that it needs straight from the images. The reduction runs over taps (r, s) outside and
 * channels inside, eight channels a step: so a step has one tap, its test for padding is made once per pixel
 * and tap, and the next step is a pointer plus a constant. Neighbouring threads load neighbouring pixels.
 *
 * A block makes BM maps x BN pixels, a thread 8 x 8 of them: per step of the reduction 64 multiply-adds on 4
 * shared loads of 16 bytes. A thread's maps are 4 and 4 that lie BM / 2 apart, its pixels 4 and 4 that lie BN
 * / 2 apart, so the lanes of a quarter warp read 128 bytes in a row: no bank conflicts. Two buffers: while
 * one is multiplied, the next piece is on its way from memory to registers; one barrier a step.
 *
 * Takes any stride, dilation, padding, groups, activation and residual; floats only; no pooling. Channels are
 * padded to eight, so it is a waste for c = 1 and 3: per_layer takes those. Per step a thread of 128x128
 * issues 512 multiply-adds, 32 shared loads, and about 22 others: 90 % of the issue slots. Predicted: 45
 * TFLOP/s (75 % of 60) on 3x3, 128 to 128 channels. ece408 at 10,000 images: floor 1.0 ms and 4.0 ms;
 * predicted with 16x256, layer 1: 13 ms (8 channels for 1, 16 maps for 12), layer 2 with 32x256 and 16
 * channels for 12, 32 maps for 24: 9 ms. Measured: not yet. */
#include "kernels/conv_common.h"
#include "kernels/conv_epilogue.cuh"

#define BK 8 /* of the reduction in a step */

/* Threads, and how they lie in the tile: 8 x 8 outputs each; a warp covers LANES_Y x LANES_X threads of it.
 */
template <int BM, int BN> struct tile {
    static constexpr int threads_x = BN / 8, threads_y = BM / 8, threads = threads_x * threads_y;
    static constexpr int lanes_y = threads_y < 4 ? threads_y : 4, lanes_x = 32 / lanes_y;
    static constexpr int pixels = BN > threads ? BN / threads : 1; /* whose input a thread loads */
    static constexpr int rows = BK * BN / (threads * pixels);      /* channels that it loads for each */
    static constexpr int row_step = BK / rows;
    static constexpr int weights =
        BK * BM / 4 / threads > 0 ? BK *BM / 4 / threads : 1; /* float4s it loads */
    static constexpr int blocks_per_sm = threads == 256 ? 2 : threads == 128 ? 3 : 5;
};

static __host__ __device__ __forceinline__ int padded(int count, int multiple)
{
    return (count + multiple - 1) / multiple * multiple;
}

/* Where a thread's pixel lies in the input, for the tap that is being loaded. */
struct pixel {
    const float *image; /* channel 0 of this group, this thread's first row of the step */
    int y0, x0;         /* of tap (0, 0); far outside for what lies past the last pixel */
    int offset;         /* of the tap in a plane */
    bool inside;
};

static __device__ __forceinline__ void set_tap(struct pixel &pixel, const struct convoy_conv_shape &shape,
                                               int r, int s)
{
    int y = pixel.y0 + r * shape.dilation[0], x = pixel.x0 + s * shape.dilation[1];
    pixel.inside = (unsigned)y < (unsigned)shape.h && (unsigned)x < (unsigned)shape.w;
    pixel.offset = (int)((unsigned)y * (unsigned)shape.w + (unsigned)x); /* what is far outside wraps unused */
}

template <int BM, int BN>
static __global__ void __launch_bounds__(tile<BM, BN>::threads, tile<BM, BN>::blocks_per_sm)
    fused_gemm_kernel(CONVOY_PARAMETER struct convoy_conv_shape shape,
                      CONVOY_PARAMETER struct convoy_conv_operands operands, int map_tiles)
{
    using T = tile<BM, BN>;
    __shared__ __align__(16) float a[2][BK][BM], b[2][BK][BN];
    int group_c = shape.c / shape.groups, group_k = shape.k / shape.groups;
    int plane = shape.h * shape.w, out_plane = shape.oh * shape.ow, pixels = shape.n * out_plane;
    int map_tile = blockIdx.x % map_tiles, group = blockIdx.y, first_pixel = blockIdx.x / map_tiles * BN;

    /* What this thread loads: row `row` and every row_step-th of the step's channels, for its pixels. */
    int row = threadIdx.x / (BN / T::pixels), column = threadIdx.x % (BN / T::pixels);
    struct pixel mine[T::pixels];
#pragma unroll
    for (int i = 0; i < T::pixels; i++) {
        int at = first_pixel + column + i * T::threads;
        int n = at / out_plane, inner = at - n * out_plane, oy = inner / shape.ow, ox = inner - oy * shape.ow;
        bool real = at < pixels;
        mine[i].y0 = real ? oy * shape.stride[0] - shape.pad[0] : -(1 << 30);
        mine[i].x0 = ox * shape.stride[1] - shape.pad[1];
        mine[i].image = static_cast<const float *>(operands.x.data) +
                        (real ? n : 0) * (operands.x.image_bytes / (int64_t)sizeof(float)) +
                        (int64_t)(group * group_c + row) * plane;
        set_tap(mine[i], shape, 0, 0);
    }
    int padded_c = padded(group_c, BK), padded_k = map_tiles * BM;
    const float *weights =
        operands.weights + (int64_t)group * shape.r * shape.s * padded_c * padded_k + map_tile * BM;
    int steps = shape.r * shape.s * (padded_c / BK);
    int c = 0, r = 0, s = 0; /* of the step that is loaded next */

    /* Where this thread's outputs lie in the tile. */
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int tx = warp % (T::threads_x / T::lanes_x) * T::lanes_x + lane % T::lanes_x;
    int ty = warp / (T::threads_x / T::lanes_x) * T::lanes_y + lane / T::lanes_x;

    float sum[8][8] = {};
    float next_b[T::pixels][T::rows];
    float4 next_a[T::weights];

    for (int step = -1; step < steps; step++) {
        /* The next step's piece, from memory into registers. */
        if (step + 1 < steps) {
#pragma unroll
            for (int i = 0; i < T::weights; i++) {
                int at = threadIdx.x + i * T::threads;
                if (T::weights * T::threads * 4 == BK * BM || at < BK * BM / 4)
                    next_a[i] = __ldg(reinterpret_cast<const float4 *>(weights + at / (BM / 4) * padded_k +
                                                                       at % (BM / 4) * 4));
            }
            weights += (int64_t)BK * padded_k;
#pragma unroll
            for (int i = 0; i < T::pixels; i++) {
#pragma unroll
                for (int j = 0; j < T::rows; j++) {
                    bool load = mine[i].inside && c + row + j * T::row_step < group_c;
                    next_b[i][j] =
                        load ? __ldg(mine[i].image + (mine[i].offset + (c + j * T::row_step) * plane)) : 0.0f;
                }
            }
            c += BK;
            if (c >= group_c) {
                c = 0;
                if (++s == shape.s) {
                    s = 0;
                    r++;
                }
#pragma unroll
                for (int i = 0; i < T::pixels; i++)
                    set_tap(mine[i], shape, r, s);
            }
        }
        /* The present step's piece: 8 x 8 outer products. */
        if (step >= 0) {
            int now = step & 1;
#pragma unroll
            for (int q = 0; q < BK; q++) {
                float4 a0 = *reinterpret_cast<const float4 *>(&a[now][q][ty * 4]);
                float4 a1 = *reinterpret_cast<const float4 *>(&a[now][q][BM / 2 + ty * 4]);
                float4 b0 = *reinterpret_cast<const float4 *>(&b[now][q][tx * 4]);
                float4 b1 = *reinterpret_cast<const float4 *>(&b[now][q][BN / 2 + tx * 4]);
                float av[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
                float bv[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
                for (int i = 0; i < 8; i++)
#pragma unroll
                    for (int j = 0; j < 8; j++)
                        sum[i][j] = fmaf(av[i], bv[j], sum[i][j]);
            }
        }
        /* The next piece into the other buffer, which the barrier of the step before has freed. */
        if (step + 1 < steps) {
            int other = (step + 1) & 1;
#pragma unroll
            for (int i = 0; i < T::weights; i++) {
                int at = threadIdx.x + i * T::threads;
                if (T::weights * T::threads * 4 == BK * BM || at < BK * BM / 4)
                    *reinterpret_cast<float4 *>(&a[other][at / (BM / 4)][at % (BM / 4) * 4]) = next_a[i];
            }
#pragma unroll
            for (int i = 0; i < T::pixels; i++)
#pragma unroll
                for (int j = 0; j < T::rows; j++)
                    b[other][row + j * T::row_step][column + i * T::threads] = next_b[i][j];
            __syncthreads();
        }
    }

    /* Four pixels in a row at a time; in one store where they are sure to lie in one image on 16 bytes. */
    bool whole = out_plane % 4 == 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int at = first_pixel + half * (BN / 2) + tx * 4;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int map = map_tile * BM + (i / 4) * (BM / 2) + ty * 4 + i % 4;
            int k = group * group_k + map;
            if (map >= group_k)
                continue;
            if (whole) {
                if (at < pixels) {
                    int n = at / out_plane;
                    int64_t index = ((int64_t)n * shape.k + k) * out_plane + (at - n * out_plane);
                    float4 out;
                    out.x = convoy_finish(shape, operands, sum[i][half * 4 + 0], k, index);
                    out.y = convoy_finish(shape, operands, sum[i][half * 4 + 1], k, index + 1);
                    out.z = convoy_finish(shape, operands, sum[i][half * 4 + 2], k, index + 2);
                    out.w = convoy_finish(shape, operands, sum[i][half * 4 + 3], k, index + 3);
                    *reinterpret_cast<float4 *>(operands.y + index) = out;
                }
                continue;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (at + j < pixels) {
                    int n = (at + j) / out_plane;
                    int64_t index = ((int64_t)n * shape.k + k) * out_plane + (at + j - n * out_plane);
                    operands.y[index] = convoy_finish(shape, operands, sum[i][half * 4 + j], k, index);
                }
            }
        }
    }
}

template <int BM, int BN> struct fused_gemm {
    static int map_tiles(const struct convoy_conv_shape *s)
    {
        return (int)convoy_div_up(s->k / s->groups, BM);
    }

    static int64_t pixel_tiles(const struct convoy_conv_shape *s)
    {
        return convoy_div_up((int64_t)s->n * s->oh * s->ow, BN);
    }

    /* Pixels, and a group's planes, are counted in 32 bits. */
    static bool takes(const struct convoy_conv_shape *s)
    {
        return !s->u8 && s->pool == 1 && s->groups <= 65535 &&
               pixel_tiles(s) * BN * map_tiles(s) <= INT32_MAX - BN &&
               ((int64_t)s->c / s->groups + BK) * s->h * s->w <= INT32_MAX;
    }

    static float guess_us(const struct convoy_conv_shape *s)
    {
        int c = s->c / s->groups, k = s->k / s->groups;
        double useful = (double)c / padded(c, BK) * k / (map_tiles(s) * BM) * ((double)s->n * s->oh * s->ow) /
                        ((double)pixel_tiles(s) * BN);
        double share = BM >= 128 && BN >= 128 ? 0.75 : BM >= 64 && BN >= 64 ? 0.68 : BM >= 32 ? 0.6 : 0.5;
        double blocks = (double)map_tiles(s) * pixel_tiles(s) * s->groups;
        /* Few blocks: a step of each waits for memory, about 0.7 us. */
        double alone = (double)s->r * s->s * convoy_div_up(c, BK) * 0.7;
        float full = convoy_conv_guess(s, blocks, share * useful, 1.3);
        return full > alone ? full : (float)alone;
    }

    static size_t packed_floats(const struct convoy_conv_shape *s)
    {
        return (size_t)s->groups * s->r * s->s * padded(s->c / s->groups, BK) * map_tiles(s) * BM;
    }

    /* groups x (r s) x channels padded to BK x maps padded to BM. */
    static void pack(const struct convoy_conv_shape *s, const float *weights, float *packed)
    {
        int group_c = s->c / s->groups, group_k = s->k / s->groups, taps = s->r * s->s;
        size_t padded_c = padded(group_c, BK), padded_k = (size_t)map_tiles(s) * BM;
        memset(packed, 0, packed_floats(s) * sizeof(float));
        for (int k = 0; k < s->k; k++)
            for (int c = 0; c < group_c; c++)
                for (int tap = 0; tap < taps; tap++)
                    packed[(((size_t)(k / group_k) * taps + tap) * padded_c + c) * padded_k + k % group_k] =
                        weights[((size_t)k * group_c + c) * taps + tap];
    }

    static cudaError_t launch(const struct convoy_conv_shape *shape,
                              const struct convoy_conv_operands *operands, cudaStream_t stream)
    {
        dim3 grid((unsigned)(pixel_tiles(shape) * map_tiles(shape)), (unsigned)shape->groups);
        return convoy_launch(fused_gemm_kernel<BM, BN>, grid, dim3(tile<BM, BN>::threads), 0, stream, *shape,
                             *operands, map_tiles(shape));
    }
};

#define DEFINE(bm, bn)                                                                                       \
    const struct convoy_conv_kernel convoy_conv_fused_gemm_##bm##_##bn = {                                   \
        "fused_gemm:" #bm "x" #bn,                                                                           \
        false,                                                                                               \
        fused_gemm<bm, bn>::takes,                                                                           \
        fused_gemm<bm, bn>::guess_us,                                                                        \
        fused_gemm<bm, bn>::packed_floats,                                                                   \
        fused_gemm<bm, bn>::pack,                                                                            \
        convoy_no_scratch,                                                                                   \
        fused_gemm<bm, bn>::launch,                                                                          \
    };

CONVOY_FUSED_GEMM_INSTANCES(DEFINE)
