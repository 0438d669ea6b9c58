/* Convolution on warpgroups for few images, with the product turned round: its rows are maps, so the weights
 * are the left side, and its columns are outputs (image, y, x).
 *
 * In conv_wgmma.cuh 64 outputs are the least that an instruction multiplies; here outputs come in tiles of
 * any multiple of 8, and maps, which layers have many of, in pieces of 64. So the 49 outputs of 7 x 7 are one
 * tile of 56, and for a layer of some hundreds of outputs there is a tile of which the chip gets about one
 * for each multiprocessor: a block makes one tile and ends.
 *
 * Chunks of 64 channels of a tap come through a ring as there: weights by the bulk copy engine, before the
 * kernel that came before has ended as many as the ring holds, and inputs as boxes of a tensor. Where the
 * ring is small two blocks fit into a multiprocessor, and the next kernel's first chunks come meanwhile.
 * Blocks of a cluster do one of two things:
 * - share: they make neighbouring tiles of outputs of the same maps, and each asks for its part of the
 *   weights, which the copy engine writes into the shared memory of all;
 * - split: they make the same tile and divide the reduction, and each adds and stores a part of the outputs
 *   from the sums of all.
 *
 * At the end the warps that multiply meet, since the sums take the place of the ring in shared memory: output
 * after output, a row of maps each, 4 numbers longer than the maps so that a warp's sums lie in different
 * banks. A thread then makes 8 maps of an output at a time, in a loop: bias, residual, activation, rounding
 * and a store of 16 bytes are there once. */
#ifndef CONVOY_KERNELS_NHWC_CONV_MAPS_CUH
#define CONVOY_KERNELS_NHWC_CONV_MAPS_CUH

#include "kernels/device/cluster_copy.cuh"
#include "kernels/device/wgmma_columns.cuh"
#include "kernels/nhwc/conv_wgmma.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"
#include "kernels/nhwc/normalized.cuh"

#define NHWC_MAPS_DEPTH 64
#define NHWC_MAPS_RING  (110 << 10) /* bytes of a ring of which two fit into a multiprocessor */
#define NHWC_MAPS_STAGE 10          /* most stages */

/* GROUPS warpgroups multiply, ROWS pieces of 64 maps each, by NT times 8 outputs. */
template <int GROUPS, int ROWS, int NT> struct nhwc_maps_tile {
    static constexpr int MAPS = GROUPS * ROWS * NHWC_PIECE, OUTPUTS = NT * 8, ROW_BYTES = NHWC_MAPS_DEPTH * 2;
    static constexpr int WEIGHT_BYTES = MAPS * ROW_BYTES, STAGE_BYTES = WEIGHT_BYTES + OUTPUTS * ROW_BYTES;
    /* Two blocks have 80 registers a thread each with two warpgroups that multiply, 128 with one. */
    static constexpr int BLOCKS = MAPS * NT <= 128 * 9 ? 2 : 1;
    static constexpr int FIT = NHWC_MAPS_RING * (3 - BLOCKS) / STAGE_BYTES;
    static constexpr int STAGES = FIT < NHWC_MAPS_STAGE ? FIT : NHWC_MAPS_STAGE;
    static constexpr int PITCH = MAPS + 4; /* of the sums, in numbers */
    static constexpr int BARRIERS = STAGES * STAGE_BYTES;
    static constexpr int SCALINGS = BARRIERS + 256;            /* of outputs that are normalised */
    static constexpr int SHARED_BYTES = BARRIERS + 256 + 1024; /* 1024: to begin on a multiple of that */
    static constexpr int NORMALIZED_BYTES = SHARED_BYTES + OUTPUTS * (int)sizeof(float2);
    static constexpr int THREADS = (GROUPS + 1) * CONVOY_WARPGROUP;
    /* Two pieces of sums need registers of the warpgroup that copies, which keeps as many as the loop at the
     * end wants: 56 + 2 x 224 are 3 x 168. */
    static constexpr bool TAKES = ROWS > 1;
    static_assert(OUTPUTS * PITCH * (int)sizeof(float) <= BARRIERS, "the sums take the place of the ring");
    static_assert((2 * STAGES + 1) * (int)sizeof(uint64_t) <= 256, "barriers of all stages, and one more");
};

