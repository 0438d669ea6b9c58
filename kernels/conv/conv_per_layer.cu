/* per_layer: a kernel and a tile shape for each layer size.
 *
 * Idea (optimization 6 of the reports, whose best it was, taken further): a direct convolution whose filter,
 * stride and tile are known to the compiler. A thread computes ROWS outputs below each other x MAPS output
 * channels. For each input channel and filter column it loads the column of inputs above its outputs once,
 * (ROWS - 1) STRIDE + FILTER values, and then, per filter row, MAPS weights, the same for all lanes: FILTER
 * ROWS MAPS multiply-adds on about ROWS + FILTER + FILTER MAPS / 4 loads. For 7x7, 6 rows and 12 maps: 504 on
 * 27 loads. Rows lie in a thread and columns in neighbouring lanes, so that stores are whole lines of memory;
 * and the input tile lies in shared memory column by column, so that a thread's column is read with 8 or 16
 * bytes at a time.
 *
 * Pooling 2 x 2 costs nothing: the pair of rows lies in one thread, the pair of columns in two lanes, which
 * exchange half of their maxima each by one shuffle and then both activate and store half of the results (so
 * the activation must be one that rises: it is applied to the maximum).
 *
 * The host chooses the block (per_layer_plan.h): columns, groups of rows, images, and groups of maps, at most
 * 256 threads, so that few lanes idle whatever the layer's size; several images of a small layer share a
 * block.
 *
 * Takes r = s = 1, 3, 5, 7 with stride 1 or 2 as instantiated in conv_common.h; any padding, activation and
 * residual; 8-bit images, normalised while they are loaded; pool 1 or 2; groups and dilation 1.
 * Floor at 10,000 images (51 TFLOP/s): ece408's layer 1 1.0 ms, layer 2 4.0 ms. By the disassembly the inner
 * loop of 6x12 (7x7) is 504 multiply-adds of 537 instructions, of 9x8 504 of 539. Predicted: layer 1 with
 * 6x12 1.5 ms (5 % of the lanes idle, 6 % of the instructions load operands, 10 % load the tile, as many
 * store the outputs, and a block waits once for memory), with tanh and pooling 1.6 ms (131 M tanh at 25
 * instructions: 0.12 ms; a quarter of the stores); layer 2 with 9x8 4.7 ms (5 % idle, 6 % loads, 4 % tiles).
 * Measured: 2.18 ms (6x12), 1.64 ms with tanh and pooling, and 5.07 ms (9x8) on an H200: within a
 * tenth of what was predicted but for layer 1 without pooling, which stores four times as much; not profiled.
 */
#include "kernels/conv/conv_common.h"
#include "kernels/conv/conv_epilogue.cuh"
#include "kernels/conv/per_layer_plan.h"

/* count floats of shared memory into registers, VECTOR at a time; from is aligned to VECTOR floats and count
 * is rounded up to it. */
template <int VECTOR, int COUNT>
static __device__ __forceinline__ void load_column(const float *from, float (&to)[(COUNT + 3) / 4 * 4])
{
    if (VECTOR == 4) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            float4 four = *reinterpret_cast<const float4 *>(from + i);
            to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
        }
    } else if (VECTOR == 2) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 2) {
            float2 two = *reinterpret_cast<const float2 *>(from + i);
            to[i] = two.x, to[i + 1] = two.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            to[i] = from[i];
    }
}

/* Where a thread is in its walk over the elements of an input tile, x fastest. A step advances by the number
 * of threads, which the plan gives as columns, rows and channels: no divisions. */
struct walk {
    int x, y, c;
};

/* One image's channels first_c .. + channels of the tile whose corner is (y0, x0), into shared memory, each
 * channel column by column. Lanes read neighbouring columns: whole lines of memory. */
