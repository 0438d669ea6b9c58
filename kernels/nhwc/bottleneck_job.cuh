/* What a launch of bottleneck.cu is given: sizes of its tiles, the places in shared memory, weights in the
 * order in which a block reads them. Host functions, but for the structs. */
#ifndef CONVOY_KERNELS_NHWC_BOTTLENECK_JOB_CUH
#define CONVOY_KERNELS_NHWC_BOTTLENECK_JOB_CUH

#include "kernels/bottleneck.h"
#include "kernels/device/cluster_copy.cuh"
#include "kernels/device/mma.cuh"
#include "kernels/nhwc/conv_job.cuh"

#define NECK_SIDE        8               /* outputs of a patch's side, at most */
#define NECK_PITCH       (NECK_SIDE + 2) /* pixels of a line of the patch with its border */
#define NECK_PIXELS      (13 * 8)        /* of the patch with its border, and what fills up the last 8 */
#define NECK_TAPS        9
#define NECK_CHUNK       64 /* channels of a chunk of the reduction */
#define NECK_ROW_BYTES   (NECK_CHUNK * 2)
#define NECK_PANEL_BYTES (NHWC_PIECE * NECK_ROW_BYTES) /* outputs of 64 maps */
#define NECK_GROUPS      2                             /* warpgroups that multiply */
#define NECK_CONSUMERS   (NECK_GROUPS * CONVOY_WARPGROUP)
#define NECK_THREADS     (NECK_CONSUMERS + 64) /* and a warp that asks for weights, one that asks for pixels */
#define NECK_PASSES      4                     /* most passes over the last layer's maps */
#define NECK_X_STAGES    8                     /* most chunks of x at a time */
#define NECK_W_STAGES    48                    /* most stages of weights */
#define NECK_X_LEAST     4 /* of those that are used again: a group gives one back behind its next chunk */
#define NECK_W_LEAST     3
#define NECK_BARRIERS    1024        /* bytes */
#define NECK_SHARED_HALF (113 << 10) /* of which two fit into a multiprocessor */

/* MAPS: of the layers inside, that a block makes. PIECES: of 64 pixels each, that the first layer computes: 1
 * where a patch with its border has no more than 8 x 8 pixels in the image, else 2. */
template <int MAPS, int PIECES> struct neck_tile {
    static constexpr int NT = MAPS / 8, ROW_BYTES = MAPS * 2;
    static constexpr int BOX =
        PIECES == 1 ? NECK_SIDE : NECK_PITCH; /* most pixels of a side of what is read of x */
    static constexpr int X_STAGE = (BOX * BOX * NECK_ROW_BYTES + 1023) / 1024 * 1024;
    static constexpr int SLAB = NECK_PIXELS * ROW_BYTES;    /* a block's maps of the first layer */
    static constexpr int MID_SLAB = NHWC_PIECE * ROW_BYTES; /* of the second one */
    static constexpr int CHUNK_BYTES = MAPS * NECK_ROW_BYTES, STAGE = NECK_GROUPS * CHUNK_BYTES;
    static constexpr int OUT = 4 * MAPS,
                         OUT_NT = OUT / NECK_GROUPS / 8; /* maps of a pass of the last layer */
    static constexpr int OUT_DEPTH = NECK_CHUNK / 2,
                         OUT_ROW_BYTES = OUT_DEPTH * 2; /* a stage's channels there */
    static constexpr int PANELS = OUT / NECK_CHUNK, RESULTS = PANELS * NECK_PANEL_BYTES;
    static constexpr int SUMS =
        NECK_CONSUMERS * (NT / 2) * 16; /* bytes that the groups exchange, of a piece */
    static_assert(STAGE == OUT * OUT_ROW_BYTES, "a stage is also OUT maps of half a chunk");
    static_assert(SUMS <= RESULTS, "sums of the second layer lie where results will");
    static_assert(SLAB % (8 * ROW_BYTES) == 0 && STAGE % 1024 == 0, "swizzled matrices begin on 8 rows");
};

/* Places in shared memory, bytes from its beginning, and how much is there. */
struct neck_room {
    int x; /* chunks of x, in x_stages; then the second layer's results of all blocks; at 0 are the first
              one's */
    int results; /* the residual, then outputs; behind the first block's results of which this block is not */
    int results_high; /* the same for blocks of the first half of a cluster */
    int weights;      /* in w_stages */
    int bias;         /* floats: first layer, second, third */
    int barriers;
    int bytes; /* of all, with what it takes to begin on a multiple of 1024 */
    int x_stages, w_stages;
};

