/* Convolution on warpgroups that take turns: as conv_wgmma.cuh, but each of the two warpgroups makes tiles of
 * its own, 64 ROWS outputs by N maps. While one ends its tile (bias, residual, activation, rounding), the
 * other one multiplies, so that the tensor cores do not wait for the ends of tiles: with 768 channels and
 * GELU an end takes as long as the products. Chunks come tile after tile; a warpgroup's turn begins when the
 * other one has started the products of its last chunk: a barrier's parity tells one phase from the next one
 * only, so nothing may wait for a chunk before all chunks before it are there.
 *
 * The blocks of a cluster make tiles of the same maps and neighbouring outputs. Each asks for its part of
 * the weights, which the copy engine writes into the shared memory of all of them: L2 gives some 24 bytes a
 * cycle to each multiprocessor, and a tile of 128 x 128 alone would need 64. A stage is written again when
 * the warps of all blocks have read it.
 *
 * Source of the idea: CUTLASS's "ping-pong" kernels with multicast (NVIDIA, 2023); the code is our own. */
#ifndef CONVOY_KERNELS_NHWC_CONV_TURNS_CUH
#define CONVOY_KERNELS_NHWC_CONV_TURNS_CUH

#include "kernels/device/cluster_copy.cuh"
#include "kernels/nhwc/conv_wgmma.cuh"

#define NHWC_TURNS 2 /* warpgroups that multiply */

/* A warpgroup's tile, and the block's shared memory. */
template <int ROWS, int NT, int DEPTH, int STAGES, int BUFFERS>
struct nhwc_turns_tile : nhwc_tile<1, ROWS, NT, DEPTH, STAGES, BUFFERS> {
    using of_one = nhwc_tile<1, ROWS, NT, DEPTH, STAGES, BUFFERS>;
    static constexpr int BARRIERS = of_one::RESULTS + NHWC_TURNS * BUFFERS * of_one::RESULT_BYTES;
    static constexpr int SHARED_BYTES = BARRIERS + 256 + 1024;
    static constexpr int THREADS = (NHWC_TURNS + 1) * CONVOY_WARPGROUP;
};

/* The tiles of a cluster: pairs of neighbouring outputs' tiles, or more, in the order in which all of its
 * blocks make them. */
template <typename TILE, int CLUSTER> struct nhwc_turns_order {
    int first, step, end, tiles_n, rank;

    __device__ __forceinline__ explicit nhwc_turns_order(const struct nhwc_job &job)
        : first((int)blockIdx.x / CLUSTER), step((int)gridDim.x / CLUSTER),
          end((job.tiles / job.tiles_n + CLUSTER - 1) / CLUSTER * job.tiles_n), tiles_n(job.tiles_n),
          rank(CLUSTER > 1 ? convoy_cluster_rank() : 0)
    {
    }
    __device__ __forceinline__ int column(int at) const
    {
        return at % tiles_n * TILE::N;
    }
    __device__ __forceinline__ int output(int at) const
    {
        return (at / tiles_n * CLUSTER + rank) * TILE::M;
    }
};

/* This block's part of the weights of a chunk, into all blocks of the cluster. */
template <typename TILE, int CLUSTER>
static __device__ __forceinline__ void nhwc_copy_weights(const struct nhwc_job &job, char *stage, int rank,
                                                         int chunk, int column, uint64_t *barrier)
{
    constexpr int PART = TILE::B_BYTES / CLUSTER;
    const char *from = nhwc_weights(job, chunk, column, TILE::ROW_BYTES);
    if constexpr (CLUSTER > 1)
        convoy_copy_row_to_all(stage + TILE::A_BYTES + rank * PART, from + rank * PART, PART, barrier,
                               CLUSTER);
    else
        convoy_copy_row(stage + TILE::A_BYTES, from, TILE::B_BYTES, barrier);
}

/* Asks for everything that the block's tiles need; one thread. */
template <typename TILE, typename BARRIERS, int ROWS, int STAGES, int DEPTH, int BUFFERS, int CLUSTER>
static __device__ __forceinline__ void nhwc_fill_turns(const struct nhwc_job &job, char *shared,
                                                       const BARRIERS &barriers)
{
    const nhwc_turns_order<TILE, CLUSTER> order(job);
    int turn = 0, tile = 0, ahead = 0;
    convoy_prefetch_map(&job.x);
    /* Weights do not depend on the kernel before this one. */
    int most = job.chunks < STAGES ? job.chunks : STAGES;
    for (; order.first < order.end && ahead < most; ahead++)
        nhwc_copy_weights<TILE, CLUSTER>(job, shared + ahead * TILE::STAGE_BYTES, order.rank, ahead,
                                         order.column(order.first), barriers.full(ahead));
    convoy_wait_for_previous();
    for (int at = order.first; at < order.end; at += order.step, tile++) {
        int column = order.column(at);
        const nhwc_origin origin(job, order.output(at));
        for (int chunk = 0; chunk < job.chunks; chunk++, turn++) {
            char *stage = shared + turn % STAGES * TILE::STAGE_BYTES;
            if (turn >= STAGES)
                convoy_barrier_wait(barriers.empty(turn), barriers.parity(turn - STAGES));
            if (turn >= ahead)
                nhwc_copy_weights<TILE, CLUSTER>(job, stage, order.rank, chunk, column, barriers.full(turn));
            nhwc_copy_inputs(job, stage, origin, chunk, DEPTH, barriers.full(turn));
            convoy_barrier_expect(barriers.full(turn), TILE::STAGE_BYTES);
        }
        if (job.has_residual)
            nhwc_copy_residual<TILE, ROWS, BUFFERS>(job, barriers, shared + TILE::RESULTS, tile % NHWC_TURNS,
                                                    tile / NHWC_TURNS, origin.m, column);
    }
}

