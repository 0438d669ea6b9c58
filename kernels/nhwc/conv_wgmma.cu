/* The kernels of conv_wgmma.cuh in the list of convolutions: nhwc_wgmma:GROUPSxROWSxTILES/DEPTHxSTAGES.
 * Compute capability 9.0 alone.
 *
 * Source of the idea: CUTLASS's warp-specialised persistent kernels and its im2col tensor maps (NVIDIA,
 * 2023); the code is our own. Floor: inputs, weights and outputs once through device memory, or the products
 * at the tensor cores' rate, whichever is longer. */
#include "kernels/nhwc/conv_wgmma.cuh"

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

/* ---- Estimates ---- */

template <int GROUPS, int ROWS, int NT, int DEPTH, int BLOCKS>
static float estimate(const struct convoy_conv_shape *s)
{
    int m = GROUPS * ROWS * NHWC_PIECE, n = NT * 8;
    int64_t tiles = convoy_div_up(nhwc_outputs_of(s), m) * convoy_div_up(nhwc_columns_of(s), n);
    double cycles = nhwc_tiles_cycles(tiles, BLOCKS, 1, nhwc_chunks_of(s, DEPTH),
                                      nhwc_chunk_cycles(GROUPS * ROWS, n, DEPTH, n), nhwc_end_cycles(m, n));
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

/* ---- The list ---- */

template <int DEPTH> static bool takes_at(const struct convoy_conv_shape *s)
{
    return nhwc_depth_of(s) == DEPTH && nhwc_takes(s);
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
     true,                                                                                                   \
     NT % 8 == 0},
bool convoy_nhwc_here(void)
{
    return convoy_has_wgmma();
}

const struct convoy_conv_kernel convoy_conv_nhwc_wgmma[CONVOY_NHWC_WGMMA_KERNELS] = {
    PERSISTENT_INSTANCES(PERSISTENT)};
