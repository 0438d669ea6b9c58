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
 * padded to eight, so it is a waste for c = 1 and 3: per_layer takes those.
 * Floor: 2 c r s k operations for each pixel at 51 TFLOP/s; 64 images of 128 x 28 x 28, 3x3 to 128 maps: 14.8
 * GFLOP, 0.29 ms, and 51 MB, 0.012 ms. By the disassembly a thread of 128x128 (127 registers, no spills)
 * issues about 600 instructions for the 512 multiply-adds of a step, 85 %. Predicted: 45 TFLOP/s (75 % of
 * 60), 0.33 ms; not measured. ece408 at 10,000 images: floor 1.0 ms and 4.0 ms; predicted with 16x256, layer
 * 1: 17 ms (8 channels for 1, 16 maps for 12), layer 2 with 32x256 (16 channels for 12, 32 maps for 24): 11
 * ms. Measured on an H200: layer 1 16.3 ms (16x256); layer 2 9.30 ms (32x256), and 9.13 ms with 32x128. */
#include "kernels/conv/conv_common.h"
#include "kernels/conv/conv_epilogue.cuh"

#define BK 8 /* of the reduction in a step */

/* Threads, and how they lie in the tile: 8 x 8 outputs each; a warp covers LANES_Y x LANES_X threads of it.
 */
template <int BM, int BN> struct fused_gemm_tile {
    static constexpr int threads_x = BN / 8, threads_y = BM / 8, threads = threads_x * threads_y;
    static constexpr int lanes_y = threads_y < 4 ? threads_y : 4, lanes_x = 32 / lanes_y;
    static constexpr int pixels = BN > threads ? BN / threads : 1; /* whose input a thread loads */
    static constexpr int rows = BK * BN / (threads * pixels);      /* channels that it loads for each */
    static constexpr int row_step = BK / rows;
    static constexpr int weights =
        BK * BM / 4 / threads > 0 ? BK *BM / 4 / threads : 1; /* float4s it loads */
    static constexpr bool all_load_weights = BK * BM / 4 >= threads;
    static constexpr int blocks_per_sm = threads == 256 ? 2 : threads == 128 ? 3 : 5;
};

static __host__ __device__ __forceinline__ int padded(int count, int multiple)
{
    return (count + multiple - 1) / multiple * multiple;
}

/* One of the pixels whose input a thread loads. */
struct pixel {
    const float *image; /* this thread's first channel of a step, in this group */
    int y0, x0;         /* of tap (0, 0); far outside for what lies past the last pixel */
    const float *at;    /* in the present step */
    bool inside;
};

/* What a thread carries from memory to shared memory: its pixels of some channels, and its share of the
 * weights. */
