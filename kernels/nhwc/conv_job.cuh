/* What a launch of the warpgroups' convolutions (conv_wgmma.cuh, conv_patch.cu) is given, and how it follows
 * from the layer's shape: the reduction in chunks, weights as they lie in shared memory, maps of the tensors,
 * and the least time. All functions are for the host. */
#ifndef CONVOY_KERNELS_NHWC_CONV_JOB_CUH
#define CONVOY_KERNELS_NHWC_CONV_JOB_CUH

#include "kernels/device/conv_shape.h"
#include "kernels/device/divider.cuh"
#include "kernels/device/tensor_copy.cuh"
#include "kernels/device/tensor_map.h"
#include "kernels/device/unary.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/nhwc/nhwc_common.h"
#include "kernels/nhwc/overflow.cuh"

#define NHWC_PIECE        64  /* rows of one wgmma */
#define NHWC_PATCH        64  /* channels of a patch of pixels (conv_patch.cu, bottleneck.cu) */
#define NHWC_MOMENTS      16  /* of a pixel whose normalisation is part of a product, at most */
#define NHWC_WEIGHT_SLACK 256 /* maps that a tile may look past the last ones */

/* Of estimates. Those of conv_wgmma.cu, conv_turns.cu, conv_split.cu and conv_maps.cu, and these numbers,
 * were fitted to 2,457 times on H200s: each of these kernels by itself on 42 layers with 1 to 256 images,
 * less the 5.5 us that a kernel takes longer between two events than behind another one. The kernel with the
 * least estimate takes 1.08 times as long as the fastest one in the geometric mean and 2.06 times at worst,
 * 1.07 and 1.12 on a half of the layers that was left out of a fit (before: 1.39, and 2.95 at worst). */
#define NHWC_CYCLES_PER_US 1700.0 /* under load */
#define NHWC_START_CYCLES  3400.0 /* of a launch */
#define NHWC_L2_BYTES      41.0   /* a cycle, of a multiprocessor where all ask */
#define NHWC_PRODUCT       1.45   /* cycles of a product for each that the tensor cores take */
#define NHWC_CHUNK_CYCLES  20.0   /* beside its products and copies */
#define NHWC_END_CYCLES    1400.0 /* of a tile of 128 x 128 */
#define NHWC_SPLIT_END     2400.0 /* of a tile of conv_split.cuh */
#define NHWC_JOIN_CYCLES   400.0  /* for each block of a cluster that divides a reduction */

struct nhwc_job {
    CUtensorMap x, y, residual;
    const char *weights; /* chunk after chunk: columns x DEPTH, swizzled */
    const float *bias;   /* k, or NULL */
    convoy_fp16 *out;    /* of nhwc_conv_split, which stores without the engine */
    const convoy_fp16 *added;
    int64_t out_pixel, added_pixel;
    int m, k, columns; /* outputs, maps, maps in the packed weights */
    int tiles_n, tiles;
    int chunks, tap_chunks; /* of the reduction; of a tap */
    int taps_x;
    int oh, ow, stride[2], pad[2], dilation[2];
    int across, down;               /* of nhwc_patch: pieces of an image */
    int group_maps, group_channels; /* conv_groups.cuh; 0: of one group */
    bool flat;                      /* nhwc_is_flat() */
    bool has_residual;
    struct convoy_unary act;
    /* Of kernels that change their inputs (inputs.cuh). */
    const convoy_fp16 *gates;
    const float *input_scale, *input_shift;
    bool input_relu;
    int gate_pixel, c;
    /* Of kernels that normalise (normalized.cuh). */
    const float *input_sums;
    const float2 *input_moments; /* m x input_parts */
    float input_epsilon, input_factor;
    int input_parts;
    bool input_rms;
    float2 *moments; /* of the outputs, m x parts; NULL: they are not wanted */
    int parts;
    struct tensor_divider pixels; /* of an image */
    struct convoy_overflow overflow;
};

/* The reduction: channels of a tap, taps. */
static inline int nhwc_tap_channels(const struct convoy_conv_shape *s)
{
    return s->nhwc.window > 0 ? s->s * s->nhwc.window : s->c;
}

