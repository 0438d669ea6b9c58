/* The kernels of conv_split.cuh in the list of convolutions: nhwc_split:TILESxBLOCKS. Compute capability 9.0
 * alone. */
#include "kernels/nhwc/conv_split.cuh"

#define SPLIT_DEPTH 64

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

template <int NT, int SPLITS> static float estimate_split(const struct convoy_conv_shape *s)
{
    int64_t tiles = convoy_div_up(nhwc_outputs_of(s), NHWC_PIECE) * convoy_div_up(nhwc_columns_of(s), NT * 8);
    double chunks = (double)convoy_div_up(nhwc_chunks_of(s, SPLIT_DEPTH), SPLITS);
    double cycles = nhwc_tiles_cycles(tiles * SPLITS, 2, SPLITS, chunks,
                                      nhwc_chunk_cycles(1, NT * 8, SPLIT_DEPTH, NT * 8),
                                      NHWC_SPLIT_END + (SPLITS > 1 ? NHWC_JOIN_CYCLES * SPLITS : 0));
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

/* A chunk of 64 for 32 channels wastes little where so few outputs are computed. */
template <int SPLITS> static bool takes_split(const struct convoy_conv_shape *s)
{
    return nhwc_chunks_of(s, SPLIT_DEPTH) >= SPLITS && nhwc_outputs_of(s) <= 64 * 1024 &&
           s->nhwc.window == 0 && nhwc_takes(s) && convoy_has_clusters();
}

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

const struct convoy_conv_kernel convoy_conv_nhwc_split[CONVOY_NHWC_SPLIT_KERNELS] = {
    NHWC_SPLIT_INSTANCES(SPLIT)};