template <int BM, int BN> struct fused_gemm_loader {
    using T = fused_gemm_tile<BM, BN>;
    struct pixel pixels[T::pixels];
    const float *weights;
    int c, r, s; /* of the step that is fetched next */
    int row, plane, padded_k;
    float b[T::pixels][T::rows];
    float4 a[T::weights];

    __device__ __forceinline__ void set_tap(const struct convoy_conv_shape &shape)
    {
#pragma unroll
        for (int i = 0; i < T::pixels; i++) {
            int y = pixels[i].y0 + r * shape.dilation[0], x = pixels[i].x0 + s * shape.dilation[1];
            pixels[i].inside = (unsigned)y < (unsigned)shape.h && (unsigned)x < (unsigned)shape.w;
            pixels[i].at = pixels[i].image + (pixels[i].inside ? y * shape.w + x : 0);
        }
    }

    __device__ __forceinline__ void start(const struct convoy_conv_shape &shape,
                                          const struct convoy_conv_operands &operands, int first_pixel,
                                          int map_tiles)
    {
        int group_c = shape.c / shape.groups, out_plane = shape.oh * shape.ow, all = shape.n * out_plane;
        int group = blockIdx.y, map_tile = blockIdx.x % map_tiles;
        c = r = s = 0;
        row = threadIdx.x / (BN / T::pixels);
        plane = shape.h * shape.w;
        padded_k = map_tiles * BM;
        weights = operands.weights + (int64_t)group * shape.r * shape.s * padded(group_c, BK) * padded_k +
                  map_tile * BM + threadIdx.x / (BM / 4) * padded_k + threadIdx.x % (BM / 4) * 4;
#pragma unroll
        for (int i = 0; i < T::pixels; i++) {
            int at = first_pixel + threadIdx.x % (BN / T::pixels) + i * T::threads;
            int n = at / out_plane, inner = at - n * out_plane, oy = inner / shape.ow,
                ox = inner - oy * shape.ow;
            bool real = at < all;
            pixels[i].y0 = real ? oy * shape.stride[0] - shape.pad[0] : -(1 << 30);
            pixels[i].x0 = ox * shape.stride[1] - shape.pad[1];
            pixels[i].image = static_cast<const float *>(operands.x.data) +
                              (real ? n : 0) * (operands.x.image_bytes / (int64_t)sizeof(float)) +
                              (int64_t)(group * group_c + row) * plane;
        }
        set_tap(shape);
    }

    /* The next step's piece, from memory into registers. */
    __device__ __forceinline__ void fetch(const struct convoy_conv_shape &shape, int group_c)
    {
#pragma unroll
        for (int i = 0; i < T::weights; i++)
            if (T::all_load_weights || (int)threadIdx.x < BK * BM / 4)
                a[i] =
                    __ldg(reinterpret_cast<const float4 *>(weights + i * (T::threads / (BM / 4)) * padded_k));
        weights += BK * padded_k;
        int left = group_c - c - row;
#pragma unroll
        for (int i = 0; i < T::pixels; i++) {
#pragma unroll
            for (int j = 0; j < T::rows; j++)
                b[i][j] = pixels[i].inside && j * T::row_step < left
                              ? __ldg(pixels[i].at + j * T::row_step * plane)
                              : 0.0f;
            pixels[i].at += BK * plane;
        }
        c += BK;
        if (c >= group_c) {
            c = 0;
            if (++s == shape.s) {
                s = 0;
                r++;
            }
            set_tap(shape);
        }
    }

    /* From registers into shared memory. */
    __device__ __forceinline__ void put(float (*a_to)[BM], float (*b_to)[BN])
    {
        int column = threadIdx.x % (BN / T::pixels);
#pragma unroll
        for (int i = 0; i < T::weights; i++)
            if (T::all_load_weights || (int)threadIdx.x < BK * BM / 4)
                *reinterpret_cast<float4 *>(
                    &a_to[threadIdx.x / (BM / 4) + i * (T::threads / (BM / 4))][threadIdx.x % (BM / 4) * 4]) =
                    a[i];
#pragma unroll
        for (int i = 0; i < T::pixels; i++)
#pragma unroll
            for (int j = 0; j < T::rows; j++)
                b_to[row + j * T::row_step][column + i * T::threads] = b[i][j];
    }
};

/* sum += a_column x b_row for each of the BK steps of a piece; a and b are where this thread's outputs begin.
 */
