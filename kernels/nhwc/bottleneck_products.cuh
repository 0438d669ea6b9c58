/* The products of a bottleneck (bottleneck.cu), and the copies that bring what is multiplied. */
#ifndef CONVOY_KERNELS_NHWC_BOTTLENECK_PRODUCTS_CUH
#define CONVOY_KERNELS_NHWC_BOTTLENECK_PRODUCTS_CUH

#include "kernels/device/wgmma_columns.cuh"
#include "kernels/nhwc/bottleneck_job.cuh"
#include "kernels/nhwc/conv_wgmma.cuh"

/* What a block makes. */
struct neck_place {
    int rank;         /* in its cluster */
    int n, y, x;      /* the patch's first output */
    int box_y, box_x; /* the box's first pixel, from the patch's with its border */
};

template <int PIECES>
static __device__ __forceinline__ struct neck_place neck_place_of(const struct neck_job &job)
{
    struct neck_place place;
    int patch = (int)blockIdx.x / job.cluster, line = patch / job.across;
    place.rank = (int)blockIdx.x - patch * job.cluster;
    place.n = line / job.down;
    place.x = (patch - line * job.across) * job.side_x;
    place.y = (line - place.n * job.down) * job.side_y;
    /* The box of a small image begins in it: of the border it leaves out what is outside. */
    place.box_y = PIECES == 1 && place.y == 0 ? 1 : 0;
    place.box_x = PIECES == 1 && place.x == 0 ? 1 : 0;
    return place;
}

/* The barriers of a block. */
struct neck_barriers {
    uint64_t *first;
    int x_stages, w_stages;

    __device__ __forceinline__ uint64_t *x_full(int slot) const
    {
        return first + slot;
    }
    /* Counts in the block alone that asks for the slot's boxes. */
    __device__ __forceinline__ uint64_t *x_empty(int slot) const
    {
        return first + NECK_X_STAGES + slot;
    }
    __device__ __forceinline__ uint64_t *w_full(int slot) const
    {
        return first + 2 * NECK_X_STAGES + slot;
    }
    __device__ __forceinline__ uint64_t *w_empty(int slot) const
    {
        return first + 2 * NECK_X_STAGES + w_stages + slot;
    }
    /* The results of layer 0 or 1 have come from all other blocks. */
    __device__ __forceinline__ uint64_t *arrived(int layer) const
    {
        return first + 2 * NECK_X_STAGES + 2 * w_stages + layer;
    }
    /* The place of results: nothing is there; x is there. */
    __device__ __forceinline__ uint64_t *results_free(void) const
    {
        return arrived(2);
    }
    __device__ __forceinline__ uint64_t *results_full(void) const
    {
        return arrived(3);
    }
};
static_assert((2 * NECK_X_STAGES + 2 * NECK_W_STAGES + 4) * (int)sizeof(uint64_t) <= NECK_BARRIERS,
              "there is room for the barriers");

/* Rows of a slab of the first layer from the first one that is computed to the last, and of the second one's.
 */
static __device__ __forceinline__ int neck_first_rows(const struct neck_job &job)
{
    return (job.box_h - 1) * NECK_PITCH + job.box_w;
}

static __device__ __forceinline__ int neck_second_rows(const struct neck_job &job)
{
    return (job.side_y - 1) * NECK_SIDE + job.side_x;
}

/* By all threads, before a barrier of the block: each makes some, since there may be a hundred. */
template <typename TILE>
static __device__ __forceinline__ void neck_make_barriers(const struct neck_job &job,
                                                          const struct neck_barriers &barriers)
{
    constexpr int WARPS = NECK_CONSUMERS / 32;
    int thread = (int)threadIdx.x, x = thread - 64;
    if (thread < barriers.w_stages) {
        convoy_barrier_make(barriers.w_full(thread), 1);
        convoy_barrier_make(barriers.w_empty(thread), WARPS);
    }
    bool is_x = x >= 0 && x < barriers.x_stages;
    if (is_x) {
        convoy_barrier_make(barriers.x_full(x), 1);
        convoy_barrier_make(barriers.x_empty(x), job.cluster * WARPS / NECK_GROUPS);
    }
    __syncwarp(); /* without it racecheck warns of neighbouring barriers */
    if (is_x)     /* what comes first is expected now */
        convoy_barrier_expect(barriers.x_full(x), job.box_bytes);
    if (thread == 96) {
        for (int layer = 0; layer < 2; layer++)
            convoy_barrier_make(barriers.arrived(layer), 1);
        convoy_barrier_expect(barriers.arrived(0),
                              (job.cluster - 1) * neck_first_rows(job) * TILE::ROW_BYTES);
        convoy_barrier_expect(barriers.arrived(1),
                              (job.cluster - 1) * neck_second_rows(job) * TILE::ROW_BYTES);
        convoy_barrier_make(barriers.results_free(), WARPS);
        convoy_barrier_make(barriers.results_full(), 1);
    }
}

