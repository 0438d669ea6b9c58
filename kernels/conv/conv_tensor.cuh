/* tensor: convolution on the tensor cores, the image unrolled on its way from shared memory to registers.
 *
 * Idea (implicit GEMM, beyond the reports): a block keeps the input under its outputs in shared memory once,
 * a plane for each channel, and makes of it the rows of a matrix product: outputs x (filter taps x channels),
 * times the weights. A row is an output, so a fragment of A, 16 outputs x 8 words of the reduction, is 4
 * loads of 4 bytes by each lane: outputs beside each other lie beside each other, a tap or channel further is
 * an offset from a table that all outputs share. Planes lie 8 banks apart, so the 8 x 4 words of such a load
 * meet no conflict. Any filter, stride, dilation and padding is only another table, and few channels cost no
 * padding but to a multiple of 8 words of the whole reduction: 1 channel of 7 x 7 takes 56 words for 49.
 * Weights lie in memory as the lanes want them, a coalesced load each, which all warps find in the L1 cache;
 * so the inner loop has no barrier.
 *
 * fp32 from tf32: x = high + low, both tf32, and y = high high + high low + low high, which leaves out 2^-22
 * of a product. The sums of the tensor cores are cut off, not rounded, so they are carried to fp32 registers
 * every 128 terms. tf32 and half take each operand rounded once; half has two channels in a word (or, of a
 * single channel, two taps) and so half the steps.
 *
 * Takes everything but pooling other than 2 x 2 with an activation that rises, and tiles over 200 KB. An
 * infinite input gives NaN in fp32. Needs sm_80.
 *
 * Floor: the products at 417 (tf32) and 775 TFLOP/s (half), as measured for 8192^3 with wgmma; mma.sync
 * reaches about 62 % of these on sm_90. ece408's second layer at 10,000 images, 206 GFLOP: fp32 1.5 ms, half
 * 0.27 ms. Predicted with 256x24: fp32 2.4 ms, half 0.7 ms (there the loads from shared memory take as long
 * as the products: 22 wavefronts for 12 instructions of 6.5 cycles, by four warps). Measured on an
 * H200: 3.77 ms in fp32, 1.99 in tf32, 1.35 in half, all with 128x24; docs/kernels.md says what holds it up.
 */
#ifndef CONVOY_KERNELS_CONV_TENSOR_CUH
#define CONVOY_KERNELS_CONV_TENSOR_CUH

#include "kernels/conv/conv_epilogue.cuh"
#include "kernels/conv/tensor_layout.cuh"
#include "kernels/conv/tensor_plan.h"
#include "kernels/device/tensor_steps.cuh"
#include "kernels/device/tensor_words.cuh"

/* Where a unit lies. */
struct tensor_unit {
    int n, y, x; /* image, and output (or the first of the 2 x 2) */
    bool real;
};

static __device__ __forceinline__ struct tensor_unit tensor_unit(const struct convoy_conv_shape &shape,
                                                                 const struct tensor_plan &plan, int unit)
{
    struct tensor_unit at;
    at.real = unit < plan.all_units;
    int safe = at.real ? unit : plan.all_units - 1;
    at.n = tensor_divide(safe, plan.by_image_units);
    int inner = safe - at.n * plan.image_units, row = tensor_divide(inner, plan.by_unit_w);
    at.y = row * shape.pool;
    at.x = (inner - row * plan.unit_w) * shape.pool;
    return at;
}

/* Byte offsets of (plane 0, first tap) of the two outputs whose words a lane loads for tile i of its warp's.
 */
template <int MT>
static __device__ __forceinline__ void
find_outputs(const struct convoy_conv_shape &shape, const struct tensor_plan &plan,
             const struct tensor_span &span, int first, int (&base)[MT][2])
{
    int row = threadIdx.x % 32 / 4, tile_units = 16 / (shape.pool * shape.pool);
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            /* Pooled: rows 0 to 7 are the upper outputs of four windows, rows 8 to 15 the lower ones. */
            int unit = first + i * tile_units + (shape.pool == 2 ? row / 2 : row + half * 8);
            struct tensor_unit at = tensor_unit(shape, plan, unit);
            if (shape.pool == 2) {
                at.y += half;
                at.x += row % 2;
            }
            int later = at.n - span.first_image;
            int top = later == 0 ? -span.first_row * shape.pool * shape.stride[0]
                                 : span.first_rows + (later - 1) * plan.full_rows;
            base[i][half] = ((top + at.y * shape.stride[0]) * plan.width + at.x * shape.stride[1]) * 4;
            if (later < 0 || !at.real)
                base[i][half] = 0; /* its sum goes nowhere */
        }
    }
}