static inline int nhwc_taps_of(const struct convoy_conv_shape *s)
{
    return s->nhwc.window > 0 ? s->r : s->r * s->s;
}

static inline int64_t nhwc_outputs_of(const struct convoy_conv_shape *s)
{
    return (int64_t)s->n * s->oh * s->ow;
}

static inline int nhwc_columns_of(const struct convoy_conv_shape *s)
{
    return (int)convoy_nhwc_channels(s->k);
}

/* Images whose rows follow each other, from which the copy engine takes boxes as they are. */
static inline struct convoy_map_images nhwc_plain_images(const void *data, int n, int h, int w, int channels,
                                                         int64_t pixel)
{
    struct convoy_map_images images = {};
    images.data = data;
    images.n = n;
    images.h = h;
    images.w = w;
    images.c = channels;
    images.pixel = pixel;
    images.row = pixel * w;
    images.image = images.row * h;
    return images;
}

static inline struct convoy_map_images nhwc_images_of(const struct convoy_conv_shape *s, const void *data,
                                                      int channels, int outputs)
{
    struct convoy_map_images images = {
        data,        s->n,          s->h,  s->w,  (int)convoy_nhwc_channels(s->c), s->nhwc.pixel,
        s->nhwc.row, s->nhwc.image, s->oh, s->ow, {s->stride[0], s->stride[1]},    {s->pad[0], s->pad[1]},
        channels,    outputs};
    if (s->nhwc.window > 0) { /* a pixel is the window of an output, and the next window follows */
        images.c = nhwc_tap_channels(s);
        images.w = s->ow;
        images.pixel = (int64_t)s->stride[1] * s->nhwc.window;
        images.stride[1] = 1;
        images.pad[1] = 0;
    }
    return images;
}

/* 1 x 1 without stride or padding, of images without gaps: x is a matrix. */
static inline bool nhwc_is_flat(const struct convoy_conv_shape *s)
{
    return s->nhwc.window == 0 && s->r == 1 && s->s == 1 && s->stride[0] == 1 && s->stride[1] == 1 &&
           s->pad[0] == 0 && s->pad[1] == 0 && s->oh == s->h && s->ow == s->w &&
           s->nhwc.row == s->w * s->nhwc.pixel && s->nhwc.image == s->h * s->nhwc.row;
}

static inline bool nhwc_takes(const struct convoy_conv_shape *s)
{
    const int dilation[2] = {s->dilation[0], s->nhwc.window > 0 ? 1 : s->dilation[1]};
    const struct convoy_map_images images = nhwc_images_of(s, nullptr, 64, 128);
    return s->nhwc.on && !s->nhwc.images && s->nhwc.input == CONVOY_NHWC_AS_IS && s->groups == 1 &&
           s->pool == 1 && s->compute_type >= CONVOY_COMPUTE_FP16 &&
           (s->nhwc.window == 0 || s->dilation[1] == 1) && nhwc_outputs_of(s) < INT32_MAX - 1024 &&
           s->nhwc.y_pixel % 8 == 0 && (!s->residual || s->nhwc.residual_pixel % 8 == 0) &&
           convoy_map_images_fits(&images, s->r, s->nhwc.window > 0 ? 1 : s->s, dilation) &&
           convoy_has_wgmma();
}

/* The same of inputs that are changed: by gates, or scaled. */
static inline bool nhwc_takes_changed(const struct convoy_conv_shape *s)
{
    struct convoy_conv_shape plain = *s;
    plain.nhwc.input = CONVOY_NHWC_AS_IS;
    return s->nhwc.input != CONVOY_NHWC_AS_IS && nhwc_is_flat(s) && nhwc_takes(&plain);
}

/* Whole cells: a product of gates with whatever fills up the last one could be infinite. */
static inline bool nhwc_takes_gated(const struct convoy_conv_shape *s)
{
    return s->nhwc.input == CONVOY_NHWC_GATED && s->nhwc.gate_pixel % 8 == 0 &&
           s->n * s->nhwc.gate_pixel <= INT32_MAX && s->c % 8 == 0 && nhwc_takes_changed(s);
}