/* ---- Who asks for what ---- */

/* Stages `from` to `to` of this block's weights; one thread. */
template <typename TILE>
static __device__ __forceinline__ void neck_fill_weights(const struct neck_job &job, char *shared,
                                                         const struct neck_barriers &barriers, int rank,
                                                         int from, int to)
{
    const char *weights = job.weights + (int64_t)rank * job.stages * TILE::STAGE;
    for (int turn = from; turn < to; turn++) {
        int slot = turn % barriers.w_stages, round = turn / barriers.w_stages;
        if (round > 0)
            convoy_barrier_wait(barriers.w_empty(slot), (round - 1) % 2);
        convoy_barrier_expect(barriers.w_full(slot), TILE::STAGE);
        convoy_copy_row(shared + job.room.weights + slot * TILE::STAGE, weights + (int64_t)turn * TILE::STAGE,
                        TILE::STAGE, barriers.w_full(slot));
    }
}

/* The stages for which the ring has no room yet come from device memory to the L2 cache meanwhile; one
 * thread. All clusters read the same weights: the first one asks. */
template <typename TILE>
static __device__ __forceinline__ void neck_prefetch_weights(const struct neck_job &job, int from, int rank)
{
    const char *weights = job.weights + (int64_t)rank * job.stages * TILE::STAGE;
    for (int turn = from; turn < job.stages && (int)blockIdx.x < job.cluster; turn++)
        convoy_prefetch_bulk(weights + (int64_t)turn * TILE::STAGE, TILE::STAGE);
}

/* The boxes of x that this block asks for; all are expected. One thread. */
template <typename TILE>
static __device__ __forceinline__ void neck_fill_x(const struct neck_job &job, char *shared,
                                                   const struct neck_barriers &barriers,
                                                   const struct neck_place &place)
{
    int x = place.x - 1 + place.box_x, y = place.y - 1 + place.box_y;
    for (int chunk = 0; chunk < job.x_chunks; chunk++) {
        int slot = chunk % barriers.x_stages, round = chunk / barriers.x_stages;
        char *to = shared + job.room.x + slot * TILE::X_STAGE;
        if (round > 0) { /* the slot's chunk before this one is there */
            convoy_barrier_wait(barriers.x_full(slot), (round - 1) % 2);
            convoy_barrier_expect(barriers.x_full(slot), job.box_bytes);
        }
        if (slot % job.cluster != place.rank)
            continue;
        if (round > 0)
            convoy_barrier_wait(barriers.x_empty(slot), (round - 1) % 2);
        if (job.cluster > 1)
            convoy_copy_patch_to_all(to, &job.x, chunk * NECK_CHUNK, x, y, place.n, job.box_bytes,
                                     barriers.x_full(slot), job.cluster);
        else
            convoy_copy_patch(to, &job.x, chunk * NECK_CHUNK, x, y, place.n, barriers.x_full(slot));
    }
}

/* The first map of a pass of the last layer. */
template <typename TILE>
static __device__ __forceinline__ int neck_first_map(const struct neck_job &job, int rank, int pass)
{
    return (rank * job.passes + pass) * TILE::OUT;
}

/* x for the outputs, to where these will be; one thread. */
template <typename TILE>
static __device__ __forceinline__ void neck_fill_residual(const struct neck_job &job, char *results,
                                                          const struct neck_barriers &barriers,
                                                          const struct neck_place &place)
{
    for (int pass = 0; pass < job.passes; pass++) {
        convoy_barrier_wait(barriers.results_free(), pass % 2);
        convoy_barrier_expect(barriers.results_full(),
                              TILE::PANELS * job.side_y * job.side_x * NECK_ROW_BYTES);
        for (int panel = 0; panel < TILE::PANELS; panel++)
            convoy_copy_patch(results + panel * NECK_PANEL_BYTES, &job.residual,
                              neck_first_map<TILE>(job, place.rank, pass) + panel * NECK_CHUNK, place.x,
                              place.y, place.n, barriers.results_full());
    }
}