struct neck_job {
    CUtensorMap x, residual, y;
    struct neck_room room;
    const char *weights; /* of block 0 of a cluster */
    const float *bias[CONVOY_BOTTLENECK_LAYERS];
    int h, w, c, mid;
    int cluster;                      /* blocks that make a patch */
    int down, across, side_y, side_x; /* patches of an image, outputs of one */
    int box_h, box_w, box_bytes;      /* what is read of x for a patch */
    int x_chunks, chunks;             /* of the first and of the second layer's reduction */
    int stages;                       /* of weights, of a block */
    int passes, depth_stages;         /* of the last layer: over maps; stages of a pass */
    struct convoy_unary act[CONVOY_BOTTLENECK_LAYERS];
    uint32_t *overflow;
    uint32_t marks[CONVOY_BOTTLENECK_LAYERS];
};

/* What a job, of this kernel or of inverted.cu, is given besides its tensors and activations. */
template <typename JOB>
static inline void neck_take(const struct convoy_bottleneck_shape &s,
                             const struct convoy_bottleneck_operands &operands, JOB *job)
{
    job->weights = static_cast<const char *>(operands.weights);
    job->overflow = operands.overflow;
    for (int layer = 0; layer < CONVOY_BOTTLENECK_LAYERS; layer++) {
        job->bias[layer] = s.bias[layer] ? operands.bias[layer] : nullptr;
        job->marks[layer] = operands.marks[layer];
    }
}

/* ---- Sizes ---- */

/* Blocks of a cluster: a power of two. */
static inline int neck_cluster(const struct convoy_bottleneck_shape *s, int maps)
{
    int cluster = 1;
    while (cluster * maps < s->mid || cluster * maps < NECK_CHUNK)
        cluster *= 2;
    return cluster;
}

/* Outputs of a patch's side: where two patches of 7 cover the image, each with its border lies in 8 pixels of
 * it. */
static inline int neck_side(int size)
{
    return size > NECK_SIDE && size <= 2 * (NECK_SIDE - 1) ? NECK_SIDE - 1 : NECK_SIDE;
}

/* Pixels of a side of what is read for a patch: with its border, but of a small image only what lies in it.
 */
static inline int neck_box(int size, bool is_small)
{
    return !is_small ? NECK_PITCH : size < NECK_SIDE ? size : NECK_SIDE;
}

static inline bool neck_is_small(const struct convoy_bottleneck_shape *s)
{
    return s->h <= 2 * (NECK_SIDE - 1) && s->w <= 2 * (NECK_SIDE - 1);
}

static inline int64_t neck_patches(const struct convoy_bottleneck_shape *s)
{
    return s->n * convoy_div_up(s->h, neck_side(s->h)) * convoy_div_up(s->w, neck_side(s->w));
}

/* Chunks, stages and passes. */
static inline void neck_count(const struct convoy_bottleneck_shape *s, int maps, struct neck_job *job)
{
    job->cluster = neck_cluster(s, maps);
    int mid = job->cluster * maps; /* zeros beyond the shape's */
    job->x_chunks =
        (int)convoy_div_up(s->c, NECK_CHUNK * NECK_GROUPS) * NECK_GROUPS; /* as many for each group */
    job->chunks = mid / NECK_CHUNK * NECK_TAPS;
    job->passes = (int)convoy_div_up(s->c, 4 * maps * job->cluster);
    job->depth_stages = mid / (NECK_CHUNK / 2);
    job->stages = job->x_chunks / NECK_GROUPS + (int)convoy_div_up(job->chunks, NECK_GROUPS) +
                  job->passes * job->depth_stages;
}

static inline int neck_least(int a, int b)
{
    return a < b ? a : b;
}

static inline int neck_most(int a, int b)
{
    return a > b ? a : b;
}

/* Lays out at most `limit` bytes. False: the least does not fit. */
template <typename TILE>
static inline bool neck_place(const struct neck_job *job, int x_stages, int limit, struct neck_room *room)
{
    int slabs = job->cluster * TILE::SLAB, halves = job->cluster / 2 * TILE::SLAB;
    room->x_stages = neck_least(x_stages, job->x_chunks);
    room->x = (slabs + 1023) / 1024 * 1024;
    int pieces = TILE::BOX == NECK_SIDE ? 1 : 2;
    int end = room->x + neck_most(neck_most(room->x_stages * TILE::X_STAGE, job->cluster * TILE::MID_SLAB),
                                  pieces * TILE::SUMS);
    end = (end + 1023) / 1024 * 1024;
    /* Of large clusters the slabs of the other half have room enough, and nothing reads them then. */
    bool over = halves % 1024 == 0 && halves >= TILE::RESULTS;
    room->results = over ? 0 : end;
    room->results_high = over ? halves : end;
    room->weights = over ? end : end + TILE::RESULTS;
    int bias = (2 + 4 * job->passes) * TILE::NT * 8 * (int)sizeof(float);
    int rest = limit - 1024 - room->weights - bias - NECK_BARRIERS;
    room->w_stages = neck_least(neck_least(rest / TILE::STAGE, job->stages), NECK_W_STAGES);
    room->bias = room->weights + room->w_stages * TILE::STAGE;
    room->barriers = room->bias + bias;
    room->bytes = room->barriers + NECK_BARRIERS + 1024;
    return rest > 0 && room->w_stages >= neck_least(NECK_W_LEAST, job->stages);
}