static inline bool nhwc_takes_scaled(const struct convoy_conv_shape *s)
{
    return (s->nhwc.input == CONVOY_NHWC_SCALED || s->nhwc.input == CONVOY_NHWC_SCALED_RELU) &&
           nhwc_takes_changed(s);
}

static inline bool nhwc_takes_normalized(const struct convoy_conv_shape *s)
{
    return s->nhwc.input == CONVOY_NHWC_NORMALIZED && nhwc_takes_changed(s);
}

/* ---- Weights ---- */

static inline int nhwc_chunks_of(const struct convoy_conv_shape *s, int depth)
{
    return nhwc_taps_of(s) * (int)convoy_div_up(nhwc_tap_channels(s), depth);
}

/* The depth of a chunk: 32 wastes less where the last one of a tap would be half empty. */
static inline int nhwc_depth_of(const struct convoy_conv_shape *s)
{
    int rest = nhwc_tap_channels(s) % 64;
    return rest > 0 && rest <= 32 ? 32 : 64;
}

template <int DEPTH> static inline size_t nhwc_packed_floats(const struct convoy_conv_shape *s)
{
    return ((size_t)nhwc_chunks_of(s, DEPTH) * (size_t)nhwc_columns_of(s) + NHWC_WEIGHT_SLACK) * DEPTH / 2;
}

/* Weight of channel `channel` of a tap, 0 where there is none. */
static inline float nhwc_weight_at(const struct convoy_conv_shape *s, const float *weights, int k, int tap,
                                   int channel)
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
template <int DEPTH>
static inline void nhwc_pack(const struct convoy_conv_shape *s, const float *weights, float *packed)
{
    convoy_fp16 *to = reinterpret_cast<convoy_fp16 *>(packed);
    int columns = nhwc_columns_of(s), tap_chunks = (int)convoy_div_up(nhwc_tap_channels(s), DEPTH);
    for (int chunk = 0; chunk < nhwc_chunks_of(s, DEPTH); chunk++)
        for (int k = 0; k < s->k; k++)
            for (int i = 0; i < DEPTH; i++) {
                /* Rows of a chunk begin on 8 maps, but a tile may begin at any 8 of them: what counts is k.
                 */
                int64_t row = (int64_t)chunk * columns + k;
                int cell = convoy_swizzled_cell<DEPTH * 2>(k, i / 8);
                to[row * DEPTH + cell * 8 + i % 8] = convoy_half(
                    nhwc_weight_at(s, weights, k, chunk / tap_chunks, chunk % tap_chunks * DEPTH + i));
            }
}