template <bool U8>
static __device__ __forceinline__ void load_tile(const struct convoy_conv_shape &shape,
                                                 const struct convoy_images &images,
                                                 const struct per_layer_plan &plan, struct walk at, int n,
                                                 int first_c, int channels, int y0, int x0, float *tile)
{
    const unsigned char *image = static_cast<const unsigned char *>(images.data) + n * images.image_bytes;
    const float *floats = reinterpret_cast<const float *>(image);
    constexpr int LOADS = U8 ? 2 : 4; /* in flight for a thread: more would spill registers */
    while (at.c < channels) {
        float value[LOADS];
        int to[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            bool real = at.c < channels;
            int y = y0 + at.y, x = x0 + at.x, c = first_c + at.c;
            bool inside = real && (unsigned)y < (unsigned)shape.h && (unsigned)x < (unsigned)shape.w;
            to[i] = real ? (at.c * plan.tile_w + at.x) * plan.pitch + at.y : -1;
            if (U8) {
                float pixel = inside ? (float)__ldg(image + ((y * shape.w + x) * shape.c + c)) : 0.0f;
                int known = c & (CONVOY_KERNEL_CHANNELS - 1); /* c may be past the last if not inside */
                value[i] = inside ? fmaf(pixel, images.multiply[known], images.add[known]) : 0.0f;
            } else {
                value[i] = inside ? __ldg(floats + ((c * shape.h + y) * shape.w + x)) : 0.0f;
            }
            at.x += plan.step_x;
            at.y += plan.step_y;
            at.c += plan.step_c;
            int turn = at.x >= plan.tile_w;
            at.x -= turn ? plan.tile_w : 0;
            at.y += turn;
            turn = at.y >= plan.tile_h;
            at.y -= turn ? plan.tile_h : 0;
            at.c += turn;
        }
#pragma unroll
        for (int i = 0; i < LOADS; i++)
            if (to[i] >= 0)
                tile[to[i]] = value[i];
    }
}

/* The sums of a thread over the channels in shared memory. */
template <int FILTER, int STRIDE, int ROWS, int MAPS>
static __device__ __forceinline__ void add_channels(const struct per_layer_plan &plan, const float *column,
                                                    const float *weights, int channels,
                                                    float (&sum)[ROWS][MAPS])
{
    constexpr int INPUTS = (ROWS - 1) * STRIDE + FILTER, PADDED_MAPS = (MAPS + 3) / 4 * 4;
    for (int c = 0; c < channels; c++) {
#pragma unroll 1
        for (int s = 0; s < FILTER; s++) {
            float input[(INPUTS + 3) / 4 * 4];
            load_column<per_layer_vector(ROWS * STRIDE), INPUTS>(column + s * plan.pitch, input);
#pragma unroll
            for (int r = 0; r < FILTER; r++) {
                float weight[PADDED_MAPS];
                load_column<4, PADDED_MAPS>(weights + r * PADDED_MAPS, weight);
#pragma unroll
                for (int i = 0; i < ROWS; i++)
#pragma unroll
                    for (int j = 0; j < MAPS; j++)
                        sum[i][j] = fmaf(input[i * STRIDE + r], weight[j], sum[i][j]);
            }
            weights += FILTER * PADDED_MAPS;
        }
        column += plan.tile_w * plan.pitch;
    }
}

/* Finishes and stores values[i][j], which belong to row y + i of map k + j step, as far as they lie above
 * end_k and height. The residual is read only where this thread writes, and before. */
template <int ROWS, int MAPS>
static __device__ __forceinline__ void
store_values(const struct convoy_conv_shape &shape, const struct convoy_conv_operands &operands, int n, int k,
             int step, int end_k, int y, int x, int height, int width, float (&values)[ROWS][MAPS])
{
    int64_t plane = (int64_t)height * width;
    int64_t first = ((int64_t)n * shape.k + k) * plane + y * width + x;
    bool all_rows = y + ROWS <= height;
#pragma unroll
    for (int j = 0; j < MAPS; j++, first += step * plane) {
        if (k + j * step >= end_k)
            continue;
        float column[ROWS][1], bias = shape.bias ? __ldg(operands.bias + k + j * step) : 0.0f;
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            column[i][0] = values[i][j] + bias;
            if (shape.residual && y + i < height)
                column[i][0] += operands.residual[first + i * width];
        }
        convoy_activate(shape.act, column);
        float *to = operands.y + first;
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (all_rows || y + i < height)
                to[i * width] = column[i][0];
    }
}

/* Pools the sums 2 x 2 with the lane beside: of each two maps an even lane gets the first, an odd lane the
 * second. All lanes of the warp come here. */