/* How the blocks of a cluster work together: at most one of these is above 1. */
struct nhwc_maps_cluster {
    int share, split;
};

/* What a block makes. */
struct nhwc_maps_place {
    int output, map;  /* the first ones */
    int begin, count; /* chunks of the reduction */
    int rank;         /* in its cluster */
};

template <typename TILE>
static __device__ __forceinline__ struct nhwc_maps_place nhwc_place_of(const struct nhwc_job &job,
                                                                       struct nhwc_maps_cluster cluster)
{
    int size = cluster.share * cluster.split, at = (int)blockIdx.x / size;
    struct nhwc_maps_place place;
    place.rank = (int)blockIdx.x - at * size;
    place.map = at % job.tiles_n * TILE::MAPS;
    place.output = (at / job.tiles_n * cluster.share + place.rank / cluster.split) * TILE::OUTPUTS;
    int part = place.rank % cluster.split;
    place.begin = job.chunks * part / cluster.split;
    place.count = convoy_uniform(job.chunks * (part + 1) / cluster.split - place.begin);
    return place;
}

/* This block's part of a chunk's weights, into all blocks that share them. */
template <typename TILE>
static __device__ __forceinline__ void nhwc_copy_maps(const struct nhwc_job &job, char *stage,
                                                      const struct nhwc_maps_place &place, int share,
                                                      int chunk, uint64_t *barrier)
{
    const char *from = nhwc_weights(job, chunk, place.map, TILE::ROW_BYTES);
    int part = TILE::WEIGHT_BYTES / share;
    if (share > 1)
        convoy_copy_row_to_all(stage + place.rank * part, from + place.rank * part, part, barrier, share);
    else
        convoy_copy_row(stage, from, TILE::WEIGHT_BYTES, barrier);
}

/* Asks for all chunks of a block; one thread. */
template <typename TILE, typename BARRIERS>
static __device__ __forceinline__ void nhwc_fill_maps(const struct nhwc_job &job, char *shared,
                                                      const BARRIERS &barriers,
                                                      const struct nhwc_maps_place &place, int share)
{
    constexpr int STAGES = TILE::STAGES;
    convoy_prefetch_map(&job.x);
    /* Weights do not depend on the kernel before this one. */
    for (int turn = 0; turn < place.count && turn < STAGES; turn++)
        nhwc_copy_maps<TILE>(job, shared + turn * TILE::STAGE_BYTES, place, share, place.begin + turn,
                             barriers.full(turn));
    convoy_wait_for_previous();
    const nhwc_origin origin(job, place.output);
    for (int turn = 0; turn < place.count; turn++) {
        char *stage = shared + turn % STAGES * TILE::STAGE_BYTES;
        if (turn >= STAGES) {
            convoy_barrier_wait(barriers.empty(turn), barriers.parity(turn - STAGES));
            nhwc_copy_maps<TILE>(job, stage, place, share, place.begin + turn, barriers.full(turn));
        }
        nhwc_copy_inputs(job, stage + TILE::WEIGHT_BYTES, origin, place.begin + turn, NHWC_MAPS_DEPTH,
                         barriers.full(turn));
        convoy_barrier_expect(barriers.full(turn), TILE::STAGE_BYTES);
    }
}

/* Where the warps that multiply meet: behind the barriers of the stages. */
template <typename BARRIERS, int STAGES>
static __device__ __forceinline__ uint64_t *nhwc_all_read(const BARRIERS &barriers)
{
    return barriers.first + 2 * STAGES;
}

/* A warp has read the stage of chunk `turn`: tells the blocks that write to it, if a later chunk comes there.
 */
