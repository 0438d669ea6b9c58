/* The kernels of excited.cuh in the list of convolutions: nhwc_excited:TILESxBLOCKS. Compute capability 9.0
 * alone.
 *
 * Floor: that of the convolution, the latency of a read of memory for the means, and a meeting of the
 * cluster. Predicted: 1.5 us more than nhwc_gated_split, in place of a launch of nhwc_excite, 5 us. On H200s
 * networks with one image gain 0.4 to 1.1 us for each: regnet_y_400mf 0.318 -> 0.300 ms, efficientnet_b0
 * 0.331 -> 0.324, mobilenet_v3_large 0.243 -> 0.234. */
#include "kernels/nhwc/excited.cuh"

#define DEPTH       64
#define MOST_SHARED (227 * 1024)
#define TWO_BLOCKS  (113 * 1024) /* of shared memory: two of them fit into a multiprocessor */
/* Of estimates, made up. */
#define GATES_CYCLES  2500.0 /* what the means and the layers wait for */
#define READ_BYTES    24.0   /* a cycle */
#define SHARED_BYTES  96.0   /* the same, of shared memory */
#define CHANGE_CYCLES 75.0   /* of a chunk */

/* ---- Weights ---- */

static int64_t cells_of(int64_t squeezed)
{
    return convoy_div_up(squeezed, NHWC_CELL);
}

size_t convoy_nhwc_excited_bytes(const struct convoy_nhwc_excite *s)
{
    return (size_t)(convoy_div_up(s->c, DEPTH) * excited_chunk<DEPTH>((int)cells_of(s->squeezed))) *
           sizeof(convoy_fp16);
}

void convoy_nhwc_excited_pack(const struct convoy_nhwc_excite *s, const float *squeeze, const float *excite,
                              void *packed)
{
    convoy_fp16 *to = reinterpret_cast<convoy_fp16 *>(packed);
    int64_t rows = cells_of(s->squeezed) * NHWC_CELL;
    for (int64_t first = 0; first < s->c; first += DEPTH) {
        for (int64_t row = 0; row < rows; row++)
            for (int64_t c = first; c < first + DEPTH; c++)
                *to++ = row < s->squeezed && c < s->c ? convoy_half(squeeze[row * s->c + c]) : 0;
        for (int64_t c = first; c < first + DEPTH; c++)
            for (int64_t row = 0; row < rows; row++)
                *to++ = row < s->squeezed && c < s->c ? convoy_half(excite[c * s->squeezed + row]) : 0;
    }
}

/* ---- Launch ---- */

template <int NT, int STAGES> using tile_of = nhwc_split_tile<NT, DEPTH, STAGES>;

template <int NT, int STAGES, int SPLITS> static size_t shared_bytes(const struct convoy_conv_shape *s)
{
    int most = (int)convoy_div_up(nhwc_chunks_of(s, DEPTH), SPLITS);
    return excited_shared<tile_of<NT, STAGES>, DEPTH>::bytes(most, (int)cells_of(s->nhwc.excitation.squeezed),
                                                             SPLITS);
}

static int64_t image_tiles(const struct convoy_conv_shape *s)
{
    return convoy_div_up((int64_t)s->oh * s->ow, NHWC_PIECE);
}

