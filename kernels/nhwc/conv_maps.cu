/* The kernels of conv_maps.cuh in the list of convolutions: nhwc_maps:MAPSxOUTPUTS/SHARExSPLIT, and
 * nhwc_normalized_maps, which normalise (normalized.cuh). Compute capability 9.0 alone.
 *
 * Floor: inputs, weights and outputs once through device memory, or the products at the tensor cores' rate,
 * whichever is longer. What should bound few images is neither: it is what a multiprocessor gets from the L2
 * cache, (maps / share + outputs) x 128 bytes a chunk, and the time until the first chunk is there.
 *
 * Measured within networks on an H100, fp16, tuned, kernels alone, milliseconds without these kernels and
 * with them: resnet50 0.324 and 0.295 for one image, 0.533 and 0.502 for eight. vit_b_16, where attention of
 * few heads divides its queries as well (attention_wgmma.cu): 0.728 and 0.611, 1.536 and 1.197. */
#include "kernels/nhwc/conv_maps.cuh"

/* Warpgroups that multiply, pieces of 64 maps of each, tiles of 8 outputs; maps, outputs; blocks that share
 * weights, blocks that divide the reduction. */
#define MAPS_INSTANCES(X)                                                                                    \
    X(1, 1, 2, 64, 16, 1, 1)                                                                                 \
    X(1, 1, 2, 64, 16, 1, 4)                                                                                 \
    X(1, 1, 3, 64, 24, 1, 1)                                                                                 \
    X(1, 1, 3, 64, 24, 1, 2)                                                                                 \
    X(1, 1, 3, 64, 24, 1, 4)                                                                                 \
    X(1, 1, 4, 64, 32, 1, 1)                                                                                 \
    X(1, 1, 4, 64, 32, 1, 2)                                                                                 \
    X(1, 1, 4, 64, 32, 1, 4)                                                                                 \
    X(1, 1, 4, 64, 32, 1, 8)                                                                                 \
    X(1, 1, 5, 64, 40, 1, 1)                                                                                 \
    X(1, 1, 5, 64, 40, 1, 2)                                                                                 \
    X(1, 1, 5, 64, 40, 1, 4)                                                                                 \
    X(1, 1, 7, 64, 56, 1, 1)                                                                                 \
    X(1, 1, 7, 64, 56, 2, 1)                                                                                 \
    X(1, 1, 7, 64, 56, 1, 2)                                                                                 \
    X(1, 1, 7, 64, 56, 1, 4)                                                                                 \
    X(1, 1, 7, 64, 56, 1, 8)                                                                                 \
    X(1, 1, 9, 64, 72, 1, 1)                                                                                 \
    X(1, 1, 9, 64, 72, 1, 4)                                                                                 \
    X(1, 1, 13, 64, 104, 1, 1)                                                                               \
    X(1, 1, 13, 64, 104, 2, 1)                                                                               \
    X(1, 1, 13, 64, 104, 1, 4)                                                                               \
    X(2, 1, 3, 128, 24, 1, 1)                                                                                \
    X(2, 1, 3, 128, 24, 2, 1)                                                                                \
    X(2, 1, 3, 128, 24, 1, 4)                                                                                \
    X(2, 1, 5, 128, 40, 1, 1)                                                                                \
    X(2, 1, 5, 128, 40, 2, 1)                                                                                \
    X(2, 1, 5, 128, 40, 4, 1)                                                                                \
    X(2, 1, 5, 128, 40, 1, 4)                                                                                \
    X(2, 1, 6, 128, 48, 1, 1)                                                                                \
    X(2, 1, 6, 128, 48, 2, 1)                                                                                \
    X(2, 1, 6, 128, 48, 1, 2)                                                                                \
    X(2, 1, 9, 128, 72, 1, 1)                                                                                \
    X(2, 1, 9, 128, 72, 2, 1)                                                                                \
    X(2, 1, 9, 128, 72, 4, 1)                                                                                \
    X(2, 1, 9, 128, 72, 1, 4)                                                                                \
    X(2, 1, 13, 128, 104, 1, 1)                                                                              \
    X(2, 1, 13, 128, 104, 2, 1)                                                                              \
    X(2, 1, 13, 128, 104, 4, 1)                                                                              \
    X(2, 1, 13, 128, 104, 1, 8)                                                                              \
    X(2, 2, 15, 256, 120, 1, 1)                                                                              \
    X(2, 2, 15, 256, 120, 2, 1)                                                                              \
    X(2, 2, 18, 256, 144, 1, 1)                                                                              \
    X(2, 2, 18, 256, 144, 2, 1)                                                                              \
    X(2, 2, 18, 256, 144, 1, 4)

#define NORMALIZED_INSTANCES(X)                                                                              \
    X(1, 1, 3, 64, 24, 1, 1)                                                                                 \
    X(1, 1, 5, 64, 40, 1, 1)                                                                                 \
    X(1, 1, 7, 64, 56, 1, 1)                                                                                 \
    X(1, 1, 9, 64, 72, 1, 1)                                                                                 \
    X(1, 1, 13, 64, 104, 1, 1)                                                                               \
    X(2, 1, 3, 128, 24, 1, 1)                                                                                \
    X(2, 1, 5, 128, 40, 1, 1)                                                                                \
    X(2, 1, 9, 128, 72, 1, 1)                                                                                \
    X(2, 1, 9, 128, 72, 2, 1)                                                                                \
    X(2, 1, 13, 128, 104, 1, 1)                                                                              \
    X(2, 2, 18, 256, 144, 1, 1)                                                                              \
    X(2, 2, 18, 256, 144, 2, 1)

