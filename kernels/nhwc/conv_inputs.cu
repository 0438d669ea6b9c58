/* 1 x 1 convolutions that change their inputs (inputs.cuh) or normalise (normalized.cuh) in the list of
 * convolutions: nhwc_gated, nhwc_scaled and nhwc_normalized:GROUPSxROWSxTILES/DEPTHxSTAGES are those of
 * conv_wgmma.cuh, nhwc_gated_split and nhwc_scaled_split:TILESxBLOCKS those of conv_split.cuh. Compute
 * capability 9.0 alone.
 *
 * Floor of those that change inputs: that of the convolution of inputs as they are, or for a chunk of 64 rows
 * 64 reads and writes of 128 bytes of shared memory, and the arithmetic, which run beside the products of the
 * chunk before. Predicted for 256 images of densenet121: 11.9 -> 7 ms. On an H200 12.40 -> 7.57, with the
 * same bits; the first of its layers, 64 x 56 x 56 to 128 maps, 156 us in place of 100 and 102. */
#include "kernels/nhwc/conv_split.cuh"
#include "kernels/nhwc/normalized.cuh"

/* Warpgroups, pieces of 64 rows of each, tiles of 8 columns, depth of a chunk, stages, places for results,
 * blocks on a multiprocessor. */
#define INSTANCES(X)                                                                                         \
    X(2, 1, 2, 64, 5, 2, 2)                                                                                  \
    X(2, 1, 4, 64, 4, 2, 2)                                                                                  \
    X(2, 1, 8, 64, 3, 2, 2)                                                                                  \
    X(2, 1, 16, 64, 4, 2, 1)                                                                                 \
    X(2, 1, 32, 64, 2, 2, 1)

#define NORMALIZED_INSTANCES(X)                                                                              \
    X(2, 1, 8, 64, 3, 2, 2)                                                                                  \
    X(2, 1, 16, 64, 4, 2, 1)                                                                                 \
    X(2, 1, 32, 64, 3, 1, 1)                                                                                 \
    X(2, 1, 8, 32, 5, 2, 2)

#define DEPTH        64
#define GATE_CYCLES  150.0 /* of a chunk, for each 64 rows: made up */
#define SCALE_CYCLES 250.0 /* the same */

template <template <int, int> class INPUT, int GROUPS, int ROWS, int NT, int DEEP, int STAGES, int BUFFERS,
          int BLOCKS>
static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    using tile = nhwc_tile<GROUPS, ROWS, NT, DEEP, STAGES, BUFFERS>;
    struct nhwc_job job = {};
    cudaError_t error = nhwc_describe(s, operands, DEEP, tile::M, tile::N, tile::PANEL, &job);
    if (error != cudaSuccess)
        return error;
    int blocks = NHWC_SMS * BLOCKS;
    blocks = job.tiles < blocks ? job.tiles : blocks;
    return convoy_launch_early(nhwc_conv<GROUPS, ROWS, NT, DEEP, STAGES, BUFFERS, BLOCKS, INPUT>,
                               dim3((unsigned)blocks), dim3(tile::THREADS), tile::SHARED_BYTES, stream, job);
}

template <template <int, int> class INPUT, int NT, int STAGES, int SPLITS>
static cudaError_t launch_split(const struct convoy_conv_shape *s,
                                const struct convoy_conv_operands *operands, cudaStream_t stream)
{
    using tile = nhwc_split_tile<NT, DEPTH, STAGES>;
    struct nhwc_job job = {};
    cudaError_t error = nhwc_describe(s, operands, DEPTH, tile::M, tile::N, 0, &job);
    if (error != cudaSuccess)
        return error;
    return convoy_launch_as(convoy_launch_form{SPLITS, true}, nhwc_conv_split<NT, DEPTH, STAGES, INPUT>,
                            dim3((unsigned)job.tiles * SPLITS), dim3(tile::THREADS), tile::SHARED_BYTES,
                            stream, job, SPLITS);
}

static double input_cycles(const struct convoy_conv_shape *s)
{
    return s->nhwc.input == CONVOY_NHWC_GATED        ? GATE_CYCLES
           : s->nhwc.input == CONVOY_NHWC_NORMALIZED ? 0
                                                     : SCALE_CYCLES;
}