template <int NT, int STAGES, int SPLITS>
static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    using tile = tile_of<NT, STAGES>;
    const struct convoy_nhwc_excitation *from = &s->nhwc.excitation;
    struct nhwc_job job = {};
    struct excited_job excite = {};
    cudaError_t error = nhwc_describe(s, operands, DEPTH, tile::M, tile::N, 0, &job);
    if (error != cudaSuccess)
        return error;
    excite.weights = reinterpret_cast<const convoy_fp16 *>(operands->excitation);
    for (int i = 0; i < 2; i++) {
        excite.bias[i] = from->bias[i] ? operands->excitation_bias[i] : nullptr;
        excite.act[i] = from->act[i];
    }
    excite.patches = from->patches;
    excite.x = from->patches > 0 ? static_cast<const void *>(operands->sums) : operands->x.data;
    excite.x_pixel = from->patches > 0 ? s->c : s->nhwc.pixel;
    excite.squeezed = from->squeezed;
    excite.cells = (int)cells_of(from->squeezed);
    excite.pixels = s->oh * s->ow;
    excite.image_tiles = (int)image_tiles(s);
    excite.most = (int)convoy_div_up(job.chunks, SPLITS);
    return convoy_launch_as(convoy_launch_form{SPLITS, true}, nhwc_conv_excited<NT, DEPTH, STAGES>,
                            dim3((unsigned)(s->n * excite.image_tiles * job.tiles_n) * SPLITS),
                            dim3(tile::THREADS), shared_bytes<NT, STAGES, SPLITS>(s), stream, job, excite,
                            SPLITS);
}

template <int NT, int STAGES, int SPLITS> static float estimate(const struct convoy_conv_shape *s)
{
    const struct convoy_nhwc_excitation *from = &s->nhwc.excitation;
    int64_t tiles = s->n * image_tiles(s) * convoy_div_up(nhwc_columns_of(s), NT * 8);
    double chunks = (double)convoy_div_up(nhwc_chunks_of(s, DEPTH), SPLITS), own = chunks * DEPTH;
    double read = own * (from->patches > 0 ? from->patches * 4.0 : (double)s->oh * s->ow * 2);
    double gates =
        GATES_CYCLES + read / READ_BYTES + own * (double)cells_of(from->squeezed) * 32 / SHARED_BYTES;
    double chunk = nhwc_chunk_cycles(1, NT * 8, DEPTH, NT * 8) + CHANGE_CYCLES;
    int blocks = shared_bytes<NT, STAGES, SPLITS>(s) <= TWO_BLOCKS ? 2 : 1;
    double cycles = nhwc_tiles_cycles(tiles * SPLITS, blocks, SPLITS, chunks, chunk,
                                      NHWC_SPLIT_END + gates + (SPLITS > 1 ? NHWC_JOIN_CYCLES * SPLITS : 0));
    return nhwc_estimate(cycles, nhwc_floor_us(s) * 1.1);
}

template <int NT, int STAGES, int SPLITS> static bool takes(const struct convoy_conv_shape *s)
{
    const struct convoy_nhwc_excitation *excite = &s->nhwc.excitation;
    return s->nhwc.input == CONVOY_NHWC_EXCITED && s->c % NHWC_CELL == 0 && nhwc_takes_changed(s) &&
           nhwc_chunks_of(s, DEPTH) >= SPLITS && nhwc_outputs_of(s) <= 64 * 1024 && excite->squeezed > 0 &&
           excite->squeezed <= EXCITE_MAX_SQUEEZED && excite->act[0].kind < CONVOY_UNARY_NHWC_KINDS &&
           excite->act[1].kind < CONVOY_UNARY_NHWC_KINDS &&
           shared_bytes<NT, STAGES, SPLITS>(s) <= MOST_SHARED && convoy_has_clusters();
}

#define KERNEL(NT, STAGES, SPLITS)                                                                           \
    {"nhwc_excited:" #NT "x" #SPLITS,                                                                        \
     CONVOY_COMPUTE_FP16,                                                                                    \
     takes<NT, STAGES, SPLITS>,                                                                              \
     estimate<NT, STAGES, SPLITS>,                                                                           \
     nhwc_packed_floats<DEPTH>,                                                                              \
     nhwc_pack<DEPTH>,                                                                                       \
     convoy_no_scratch,                                                                                      \
     launch<NT, STAGES, SPLITS>,                                                                             \
     true},

const struct convoy_conv_kernel convoy_conv_nhwc_excited[CONVOY_NHWC_EXCITED_KERNELS] = {
    NHWC_SPLIT_INSTANCES(KERNEL)};
