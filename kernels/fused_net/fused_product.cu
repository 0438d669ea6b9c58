/* The plan of a dense layer for all images at once (fused_product.cuh), and its launch. */
#include "kernels/device/chip.h"
#include "kernels/fused_net/fused_planner.h"
#include "kernels/fused_net/fused_product.cuh"
#include "kernels/gemm/gemm_sum.h"

#include <string.h>

#ifndef PRODUCT_BLOCKS /* at once; tests have fewer, so that tiles are large and each block makes several */
#define PRODUCT_BLOCKS CONVOY_ESTIMATE_SMS
#endif
#define MOST_SPLITS 16
#define TILE_CYCLES 3000.0 /* until the first chunk is there, and to store: made up */
#define SUM_CYCLES  5000.0 /* to launch what adds up partial sums */
#define L2_BYTES    24.0   /* a cycle, of a multiprocessor where all ask: 5.5 TB/s */

/* Warpgroups and tiles of 8 outputs of a block. Large ones, because each block reads its images' vectors and
 * its outputs' weights from the L2 cache by itself; small ones for few images. */
#define PRODUCT_TILES(X)                                                                                     \
    X(1, 4)                                                                                                  \
    X(1, 16)                                                                                                 \
    X(2, 8)                                                                                                  \
    X(3, 32)                                                                                                 \
    X(4, 20)

#define MOST_COLUMNS 256       /* of a tile, which may look as far past the last weights */
#define MOST_WORDS   (1 << 22) /* of a vector */

static int chunks_of(const struct convoy_fused_plan *plan)
{
    return plan->job.vector.cells / FUSED_VECTOR_CHUNK;
}

static double tile_cycles(const struct convoy_fused_plan *plan, int groups, int nt, int splits)
{
    int images = plan->job.n, outs = plan->product.outs;
    int64_t tiles =
        convoy_div_up(images, groups * FUSED_VECTOR_IMAGES) * convoy_div_up(outs, nt * 8) * splits;
    double chunks = (double)convoy_div_up(chunks_of(plan), splits);
    double products = 16.0 * nt * groups;
    double copies = (groups * FUSED_VECTOR_IMAGES + nt * 8) * FUSED_VECTOR_CHUNK * 16 / L2_BYTES;
    double cycles = (double)convoy_div_up(tiles, PRODUCT_BLOCKS) *
                    (chunks * (products > copies ? products : copies) + TILE_CYCLES);
    if (splits > 1)
        cycles += SUM_CYCLES + 8.0 * images * outs * splits / (L2_BYTES * CONVOY_ESTIMATE_SMS);
    return cycles;
}

/* Chooses a tile and splits; returns microseconds, guessed. */
static float divide(struct convoy_fused_plan *plan)
{
    struct fused_product *product = &plan->product;
    static const uint8_t tiles[][2] = {
#define TILE(groups, nt) {groups, nt},
        PRODUCT_TILES(TILE)
#undef TILE
    };
    int chunks = chunks_of(plan);
    double best = 0;
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++)
        for (int splits = 1; splits <= MOST_SPLITS && splits <= chunks; splits++) {
            double cycles = tile_cycles(plan, tiles[i][0], tiles[i][1], splits);
            if (best > 0 && cycles >= best)
                continue;
            best = cycles;
            product->groups = tiles[i][0];
            product->nt = tiles[i][1];
            product->piece = (int)convoy_div_up(chunks, splits);
        }
    product->splits = (int)convoy_div_up(chunks, product->piece);
    return (float)(best / FUSED_ESTIMATE_CYCLES) + CONVOY_ESTIMATE_LAUNCH_US;
}

bool fused_describe_product(struct convoy_fused_plan *plan, const struct convoy_fused_layer *layer)
{
    struct fused_product *product = &plan->product;
    struct fused_vector *vector = &plan->job.vector;
    const struct convoy_conv_shape *s = &layer->shape;
    int64_t words = (int64_t)s->h * s->w * convoy_div_up(s->c, 2);
    if (layer->kind != CONVOY_FUSED_DENSE || words > MOST_WORDS)
        return false;
    vector->place_words = (int)convoy_div_up(s->c, 2);
    vector->cells = (int)convoy_div_up(words, FUSED_CELL * FUSED_VECTOR_CHUNK) * FUSED_VECTOR_CHUNK;
    product->outs = s->k;
    product->columns = (int)convoy_div_up(s->k, 32) * 32;
    product->act = s->act;
    product->bias = FUSED_NO_BIAS;
    product->weights = (uint32_t)plan->weight_words;
    plan->weight_words +=
        fused_rounded(((size_t)vector->cells * (size_t)product->columns + MOST_COLUMNS) * FUSED_CELL);
    if (layer->bias != NULL) {
        product->bias = (uint32_t)plan->weight_words;
        plan->weight_words += fused_rounded((size_t)s->k);
    }
    plan->estimate_us += divide(plan);
    return plan->weight_words <= UINT32_MAX;
}