static inline cudaError_t nhwc_describe(const struct convoy_conv_shape *s,
                                        const struct convoy_conv_operands *operands, int depth, int m, int n,
                                        int panel, struct nhwc_job *job)
{
    job->weights = reinterpret_cast<const char *>(operands->weights);
    job->bias = s->bias ? operands->bias : nullptr;
    job->out = reinterpret_cast<convoy_fp16 *>(operands->y);
    job->added = reinterpret_cast<const convoy_fp16 *>(operands->residual);
    job->out_pixel = s->nhwc.y_pixel;
    job->added_pixel = s->nhwc.residual_pixel;
    job->m = (int)nhwc_outputs_of(s);
    job->k = s->k;
    job->columns = nhwc_columns_of(s);
    job->tiles_n = (int)convoy_div_up(job->columns, n);
    job->tiles = (int)convoy_div_up(job->m, m) * job->tiles_n;
    job->chunks = nhwc_chunks_of(s, depth);
    job->tap_chunks = (int)convoy_div_up(nhwc_tap_channels(s), depth);
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
    job->flat = nhwc_is_flat(s);
    job->has_residual = s->residual;
    job->act = s->act;
    job->gates = reinterpret_cast<const convoy_fp16 *>(operands->gates);
    job->gate_pixel = (int)s->nhwc.gate_pixel;
    job->input_scale = operands->input_scale;
    job->input_shift = operands->input_shift;
    job->input_relu = s->nhwc.input == CONVOY_NHWC_SCALED_RELU;
    job->c = s->c;
    job->input_sums = operands->input_sums;
    job->input_epsilon = s->nhwc.normalization.epsilon;
    job->input_factor = s->nhwc.normalization.factor;
    job->input_rms = s->nhwc.normalization.rms;
    job->input_moments = reinterpret_cast<const float2 *>(operands->input_moments);
    job->input_parts = convoy_nhwc_moments(s->c);
    job->moments = s->nhwc.moments ? reinterpret_cast<float2 *>(operands->moments) : nullptr;
    job->parts = convoy_nhwc_moments(s->k);
    job->pixels = tensor_divider(s->oh * s->ow);
    job->overflow = operands->overflow;
    struct convoy_map_images images = nhwc_images_of(s, operands->x.data, depth, m);
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

/* The time that device memory and the launch take at least. */
static inline double nhwc_floor_us(const struct convoy_conv_shape *s)
{
    double bytes = 2.0 * ((double)s->n * s->h * s->w * s->c +
                          (double)nhwc_outputs_of(s) * nhwc_columns_of(s) * (s->residual ? 2 : 1) +
                          (double)nhwc_taps_of(s) * nhwc_tap_channels(s) * nhwc_columns_of(s));
    return bytes / CONVOY_ESTIMATE_BYTES_PER_US;
}

/* Cycles of a product of 64 x n x 16, which reads 64 and n rows of 32 bytes of shared memory, 128 a cycle. */
static inline double nhwc_product_cycles(int n)
{
    double product = n / 2.0, read = 16.0 + n / 4.0;
    return product > read ? product : read;
}

/* Cycles for one chunk of a tile of `pieces` times 64 outputs by n maps, of which this block copies the
 * weights of `copied`. */
static inline double nhwc_chunk_cycles(int pieces, int n, int depth, int copied)
{
    double products = pieces * (depth / 16) * nhwc_product_cycles(n) * NHWC_PRODUCT;
    double copies = (pieces * NHWC_PIECE + copied) * depth * 2 / NHWC_L2_BYTES;
    return products > copies ? products : copies;
}

/* Of `count` multiprocessors those that have clusters of so many blocks at once. The blocks of one run on
 * neighbours, and some are left over: on an H200 cudaOccupancyMaxActiveClusters() says 66 clusters of 2, 30
 * of 4 and 15 of 8 where a multiprocessor has room for one block; for three 198, 92 and 45. 132 blocks in
 * clusters of 4 so take twice as long as 120. bottleneck.cu counts groups of 18, with which its estimates
 * were fitted. */
static inline int nhwc_multiprocessors_of(int cluster, int count)
{
    return cluster > 2 ? count * 10 / 11 : count;
}

/* Cycles of so many tiles of `chunks` chunks, of which a multiprocessor makes `blocks` at once, in clusters
 * of `cluster`. end: of each tile. */
static inline double nhwc_tiles_cycles(int64_t tiles, int blocks, int cluster, double chunks, double chunk,
                                       double end)
{
    int multiprocessors = nhwc_multiprocessors_of(cluster, CONVOY_ESTIMATE_SMS);
    double turns = (double)convoy_div_up(tiles, multiprocessors);
    double waits = (double)convoy_div_up(tiles, multiprocessors * blocks);
    return turns * chunks * chunk + waits * (chunks * NHWC_CHUNK_CYCLES + end) + NHWC_START_CYCLES;
}

/* Of tiles of m x n by themselves. */
static inline double nhwc_end_cycles(int m, int n)
{
    return NHWC_END_CYCLES * m * n / (128 * 128);
}

/* What `cycles` of every multiprocessor take, beside memory's `least`. */
static inline float nhwc_estimate(double cycles, double least)
{
    double us = cycles / NHWC_CYCLES_PER_US;
    return (float)(us > least ? us + 0.1 * least : least + 0.1 * us) + CONVOY_ESTIMATE_LAUNCH_US;
}

#endif