template <int ROWS, int MAPS>
static __device__ __forceinline__ void pool_sums(const float (&sum)[ROWS][MAPS],
                                                 float (&pooled)[ROWS / 2][(MAPS + 1) / 2])
{
    bool odd = threadIdx.x & 1;
#pragma unroll
    for (int j = 0; j < MAPS; j += 2) {
        int other = j + 1 < MAPS ? j + 1 : j;
#pragma unroll
        for (int i = 0; i + 1 < ROWS; i += 2) {
            float first = convoy_larger(sum[i][j], sum[i + 1][j]),
                  second = convoy_larger(sum[i][other], sum[i + 1][other]);
            float beside = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
            pooled[i / 2][j / 2] = convoy_larger(odd ? second : first, beside);
        }
    }
}

template <int FILTER, int STRIDE, int ROWS, int MAPS>
static __global__ void __launch_bounds__(PER_LAYER_THREADS, 2)
    per_layer_kernel(CONVOY_PARAMETER(struct convoy_conv_shape) shape,
                     CONVOY_PARAMETER(struct convoy_conv_operands) operands,
                     CONVOY_PARAMETER(struct per_layer_plan) plan)
{
    CONVOY_DYNAMIC_SHARED(float, shared);
    constexpr int TAPS =
        FILTER * FILTER * ((MAPS + 3) / 4 * 4); /* floats of weights for a channel of a group */
    int plane = plan.tile_w * plan.pitch;
    float *weights = shared + per_layer_tile_floats(&plan);

    /* Which part of the output is this block's? */
    int block = blockIdx.x;
    int first_group = block % plan.blocks_k * plan.groups;
    block /= plan.blocks_k;
    int first_x = block % plan.blocks_x * plan.width;
    block /= plan.blocks_x;
    int first_y = block % plan.blocks_y * plan.row_groups * ROWS;
    int first_n = block / plan.blocks_y * plan.images;
    int groups = min(plan.groups, plan.all_groups - first_group),
        images = min(plan.images, shape.n - first_n);

    /* And this thread's? Columns first, then rows, then images: a warp shares its maps, as far as it can. */
    int task = threadIdx.x;
    int ox = task % plan.width;
    task /= plan.width;
    int row_group = task % plan.row_groups;
    task /= plan.row_groups;
    int image = task % plan.images, group = task / plan.images;
    bool active = group < groups && image < images && first_x + ox < shape.ow;

    struct walk start = {};
    start.x = threadIdx.x % plan.tile_w;
    start.y = threadIdx.x / plan.tile_w % plan.tile_h;
    start.c = threadIdx.x / plan.tile_w / plan.tile_h;

    float sum[ROWS][MAPS] = {};
    for (int c = 0; c < shape.c; c += plan.channels) {
        int channels = min(plan.channels, shape.c - c);
        if (c > 0)
            __syncthreads();
        int y0 = first_y * STRIDE - shape.pad[0], x0 = first_x * STRIDE - shape.pad[1];
        for (int i = 0; i < images; i++) {
            float *tile = shared + i * plan.channels * plane;
            if (shape.u8)
                load_tile<true>(shape, operands.x, plan, start, first_n + i, c, channels, y0, x0, tile);
            else
                load_tile<false>(shape, operands.x, plan, start, first_n + i, c, channels, y0, x0, tile);
        }
        for (int g = 0; g < groups; g++) {
            const float4 *from = reinterpret_cast<const float4 *>(
                operands.weights + ((int64_t)(first_group + g) * shape.c + c) * TAPS);
            float4 *to = reinterpret_cast<float4 *>(weights + g * plan.channels * TAPS);
#pragma unroll 4
            for (int i = threadIdx.x; i < channels * (TAPS / 4); i += blockDim.x)
                to[i] = __ldg(from + i);
        }
        __syncthreads();
        if (active)
            add_channels<FILTER, STRIDE, ROWS, MAPS>(plan,
                                                     shared + image * plan.channels * plane +
                                                         ox * STRIDE * plan.pitch + row_group * ROWS * STRIDE,
                                                     weights + group * plan.channels * TAPS, channels, sum);
    }

    int n = first_n + image, k = (first_group + group) * MAPS, oy = first_y + row_group * ROWS;
    ox += first_x;
    int end_k = min(shape.k, k + MAPS);
    if (ROWS % 2 == 0 && shape.pool == 2) {
        float pooled[ROWS / 2][(MAPS + 1) / 2];
        pool_sums<ROWS, MAPS>(sum, pooled);
        if (active && ox / 2 < shape.ow / 2)
            store_values(shape, operands, n, k + (threadIdx.x & 1), 2, end_k, oy / 2, ox / 2, shape.oh / 2,
                         shape.ow / 2, pooled);
    } else if (active) {
        store_values(shape, operands, n, k, 1, end_k, oy, ox, shape.oh, shape.ow, sum);
    }
}

