/* The kernels of conv_wgmma.cuh and conv_patch.cuh in the list of convolutions: nhwc_wgmma:MxN/DEPTHxSTAGES,
 * nhwc_split:NxBLOCKS, nhwc_patch.
 * Compute capability 9.0 alone.
 *
 * Source of the idea: CUTLASS's warp-specialised persistent kernels and its im2col tensor maps (NVIDIA,
 * 2023); the code is our own. Floor: inputs, weights and outputs once through device memory, or the products
 * at the tensor cores' rate, whichever is longer. */
#include "kernels/device/conv_shape.h"
#include "kernels/device/tensor_map.h"
#include "kernels/nhwc/conv_patch.cuh"
#include "kernels/nhwc/conv_wgmma.cuh"
#include "kernels/nhwc/nhwc_common.h"

/* Warpgroups, pieces of 64 rows of each, tiles of 8 columns, depth of a chunk, stages, places for results,
 * blocks on a multiprocessor. */
#define PERSISTENT_INSTANCES(X)                                                                              \
    X(2, 1, 2, 64, 5, 2, 2)                                                                                  \
    X(2, 1, 4, 64, 4, 2, 2)                                                                                  \
    X(2, 1, 8, 64, 3, 2, 2)                                                                                  \
    X(2, 1, 16, 64, 4, 2, 1)                                                                                 \
    X(2, 1, 32, 64, 3, 1, 1)                                                                                 \
    X(2, 1, 32, 64, 2, 2, 1)                                                                                 \
    X(2, 2, 8, 64, 4, 2, 1)                                                                                  \
    X(2, 2, 16, 64, 3, 1, 1)                                                                                 \
    X(2, 1, 4, 32, 6, 2, 2)                                                                                  \
    X(2, 1, 8, 32, 5, 2, 2)                                                                                  \
    X(2, 1, 16, 32, 5, 2, 1)
/* Tiles of 8 columns, stages, blocks of a cluster. */
#define SPLIT_INSTANCES(X)                                                                                   \
    X(4, 5, 1)                                                                                               \
    X(4, 5, 2)                                                                                               \
    X(4, 5, 4)                                                                                               \
    X(4, 5, 8)                                                                                               \
    X(8, 5, 1)                                                                                               \
    X(8, 5, 2)                                                                                               \
    X(8, 5, 4)                                                                                               \
    X(8, 5, 8)

#define SPLIT_DEPTH   64
#define WEIGHT_SLACK  256    /* maps that a tile may look past the last ones */
#define CYCLES_PER_US 1700.0 /* under load */
#define L2_BYTES      24.0   /* a cycle, of a multiprocessor where all ask */
#define TILE_CYCLES   900.0  /* a tile's end: made up */
#define START_CYCLES  2500.0 /* until the first chunk is multiplied: made up */
#define JOIN_CYCLES   1500.0 /* of a cluster: made up */

/* The reduction: channels of a tap, taps. */
static int tap_channels(const struct convoy_conv_shape *s)
{
    return s->nhwc.window > 0 ? s->s * s->nhwc.window : s->c;
}

static int taps_of(const struct convoy_conv_shape *s)
{
    return s->nhwc.window > 0 ? s->r : s->r * s->s;
}

static int depth_of(const struct convoy_conv_shape *s)
{
    int rest = tap_channels(s) % 64;
    return rest > 0 && rest <= 32 ? 32 : 64;
}

static int64_t outputs_of(const struct convoy_conv_shape *s)
{
    return (int64_t)s->n * s->oh * s->ow;
}

static int columns_of(const struct convoy_conv_shape *s)
{
    return (int)convoy_nhwc_channels(s->k);
}

