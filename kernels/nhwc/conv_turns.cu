/* The kernels of conv_turns.cuh in the list of convolutions: nhwc_turns:ROWSxTILES/STAGESxBLOCKS, and
 * nhwc_normalized_turns, which normalise (normalized.cuh). Compute capability 9.0 alone.
 *
 * Floor: inputs, weights and outputs once through device memory, or the products at the tensor cores' rate,
 * whichever is longer.
 *
 * Measured on an H100, 50,432 outputs, TFLOP/s of nhwc_wgmma:2x1x32 and of nhwc_turns:2x16 in clusters of 1
 * and 2, in one run: 768 channels to 2,304 maps 432, 431, 499; 768 to 3,072 437, 442, 498; 3,072 to 768 551,
 * 470, 537. With arrivals at the other block's barrier that were fences for the cluster
 * (mbarrier.arrive.release.cluster) a chunk took 1,650 cycles whatever its size, and clusters of 2 reached
 * 282. Tiles of 128 x 64 in clusters reached 320 at most. */
#include "kernels/nhwc/conv_turns.cuh"
#include "kernels/nhwc/normalized.cuh"

/* Pieces of 64 rows of a tile, tiles of 8 columns, stages, places for results, blocks of a cluster. */
#define TURNS_INSTANCES(X)                                                                                   \
    X(2, 16, 5, 1, 1)                                                                                        \
    X(2, 16, 5, 1, 2)                                                                                        \
    X(1, 32, 4, 1, 2)

#define DEPTH        64
#define END_CYCLES   4200.0 /* of a tile of 128 x 128; fitted as NHWC_START_CYCLES is */
#define SHARE_CYCLES 120.0  /* for each block of a cluster */

template <template <int, int> class INPUT, int ROWS, int NT, int STAGES, int BUFFERS, int CLUSTER>
static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    using tile = nhwc_turns_tile<ROWS, NT, DEPTH, STAGES, BUFFERS>;
    struct nhwc_job job = {};
    cudaError_t error = nhwc_describe(s, operands, DEPTH, tile::M, tile::N, tile::PANEL, &job);
    if (error != cudaSuccess)
        return error;
    int shares = (int)convoy_div_up(job.tiles / job.tiles_n, CLUSTER) * job.tiles_n;
    int clusters = NHWC_SMS / CLUSTER > 1 ? NHWC_SMS / CLUSTER : 1;
    clusters = shares < clusters ? shares : clusters;
    return convoy_launch_as(
        convoy_launch_form{CLUSTER, true}, nhwc_conv_turns<ROWS, NT, DEPTH, STAGES, BUFFERS, CLUSTER, INPUT>,
        dim3((unsigned)(clusters * CLUSTER)), dim3(tile::THREADS), tile::SHARED_BYTES, stream, job);
}

/* A tile's products and copies, or half of the time in which a warpgroup makes one, whichever is longer. */
template <int ROWS, int NT, int CLUSTER> static float estimate(const struct convoy_conv_shape *s)
{
    int m = ROWS * NHWC_PIECE, n = NT * 8, chunks = nhwc_chunks_of(s, DEPTH);
    int64_t tiles = convoy_div_up(nhwc_outputs_of(s), m) * convoy_div_up(nhwc_columns_of(s), n);
    double all = chunks * (nhwc_chunk_cycles(ROWS, n, DEPTH, n) + NHWC_CHUNK_CYCLES);
    double one = (all + END_CYCLES * m * n / (128 * 128)) / NHWC_TURNS;
    double turns = (double)convoy_div_up(tiles, CONVOY_ESTIMATE_SMS);
    double share = CLUSTER > 1 ? SHARE_CYCLES * CLUSTER : 0;
    return nhwc_estimate(turns * (all > one ? all : one) + END_CYCLES + share + NHWC_START_CYCLES,
                         nhwc_floor_us(s) * 1.1);
}

template <bool (*TAKES)(const struct convoy_conv_shape *), int CLUSTER>
static bool takes_in(const struct convoy_conv_shape *s)
{
    int rest = nhwc_tap_channels(s) % DEPTH;
    return (rest == 0 || rest >= DEPTH / 2) && TAKES(s) && (CLUSTER == 1 || convoy_has_clusters());
}

#define KERNEL(NAME, TAKES, INPUT, ROWS, NT, STAGES, BUFFERS, CLUSTER)                                       \
    {NAME #ROWS "x" #NT "/" #STAGES "x" #CLUSTER,                                                            \
     CONVOY_COMPUTE_FP16,                                                                                    \
     takes_in<TAKES, CLUSTER>,                                                                               \
     estimate<ROWS, NT, CLUSTER>,                                                                            \
     nhwc_packed_floats<DEPTH>,                                                                              \
     nhwc_pack<DEPTH>,                                                                                       \
     convoy_no_scratch,                                                                                      \
     launch<INPUT, ROWS, NT, STAGES, BUFFERS, CLUSTER>,                                                      \
     true,                                                                                                   \
     true},
#define TURNS(...)      KERNEL("nhwc_turns:", nhwc_takes, nhwc_as_is, __VA_ARGS__)
#define NORMALIZED(...) KERNEL("nhwc_normalized_turns:", nhwc_takes_few_moments, nhwc_normalized, __VA_ARGS__)

const struct convoy_conv_kernel convoy_conv_nhwc_turns[CONVOY_NHWC_TURNS_KERNELS] = {TURNS_INSTANCES(TURNS)};
const struct convoy_conv_kernel convoy_conv_nhwc_normalized_turns[CONVOY_NHWC_TURNS_KERNELS] = {
    TURNS_INSTANCES(NORMALIZED)};
