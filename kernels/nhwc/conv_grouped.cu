/* Convolutions in groups (conv_groups.cuh) in the list of convolutions: nhwc_grouped:GROUPSxROWSxTILES/
 * DEPTHxSTAGES are those of conv_wgmma.cuh, nhwc_grouped_split:TILESxBLOCKS those of conv_split.cuh. Of 3 x 3
 * with stride 1 and few channels a group see conv_patch.cu. Compute capability 9.0 alone.
 *
 * Floor: inputs and outputs once through device memory, or each input nine times through the L2 cache.
 * Predicted: 256 images of 128 x 56 x 56 in groups of 4 with 3 x 3: 430 us by the L2 cache. On an H200
 * nhwc_grouped_patch takes 220, memory alone would take 86; of resnext50's others 28 x 28 with 256 channels
 * 144, 14 x 14 with 512 89 and 7 x 7 with 1,024 52 (nhwc_grouped:2x1x8/64x3). */
#include "kernels/nhwc/conv_groups.cuh"
#include "kernels/nhwc/conv_split.cuh"

/* Warpgroups, pieces of 64 rows of each, tiles of 8 columns, depth of a chunk, stages, places for results,
 * blocks on a multiprocessor. */
#define GROUPED_INSTANCES(X)                                                                                 \
    X(2, 1, 8, 64, 3, 2, 2)                                                                                  \
    X(2, 1, 4, 32, 6, 2, 2)                                                                                  \
    X(2, 1, 8, 32, 5, 2, 2)
/* Tiles of 8 columns, stages, blocks of a cluster. */
#define GROUPED_SPLIT_INSTANCES(X)                                                                           \
    X(4, 5, 1)                                                                                               \
    X(4, 5, 2)                                                                                               \
    X(4, 5, 4)                                                                                               \
    X(8, 5, 1)                                                                                               \
    X(8, 5, 2)                                                                                               \
    X(8, 5, 4)

#define SPLIT_DEPTH 64

static int chunks_of(const struct convoy_conv_shape *s, int n, int depth)
{
    return nhwc_taps_of(s) * nhwc_group_chunks(s, n, depth);
}

template <int GROUPS, int ROWS, int NT, int DEPTH, int STAGES, int BUFFERS, int BLOCKS>
static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    using tile = nhwc_tile<GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS>;
    struct nhwc_job job = {};
    cudaError_t error = nhwc_describe(s, operands, DEPTH, tile::M, tile::N, tile::PANEL, &job);
    if (error != cudaSuccess)
        return error;
    nhwc_describe_groups(s, tile::N, DEPTH, &job);
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
    cudaError_t error = nhwc_describe(s, operands, SPLIT_DEPTH, tile::M, tile::N, 0, &job);
    if (error != cudaSuccess)
        return error;
    nhwc_describe_groups(s, tile::N, SPLIT_DEPTH, &job);
    return convoy_launch_as(convoy_launch_form{SPLITS, true}, nhwc_conv_split<NT, SPLIT_DEPTH, STAGES>,
                            dim3((unsigned)job.tiles * SPLITS), dim3(tile::THREADS), tile::SHARED_BYTES,
                            stream, job, SPLITS);
}

template <int GROUPS, int ROWS, int NT, int DEPTH, int BLOCKS>
static float estimate(const struct convoy_conv_shape *s)
{
    int m = GROUPS * ROWS * NHWC_PIECE, n = NT * 8;
    int64_t tiles = convoy_div_up(nhwc_outputs_of(s), m) * convoy_div_up(nhwc_columns_of(s), n);
    double cycles = nhwc_tiles_cycles(tiles, BLOCKS, 1, chunks_of(s, n, DEPTH),
                                      nhwc_chunk_cycles(GROUPS * ROWS, n, DEPTH, n), nhwc_end_cycles(m, n));
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

template <int NT, int SPLITS> static float estimate_split(const struct convoy_conv_shape *s)
{
    int64_t tiles = convoy_div_up(nhwc_outputs_of(s), NHWC_PIECE) * convoy_div_up(nhwc_columns_of(s), NT * 8);
    double chunks = (double)convoy_div_up(chunks_of(s, NT * 8, SPLIT_DEPTH), SPLITS);
    double cycles = nhwc_tiles_cycles(tiles * SPLITS, 2, SPLITS, chunks,
                                      nhwc_chunk_cycles(1, NT * 8, SPLIT_DEPTH, NT * 8),
                                      NHWC_SPLIT_END + (SPLITS > 1 ? NHWC_JOIN_CYCLES * SPLITS : 0));
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

template <int NT, int SPLITS> static bool takes_split(const struct convoy_conv_shape *s)
{
    return nhwc_takes_groups(s) && chunks_of(s, NT * 8, SPLIT_DEPTH) >= SPLITS &&
           nhwc_outputs_of(s) <= 64 * 1024 && convoy_has_clusters();
}

#define GROUPED(GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS, BLOCKS)                                            \
    {"nhwc_grouped:" #GROUPS "x" #ROWS "x" #NT "/" #DEPTH "x" #STAGES,                                       \
     CONVOY_COMPUTE_FP16,                                                                                    \
     nhwc_takes_groups,                                                                                      \
     estimate<GROUPS, ROWS, NT, DEPTH, BLOCKS>,                                                              \
     nhwc_packed_groups<NT * 8, DEPTH>,                                                                      \
     nhwc_pack_groups<NT * 8, DEPTH>,                                                                        \
     convoy_no_scratch,                                                                                      \
     launch<GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS, BLOCKS>,                                               \
     true},
#define GROUPED_SPLIT(NT, STAGES, SPLITS)                                                                    \
    {"nhwc_grouped_split:" #NT "x" #SPLITS,                                                                  \
     CONVOY_COMPUTE_FP16,                                                                                    \
     takes_split<NT, SPLITS>,                                                                                \
     estimate_split<NT, SPLITS>,                                                                             \
     nhwc_packed_groups<NT * 8, SPLIT_DEPTH>,                                                                \
     nhwc_pack_groups<NT * 8, SPLIT_DEPTH>,                                                                  \
     convoy_no_scratch,                                                                                      \
     launch_split<NT, STAGES, SPLITS>,                                                                       \
     true},

const struct convoy_conv_kernel convoy_conv_nhwc_grouped[CONVOY_NHWC_GROUPED_KERNELS] = {
    GROUPED_INSTANCES(GROUPED) GROUPED_SPLIT_INSTANCES(GROUPED_SPLIT)};