template <int BM, int BN>
static __device__ __forceinline__ void multiply(const float *a, const float *b, float (&sum)[8][8])
{
#pragma unroll
    for (int q = 0; q < BK; q++) {
        float4 a0 = *reinterpret_cast<const float4 *>(a + q * BM);
        float4 a1 = *reinterpret_cast<const float4 *>(a + q * BM + BM / 2);
        float4 b0 = *reinterpret_cast<const float4 *>(b + q * BN);
        float4 b1 = *reinterpret_cast<const float4 *>(b + q * BN + BN / 2);
        float av[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
        float bv[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                sum[i][j] = fmaf(av[i], bv[j], sum[i][j]);
    }
}

/* Finishes and stores a thread's outputs: maps k + i and k + far_k + i, pixels at + j and at + far_pixel + j
 * (i, j below four), as far as there are such. Four pixels go in one store where they are sure to lie in one
 * image on 16 bytes. */
static __device__ __forceinline__ void store_outputs(const struct convoy_conv_shape &shape,
                                                     const struct convoy_conv_operands &operands, int k,
                                                     int far_k, int end_k, int at, int far_pixel,
                                                     float (&sum)[8][8])
{
    int plane = shape.oh * shape.ow, all = shape.n * plane, first_n = at / plane;
    bool whole = plane % 4 == 0;
    int offset[8]; /* of each pixel, from map 0 of image first_n; negative past the last */
#pragma unroll
    for (int j = 0; j < 8; j++) {
        int pixel = at + j / 4 * far_pixel + j % 4, n = pixel / plane;
        offset[j] = pixel < all ? (n - first_n) * shape.k * plane + (pixel - n * plane) : -1;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int map = k + i / 4 * far_k + i % 4;
        if (map >= end_k)
            continue;
        int64_t first = ((int64_t)first_n * shape.k + map) * plane;
        float bias = shape.bias ? __ldg(operands.bias + map) : 0.0f;
        float row[1][8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            row[0][j] = sum[i][j] + bias;
            if (shape.residual && offset[j] >= 0)
                row[0][j] += operands.residual[first + offset[j]];
        }
        convoy_activate(shape.act, row);
        float *y = operands.y + first;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            if (whole && j % 4 == 0 && offset[j] >= 0)
                *reinterpret_cast<float4 *>(y + offset[j]) =
                    make_float4(row[0][j], row[0][j + 1], row[0][j + 2], row[0][j + 3]);
            if (!whole && offset[j] >= 0)
                y[offset[j]] = row[0][j];
        }
    }
}

template <int BM, int BN>
static __global__ void __launch_bounds__(fused_gemm_tile<BM, BN>::threads,
                                         fused_gemm_tile<BM, BN>::blocks_per_sm)
    fused_gemm_kernel(CONVOY_PARAMETER(struct convoy_conv_shape) shape,
                      CONVOY_PARAMETER(struct convoy_conv_operands) operands, int map_tiles)
{
    using T = fused_gemm_tile<BM, BN>;
    __shared__ __align__(16) float a[2][BK][BM], b[2][BK][BN];
    int group_c = shape.c / shape.groups, group_k = shape.k / shape.groups;
    int first_pixel = blockIdx.x / map_tiles * BN, first_map = blockIdx.x % map_tiles * BM;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int tx = warp % (T::threads_x / T::lanes_x) * T::lanes_x + lane % T::lanes_x;
    int ty = warp / (T::threads_x / T::lanes_x) * T::lanes_y + lane / T::lanes_x;

    struct fused_gemm_loader<BM, BN> loader;
    loader.start(shape, operands, first_pixel, map_tiles);
    loader.fetch(shape, group_c);
    loader.put(a[0], b[0]);
    __syncthreads();
    float sum[8][8] = {};
    int steps = shape.r * shape.s * ((group_c + BK - 1) / BK), now = 0;
    for (int step = 1; step < steps; step++) {
        loader.fetch(shape, group_c);
        multiply<BM, BN>(&a[now][0][ty * 4], &b[now][0][tx * 4], sum);
        now ^= 1;
        loader.put(a[now], b[now]); /* which the barrier of the step before has freed */
        __syncthreads();
    }
    multiply<BM, BN>(&a[now][0][ty * 4], &b[now][0][tx * 4], sum);
    store_outputs(shape, operands, (int)blockIdx.y * group_k + first_map + ty * 4, BM / 2,
                  (int)blockIdx.y * group_k + group_k, first_pixel + tx * 4, BN / 2, sum);
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

    /* Pixels, a group's planes, and where a tile's outputs lie are counted in 32 bits. */
    static bool takes(const struct convoy_conv_shape *s)
    {
        return !s->u8 && s->pool == 1 && s->groups <= 65535 &&
               pixel_tiles(s) * BN * map_tiles(s) <= INT32_MAX - BN &&
               ((int64_t)s->c / s->groups + BK) * s->h * s->w <= INT32_MAX &&
               ((int64_t)s->oh * s->ow * 2 + BN) * s->k <= INT32_MAX;
    }

    static float estimate_us(const struct convoy_conv_shape *s)
    {
        int c = s->c / s->groups, k = s->k / s->groups;
        double useful = (double)c / padded(c, BK) * k / (map_tiles(s) * BM) * ((double)s->n * s->oh * s->ow) /
                        ((double)pixel_tiles(s) * BN);
        double share = BM >= 128 && BN >= 128 ? 0.75 : BM >= 64 && BN >= 64 ? 0.68 : BM >= 32 ? 0.6 : 0.5;
        double blocks = (double)map_tiles(s) * pixel_tiles(s) * s->groups;
        /* Few blocks: a step of each waits for memory, about 0.7 us. */
        double alone = (double)s->r * s->s * convoy_div_up(c, BK) * 0.7;
        float full = convoy_conv_estimate(s, blocks, share * useful, 1.3);
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
        return convoy_launch(fused_gemm_kernel<BM, BN>, grid, dim3(fused_gemm_tile<BM, BN>::threads), 0,
                             stream, *shape, *operands, map_tiles(shape));
    }
};

#define DEFINE(bm, bn)                                                                                       \
    const struct convoy_conv_kernel convoy_conv_fused_gemm_##bm##_##bn = {                                   \
        "fused_gemm:" #bm "x" #bn,                                                                           \
        CONVOY_COMPUTE_FP32,                                                                                 \
        fused_gemm<bm, bn>::takes,                                                                           \
        fused_gemm<bm, bn>::estimate_us,                                                                     \
        fused_gemm<bm, bn>::packed_floats,                                                                   \
        fused_gemm<bm, bn>::pack,                                                                            \
        convoy_no_scratch,                                                                                   \
        fused_gemm<bm, bn>::launch,                                                                          \
        false,                                                                                               \
    };

CONVOY_FUSED_GEMM_INSTANCES(DEFINE)