template <typename BARRIERS, int STAGES>
static __device__ __forceinline__ void nhwc_give_maps(const BARRIERS &barriers, int turn, int count,
                                                      int share)
{
    int lane = (int)threadIdx.x % 32;
    bool mine = turn >= 0 && turn + STAGES < count;
    uint64_t *barrier = barriers.empty(turn >= 0 ? turn : 0);
    convoy_barrier_arrive_if(mine && share == 1 && lane == 0, barrier);
    convoy_barrier_arrive_at(mine && share > 1 && lane < share, barrier, lane < share ? lane : 0);
}

/* Puts a piece's sums where the loop at the end finds them. map: of the piece's first row. */
template <typename TILE, int NT>
static __device__ __forceinline__ void nhwc_put_maps(float *sums, int map, const float (&sum)[NT][4])
{
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % CONVOY_WARPGROUP / 32;
    float *to = sums + lane % 4 * 2 * TILE::PITCH + map + warp * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            to[(j * 8 + e % 2) * TILE::PITCH + e / 2 * 8] = sum[j][e];
}

/* The residual of 8 maps of an output; zeros where there is none. */
static __device__ __forceinline__ uint4 nhwc_residual_of(const struct nhwc_job &job, int m, int n)
{
    if (!job.has_residual || m >= job.m || n >= job.columns)
        return make_uint4(0, 0, 0, 0);
    return *reinterpret_cast<const uint4 *>(job.added + m * job.added_pixel + n);
}

/* What a thread adds to the sums, loaded while these are made: the residual of its first output, and the bias
 * of 8 maps, which are the same ones for all of its outputs. weights: sums of those of each map, where the
 * outputs are normalised. */
struct nhwc_maps_addends {
    uint4 residual;
    float bias[NHWC_CELL], weights[NHWC_CELL];
};

/* The first output that a block stores: of its tile, or of its part where the cluster divides the reduction.
 */
template <typename TILE>
static __device__ __forceinline__ int nhwc_first_of(const struct nhwc_maps_place &place, int split)
{
    return split > 1 ? place.rank * (TILE::OUTPUTS / split) : 0;
}

/* By every thread, which stores, too: so it waits for the kernel before. */
template <typename TILE, bool NORMALIZES>
static __device__ __forceinline__ struct nhwc_maps_addends
nhwc_addends_of(const struct nhwc_job &job, const struct nhwc_maps_place &place, int split)
{
    constexpr int CELLS = TILE::MAPS / NHWC_CELL;
    static_assert(TILE::THREADS % CELLS == 0, "a thread makes the same maps of all its outputs");
    struct nhwc_maps_addends addends;
    int i = (int)threadIdx.x, n = place.map + i % CELLS * NHWC_CELL;
    nhwc_load_vector(job.bias, n, job.k, 0.0f, addends.bias);
    if constexpr (NORMALIZES)
        nhwc_load_vector(job.input_sums, n, job.k, 0.0f, addends.weights);
    convoy_wait_for_previous();
    int m = place.output + nhwc_first_of<TILE>(place, split) + i / CELLS;
    addends.residual = nhwc_residual_of(job, m, n);
    return addends;
}

/* Adds 8 sums. In which order a thread loads the two halves depends on the lane, so that 8 lanes find them in
 * all banks. */
static __device__ __forceinline__ void nhwc_add_sums(const float *from, int rank, bool local,
                                                     float (&total)[NHWC_CELL])
{
    bool turned = ((int)threadIdx.x >> 2 & 1) != 0;
    const float *one = from + (turned ? 4 : 0), *other = from + (turned ? 0 : 4);
    float4 a, b;
    if (local) {
        a = *reinterpret_cast<const float4 *>(one);
        b = *reinterpret_cast<const float4 *>(other);
    } else {
        a = convoy_cluster_load(reinterpret_cast<const float4 *>(one), rank);
        b = convoy_cluster_load(reinterpret_cast<const float4 *>(other), rank);
    }
    const float low[4] = {turned ? b.x : a.x, turned ? b.y : a.y, turned ? b.z : a.z, turned ? b.w : a.w};
    const float high[4] = {turned ? a.x : b.x, turned ? a.y : b.y, turned ? a.z : b.z, turned ? a.w : b.w};
#pragma unroll
    for (int e = 0; e < 4; e++) {
        total[e] += low[e];
        total[4 + e] += high[e];
    }
}