/* Brings a chunk's planes to shared memory, zeros where the image or its channels end. All loads read from
 * somewhere, so that none hides behind a branch and several are on their way at once. */
template <int MATH, bool U8>
static __device__ __forceinline__ void
fill(const struct convoy_conv_shape &shape, const struct convoy_images &x, const struct tensor_plan &plan,
     const struct tensor_span &span, int group_c, int first_word, uint32_t *tile)
{
    bool tap_pairs = MATH == TENSOR_HALF && plan.tap_pairs;
    struct tensor_source source;
    source.first_c = group_c + first_word * (MATH == TENSOR_HALF && !tap_pairs ? 2 : 1);
    source.channels = group_c + shape.c / shape.groups - source.first_c;
    for (int i = threadIdx.x; i < span.rows * plan.width; i += TENSOR_THREADS) {
        int row = tensor_divide(i, plan.by_width), column = i - row * plan.width - shape.pad[1];
        int y = row + span.first_row * shape.pool * shape.stride[0], image = span.first_image;
        if (row >= span.first_rows) {
            int later = tensor_divide(row - span.first_rows, plan.by_full_rows);
            y = row - span.first_rows - later * plan.full_rows;
            image += later + 1;
        }
        y -= shape.pad[0];
        bool row_inside = (unsigned)y < (unsigned)shape.h;
        source.inside = row_inside && (unsigned)column < (unsigned)shape.w;
        source.next_inside =
            tap_pairs && row_inside && (unsigned)(column + shape.dilation[1]) < (unsigned)shape.w;
        int64_t at = (int64_t)y * shape.w + column; /* may lie outside: then it is not read */
        const unsigned char *first =
            static_cast<const unsigned char *>(x.data) + (int64_t)image * x.image_bytes;
        source.from =
            first + (U8 ? at * shape.c + source.first_c
                        : ((int64_t)source.first_c * (shape.h * shape.w) + at) * (int64_t)sizeof(float));
        int word = 0;
        for (; word + 4 <= plan.words; word += 4) {
            uint32_t words[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                words[j] = tensor_word<MATH, U8>(shape, x, tap_pairs, source, word + j);
#pragma unroll
            for (int j = 0; j < 4; j++)
                tile[(word + j) * plan.plane + i] = words[j];
        }
        for (; word < plan.words; word++)
            tile[word * plan.plane + i] = tensor_word<MATH, U8>(shape, x, tap_pairs, source, word);
    }
}

/* For each word of the reduction its offset in bytes from an output's first. Those past the end repeat the
 * last: their weights are 0, and what is no number elsewhere must not come in. */
static __device__ __forceinline__ void make_offsets(const struct convoy_conv_shape &shape,
                                                    const struct tensor_plan &plan, int *offsets)
{
    int real = shape.r * plan.tap_columns * plan.words;
    for (int i = threadIdx.x; i < plan.steps * TENSOR_STEP; i += TENSOR_THREADS) {
        int k = min(i, real - 1), tap = tensor_divide(k, plan.by_words), word = k - tap * plan.words;
        int r = tensor_divide(tap, plan.by_tap_columns),
            s = (tap - r * plan.tap_columns) * (plan.tap_pairs ? 2 : 1);
        offsets[i] = (word * plan.plane + r * shape.dilation[0] * plan.width + s * shape.dilation[1]) * 4;
    }
}

template <int MT, int NT>
static __device__ __forceinline__ void store_pooled(const struct convoy_conv_shape &shape,
                                                    const struct convoy_conv_operands &operands,
                                                    const struct tensor_plan &plan, int first, int first_k,
                                                    int end_k, const float (&sum)[MT * NT][4])
{
    int lane = threadIdx.x % 32;
    float pooled[MT * NT][1];
    tensor_pool<MT * NT>(sum, pooled);
    if (shape.bias) {
#pragma unroll
        for (int j = 0; j < NT; j++) {
            int k = first_k + j * 8 + lane % 4 * 2 + lane / 4 % 2;
            float bias = __ldg(operands.bias + min(k, end_k - 1));
#pragma unroll
            for (int i = 0; i < MT; i++)
                pooled[i * NT + j][0] += bias;
        }
    }
    convoy_activate(shape.act, pooled);
#pragma unroll
    for (int i = 0; i < MT; i++) {
        struct tensor_unit at = tensor_unit(shape, plan, first + i * 4 + lane / 8);
        int plane = plan.image_units;
        float *y = operands.y + (int64_t)at.n * shape.k * plane + at.y / 2 * plan.unit_w + at.x / 2;
#pragma unroll
        for (int j = 0; j < NT; j++) {
            int k = first_k + j * 8 + lane % 4 * 2 + lane / 4 % 2;
            if (at.real && k < end_k)
                y[(int64_t)k * plane] = pooled[i * NT + j][0];
        }
    }
}

template <int MT, int NT>
static __device__ __forceinline__ void
store(const struct convoy_conv_shape &shape, const struct convoy_conv_operands &operands,
      const struct tensor_plan &plan, int first, int first_k, int end_k, float (&sum)[MT * NT][4])
{
    int lane = threadIdx.x % 32, plane = plan.image_units, k = first_k + lane % 4 * 2;
    int64_t at[MT][2]; /* of output (k, y, x) of the image */
    bool real[MT][2];
#pragma unroll
    for (int i = 0; i < MT; i++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            struct tensor_unit unit = tensor_unit(shape, plan, first + i * 16 + lane / 4 + half * 8);
            at[i][half] = ((int64_t)unit.n * shape.k + k) * plane + unit.y * plan.unit_w + unit.x;
            real[i][half] = unit.real;
        }
    }
#pragma unroll
    for (int j = 0; j < NT; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int map = k + j * 8 + e % 2;
            float bias = shape.bias ? __ldg(operands.bias + min(map, end_k - 1)) : 0.0f;
#pragma unroll
            for (int i = 0; i < MT; i++) {
                sum[i * NT + j][e] += bias;
                if (shape.residual && real[i][e / 2] && map < end_k)
                    sum[i * NT + j][e] += operands.residual[at[i][e / 2] + (j * 8 + e % 2) * plane];
            }
        }
    }
    convoy_activate(shape.act, sum);
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (real[i][e / 2] && k + j * 8 + e % 2 < end_k)
                    operands.y[at[i][e / 2] + (j * 8 + e % 2) * plane] = sum[i * NT + j][e];
}