/* The sums that are added up in a launch of their own, as if each image were a matrix. */
static struct convoy_gemm_shape sums_of(const struct convoy_fused_plan *plan)
{
    const struct fused_product *product = &plan->product;
    struct convoy_gemm_shape shape = {};
    shape.m = 1;
    shape.n = product->outs;
    shape.batch = plan->job.n;
    shape.bias = product->bias != FUSED_NO_BIAS;
    shape.act = product->act;
    shape.y_stride = plan->job.y_stride;
    return shape;
}

/* Vectors are there for whole blocks. */
static size_t vector_bytes(const struct convoy_fused_plan *plan)
{
    int of_block = plan->product.groups * FUSED_VECTOR_IMAGES;
    return (size_t)convoy_div_up(plan->job.n, of_block) * (size_t)of_block * (size_t)plan->job.vector.cells *
           PRODUCT_CELL;
}

size_t fused_product_scratch_bytes(const struct convoy_fused_plan *plan)
{
    struct convoy_gemm_shape sums = sums_of(plan);
    return vector_bytes(plan) + convoy_gemm_partial_bytes(&sums, plan->product.splits);
}

/* cells x outputs x 8 numbers of the reduction, two to a word, as the vectors are: place after place. */
void fused_pack_product(const struct convoy_fused_plan *plan, const struct convoy_fused_layer *layer,
                        uint32_t *packed)
{
    const struct fused_product *product = &plan->product;
    uint32_t *weights = packed + product->weights;
    int place_words = plan->job.vector.place_words;
    int channels = layer->shape.c, places = layer->shape.h * layer->shape.w;
    for (int word = 0; word < places * place_words; word++) {
        int place = word / place_words, c = word % place_words * 2;
        for (int out = 0; out < product->outs; out++) {
            const float *from =
                layer->weights + ((size_t)out * (size_t)channels + (size_t)c) * (size_t)places + place;
            uint32_t *to =
                weights +
                ((size_t)(word / FUSED_CELL) * (size_t)product->columns + (size_t)out) * FUSED_CELL +
                word % FUSED_CELL;
            tensor_put_weights(TENSOR_HALF, to, from[0], c + 1 < channels ? from[places] : 0);
        }
    }
    if (product->bias != FUSED_NO_BIAS)
        memcpy(packed + product->bias, layer->bias, (size_t)product->outs * sizeof(float));
}

template <int GROUPS, int NT> static cudaError_t launch(struct product_job *job, cudaStream_t stream)
{
    using tile = product_tile<GROUPS, NT>;
    job->column_tiles = (int)convoy_div_up(job->outs, tile::COLUMNS);
    job->tiles = (int)convoy_div_up(job->images, tile::IMAGES) * job->splits * job->column_tiles;
    int blocks = fused_at_most(job->tiles, PRODUCT_BLOCKS);
    return convoy_launch_early(fused_product<GROUPS, NT>, dim3((unsigned)blocks),
                               dim3(product_threads<GROUPS>), tile::SHARED_BYTES, stream, *job);
}

static cudaError_t launch_any(const struct fused_product *product, struct product_job *job,
                              cudaStream_t stream)
{
#define TILE(G, N)                                                                                           \
    if (product->groups == G && product->nt == N)                                                            \
        return launch<G, N>(job, stream);
    PRODUCT_TILES(TILE)
#undef TILE
    return cudaErrorInvalidConfiguration;
}

cudaError_t fused_launch_product(const struct convoy_fused_plan *plan,
                                 const struct convoy_fused_operands *operands, cudaStream_t stream)
{
    const struct fused_product *product = &plan->product;
    const uint32_t *constants = static_cast<const uint32_t *>(operands->weights);
    float *partial = reinterpret_cast<float *>(static_cast<char *>(operands->scratch) + vector_bytes(plan));
    struct convoy_gemm_shape sums = sums_of(plan);
    const float *bias = sums.bias ? reinterpret_cast<const float *>(constants + product->bias) : nullptr;
    bool split = product->splits > 1;
    struct product_job job = {};
    job.images = plan->job.n;
    job.outs = product->outs;
    job.columns = product->columns;
    job.splits = product->splits;
    job.chunks = chunks_of(plan);
    job.piece = product->piece;
    job.vectors = static_cast<const char *>(operands->scratch);
    job.weights = reinterpret_cast<const char *>(constants + product->weights);
    job.bias = split ? nullptr : bias;
    job.act = split ? convoy_unary{} : product->act;
    job.y = split ? partial : operands->y;
    job.y_stride = split ? product->outs : plan->job.y_stride;
    job.split_stride = (int64_t)plan->job.n * product->outs;
    cudaError_t status = launch_any(product, &job, stream);
    if (status != cudaSuccess || !split)
        return status;
    return convoy_launch_gemm_sum(&sums, product->splits, partial, bias, operands->y, stream);
}