/* Makes a block's outputs of the sums: all of its tile, or its part where the cluster divides the reduction.
 * scalings: of each output, where they are normalised. */
template <typename TILE, bool NORMALIZES>
static __device__ __forceinline__ void
nhwc_finish_maps(const struct nhwc_job &job, const float *sums, const float2 *scalings,
                 const struct nhwc_maps_place &place, int split, const struct nhwc_maps_addends &addends)
{
    constexpr int CELLS = TILE::MAPS / NHWC_CELL;
    int outputs = TILE::OUTPUTS / split, first = nhwc_first_of<TILE>(place, split);
    uint4 added = addends.residual;
#pragma unroll 1
    for (int i = (int)threadIdx.x; i - (int)threadIdx.x % 32 < outputs * CELLS; i += TILE::THREADS) {
        int row = first + i / CELLS, cell = i % CELLS, next = i + TILE::THREADS;
        int m = place.output + row, n = place.map + cell * NHWC_CELL;
        const uint4 residual = added;
        added = nhwc_residual_of(job, next < outputs * CELLS ? place.output + first + next / CELLS : job.m,
                                 place.map + next % CELLS * NHWC_CELL);
        bool there = i < outputs * CELLS && m < job.m && n < job.columns;
        struct nhwc_moments moments = {0, 0};
        float total[NHWC_CELL] = {}, addend[NHWC_CELL];
        if (there) {
            const float *from = sums + row * TILE::PITCH + cell * NHWC_CELL;
            if (split == 1)
                nhwc_add_sums(from, 0, true, total);
            else
#pragma unroll 4 /* so that loads from several blocks are under way */
                for (int block = 0; block < split; block++)
                    nhwc_add_sums(from, block, false, total);
            nhwc_unpack(residual, addend);
            if constexpr (NORMALIZES) {
                const float2 scaling = scalings[row];
#pragma unroll
                for (int e = 0; e < NHWC_CELL; e++)
                    total[e] = fmaf(total[e], scaling.x, scaling.y * addends.weights[e]);
            }
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++)
                total[e] += addends.bias[e] + addend[e];
            nhwc_activate(job.act, total);
            nhwc_store_new(job.out + m * job.out_pixel + n, total, job.overflow, m / (job.oh * job.ow));
        }
        if (job.moments == nullptr)
            continue;
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e++)
            moments.add(total[e]);
        moments.join<8>();
        if (there && cell % 8 == 0)
            job.moments[(int64_t)m * job.parts + n / 64] = make_float2(moments.total, moments.squares);
    }
}

/* All sums of the block, or of the cluster that adds them, are in shared memory. */
static __device__ __forceinline__ void nhwc_meet_maps(int split)
{
    __syncwarp(); /* one lane has copied, or the wait for all warps has parted them */
    if (split > 1)
        convoy_cluster_sync();
    else
        __syncthreads();
}

/* Shared memory stays until no other block of the cluster touches it. */
static __device__ __forceinline__ void nhwc_part_maps(struct nhwc_maps_cluster cluster)
{
    __syncwarp(); /* the loop at the end may have parted its lanes */
    if (cluster.share * cluster.split > 1)
        convoy_cluster_sync();
}

