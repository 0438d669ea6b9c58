/* Convolution on warpgroups for few outputs, as of one image, which do not fill the chip: the blocks of a
 * cluster divide the reduction (conv_wgmma.cuh) and send their sums to each other through shared memory;
 * block r finishes rows 64 r / blocks on. */
#ifndef CONVOY_KERNELS_NHWC_CONV_SPLIT_CUH
#define CONVOY_KERNELS_NHWC_CONV_SPLIT_CUH

#include "kernels/device/cluster.cuh"
#include "kernels/nhwc/conv_wgmma.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"

/* Of kernels that divide a reduction so: tiles of 8 columns, stages, blocks of a cluster. */
#define NHWC_SPLIT_INSTANCES(X)                                                                              \
    X(4, 5, 1)                                                                                               \
    X(4, 5, 2)                                                                                               \
    X(4, 5, 4)                                                                                               \
    X(4, 5, 8)                                                                                               \
    X(8, 5, 1)                                                                                               \
    X(8, 5, 2)                                                                                               \
    X(8, 5, 4)                                                                                               \
    X(8, 5, 8)

template <int NT, int DEPTH, int STAGES> struct nhwc_split_tile {
    static constexpr int M = NHWC_PIECE, N = NT * 8, ROW_BYTES = DEPTH * 2;
    static constexpr int A_BYTES = M * ROW_BYTES, B_BYTES = N * ROW_BYTES, STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int SUMS = STAGES * STAGE_BYTES, BARRIERS = SUMS + M * N * (int)sizeof(float);
    static constexpr int SHARED_BYTES = BARRIERS + 256 + 1024;
    static constexpr int THREADS = 2 * CONVOY_WARPGROUP;
};

/* All threads of all blocks that divide a tile; of one block by its own barrier. */
static __device__ __forceinline__ void nhwc_split_sync(int splits)
{
    if (splits > 1)
        convoy_cluster_sync();
    else
        __syncthreads();
}

/* Sends this block's sums to the blocks that finish their rows: there lies, block after block, a part of M /
 * splits rows of N. */
template <int NT>
static __device__ __forceinline__ void nhwc_send(float *sums, int splits, int rank, int row, int lane,
                                                 const float (&sum)[NT][4])
{
    int part = NHWC_PIECE / splits;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int at = row + half * 8, to = at / part;
        float *there = sums + (rank * part + at - to * part) * (NT * 8) + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                convoy_cluster_store(there + j * 8 + e, to, sum[j][half * 2 + e]);
    }
}

/* Adds what all blocks sent, in their order, and stores: 8 maps of an output for a thread. end: of the
 * outputs. */
template <int NT, int THREADS>
static __device__ __forceinline__ void nhwc_finish(const struct nhwc_job &job, const float *sums, int splits,
                                                   int rank, int first, int end, int column)
{
    int part = NHWC_PIECE / splits;
    for (int i = (int)threadIdx.x; i < part * NT; i += THREADS) {
        int row = i / NT, cell = i - row * NT, m = first + rank * part + row, n = column + cell * 8;
        if (m >= end || n >= job.columns)
            continue;
        float total[NHWC_CELL], addend[NHWC_CELL];
        nhwc_load_vector(job.bias, n, job.k, 0.0f, total);
        if (job.has_residual) {
            nhwc_load(job.added + m * job.added_pixel + n, addend);
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++)
                total[e] += addend[e];
        }
        for (int block = 0; block < splits; block++) {
            const float *from = sums + (block * part + row) * (NT * 8) + cell * 8;
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++)
                total[e] += from[e];
        }
        nhwc_activate(job.act, total);
        nhwc_store_new(job.out + m * job.out_pixel + n, total, job.overflow, m / (job.oh * job.ow));
    }
}

/* Asks for the weights of a block's first chunks, before the kernel before has ended; one thread. begin,
 * count: the block's chunks. */
template <typename TILE, typename BARRIERS, int STAGES>
static __device__ __forceinline__ void nhwc_fill_ahead(const struct nhwc_job &job, char *shared,
                                                       const BARRIERS &barriers, int column, int begin,
                                                       int count)
{
    convoy_prefetch_map(&job.x);
    for (int turn = 0; turn < count && turn < STAGES; turn++)
        convoy_copy_row(shared + turn * TILE::STAGE_BYTES + TILE::A_BYTES,
                        nhwc_weights(job, begin + turn, column, TILE::ROW_BYTES), TILE::B_BYTES,
                        barriers.full(turn));
}