/* Blocks on a multiprocessor at once, which bounds the registers of a thread. */
static constexpr int tensor_blocks(int math, int tiles)
{
    if (math == TENSOR_FP32)
        return tiles <= 4 ? 5 : tiles <= 6 ? 4 : tiles <= 8 ? 3 : 2;
    return tiles <= 6 ? 5 : tiles <= 8 ? 4 : tiles <= 16 ? 3 : 2;
}

template <int MATH, int MT, int NT>
static __global__ void __launch_bounds__(TENSOR_THREADS, tensor_blocks(MATH, MT *NT))
    tensor_kernel(CONVOY_PARAMETER(struct convoy_conv_shape) shape,
                  CONVOY_PARAMETER(struct convoy_conv_operands) operands,
                  CONVOY_PARAMETER(struct tensor_plan) plan)
{
    CONVOY_DYNAMIC_SHARED(uint32_t, tile);
    int *offsets = reinterpret_cast<int *>(tile + plan.words * plan.plane);
    int map_tile = blockIdx.x % plan.map_tiles, group = blockIdx.y, group_k = shape.k / shape.groups;
    int first = blockIdx.x / plan.map_tiles * plan.units, pass_units = plan.units / plan.passes;
    struct tensor_span span = tensor_span(shape, plan, first);
    make_offsets(shape, plan, offsets);
    int map_stride = plan.chunks * plan.steps * 32;
    const struct tensor_weights<MATH> *weights =
        reinterpret_cast<const struct tensor_weights<MATH> *>(operands.weights) +
        (int64_t)(group * plan.map_tiles + map_tile) * NT * map_stride + threadIdx.x % 32;
    int first_k = group * group_k + map_tile * NT * 8, end_k = (group + 1) * group_k;

    /* Either several passes over one chunk, or one pass over several. */
    for (int pass = 0; pass < plan.passes; pass++) {
        int base[MT][2],
            warp_first = first + pass * pass_units + threadIdx.x / 32 * (pass_units / TENSOR_WARPS);
        find_outputs<MT>(shape, plan, span, warp_first, base);
        float sum[MT * NT][4] = {};
        for (int chunk = 0; chunk < plan.chunks; chunk++) {
            if (pass == 0) {
                if (chunk > 0)
                    __syncthreads();
                int group_c = group * (shape.c / shape.groups);
                if (shape.u8)
                    fill<MATH, true>(shape, operands.x, plan, span, group_c, chunk * plan.words, tile);
                else
                    fill<MATH, false>(shape, operands.x, plan, span, group_c, chunk * plan.words, tile);
                __syncthreads();
            }
            tensor_add<MATH, MT, NT, false>(tile, offsets, base, weights + chunk * plan.steps * 32,
                                            map_stride, plan.steps, sum);
        }
        if (shape.pool == 2)
            store_pooled<MT, NT>(shape, operands, plan, warp_first, first_k, end_k, sum);
        else
            store<MT, NT>(shape, operands, plan, warp_first, first_k, end_k, sum);
    }
}