/* NORMALIZES: as normalized.cuh says; the cluster does not divide the reduction then. */
template <int GROUPS, int ROWS, int NT, bool NORMALIZES = false>
static __global__ void __launch_bounds__((GROUPS + 1) * CONVOY_WARPGROUP,
                                         nhwc_maps_tile<GROUPS, ROWS, NT>::BLOCKS)
    nhwc_conv_maps(CONVOY_PARAMETER(struct nhwc_job) job, struct nhwc_maps_cluster cluster)
{
    using tile = nhwc_maps_tile<GROUPS, ROWS, NT>;
    using barriers_of = nhwc_barriers<tile, GROUPS, tile::STAGES, 0>;
    char *shared = nhwc_shared();
    float *sums = reinterpret_cast<float *>(shared);
    float2 *scalings = reinterpret_cast<float2 *>(shared + tile::SCALINGS);
    const barriers_of barriers = {reinterpret_cast<uint64_t *>(shared + tile::BARRIERS)};
    int group = convoy_uniform((int)threadIdx.x / CONVOY_WARPGROUP);
    const struct nhwc_maps_place place = nhwc_place_of<tile>(job, cluster);
    convoy_let_next_begin();
    uint64_t *all_read = nhwc_all_read<barriers_of, tile::STAGES>(barriers);
    if (threadIdx.x == 0) {
        barriers.make(1, cluster.share * GROUPS * (CONVOY_WARPGROUP / 32));
        convoy_barrier_make(all_read, GROUPS * (CONVOY_WARPGROUP / 32));
    }
    __syncthreads();
    if (cluster.share * cluster.split > 1)
        convoy_cluster_sync(); /* all blocks have begun, and their barriers are there */
    struct nhwc_maps_addends addends;
    if (group == GROUPS) {
        if constexpr (tile::TAKES)
            convoy_registers_leave<56>();
        if (threadIdx.x % CONVOY_WARPGROUP == 0)
            nhwc_fill_maps<tile>(job, shared, barriers, place, cluster.share);
        if constexpr (NORMALIZES) { /* by the warps that copy nothing */
            int thread = (int)threadIdx.x % CONVOY_WARPGROUP - 32;
            convoy_wait_for_previous();
            if (thread >= 0)
                nhwc_make_scalings<tile::OUTPUTS, CONVOY_WARPGROUP - 32>(job, place.output, thread, scalings);
        }
        if constexpr (!tile::TAKES)
            addends = nhwc_addends_of<tile, NORMALIZES>(job, place, cluster.split);
    } else {
        if constexpr (tile::TAKES)
            convoy_registers_take<224>();
        if constexpr (!tile::TAKES) /* else they would be on the stack meanwhile */
            addends = nhwc_addends_of<tile, NORMALIZES>(job, place, cluster.split);
        float sum[ROWS][NT][4] = {};
        int turn = 0;
#pragma unroll 1
        do { /* there are no fewer chunks than blocks that divide them */
            const char *stage = shared + turn % tile::STAGES * tile::STAGE_BYTES;
            convoy_barrier_wait(barriers.full(turn), barriers.parity(turn));
            uint64_t b = convoy_matrix_swizzled<tile::ROW_BYTES>(stage + tile::WEIGHT_BYTES);
            convoy_wgmma_begin();
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                uint64_t a = convoy_matrix_swizzled<tile::ROW_BYTES>(stage + (group * ROWS + i) * NHWC_PIECE *
                                                                                 tile::ROW_BYTES);
#pragma unroll
                for (int step = 0; step < NHWC_MAPS_DEPTH / 16; step++)
                    convoy_wgmma_columns(sum[i], convoy_matrix_at(a, step * 2),
                                         convoy_matrix_at(b, step * 2));
            }
            convoy_wgmma_end();
            convoy_wgmma_wait<1>();
            nhwc_give_maps<barriers_of, tile::STAGES>(barriers, turn - 1, place.count, cluster.share);
        } while (++turn < place.count);
        convoy_wgmma_wait<0>();
        /* When all warps have read all stages, and so waited for all copies, the sums take their place. */
        convoy_barrier_arrive_if(threadIdx.x % 32 == 0, all_read);
        convoy_barrier_wait(all_read, 0);
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            nhwc_put_maps<tile>(sums, (group * ROWS + i) * NHWC_PIECE, sum[i]);
    }
    if constexpr (tile::TAKES)
        addends = nhwc_addends_of<tile, NORMALIZES>(job, place, cluster.split);
    nhwc_meet_maps(cluster.split);
    nhwc_finish_maps<tile, NORMALIZES>(job, sums, scalings, place, cluster.split, addends);
    nhwc_part_maps(cluster);
}

#endif
