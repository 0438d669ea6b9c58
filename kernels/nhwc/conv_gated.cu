/* 1 x 1 convolutions whose inputs are multiplied by gates (gate.cuh) in the list of convolutions:
 * nhwc_gated:GROUPSxROWSxTILES/DEPTHxSTAGES are those of conv_wgmma.cuh, nhwc_gated_split:TILESxBLOCKS those
 * of conv_split.cuh. Compute capability 9.0 alone.
 *
 * Floor: that of the convolution without gates, or for a chunk of 64 rows 64 reads and writes of 128 bytes of
 * shared memory, which run beside the products of the chunk before. */
#include "kernels/nhwc/conv_split.cuh"

/* Warpgroups, pieces of 64 rows of each, tiles of 8 columns, depth of a chunk, stages, places for results,
 * blocks on a multiprocessor. */
#define GATED_INSTANCES(X)                                                                                   \
    X(2, 1, 2, 64, 5, 2, 2)                                                                                  \
    X(2, 1, 4, 64, 4, 2, 2)                                                                                  \
    X(2, 1, 8, 64, 3, 2, 2)                                                                                  \
    X(2, 1, 16, 64, 4, 2, 1)                                                                                 \
    X(2, 1, 32, 64, 2, 2, 1)
/* Tiles of 8 columns, stages, blocks of a cluster. */
#define GATED_SPLIT_INSTANCES(X)                                                                             \
    X(4, 5, 1)                                                                                               \
    X(4, 5, 2)                                                                                               \
    X(4, 5, 4)                                                                                               \
    X(4, 5, 8)                                                                                               \
    X(8, 5, 1)                                                                                               \
    X(8, 5, 2)                                                                                               \
    X(8, 5, 4)                                                                                               \
    X(8, 5, 8)

#define DEPTH       64
#define TILE_CYCLES 900.0  /* a tile's end: made up, as all that follow */
#define GATE_CYCLES 150.0  /* of a chunk, for each 64 rows */
#define JOIN_CYCLES 1500.0 /* of a cluster */

template <int GROUPS, int ROWS, int NT, int STAGES, int BUFFERS, int BLOCKS>
static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    using tile = nhwc_tile<GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS>;
    struct nhwc_job job = {};
    cudaError_t error = nhwc_describe(s, operands, DEPTH, tile::M, tile::N, tile::PANEL, &job);
    if (error != cudaSuccess)
        return error;
    int blocks = NHWC_SMS * BLOCKS;
    blocks = job.tiles < blocks ? job.tiles : blocks;
    return convoy_launch_early(nhwc_conv<GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS, BLOCKS, true>,
                               dim3((unsigned)blocks), dim3(tile::THREADS), tile::SHARED_BYTES, stream, job);
}

template <int NT, int STAGES, int SPLITS>
static cudaError_t launch_split(const struct convoy_conv_shape *s,
                                const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    using tile = nhwc_split_tile<NT, DEPTH, STAGES>;
    struct nhwc_job job = {};
    cudaError_t error = nhwc_describe(s, operands, DEPTH, tile::M, tile::N, 0, &job);
    if (error != cudaSuccess)
        return error;
    return convoy_launch_as(convoy_launch_form{SPLITS, true}, nhwc_conv_split<NT, DEPTH, STAGES, true>,
                            dim3((unsigned)job.tiles * SPLITS), dim3(tile::THREADS), tile::SHARED_BYTES,
                            stream, job, SPLITS);
}

template <int GROUPS, int ROWS, int NT, int BLOCKS> static float estimate(const struct convoy_conv_shape *s)
{
    int m = GROUPS * ROWS * NHWC_PIECE, n = NT * 8;
    int64_t tiles = convoy_div_up(nhwc_outputs_of(s), m) * convoy_div_up(nhwc_columns_of(s), n);
    double turns = (double)convoy_div_up(tiles, CONVOY_ESTIMATE_SMS);
    double chunk = nhwc_chunk_cycles(GROUPS * ROWS, n, DEPTH, n) + GATE_CYCLES * GROUPS * ROWS / BLOCKS;
    double cycles = turns * (nhwc_chunks_of(s, DEPTH) * chunk + TILE_CYCLES / BLOCKS) + NHWC_START_CYCLES;
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

template <int NT, int SPLITS> static float estimate_split(const struct convoy_conv_shape *s)
{
    int64_t tiles = convoy_div_up(nhwc_outputs_of(s), NHWC_PIECE) * convoy_div_up(nhwc_columns_of(s), NT * 8);
    double turns = (double)convoy_div_up(tiles * SPLITS, 2 * CONVOY_ESTIMATE_SMS) * 2;
    double chunks = (double)convoy_div_up(nhwc_chunks_of(s, DEPTH), SPLITS);
    double chunk = nhwc_chunk_cycles(1, NT * 8, DEPTH, NT * 8) * 2 + GATE_CYCLES;
    double cycles = turns / 2 * (chunks * chunk + NHWC_START_CYCLES + JOIN_CYCLES);
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.2);
}

template <int SPLITS> static bool takes_split(const struct convoy_conv_shape *s)
{
    return nhwc_chunks_of(s, DEPTH) >= SPLITS && nhwc_outputs_of(s) <= 64 * 1024 && nhwc_takes_gated(s) &&
           convoy_has_clusters();
}

#define GATED(GROUPS, ROWS, NT, DEEP, STAGES, BUFFERS, BLOCKS)                                               \
    {"nhwc_gated:" #GROUPS "x" #ROWS "x" #NT "/" #DEEP "x" #STAGES,                                          \
     CONVOY_COMPUTE_FP16,                                                                                    \
     nhwc_takes_gated,                                                                                       \
     estimate<GROUPS, ROWS, NT, BLOCKS>,                                                                     \
     nhwc_packed_floats<DEEP>,                                                                               \
     nhwc_pack<DEEP>,                                                                                        \
     convoy_no_scratch,                                                                                      \
     launch<GROUPS, ROWS, NT, STAGES, BUFFERS, BLOCKS>,                                                      \
     true},
#define GATED_SPLIT(NT, STAGES, SPLITS)                                                                      \
    {"nhwc_gated_split:" #NT "x" #SPLITS,                                                                    \
     CONVOY_COMPUTE_FP16,                                                                                    \
     takes_split<SPLITS>,                                                                                    \
     estimate_split<NT, SPLITS>,                                                                             \
     nhwc_packed_floats<DEPTH>,                                                                              \
     nhwc_pack<DEPTH>,                                                                                       \
     convoy_no_scratch,                                                                                      \
     launch_split<NT, STAGES, SPLITS>,                                                                       \
     true},

const struct convoy_conv_kernel convoy_conv_nhwc_gated[CONVOY_NHWC_GATED_KERNELS] = {
    GATED_INSTANCES(GATED) GATED_SPLIT_INSTANCES(GATED_SPLIT)};