template <int MATH, int MT, int NT> struct tensor {
    static bool plan(const struct convoy_conv_shape *s, struct tensor_plan *plan)
    {
        return tensor_make_plan(s, (enum tensor_math)MATH, MT * 16 * TENSOR_WARPS, NT * 8, plan);
    }

    static bool takes(const struct convoy_conv_shape *s)
    {
        struct tensor_plan unused;
        return tensor_allows((enum tensor_math)MATH, s->compute_type) && convoy_has_mma() &&
               (s->pool == 1 || (s->pool == 2 && convoy_unary_rises(s->act))) && plan(s, &unused);
    }

    /* Shares of 60 TFLOP/s that the products reach, less what is padding, and what a pass costs beside them:
     * some 1,500 instructions of a warp for 32 outputs. Both as measured on an H200 with the layers of
     * ece408. */
    static float estimate_us(const struct convoy_conv_shape *s)
    {
        struct tensor_plan made;
        if (!plan(s, &made))
            return 1e9f;
        double share = MATH == TENSOR_FP32 ? 0.95 : MATH == TENSOR_TF32 ? 1.9 : 2.7;
        double maps = (double)(s->k / s->groups) / ((double)made.map_tiles * NT * 8);
        double words = (double)(s->c / s->groups) * s->r * s->s /
                       ((double)made.chunks * made.steps * TENSOR_STEP * (MATH == TENSOR_HALF ? 2 : 1));
        double blocks = (double)made.blocks * s->groups;
        double passes =
            convoy_div_up((int64_t)blocks, CONVOY_ESTIMATE_SMS) * CONVOY_ESTIMATE_SMS * made.passes;
        return convoy_conv_estimate(s, blocks, share * maps * words, 1.2) +
               (float)(passes * made.chunks * MT * 750 / (CONVOY_ESTIMATE_SMS * 1700.0));
    }

    static cudaError_t launch(const struct convoy_conv_shape *shape,
                              const struct convoy_conv_operands *operands, cudaStream_t stream)
    {
        struct tensor_plan made;
        if (!plan(shape, &made))
            return cudaErrorInvalidValue;
        dim3 grid((unsigned)made.blocks, (unsigned)shape->groups);
        return convoy_launch(tensor_kernel<MATH, MT, NT>, grid, dim3(TENSOR_THREADS), made.shared_bytes,
                             stream, *shape, *operands, made);
    }
};

/* The instances of a file, whose names begin with prefix. */
#define CONVOY_DEFINE_TENSOR(prefix, math, compute_type, outputs, maps)                                      \
    const struct convoy_conv_kernel convoy_conv_##prefix##_##outputs##_##maps = {                            \
        #prefix ":" #outputs "x" #maps,                                                                      \
        compute_type,                                                                                        \
        tensor<math, outputs / 64, maps / 8>::takes,                                                         \
        tensor<math, outputs / 64, maps / 8>::estimate_us,                                                   \
        tensor_layout<math, maps / 8>::packed_floats,                                                        \
        tensor_layout<math, maps / 8>::pack,                                                                 \
        convoy_no_scratch,                                                                                   \
        tensor<math, outputs / 64, maps / 8>::launch,                                                        \
        false,                                                                                               \
    };

#endif
