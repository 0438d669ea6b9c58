/* The kernels of conv_wgmma.cuh and conv_split.cuh in the list of convolutions:
 * nhwc_wgmma:GROUPSxROWSxTILES/DEPTHxSTAGES and nhwc_split:TILESxBLOCKS. Compute capability 9.0 alone.
 *
 * Source of the idea: CUTLASS's warp-specialised persistent kernels and its im2col tensor maps (NVIDIA,
 * 2023); the code is our own. Floor: inputs, weights and outputs once through device memory, or the products
 * at the tensor cores' rate, whichever is longer. */
#include "kernels/nhwc/conv_split.cuh"

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

#define SPLIT_DEPTH 64
#define L2_BYTES    24.0   /* a cycle, of a multiprocessor where all ask */
#define TILE_CYCLES 900.0  /* a tile's end: made up */
#define JOIN_CYCLES 1500.0 /* of a cluster: made up */

/* ---- Launch ---- */

template <int GROUPS, int ROWS, int NT, int DEPTH, int STAGES, int BUFFERS, int BLOCKS>
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
    return convoy_launch_as(convoy_launch_form{SPLITS, true}, nhwc_conv_split<NT, SPLIT_DEPTH, STAGES>,
                            dim3((unsigned)job.tiles * SPLITS), dim3(tile::THREADS), tile::SHARED_BYTES,
                            stream, job, SPLITS);
}

/* ---- Estimates ---- */

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
    int64_t tiles = convoy_div_up(nhwc_outputs_of(s), m) * convoy_div_up(nhwc_columns_of(s), n);
    double turns = (double)convoy_div_up(tiles, CONVOY_ESTIMATE_SMS);
    double cycles =
        turns * (nhwc_chunks_of(s, DEPTH) * chunk_cycles(GROUPS * ROWS, n, DEPTH) + TILE_CYCLES / BLOCKS) +
        NHWC_START_CYCLES;
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

template <int NT, int SPLITS> static float estimate_split(const struct convoy_conv_shape *s)
{
    int64_t tiles = convoy_div_up(nhwc_outputs_of(s), NHWC_PIECE) * convoy_div_up(nhwc_columns_of(s), NT * 8);
    double turns = (double)convoy_div_up(tiles * SPLITS, 2 * CONVOY_ESTIMATE_SMS) * 2;
    double chunks = (double)convoy_div_up(nhwc_chunks_of(s, SPLIT_DEPTH), SPLITS);
    double cycles =
        turns / 2 * (chunks * chunk_cycles(1, NT * 8, SPLIT_DEPTH) * 2 + NHWC_START_CYCLES + JOIN_CYCLES);
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.2);
}

/* ---- The list ---- */

/* A chunk of 32 wastes less where the last one of a tap would be half empty. */
static int depth_of(const struct convoy_conv_shape *s)
{
    int rest = nhwc_tap_channels(s) % 64;
    return rest > 0 && rest <= 32 ? 32 : 64;
}

template <int DEPTH> static bool takes_at(const struct convoy_conv_shape *s)
{
    return depth_of(s) == DEPTH && nhwc_takes(s);
}

/* A chunk of 64 for 32 channels wastes little where so few outputs are computed. */
template <int SPLITS> static bool takes_split(const struct convoy_conv_shape *s)
{
    return nhwc_chunks_of(s, SPLIT_DEPTH) >= SPLITS && nhwc_outputs_of(s) <= 64 * 1024 &&
           s->nhwc.window == 0 && nhwc_takes(s) && convoy_has_clusters();
}

#define PERSISTENT(GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS, BLOCKS)                                         \
    {"nhwc_wgmma:" #GROUPS "x" #ROWS "x" #NT "/" #DEPTH "x" #STAGES,                                         \
     CONVOY_COMPUTE_FP16,                                                                                    \
     takes_at<DEPTH>,                                                                                        \
     estimate<GROUPS, ROWS, NT, DEPTH, BLOCKS>,                                                              \
     nhwc_packed_floats<DEPTH>,                                                                              \
     nhwc_pack<DEPTH>,                                                                                       \
     convoy_no_scratch,                                                                                      \
     launch<GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS, BLOCKS>,                                               \
     true},
#define SPLIT(NT, STAGES, SPLITS)                                                                            \
    {"nhwc_split:" #NT "x" #SPLITS,                                                                          \
     CONVOY_COMPUTE_FP16,                                                                                    \
     takes_split<SPLITS>,                                                                                    \
     estimate_split<NT, SPLITS>,                                                                             \
     nhwc_packed_floats<SPLIT_DEPTH>,                                                                        \
     nhwc_pack<SPLIT_DEPTH>,                                                                                 \
     convoy_no_scratch,                                                                                      \
     launch_split<NT, STAGES, SPLITS>,                                                                       \
     true},

bool convoy_nhwc_here(void)
{
    return convoy_has_wgmma();
}

const struct convoy_conv_kernel convoy_conv_nhwc_wgmma[CONVOY_NHWC_WGMMA_KERNELS] = {
    PERSISTENT_INSTANCES(PERSISTENT) SPLIT_INSTANCES(SPLIT)};