/* Asks for the rest of chunks `from` to `to` - 1 of the block's; the same thread. */
template <typename TILE, typename BARRIERS, int DEPTH, int STAGES>
static __device__ __forceinline__ void nhwc_fill_part(const struct nhwc_job &job, char *shared,
                                                      const BARRIERS &barriers, int first, int column,
                                                      int begin, int from, int to)
{
    const nhwc_origin origin(job, first, column);
    for (int turn = from; turn < to; turn++) {
        char *stage = shared + turn % STAGES * TILE::STAGE_BYTES;
        if (turn >= STAGES) {
            convoy_barrier_wait(barriers.empty(turn), barriers.parity(turn - STAGES));
            convoy_copy_row(stage + TILE::A_BYTES, nhwc_weights(job, begin + turn, column, TILE::ROW_BYTES),
                            TILE::B_BYTES, barriers.full(turn));
        }
        nhwc_copy_inputs(job, stage, origin, begin + turn, DEPTH, barriers.full(turn));
        convoy_barrier_expect(barriers.full(turn), TILE::STAGE_BYTES);
    }
}

/* The products of a block's chunks; a warpgroup. There are no fewer chunks than blocks. */
template <typename TILE, typename BARRIERS, int NT, int DEPTH, int STAGES, typename INPUT>
static __device__ __forceinline__ void nhwc_multiply_part(const struct nhwc_job &job, char *shared,
                                                          const BARRIERS &barriers, INPUT &input, int begin,
                                                          int count, float (&sum)[NT][4])
{
    int turn = 0, lane = (int)threadIdx.x % 32;
#pragma unroll 1
    do {
        char *stage = shared + turn % STAGES * TILE::STAGE_BYTES;
        input.load(job, begin + turn);
        convoy_barrier_wait(barriers.full(turn), barriers.parity(turn));
        if constexpr (INPUT::CHANGES) {
            input.change(job, stage);
            nhwc_group_sync(0);
        }
        uint64_t a = convoy_matrix_swizzled<TILE::ROW_BYTES>(stage);
        uint64_t b = convoy_matrix_swizzled<TILE::ROW_BYTES>(stage + TILE::A_BYTES);
        convoy_wgmma_begin();
#pragma unroll
        for (int step = 0; step < DEPTH / 16; step++)
            nhwc_multiply<NT, TILE::ROW_BYTES>(sum, convoy_matrix_at(a, step * 2),
                                               convoy_matrix_at(b, step * 2));
        convoy_wgmma_end();
        convoy_wgmma_wait<1>();
        convoy_barrier_arrive_if(lane == 0 && turn > 0, barriers.empty(turn > 0 ? turn - 1 : 0));
    } while (++turn < count);
    convoy_wgmma_wait<0>();
    input.tell(job);
}

template <int NT, int DEPTH, int STAGES, template <int, int> class INPUT = nhwc_as_is>
static __global__ void __launch_bounds__(2 * CONVOY_WARPGROUP, 1)
    nhwc_conv_split(CONVOY_PARAMETER(struct nhwc_job) job, int splits)
{
    using tile = nhwc_split_tile<NT, DEPTH, STAGES>;
    using barriers_of = nhwc_barriers<tile, 1, STAGES, 1>;
    char *shared = nhwc_shared();
    const barriers_of barriers = {reinterpret_cast<uint64_t *>(shared + tile::BARRIERS)};
    float *sums = reinterpret_cast<float *>(shared + tile::SUMS);
    int group = convoy_uniform((int)threadIdx.x / CONVOY_WARPGROUP), lane = (int)threadIdx.x % 32;
    int rank = (int)blockIdx.x % splits, at = (int)blockIdx.x / splits;
    int begin = job.chunks * rank / splits, count = convoy_uniform(job.chunks * (rank + 1) / splits - begin);
    int first = at / job.tiles_n * tile::M, column = at % job.tiles_n * tile::N;
    convoy_let_next_begin();
    if (threadIdx.x == 0)
        barriers.make();
    __syncthreads();
    nhwc_split_sync(splits); /* all blocks have begun: they may be written to later */
    if (group == 1) {
        if (threadIdx.x == CONVOY_WARPGROUP) {
            nhwc_fill_ahead<tile, barriers_of, STAGES>(job, shared, barriers, column, begin, count);
            convoy_wait_for_previous();
            nhwc_fill_part<tile, barriers_of, DEPTH, STAGES>(job, shared, barriers, first, column, begin, 0,
                                                             count);
        }
        __syncwarp();
    } else {
        float sum[NT][4] = {};
        INPUT<1, DEPTH> input;
        if constexpr (input.CHANGES)
            convoy_wait_for_previous(); /* which wrote the gates */
        input.begin(job, first);
        nhwc_multiply_part<tile, barriers_of, NT, DEPTH, STAGES>(job, shared, barriers, input, begin, count,
                                                                 sum);
        nhwc_send<NT>(sums, splits, rank, (int)threadIdx.x / 32 * 16 + lane / 4, lane, sum);
    }
    convoy_wait_for_previous(); /* every thread stores, and reads the residual */
    nhwc_split_sync(splits);
    nhwc_finish<NT, tile::THREADS>(job, sums, splits, rank, first, job.m, column);
}

#endif