static struct convoy_map_images images_of(const struct convoy_conv_shape *s, const void *data, int channels,
                                          int outputs)
{
    struct convoy_map_images images = {
        data,        s->n,          s->h,  s->w,  (int)convoy_nhwc_channels(s->c), s->nhwc.pixel,
        s->nhwc.row, s->nhwc.image, s->oh, s->ow, {s->stride[0], s->stride[1]},    {s->pad[0], s->pad[1]},
        channels,    outputs};
    if (s->nhwc.window > 0) { /* a pixel is the window of an output, and the next window follows */
        images.c = tap_channels(s);
        images.w = s->ow;
        images.pixel = (int64_t)s->stride[1] * s->nhwc.window;
        images.stride[1] = 1;
        images.pad[1] = 0;
    }
    return images;
}

static bool takes(const struct convoy_conv_shape *s)
{
    const int dilation[2] = {s->dilation[0], s->nhwc.window > 0 ? 1 : s->dilation[1]};
    const struct convoy_map_images images = images_of(s, nullptr, 64, 128);
    return s->nhwc.on && !s->nhwc.images && s->groups == 1 && s->pool == 1 &&
           s->compute_type >= CONVOY_COMPUTE_FP16 && (s->nhwc.window == 0 || s->dilation[1] == 1) &&
           outputs_of(s) < INT32_MAX - 1024 && s->nhwc.y_pixel % 8 == 0 &&
           (!s->residual || s->nhwc.residual_pixel % 8 == 0) &&
           convoy_map_images_fits(&images, s->r, s->nhwc.window > 0 ? 1 : s->s, dilation) &&
           convoy_has_wgmma();
}

/* ---- Weights ---- */

static int chunks_of(const struct convoy_conv_shape *s, int depth)
{
    return taps_of(s) * (int)convoy_div_up(tap_channels(s), depth);
}

template <int DEPTH> static size_t packed_floats(const struct convoy_conv_shape *s)
{
    return ((size_t)chunks_of(s, DEPTH) * (size_t)columns_of(s) + WEIGHT_SLACK) * DEPTH / 2;
}

/* Weight of channel `channel` of a tap, 0 where there is none. */
static float weight_at(const struct convoy_conv_shape *s, const float *weights, int k, int tap, int channel)
{
    int r = tap / s->s, column = tap % s->s, c = channel;
    if (s->nhwc.window > 0) {
        r = tap;
        column = channel / s->nhwc.window;
        c = channel % s->nhwc.window;
    }
    if (c >= s->c || column >= s->s)
        return 0;
    return weights[(((int64_t)k * s->c + c) * s->r + r) * s->s + column];
}

/* Chunk after chunk, map after map, DEPTH numbers, swizzled. */
template <int DEPTH> static void pack(const struct convoy_conv_shape *s, const float *weights, float *packed)
{
    convoy_fp16 *to = reinterpret_cast<convoy_fp16 *>(packed);
    int columns = columns_of(s), tap_chunks = (int)convoy_div_up(tap_channels(s), DEPTH);
    for (int chunk = 0; chunk < chunks_of(s, DEPTH); chunk++)
        for (int k = 0; k < s->k; k++)
            for (int i = 0; i < DEPTH; i++) {
                /* Rows of a chunk begin on 8 maps, but a tile may begin at any 8 of them: what counts is k.
                 */
                int64_t row = (int64_t)chunk * columns + k;
                int cell = convoy_swizzled_cell<DEPTH * 2>(k, i / 8);
                to[row * DEPTH + cell * 8 + i % 8] =
                    convoy_half(weight_at(s, weights, k, chunk / tap_chunks, chunk % tap_chunks * DEPTH + i));
            }
}

/* ---- Launch ---- */