#define END_CYCLES   5000.0 /* of a tile of 128 x 128; fitted as NHWC_START_CYCLES is */
#define SHARE_CYCLES 120.0  /* for each block of a cluster that shares weights */
#define LEAST_CHUNKS 2      /* of a block of a divided reduction */

/* ---- Launch ---- */

template <bool NORMALIZES, int GROUPS, int ROWS, int NT, int SHARE, int SPLIT>
static cudaError_t launch_maps(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                               cudaStream_t stream)
{
    using tile = nhwc_maps_tile<GROUPS, ROWS, NT>;
    static_assert(tile::OUTPUTS % SPLIT == 0, "each block of a divided reduction finishes as many outputs");
    static_assert(tile::WEIGHT_BYTES % (16 * SHARE) == 0,
                  "a block's part of the weights is whole pieces of 16 bytes");
    static_assert(SPLIT == 1 || !NORMALIZES, "a block that normalises has all of the reduction");
    struct nhwc_job job = {};
    cudaError_t error = nhwc_describe(s, operands, NHWC_MAPS_DEPTH, tile::OUTPUTS, tile::MAPS, 0, &job);
    if (error != cudaSuccess)
        return error;
    int shares = (int)convoy_div_up(job.tiles / job.tiles_n, SHARE) * job.tiles_n;
    return convoy_launch_as(convoy_launch_form{SHARE * SPLIT, true},
                            nhwc_conv_maps<GROUPS, ROWS, NT, NORMALIZES>,
                            dim3((unsigned)(shares * SHARE * SPLIT)), dim3(tile::THREADS),
                            NORMALIZES ? tile::NORMALIZED_BYTES : tile::SHARED_BYTES, stream, job,
                            nhwc_maps_cluster{SHARE, SPLIT});
}

/* ---- Estimates ---- */

template <int GROUPS, int ROWS, int NT, int SHARE, int SPLIT>
static float estimate_maps(const struct convoy_conv_shape *s)
{
    using tile = nhwc_maps_tile<GROUPS, ROWS, NT>;
    int64_t outputs = convoy_div_up(convoy_div_up(nhwc_outputs_of(s), tile::OUTPUTS), SHARE) * SHARE;
    int64_t blocks = outputs * convoy_div_up(nhwc_columns_of(s), tile::MAPS) * SPLIT;
    double chunks = (double)convoy_div_up(nhwc_chunks_of(s, NHWC_MAPS_DEPTH), SPLIT);
    double end = END_CYCLES * tile::MAPS * tile::OUTPUTS / (128 * 128) +
                 (SPLIT > 1 ? NHWC_JOIN_CYCLES * SPLIT : 0) + (SHARE > 1 ? SHARE_CYCLES * SHARE : 0);
    /* Sharing makes what blocks ask for less, but not what they get. */
    double cycles = nhwc_tiles_cycles(
        blocks, tile::BLOCKS, SHARE * SPLIT, chunks,
        nhwc_chunk_cycles(GROUPS * ROWS, tile::OUTPUTS, NHWC_MAPS_DEPTH, tile::OUTPUTS), end);
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

/* ---- The list ---- */

template <bool (*TAKES)(const struct convoy_conv_shape *), int OUTPUTS, int SHARE, int SPLIT>
static bool takes_maps(const struct convoy_conv_shape *s)
{
    return s->k % 8 == 0 && s->nhwc.window == 0 && nhwc_outputs_of(s) <= 64 * 1024 &&
           (SPLIT == 1 || nhwc_chunks_of(s, NHWC_MAPS_DEPTH) >= LEAST_CHUNKS * SPLIT) &&
           (SHARE == 1 || nhwc_outputs_of(s) > OUTPUTS) && TAKES(s) &&
           (SHARE * SPLIT == 1 || convoy_has_clusters());
}

#define KERNEL(NAME, TAKES, NORMALIZES, GROUPS, ROWS, NT, MAPS, OUTPUTS, SHARE, SPLIT)                       \
    {NAME #MAPS "x" #OUTPUTS "/" #SHARE "x" #SPLIT,                                                          \
     CONVOY_COMPUTE_FP16,                                                                                    \
     takes_maps<TAKES, OUTPUTS, SHARE, SPLIT>,                                                               \
     estimate_maps<GROUPS, ROWS, NT, SHARE, SPLIT>,                                                          \
     nhwc_packed_floats<NHWC_MAPS_DEPTH>,                                                                    \
     nhwc_pack<NHWC_MAPS_DEPTH>,                                                                             \
     convoy_no_scratch,                                                                                      \
     launch_maps<NORMALIZES, GROUPS, ROWS, NT, SHARE, SPLIT>,                                                \
     true,                                                                                                   \
     true},
#define MAPS(...)       KERNEL("nhwc_maps:", nhwc_takes, false, __VA_ARGS__)
#define NORMALIZED(...) KERNEL("nhwc_normalized_maps:", nhwc_takes_normalized, true, __VA_ARGS__)

const struct convoy_conv_kernel convoy_conv_nhwc_maps[CONVOY_NHWC_MAPS_KERNELS] = {MAPS_INSTANCES(MAPS)};
const struct convoy_conv_kernel convoy_conv_nhwc_normalized_maps[CONVOY_NHWC_NORMALIZED_MAPS_KERNELS] = {
    NORMALIZED_INSTANCES(NORMALIZED)};