/* A warpgroup's turns: behind the barriers of stages and results. */
template <typename BARRIERS, int STAGES, int BUFFERS>
static __device__ __forceinline__ uint64_t *nhwc_turn_of(const BARRIERS &barriers, int group)
{
    return barriers.first + 2 * STAGES + 2 * NHWC_TURNS * BUFFERS + group;
}

/* The warpgroup has read a stage: tells all blocks of the cluster. */
template <int CLUSTER>
static __device__ __forceinline__ void nhwc_give_stage(bool mine, int lane, uint64_t *barrier)
{
    if constexpr (CLUSTER > 1)
        convoy_barrier_arrive_at(mine && lane < CLUSTER, barrier, lane);
    else
        convoy_barrier_arrive_if(mine && lane == 0, barrier);
}

/* INPUT: what is done with the inputs (inputs.cuh), which it does not change. */
template <int ROWS, int NT, int DEPTH, int STAGES, int BUFFERS, int CLUSTER,
          template <int, int> class INPUT = nhwc_as_is>
static __global__ void __launch_bounds__((NHWC_TURNS + 1) * CONVOY_WARPGROUP, 1)
    nhwc_conv_turns(CONVOY_PARAMETER(struct nhwc_job) job)
{
    using tile = nhwc_turns_tile<ROWS, NT, DEPTH, STAGES, BUFFERS>;
    using barriers_of = nhwc_barriers<tile, NHWC_TURNS, STAGES, BUFFERS>;
    char *shared = nhwc_shared();
    const barriers_of barriers = {reinterpret_cast<uint64_t *>(shared + tile::BARRIERS)};
    int group = convoy_uniform((int)threadIdx.x / CONVOY_WARPGROUP);
    convoy_let_next_begin();
    if (threadIdx.x == 0) {
        barriers.make(1, CLUSTER * (CONVOY_WARPGROUP / 32));
        for (int i = 0; i < NHWC_TURNS; i++)
            convoy_barrier_make(nhwc_turn_of<barriers_of, STAGES, BUFFERS>(barriers, i),
                                CONVOY_WARPGROUP / 32);
    }
    __syncthreads();
    if constexpr (CLUSTER > 1)
        convoy_cluster_sync(); /* the barriers of all blocks are there */
    if (group == NHWC_TURNS) {
        convoy_registers_leave<24>();
        if (threadIdx.x % CONVOY_WARPGROUP == 0)
            nhwc_fill_turns<tile, barriers_of, ROWS, STAGES, DEPTH, BUFFERS, CLUSTER>(job, shared, barriers);
        __syncwarp();
    } else {
        convoy_registers_take<240>();
        const nhwc_turns_order<tile, CLUSTER> order(job);
        int lane = (int)threadIdx.x % 32, number = 0;
        INPUT<ROWS, DEPTH> input;
        static_assert(!input.CHANGES, "the inputs stay as they are");
        if constexpr (input.READS)
            convoy_wait_for_previous(); /* which wrote moments */
        for (int at = order.first + group * order.step; at < order.end;
             at += NHWC_TURNS * order.step, number++) {
            int first = (number * NHWC_TURNS + group) * job.chunks;
            float sum[ROWS][NT][4] = {};
            input.begin(job, order.output(at));
            if (number + group > 0) /* the other one's number-th tile, or the one before, is under way */
                convoy_barrier_wait(nhwc_turn_of<barriers_of, STAGES, BUFFERS>(barriers, group),
                                    (number + group - 1) % 2);
            for (int turn = first; turn < first + job.chunks; turn++) {
                const char *stage = shared + turn % STAGES * tile::STAGE_BYTES;
                convoy_barrier_wait(barriers.full(turn), barriers.parity(turn));
                uint64_t b = convoy_matrix_swizzled<tile::ROW_BYTES>(stage + tile::A_BYTES);
                convoy_wgmma_begin();
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    uint64_t a =
                        convoy_matrix_swizzled<tile::ROW_BYTES>(stage + i * NHWC_PIECE * tile::ROW_BYTES);
#pragma unroll
                    for (int step = 0; step < DEPTH / 16; step++)
                        nhwc_multiply<NT, tile::ROW_BYTES>(sum[i], convoy_matrix_at(a, step * 2),
                                                           convoy_matrix_at(b, step * 2));
                }
                convoy_wgmma_end();
                convoy_wgmma_wait<1>();
                nhwc_give_stage<CLUSTER>(turn > first, lane, barriers.empty(turn > first ? turn - 1 : turn));
            }
            convoy_barrier_arrive_if(
                lane == 0, nhwc_turn_of<barriers_of, STAGES, BUFFERS>(barriers, NHWC_TURNS - 1 - group));
            convoy_wgmma_wait<0>();
            nhwc_give_stage<CLUSTER>(true, lane, barriers.empty(first + job.chunks - 1));
            input.end(job, order.column(at), sum);
            nhwc_end_tile<tile, ROWS, NT, BUFFERS>(job, barriers, shared + tile::RESULTS, group, number,
                                                   order.output(at), order.column(at), sum);
        }
        if (threadIdx.x % CONVOY_WARPGROUP == 0)
            convoy_store_wait<0>(); /* shared memory stays until it was read */
        __syncwarp();
    }
    if constexpr (CLUSTER > 1)
        convoy_cluster_sync(); /* and until no other block writes to it */
}

#endif