/* ---- Products ---- */

/* A warpgroup's place in a ring: the slot, and the parity of its phase. */
struct neck_turn {
    int slot, parity;

    __device__ __forceinline__ void advance(int slots)
    {
        slot = slot + 1 == slots ? 0 : slot + 1;
        parity ^= slot == 0;
    }
};

/* A matrix of pixels, 8 of a line after the other, whose rows have ROW_BYTES and are swizzled by their
 * addresses. */
template <int ROW_BYTES> static __device__ __forceinline__ uint64_t neck_pixels(const char *first, int pitch)
{
    constexpr uint64_t layout = ROW_BYTES == 128 ? 1 : ROW_BYTES == 64 ? 2 : 3;
    return convoy_matrix(first, 16, pitch * ROW_BYTES) | layout << 62;
}

/* A warp has read a stage of weights. */
static __device__ __forceinline__ void neck_give(const struct neck_barriers &barriers, bool mine, int slot)
{
    convoy_barrier_arrive_if(mine && threadIdx.x % 32 == 0, barriers.w_empty(slot));
}

/* The same of a box of x, in which another one will come: tells the block that asks for it. */
static __device__ __forceinline__ void neck_give_x(const struct neck_job &job,
                                                   const struct neck_barriers &barriers, int chunk, int slot)
{
    bool mine = chunk >= 0 && chunk + barriers.x_stages < job.x_chunks && threadIdx.x % 32 == 0;
    if (job.cluster == 1)
        convoy_barrier_arrive_if(mine, barriers.x_empty(slot));
    else
        convoy_barrier_arrive_at(mine, barriers.x_empty(slot), slot % job.cluster);
}

/* A last stage that has a chunk for the other group alone. */
static __device__ __forceinline__ void neck_skip(const struct neck_barriers &barriers, bool skip,
                                                 struct neck_turn &turn)
{
    if (!skip)
        return;
    convoy_barrier_wait(barriers.w_full(turn.slot), turn.parity);
    /* All lanes have looked before one says that the slot is free: else its next phase but one may pass a
     * lane. */
    __syncwarp();
    neck_give(barriers, true, turn.slot);
    turn.advance(barriers.w_stages);
}

/* This group's sums of the first layer: its chunks, all channels. */
template <typename TILE, int PIECES>
static __device__ __forceinline__ void neck_first(const struct neck_job &job, const char *shared,
                                                  const struct neck_barriers &barriers, int group,
                                                  struct neck_turn &turn, float (&sum)[PIECES][TILE::NT][4])
{
    const char *weights = shared + job.room.weights + group * TILE::CHUNK_BYTES;
    int count = convoy_uniform(job.x_chunks / NECK_GROUPS), i = 0;
    int x_slot = group, x_parity = 0, last_slot = 0, last_x = 0;
#pragma unroll 1
    do {
        convoy_barrier_wait(barriers.w_full(turn.slot), turn.parity);
        convoy_barrier_wait(barriers.x_full(x_slot), x_parity);
        uint64_t b = convoy_matrix_swizzled<NECK_ROW_BYTES>(weights + turn.slot * TILE::STAGE);
        convoy_wgmma_begin();
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            uint64_t a = convoy_matrix_swizzled<NECK_ROW_BYTES>(shared + job.room.x + x_slot * TILE::X_STAGE +
                                                                piece * NHWC_PIECE * NECK_ROW_BYTES);
#pragma unroll
            for (int step = 0; step < NECK_CHUNK / 16; step++)
                convoy_wgmma_columns(sum[piece], convoy_matrix_at(a, step * 2),
                                     convoy_matrix_at(b, step * 2));
        }
        convoy_wgmma_end();
        convoy_wgmma_wait<1>();
        neck_give(barriers, i > 0, last_slot);
        neck_give_x(job, barriers, (i - 1) * NECK_GROUPS + group, last_x);
        last_slot = turn.slot;
        last_x = x_slot;
        turn.advance(barriers.w_stages);
        bool wraps = x_slot + NECK_GROUPS >= barriers.x_stages;
        x_slot = wraps ? group : x_slot + NECK_GROUPS;
        x_parity ^= wraps;
    } while (++i < count);
    convoy_wgmma_wait<0>();
    neck_give(barriers, true, last_slot);
}