static cudaError_t describe(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                            int depth, int m, int n, int panel, struct nhwc_job *job)
{
    job->weights = reinterpret_cast<const char *>(operands->weights);
    job->bias = s->bias ? operands->bias : nullptr;
    job->out = reinterpret_cast<convoy_fp16 *>(operands->y);
    job->added = reinterpret_cast<const convoy_fp16 *>(operands->residual);
    job->out_pixel = s->nhwc.y_pixel;
    job->added_pixel = s->nhwc.residual_pixel;
    job->m = (int)outputs_of(s);
    job->k = s->k;
    job->columns = columns_of(s);
    job->tiles_n = (int)convoy_div_up(job->columns, n);
    job->tiles = (int)convoy_div_up(job->m, m) * job->tiles_n;
    job->chunks = chunks_of(s, depth);
    job->tap_chunks = (int)convoy_div_up(tap_channels(s), depth);
    job->taps_x = s->nhwc.window > 0 ? 1 : s->s;
    job->oh = s->oh;
    job->ow = s->ow;
    for (int i = 0; i < 2; i++) {
        job->stride[i] = s->stride[i];
        job->pad[i] = s->pad[i];
        job->dilation[i] = s->dilation[i];
    }
    if (s->nhwc.window > 0) {
        job->stride[1] = 1;
        job->pad[1] = 0;
    }
    job->flat = s->nhwc.window == 0 && s->r == 1 && s->s == 1 && s->stride[0] == 1 && s->stride[1] == 1 &&
                s->pad[0] == 0 && s->pad[1] == 0 && s->oh == s->h && s->ow == s->w &&
                s->nhwc.row == s->w * s->nhwc.pixel && s->nhwc.image == s->h * s->nhwc.row;
    job->has_residual = s->residual;
    job->act = s->act;
    job->overflow = operands->overflow;
    struct convoy_map_images images = images_of(s, operands->x.data, depth, m);
    cudaError_t error = job->flat ? convoy_map_matrix(&job->x, operands->x.data, convoy_nhwc_channels(s->c),
                                                      job->m, s->nhwc.pixel, depth, m)
                                  : convoy_map_images(&job->x, &images);
    if (error == cudaSuccess && panel > 0)
        error =
            convoy_map_matrix(&job->y, operands->y, job->columns, job->m, s->nhwc.y_pixel, panel, NHWC_PIECE);
    if (error == cudaSuccess && panel > 0 && s->residual)
        error = convoy_map_matrix(&job->residual, operands->residual, job->columns, job->m,
                                  s->nhwc.residual_pixel, panel, NHWC_PIECE);
    return error;
}

template <int GROUPS, int ROWS, int NT, int DEPTH, int STAGES, int BUFFERS, int BLOCKS>
static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    using tile = nhwc_tile<GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS>;
    struct nhwc_job job = {};
    cudaError_t error = describe(s, operands, DEPTH, tile::M, tile::N, tile::PANEL, &job);
    if (error != cudaSuccess)
        return error;
    int blocks = NHWC_SMS * BLOCKS;
    blocks = job.tiles < blocks ? job.tiles : blocks;
    return convoy_launch_early(nhwc_conv<GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS, BLOCKS>,
                               dim3((unsigned)blocks), dim3(tile::THREADS), tile::SHARED_BYTES, stream, job);
}

template <int NT, int STAGES, int SPLITS>
static cudaError_t launch_split(const struct convoy_conv_shape *s,
                                const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    using tile = nhwc_split_tile<NT, SPLIT_DEPTH, STAGES>;
    struct nhwc_job job = {};
    cudaError_t error = describe(s, operands, SPLIT_DEPTH, tile::M, tile::N, 0, &job);
    if (error != cudaSuccess)
        return error;
    return convoy_launch_as(convoy_launch_form{SPLITS, true}, nhwc_conv_split<NT, SPLIT_DEPTH, STAGES>,
                            dim3((unsigned)job.tiles * SPLITS), dim3(tile::THREADS), tile::SHARED_BYTES,
                            stream, job, SPLITS);
}

/* Of outputs, in boxes of 8 x 8. */
static struct convoy_map_images outputs_as_images(const struct convoy_conv_shape *s, const void *data,
                                                  int64_t pixel)
{
    struct convoy_map_images images = {};
    images.data = data;
    images.n = s->n;
    images.h = s->oh;
    images.w = s->ow;
    images.c = columns_of(s);
    images.pixel = pixel;
    images.row = pixel * s->ow;
    images.image = images.row * s->oh;
    return images;
}