template <int GROUPS, int ROWS, int NT, int DEEP, int BLOCKS>
static float estimate(const struct convoy_conv_shape *s)
{
    int m = GROUPS * ROWS * NHWC_PIECE, n = NT * 8;
    int64_t tiles = convoy_div_up(nhwc_outputs_of(s), m) * convoy_div_up(nhwc_columns_of(s), n);
    double chunk = nhwc_chunk_cycles(GROUPS * ROWS, n, DEEP, n) +
                   input_cycles(s) * DEEP / DEPTH * GROUPS * ROWS / BLOCKS;
    double cycles =
        nhwc_tiles_cycles(tiles, BLOCKS, 1, nhwc_chunks_of(s, DEEP), chunk, nhwc_end_cycles(m, n));
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

template <int NT, int SPLITS> static float estimate_split(const struct convoy_conv_shape *s)
{
    int64_t tiles = convoy_div_up(nhwc_outputs_of(s), NHWC_PIECE) * convoy_div_up(nhwc_columns_of(s), NT * 8);
    double chunks = (double)convoy_div_up(nhwc_chunks_of(s, DEPTH), SPLITS);
    double chunk = nhwc_chunk_cycles(1, NT * 8, DEPTH, NT * 8) + input_cycles(s) / 2;
    double cycles = nhwc_tiles_cycles(tiles * SPLITS, 2, SPLITS, chunks, chunk,
                                      NHWC_SPLIT_END + (SPLITS > 1 ? NHWC_JOIN_CYCLES * SPLITS : 0));
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

template <int SPLITS> static bool takes_split(const struct convoy_conv_shape *s)
{
    return nhwc_chunks_of(s, DEPTH) >= SPLITS && nhwc_outputs_of(s) <= 64 * 1024 && convoy_has_clusters();
}

template <int SPLITS> static bool takes_gated_split(const struct convoy_conv_shape *s)
{
    return takes_split<SPLITS>(s) && nhwc_takes_gated(s);
}

template <int SPLITS> static bool takes_scaled_split(const struct convoy_conv_shape *s)
{
    return takes_split<SPLITS>(s) && nhwc_takes_scaled(s);
}

template <int DEEP> static bool takes_normalized(const struct convoy_conv_shape *s)
{
    return nhwc_depth_of(s) == DEEP && nhwc_takes_few_moments(s);
}

#define KERNEL(NAME, TAKES, INPUT, GROUPS, ROWS, NT, DEEP, STAGES, BUFFERS, BLOCKS)                          \
    {NAME #GROUPS "x" #ROWS "x" #NT "/" #DEEP "x" #STAGES,                                                   \
     CONVOY_COMPUTE_FP16,                                                                                    \
     TAKES,                                                                                                  \
     estimate<GROUPS, ROWS, NT, DEEP, BLOCKS>,                                                               \
     nhwc_packed_floats<DEEP>,                                                                               \
     nhwc_pack<DEEP>,                                                                                        \
     convoy_no_scratch,                                                                                      \
     launch<INPUT, GROUPS, ROWS, NT, DEEP, STAGES, BUFFERS, BLOCKS>,                                         \
     true,                                                                                                   \
     NT % 8 == 0},
#define SPLIT_KERNEL(NAME, TAKES, INPUT, NT, STAGES, SPLITS)                                                 \
    {NAME #NT "x" #SPLITS,                                                                                   \
     CONVOY_COMPUTE_FP16,                                                                                    \
     TAKES<SPLITS>,                                                                                          \
     estimate_split<NT, SPLITS>,                                                                             \
     nhwc_packed_floats<DEPTH>,                                                                              \
     nhwc_pack<DEPTH>,                                                                                       \
     convoy_no_scratch,                                                                                      \
     launch_split<INPUT, NT, STAGES, SPLITS>,                                                                \
     true},

#define GATED(...)        KERNEL("nhwc_gated:", nhwc_takes_gated, nhwc_gated, __VA_ARGS__)
#define GATED_SPLIT(...)  SPLIT_KERNEL("nhwc_gated_split:", takes_gated_split, nhwc_gated, __VA_ARGS__)
#define SCALED(...)       KERNEL("nhwc_scaled:", nhwc_takes_scaled, nhwc_scaled, __VA_ARGS__)
#define SCALED_SPLIT(...) SPLIT_KERNEL("nhwc_scaled_split:", takes_scaled_split, nhwc_scaled, __VA_ARGS__)

#define NORMALIZED(GROUPS, ROWS, NT, DEEP, ...)                                                              \
    KERNEL("nhwc_normalized:", takes_normalized<DEEP>, nhwc_normalized, GROUPS, ROWS, NT, DEEP, __VA_ARGS__)

void convoy_nhwc_sum_weights(const struct convoy_conv_shape *s, const float *weights, float *sums)
{
    for (int k = 0; k < s->k; k++) {
        double sum = 0;
        for (int c = 0; c < s->c; c++)
            sum += convoy_from_half(convoy_half(weights[(int64_t)k * s->c + c]));
        sums[k] = (float)sum;
    }
}

const struct convoy_conv_kernel convoy_conv_nhwc_gated[CONVOY_NHWC_GATED_KERNELS] = {
    INSTANCES(GATED) NHWC_SPLIT_INSTANCES(GATED_SPLIT)};
const struct convoy_conv_kernel convoy_conv_nhwc_scaled[CONVOY_NHWC_SCALED_KERNELS] = {
    INSTANCES(SCALED) NHWC_SPLIT_INSTANCES(SCALED_SPLIT)};
const struct convoy_conv_kernel convoy_conv_nhwc_normalized[CONVOY_NHWC_NORMALIZED_KERNELS] = {
    NORMALIZED_INSTANCES(NORMALIZED)};