/* A chunk's products, of pixels whose channels lie in slabs of MAPS, SLAB bytes each. a, b: of its first
 * channel. */
template <int DEPTH, int MAPS, int SLAB, int NT>
static __device__ __forceinline__ void neck_slabs(float (&sum)[NT][4], uint64_t a, uint64_t b)
{
    convoy_wgmma_begin();
#pragma unroll
    for (int step = 0; step < DEPTH / 16; step++)
        convoy_wgmma_columns(sum, convoy_matrix_at(a, step * 16 / MAPS * (SLAB / 16) + step * 16 % MAPS / 8),
                             convoy_matrix_at(b, step * 2));
    convoy_wgmma_end();
}

/* The same of the second layer: taps of the first one's results, slab after slab. */
template <typename TILE>
static __device__ __forceinline__ void neck_second(const struct neck_job &job, const char *shared,
                                                   const struct neck_barriers &barriers, int group,
                                                   struct neck_turn &turn, float (&sum)[TILE::NT][4])
{
    constexpr int MAPS = TILE::NT * 8;
    const char *weights = shared + job.room.weights + group * TILE::CHUNK_BYTES;
    int count = convoy_uniform((job.chunks + 1 - group) / NECK_GROUPS), i = 0; /* no fewer than 4 */
    int tap = group, channels = 0, last_slot = 0;
#pragma unroll 1
    do {
        convoy_barrier_wait(barriers.w_full(turn.slot), turn.parity);
        int pixel = tap / 3 * NECK_PITCH + tap % 3;
        uint64_t a = neck_pixels<TILE::ROW_BYTES>(
            shared + channels / MAPS * TILE::SLAB + pixel * TILE::ROW_BYTES, NECK_PITCH);
        uint64_t b = convoy_matrix_swizzled<NECK_ROW_BYTES>(weights + turn.slot * TILE::STAGE);
        neck_slabs<NECK_CHUNK, MAPS, TILE::SLAB>(sum, a, b);
        convoy_wgmma_wait<1>();
        neck_give(barriers, i > 0, last_slot);
        last_slot = turn.slot;
        turn.advance(barriers.w_stages);
        bool next = tap + NECK_GROUPS >= NECK_TAPS;
        tap += next ? NECK_GROUPS - NECK_TAPS : NECK_GROUPS;
        channels += next ? NECK_CHUNK : 0;
    } while (++i < count);
    convoy_wgmma_wait<0>();
    neck_give(barriers, true, last_slot);
    neck_skip(barriers, count < (job.chunks + 1) / NECK_GROUPS, turn);
}

/* The third layer: half of a pass's maps, all channels. */
template <typename TILE>
static __device__ __forceinline__ void neck_third(const struct neck_job &job, const char *shared,
                                                  const struct neck_barriers &barriers, int group,
                                                  struct neck_turn &turn, float (&sum)[TILE::OUT_NT][4])
{
    constexpr int MAPS = TILE::NT * 8;
    const char *weights = shared + job.room.weights + group * (TILE::STAGE / NECK_GROUPS);
    int count = convoy_uniform(job.depth_stages), i = 0, last_slot = 0;
#pragma unroll 1
    do {
        convoy_barrier_wait(barriers.w_full(turn.slot), turn.parity);
        uint64_t b = convoy_matrix_swizzled<TILE::OUT_ROW_BYTES>(weights + turn.slot * TILE::STAGE);
        int channel = i * TILE::OUT_DEPTH;
        uint64_t a = neck_pixels<TILE::ROW_BYTES>(
            shared + job.room.x + channel / MAPS * TILE::MID_SLAB + channel % MAPS * 2, NECK_SIDE);
        neck_slabs<TILE::OUT_DEPTH, MAPS, TILE::MID_SLAB>(sum, a, b);
        convoy_wgmma_wait<1>();
        neck_give(barriers, i > 0, last_slot);
        last_slot = turn.slot;
        turn.advance(barriers.w_stages);
    } while (++i < count);
    convoy_wgmma_wait<0>();
    neck_give(barriers, true, last_slot);
}

#endif