/* With a multiprocessor for itself a block has more weights there before the kernel before it ends, and more
 * of x at a time; where two fit into one, the next kernel's weights come while this one's blocks end. */
template <typename TILE, int BLOCKS>
static inline bool neck_make_room(const struct neck_job *job, struct neck_room *room)
{
    for (int x_stages = NECK_X_STAGES; x_stages >= NECK_X_LEAST; x_stages -= NECK_GROUPS)
        if (neck_place<TILE>(job, x_stages, BLOCKS == 1 ? CONVOY_SHARED_MAX : NECK_SHARED_HALF, room))
            return true;
    return false;
}

/* ---- Weights ---- */

/* Where number `depth` of row `map` of a stage's matrix lies, whose rows are ROW_BYTES. */
template <int ROW_BYTES> static inline int neck_number(int map, int depth)
{
    return map * (ROW_BYTES / 2) + convoy_swizzled_cell<ROW_BYTES>(map, depth / 8) * 8 + depth % 8;
}

/* One chunk of 64 channels of one tap: maps from `first` on. */
static inline void neck_pack_chunk(const float *weights, int taps, int tap, int maps, int channels, int first,
                                   int channel, int count, convoy_fp16 *to)
{
    for (int m = 0; m < count && first + m < maps; m++)
        for (int k = 0; k < NECK_CHUNK && channel + k < channels; k++)
            to[neck_number<NECK_ROW_BYTES>(m, k)] =
                convoy_half(weights[((int64_t)(first + m) * channels + channel + k) * taps + tap]);
}

/* Block after block of a cluster, stage after stage as it reads them. */
template <int MAPS>
static inline void neck_pack(const struct convoy_bottleneck_shape *s,
                             const float *const weights[CONVOY_BOTTLENECK_LAYERS], void *packed)
{
    using tile = neck_tile<MAPS, 1>;
    constexpr int CHUNK = tile::CHUNK_BYTES / 2, STAGE = tile::STAGE / 2; /* numbers */
    struct neck_job job = {};
    neck_count(s, MAPS, &job);
    memset(packed, 0, (size_t)job.cluster * (size_t)job.stages * tile::STAGE);
    for (int rank = 0; rank < job.cluster; rank++) {
        convoy_fp16 *to = static_cast<convoy_fp16 *>(packed) + (int64_t)rank * job.stages * STAGE;
        for (int i = 0; i < job.x_chunks; i++)
            neck_pack_chunk(weights[0], 1, 0, s->mid, s->c, rank * MAPS, i * NECK_CHUNK, MAPS,
                            to + i * CHUNK);
        to += job.x_chunks / NECK_GROUPS * STAGE;
        for (int i = 0; i < job.chunks; i++)
            neck_pack_chunk(weights[1], NECK_TAPS, i % NECK_TAPS, s->mid, s->mid, rank * MAPS,
                            i / NECK_TAPS * NECK_CHUNK, MAPS, to + i * CHUNK);
        to += (job.chunks + 1) / NECK_GROUPS * STAGE;
        for (int i = 0; i < job.passes * job.depth_stages; i++, to += STAGE)
            for (int m = 0; m < tile::OUT; m++)
                for (int k = 0; k < tile::OUT_DEPTH; k++) {
                    int map = (rank * job.passes + i / job.depth_stages) * tile::OUT + m;
                    int channel = i % job.depth_stages * tile::OUT_DEPTH + k;
                    if (map < s->c && channel < s->mid)
                        to[neck_number<tile::OUT_ROW_BYTES>(m, k)] =
                            convoy_half(weights[2][(int64_t)map * s->mid + channel]);
                }
    }
}

template <int MAPS> static inline size_t neck_packed_bytes(const struct convoy_bottleneck_shape *s)
{
    struct neck_job job = {};
    neck_count(s, MAPS, &job);
    return (size_t)job.cluster * (size_t)job.stages * neck_tile<MAPS, 1>::STAGE;
}

#endif