template <int FILTER, int STRIDE, int ROWS, int MAPS> struct per_layer {
    static bool plan(const struct convoy_conv_shape *s, struct per_layer_plan *plan)
    {
        return per_layer_make_plan(s, FILTER, STRIDE, ROWS, MAPS, plan);
    }

    static bool takes(const struct convoy_conv_shape *s)
    {
        struct per_layer_plan unused;
        return convoy_is_square(s, FILTER, STRIDE) && s->groups == 1 &&
               (s->pool == 1 || (s->pool == 2 && ROWS % 2 == 0 && convoy_unary_rises(s->act))) &&
               plan(s, &unused);
    }

    static float estimate_us(const struct convoy_conv_shape *s)
    {
        struct per_layer_plan best;
        if (!plan(s, &best))
            return 1e9f;
        float memory = (float)(convoy_conv_bytes(s) * 1.2 / CONVOY_ESTIMATE_BYTES_PER_US);
        return (best.estimate_us > memory ? best.estimate_us : memory) + (float)CONVOY_ESTIMATE_LAUNCH_US;
    }

    static size_t packed_floats(const struct convoy_conv_shape *s)
    {
        return (size_t)convoy_div_up(s->k, MAPS) * s->c * FILTER * FILTER * ((MAPS + 3) / 4 * 4);
    }

    /* groups of MAPS x c x filter columns x filter rows x MAPS, the last padded to four. */
    static void pack(const struct convoy_conv_shape *s, const float *weights, float *packed)
    {
        memset(packed, 0, packed_floats(s) * sizeof(float));
        for (int k = 0; k < s->k; k++)
            for (int c = 0; c < s->c; c++)
                for (int y = 0; y < FILTER; y++)
                    for (int x = 0; x < FILTER; x++)
                        packed[((((size_t)(k / MAPS) * s->c + c) * FILTER + x) * FILTER + y) *
                                   ((MAPS + 3) / 4 * 4) +
                               k % MAPS] = weights[(((size_t)k * s->c + c) * FILTER + y) * FILTER + x];
    }

    static cudaError_t launch(const struct convoy_conv_shape *shape,
                              const struct convoy_conv_operands *operands, cudaStream_t stream)
    {
        struct per_layer_plan best;
        if (!plan(shape, &best))
            return cudaErrorInvalidValue;
        return convoy_launch(per_layer_kernel<FILTER, STRIDE, ROWS, MAPS>, dim3((unsigned)best.blocks),
                             dim3((unsigned)best.threads), best.shared_bytes, stream, *shape, *operands,
                             best);
    }
};

#define DEFINE(filter, stride, rows, maps)                                                                   \
    const struct convoy_conv_kernel convoy_conv_per_layer_##filter##_##stride##_##rows##_##maps = {          \
        "per_layer:" #filter "x" #filter "/" #stride ":" #rows "x" #maps,                                    \
        CONVOY_COMPUTE_FP32,                                                                                 \
        per_layer<filter, stride, rows, maps>::takes,                                                        \
        per_layer<filter, stride, rows, maps>::estimate_us,                                                  \
        per_layer<filter, stride, rows, maps>::packed_floats,                                                \
        per_layer<filter, stride, rows, maps>::pack,                                                         \
        convoy_no_scratch,                                                                                   \
        per_layer<filter, stride, rows, maps>::launch,                                                       \
        false,                                                                                               \
    };

CONVOY_PER_LAYER_INSTANCES(DEFINE)