static int patches_of(const struct convoy_conv_shape *s)
{
    return (int)(s->n * convoy_div_up(s->oh, PATCH_SIDE) * convoy_div_up(s->ow, PATCH_SIDE));
}

static cudaError_t launch_patch(const struct convoy_conv_shape *s,
                                const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    using tile = nhwc_patch_tile;
    struct nhwc_job job = {};
    cudaError_t error = describe(s, operands, 64, NHWC_PIECE, tile::N, 0, &job);
    const struct convoy_map_images x = images_of(s, operands->x.data, 64, NHWC_PIECE);
    const struct convoy_map_images y = outputs_as_images(s, operands->y, s->nhwc.y_pixel);
    const struct convoy_map_images residual =
        outputs_as_images(s, operands->residual, s->nhwc.residual_pixel);
    job.across = (int)convoy_div_up(s->ow, PATCH_SIDE);
    job.down = (int)convoy_div_up(s->oh, PATCH_SIDE);
    job.tiles = patches_of(s);
    if (error == cudaSuccess)
        error = convoy_map_patches(&job.x, &x, tile::BOX, tile::BOX);
    if (error == cudaSuccess)
        error = convoy_map_patches(&job.y, &y, PATCH_SIDE, PATCH_SIDE);
    if (error == cudaSuccess && s->residual)
        error = convoy_map_patches(&job.residual, &residual, PATCH_SIDE, PATCH_SIDE);
    if (error != cudaSuccess)
        return error;
    int64_t blocks = convoy_div_up(NHWC_SMS, job.tiles_n) * job.tiles_n,
            needed = (int64_t)job.tiles * job.tiles_n;
    return convoy_launch_early(nhwc_patch, dim3((unsigned)(needed < blocks ? needed : blocks)),
                               dim3(tile::THREADS), tile::SHARED_BYTES, stream, job);
}

/* ---- Estimates ---- */

/* The time that device memory and the launch take at least. */
static double floor_us(const struct convoy_conv_shape *s)
{
    double bytes = 2.0 * ((double)s->n * s->h * s->w * s->c +
                          (double)outputs_of(s) * columns_of(s) * (s->residual ? 2 : 1) +
                          (double)taps_of(s) * tap_channels(s) * columns_of(s));
    return bytes / CONVOY_ESTIMATE_BYTES_PER_US;
}

/* Cycles for one chunk: products read A and B from shared memory at 128 bytes a cycle. */
static double chunk_cycles(int pieces, int n, int depth)
{
    double product = n / 2.0, read = 16.0 + n / 4.0;
    double products = pieces * (depth / 16) * (product > read ? product : read);
    double copies = (pieces * NHWC_PIECE + n) * depth * 2 / L2_BYTES;
    return products > copies ? products : copies;
}

template <int GROUPS, int ROWS, int NT, int DEPTH, int BLOCKS>
static float estimate(const struct convoy_conv_shape *s)
{
    int m = GROUPS * ROWS * NHWC_PIECE, n = NT * 8;
    int64_t tiles = convoy_div_up(outputs_of(s), m) * convoy_div_up(columns_of(s), n);
    double turns = (double)convoy_div_up(tiles, CONVOY_ESTIMATE_SMS);
    double cycles =
        turns * (chunks_of(s, DEPTH) * chunk_cycles(GROUPS * ROWS, n, DEPTH) + TILE_CYCLES / BLOCKS) +
        START_CYCLES;
    double us = cycles / CYCLES_PER_US, least = floor_us(s) * 1.1;
    return (float)(us > least ? us + 0.1 * least : least + 0.1 * us) + CONVOY_ESTIMATE_LAUNCH_US;
}

template <int NT, int SPLITS> static float estimate_split(const struct convoy_conv_shape *s)
{
    int64_t tiles = convoy_div_up(outputs_of(s), NHWC_PIECE) * convoy_div_up(columns_of(s), NT * 8);
    double turns = (double)convoy_div_up(tiles * SPLITS, 2 * CONVOY_ESTIMATE_SMS) * 2;
    double chunks = (double)convoy_div_up(chunks_of(s, SPLIT_DEPTH), SPLITS);
    double cycles =
        turns / 2 * (chunks * chunk_cycles(1, NT * 8, SPLIT_DEPTH) * 2 + START_CYCLES + JOIN_CYCLES);
    double us = cycles / CYCLES_PER_US, least = floor_us(s) * 1.2;
    return (float)(us > least ? us + 0.1 * least : least + 0.1 * us) + CONVOY_ESTIMATE_LAUNCH_US;
}

static float estimate_patch(const struct convoy_conv_shape *s)
{
    int64_t pieces = patches_of(s) * convoy_div_up(columns_of(s), nhwc_patch_tile::N);
    double products = 9 * (64 / 16) * (nhwc_patch_tile::N / 2.0); /* cycles of a piece */
    double cycles = (double)convoy_div_up(pieces, CONVOY_ESTIMATE_SMS) * products * 1.5 + START_CYCLES * 2;
    double us = cycles / CYCLES_PER_US, least = floor_us(s) * 1.1;
    return (float)(us > least ? us + 0.1 * least : least + 0.1 * us) + CONVOY_ESTIMATE_LAUNCH_US;
}

/* ---- The list ---- */

/* The box has room for 64 channels. */
static bool takes_patch(const struct convoy_conv_shape *s)
{
    return takes(s) && s->nhwc.window == 0 && s->c > 32 && s->c <= 64 && convoy_is_square(s, 3, 1) &&
           convoy_div_up(s->oh, 8) * convoy_div_up(s->ow, 8) * s->n < INT32_MAX / 64;
}

template <int DEPTH> static bool takes_at(const struct convoy_conv_shape *s)
{
    return depth_of(s) == DEPTH && takes(s);
}

/* A chunk of 64 for 32 channels wastes little where so few outputs are computed. */
template <int SPLITS> static bool takes_split(const struct convoy_conv_shape *s)
{
    return chunks_of(s, SPLIT_DEPTH) >= SPLITS && outputs_of(s) <= 64 * 1024 && s->nhwc.window == 0 &&
           takes(s) && convoy_has_clusters();
}

#define PERSISTENT(GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS, BLOCKS)                                         \
    {"nhwc_wgmma:" #GROUPS "x" #ROWS "x" #NT "/" #DEPTH "x" #STAGES,                                         \
     CONVOY_COMPUTE_FP16,                                                                                    \
     takes_at<DEPTH>,                                                                                        \
     estimate<GROUPS, ROWS, NT, DEPTH, BLOCKS>,                                                              \
     packed_floats<DEPTH>,                                                                                   \
     pack<DEPTH>,                                                                                            \
     convoy_no_scratch,                                                                                      \
     launch<GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS, BLOCKS>,                                               \
     true},
#define SPLIT(NT, STAGES, SPLITS)                                                                            \
    {"nhwc_split:" #NT "x" #SPLITS,                                                                          \
     CONVOY_COMPUTE_FP16,                                                                                    \
     takes_split<SPLITS>,                                                                                    \
     estimate_split<NT, SPLITS>,                                                                             \
     packed_floats<SPLIT_DEPTH>,                                                                             \
     pack<SPLIT_DEPTH>,                                                                                      \
     convoy_no_scratch,                                                                                      \
     launch_split<NT, STAGES, SPLITS>,                                                                       \
     true},

bool convoy_nhwc_here(void)
{
    return convoy_has_wgmma();
}

const struct convoy_conv_kernel convoy_conv_nhwc_wgmma[CONVOY_NHWC_WGMMA_KERNELS] = {PERSISTENT_INSTANCES(
    PERSISTENT) SPLIT_INSTANCES(SPLIT){"nhwc_patch", CONVOY_COMPUTE_FP16, takes_patch, estimate_patch,
                                       packed_floats<64>, pack<64>, convoy_no_scratch, launch_patch, true}};
