/* Convolution in 16 bits, channels last, on warpgroups: a matrix product whose left side the copy engine
 * unrolls while it loads (implicit GEMM).
 *
 * Rows of the product are outputs (image, y, x), columns are maps, and the reduction goes over filter taps
 * and, in each, over channels. It is cut into chunks of DEPTH channels of one tap. For a chunk one thread
 * asks the copy engine for M rows of inputs (im2col: padding, strides and dilations are the engine's
 * business, and so are channels that are not there, which arrive as zeros) and for N rows of weights, which
 * were laid out at load as they are to lie in shared memory. Chunks come through a ring of STAGES, which does
 * not stop between tiles. GROUPS warpgroups multiply, 64 ROWS rows each, straight from shared memory. Blocks
 * are persistent: each makes every gridDim.x-th tile.
 *
 * At the end of a tile a warpgroup adds bias and residual, applies the activation, rounds to fp16 and leaves
 * the tile in shared memory, from where the copy engine writes it, while the next tile is multiplied. The
 * residual came into the same place before. */
#ifndef CONVOY_KERNELS_NHWC_CONV_WGMMA_CUH
#define CONVOY_KERNELS_NHWC_CONV_WGMMA_CUH

#include "kernels/device/tensor_copy.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/nhwc/conv_job.cuh"
#include "kernels/nhwc/inputs.cuh"
#include "kernels/nhwc/tile_end.cuh"

/* A tile and its place in shared memory. */
template <int GROUPS, int ROWS, int NT, int DEPTH, int STAGES, int BUFFERS> struct nhwc_tile {
    static constexpr int M = GROUPS * ROWS * NHWC_PIECE, N = NT * 8, ROW_BYTES = DEPTH * 2;
    static constexpr int A_BYTES = M * ROW_BYTES, B_BYTES = N * ROW_BYTES, STAGE_BYTES = A_BYTES + B_BYTES;
    /* Results: panels of at most 64 columns, 64 rows each. */
    static constexpr int PANEL = N < 64 ? N : 64, PANELS = N / PANEL;
    static constexpr int PANEL_BYTES = NHWC_PIECE * PANEL * 2, RESULT_BYTES = ROWS * PANELS * PANEL_BYTES;
    static constexpr int RESULTS = STAGES * STAGE_BYTES, BARRIERS = RESULTS + GROUPS * BUFFERS * RESULT_BYTES;
    static constexpr int SHARED_BYTES = BARRIERS + 256 + 1024; /* 1024: to begin on a multiple of that */
    static constexpr int THREADS = (GROUPS + 1) * CONVOY_WARPGROUP;
};

/* Dynamic shared memory from a multiple of 1024 bytes on, as the swizzling wants it. */
static __device__ __forceinline__ char *nhwc_shared(void)
{
    CONVOY_DYNAMIC_SHARED(char, shared);
#ifdef __CUDACC__
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    shared += (1024 - at % 1024) % 1024;
#endif
    return shared;
}

/* ROWS pieces of A by NT tiles of 8 columns; a, b: of these 16 numbers of the reduction. */
template <int NT, int ROW_BYTES, int FIRST = 0, int TILES>
static __device__ __forceinline__ void nhwc_multiply(float (&sum)[TILES][4], uint64_t a, uint64_t b)
{
    constexpr int PART = NT >= 16 ? 16 : NT >= 8 ? 8 : NT >= 4 ? 4 : 2;
    convoy_wgmma(reinterpret_cast<float(&)[PART][4]>(sum[FIRST]), a, b);
    if constexpr (NT > PART)
        nhwc_multiply<NT - PART, ROW_BYTES, FIRST + PART>(sum, a,
                                                          convoy_matrix_at(b, PART * 8 * ROW_BYTES / 16));
}

/* The first channel that tiles of maps from `column` on read (conv_groups.cuh). */
static __device__ __forceinline__ int nhwc_first_channel(const struct nhwc_job &job, int column)
{
    return job.group_maps > 0 ? column / job.group_maps * job.group_channels / 8 * 8 : 0;
}

/* Where a tile's first output is read, and from which channel on. */
struct nhwc_origin {
    int m, x, y, n, channel;

    __device__ __forceinline__ nhwc_origin(const struct nhwc_job &job, int first, int column = 0)
        : m(first), x(0), y(0), n(0), channel(nhwc_first_channel(job, column))
    {
        if (job.flat)
            return;
        int row = first / job.ow;
        n = row / job.oh;
        x = (first - row * job.ow) * job.stride[1] - job.pad[1];
        y = (row - n * job.oh) * job.stride[0] - job.pad[0];
    }
};

/* Asks for the M rows of inputs of a chunk. */
static __device__ __forceinline__ void nhwc_copy_inputs(const struct nhwc_job &job, char *to,
                                                        const struct nhwc_origin &from, int chunk, int depth,
                                                        uint64_t *barrier)
{
    int tap = chunk / job.tap_chunks, channel = from.channel + (chunk - tap * job.tap_chunks) * depth;
    if (job.flat) {
        convoy_copy_box(to, &job.x, channel, from.m, barrier);
        return;
    }
    int tap_y = tap / job.taps_x, tap_x = tap - tap_y * job.taps_x;
    convoy_copy_tap(to, &job.x, channel, from.x, from.y, from.n, tap_x * job.dilation[1],
                    tap_y * job.dilation[0], barrier);
}

static __device__ __forceinline__ const char *nhwc_weights(const struct nhwc_job &job, int chunk, int column,
                                                           int row_bytes)
{
    return job.weights + ((int64_t)chunk * job.columns + column) * row_bytes;
}

/* The barriers of a block. */
template <typename TILE, int GROUPS, int STAGES, int BUFFERS> struct nhwc_barriers {
    uint64_t *first;

    __device__ __forceinline__ uint64_t *full(int turn) const
    {
        return first + turn % STAGES;
    }
    __device__ __forceinline__ uint64_t *empty(int turn) const
    {
        return first + STAGES + turn % STAGES;
    }
    static __device__ __forceinline__ int parity(int turn)
    {
        return turn / STAGES % 2;
    }
    /* Of the place of a group's results in its number-th tile: the residual is there; the place is free. */
    __device__ __forceinline__ uint64_t *added(int group, int number) const
    {
        return first + 2 * STAGES + group * BUFFERS + number % BUFFERS;
    }
    __device__ __forceinline__ uint64_t *free(int group, int number) const
    {
        return added(group, number) + GROUPS * BUFFERS;
    }
    static __device__ __forceinline__ int added_parity(int number)
    {
        return number / BUFFERS % 2;
    }

    /* By a thread, before a barrier of the block. fills, reads: arrivals at a stage's barriers. */
    __device__ __forceinline__ void make(int fills = 1, int reads = GROUPS * (CONVOY_WARPGROUP / 32)) const
    {
        for (int i = 0; i < STAGES; i++) {
            convoy_barrier_make(full(i), fills);
            convoy_barrier_make(empty(i), reads);
        }
        for (int i = 0; i < GROUPS * BUFFERS; i++) {
            convoy_barrier_make(first + 2 * STAGES + i, 1);
            convoy_barrier_make(first + 2 * STAGES + GROUPS * BUFFERS + i, 1);
        }
    }
};

/* Asks for the residual of a group's number-th tile, which comes to the place of its results. */
template <typename TILE, int ROWS, int BUFFERS, typename BARRIERS>
static __device__ __forceinline__ void nhwc_copy_residual(const struct nhwc_job &job,
                                                          const BARRIERS &barriers, char *results, int group,
                                                          int number, int first, int column)
{
    char *to = results + (group * BUFFERS + number % BUFFERS) * TILE::RESULT_BYTES;
    if (number >= BUFFERS)
        convoy_barrier_wait(barriers.free(group, number), barriers.added_parity(number - BUFFERS));
    for (int i = 0; i < ROWS * TILE::PANELS; i++)
        convoy_copy_box(to + i * TILE::PANEL_BYTES, &job.residual, column + i % TILE::PANELS * TILE::PANEL,
                        first + i / TILE::PANELS * NHWC_PIECE, barriers.added(group, number));
    convoy_barrier_expect(barriers.added(group, number), TILE::RESULT_BYTES);
}

/* Asks for everything that the block's tiles need; one thread. */
template <typename TILE, typename BARRIERS, int GROUPS, int ROWS, int STAGES, int DEPTH>
static __device__ __forceinline__ void nhwc_fill(const struct nhwc_job &job, char *shared,
                                                 const BARRIERS &barriers)
{
    int turn = 0, number = 0, ahead = 0;
    convoy_prefetch_map(&job.x);
    /* Weights do not depend on the kernel before this one. */
    int most = job.chunks < STAGES ? job.chunks : STAGES;
    for (; (int)blockIdx.x < job.tiles && ahead < most; ahead++)
        convoy_copy_row(shared + ahead * TILE::STAGE_BYTES + TILE::A_BYTES,
                        nhwc_weights(job, ahead, (int)blockIdx.x % job.tiles_n * TILE::N, TILE::ROW_BYTES),
                        TILE::B_BYTES, barriers.full(ahead));
    convoy_wait_for_previous();
    for (int tile = (int)blockIdx.x; tile < job.tiles; tile += (int)gridDim.x, number++) {
        int column = tile % job.tiles_n * TILE::N;
        const nhwc_origin origin(job, tile / job.tiles_n * TILE::M, column);
        for (int chunk = 0; chunk < job.chunks; chunk++, turn++) {
            char *stage = shared + turn % STAGES * TILE::STAGE_BYTES;
            if (turn >= STAGES)
                convoy_barrier_wait(barriers.empty(turn), barriers.parity(turn - STAGES));
            if (turn >= ahead)
                convoy_copy_row(stage + TILE::A_BYTES, nhwc_weights(job, chunk, column, TILE::ROW_BYTES),
                                TILE::B_BYTES, barriers.full(turn));
            nhwc_copy_inputs(job, stage, origin, chunk, DEPTH, barriers.full(turn));
            convoy_barrier_expect(barriers.full(turn), TILE::STAGE_BYTES);
        }
        if (!job.has_residual)
            continue;
        constexpr int BUFFERS = (TILE::BARRIERS - TILE::RESULTS) / (GROUPS * TILE::RESULT_BYTES);
        for (int group = 0; group < GROUPS; group++)
            nhwc_copy_residual<TILE, ROWS, BUFFERS>(job, barriers, shared + TILE::RESULTS, group, number,
                                                    origin.m + group * ROWS * NHWC_PIECE, column);
    }
}

/* INPUT: what is done to the inputs (inputs.cuh). */
template <int GROUPS, int ROWS, int NT, int DEPTH, int STAGES, int BUFFERS, int BLOCKS,
          template <int, int> class INPUT = nhwc_as_is>
static __global__ void __launch_bounds__((GROUPS + 1) * CONVOY_WARPGROUP, BLOCKS)
    nhwc_conv(CONVOY_PARAMETER(struct nhwc_job) job)
{
    using tile = nhwc_tile<GROUPS, ROWS, NT, DEPTH, STAGES, BUFFERS>;
    using barriers_of = nhwc_barriers<tile, GROUPS, STAGES, BUFFERS>;
    char *shared = nhwc_shared();
    const barriers_of barriers = {reinterpret_cast<uint64_t *>(shared + tile::BARRIERS)};
    int group = convoy_uniform((int)threadIdx.x / CONVOY_WARPGROUP);
    convoy_let_next_begin();
    if (threadIdx.x == 0)
        barriers.make();
    __syncthreads();
    if (group == GROUPS) {
        if constexpr (BLOCKS == 1)
            convoy_registers_leave<24>();
        if (threadIdx.x % CONVOY_WARPGROUP == 0)
            nhwc_fill<tile, barriers_of, GROUPS, ROWS, STAGES, DEPTH>(job, shared, barriers);
        return;
    }
    if constexpr (BLOCKS == 1)
        convoy_registers_take<240>();
    int lane = (int)threadIdx.x % 32, turn = 0, number = 0;
    INPUT<ROWS, DEPTH> input;
    if constexpr (input.READS)
        convoy_wait_for_previous(); /* which wrote gates or moments */
    for (int at = (int)blockIdx.x; at < job.tiles; at += (int)gridDim.x, number++) {
        float sum[ROWS][NT][4] = {};
        input.begin(job, at / job.tiles_n * tile::M + group * ROWS * NHWC_PIECE);
        for (int chunk = 0; chunk < job.chunks; chunk++, turn++) {
            char *stage = shared + turn % STAGES * tile::STAGE_BYTES;
            input.load(job, chunk);
            convoy_barrier_wait(barriers.full(turn), barriers.parity(turn));
            if constexpr (input.CHANGES) {
                input.change(job, stage + group * ROWS * NHWC_PIECE * tile::ROW_BYTES);
                nhwc_group_sync(group);
            }
            uint64_t b = convoy_matrix_swizzled<tile::ROW_BYTES>(stage + tile::A_BYTES);
            convoy_wgmma_begin();
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                uint64_t a = convoy_matrix_swizzled<tile::ROW_BYTES>(stage + (group * ROWS + i) * NHWC_PIECE *
                                                                                 tile::ROW_BYTES);
#pragma unroll
                for (int step = 0; step < DEPTH / 16; step++)
                    nhwc_multiply<NT, tile::ROW_BYTES>(sum[i], convoy_matrix_at(a, step * 2),
                                                       convoy_matrix_at(b, step * 2));
            }
            convoy_wgmma_end();
            convoy_wgmma_wait<1>();
            if (chunk > 0)
                convoy_barrier_arrive_if(lane == 0, barriers.empty(turn - 1));
        }
        convoy_wgmma_wait<0>();
        convoy_barrier_arrive_if(lane == 0, barriers.empty(turn - 1));
        input.tell(job);
        input.end(job, at % job.tiles_n * tile::N, sum);
        nhwc_end_tile<tile, ROWS, NT, BUFFERS>(job, barriers, shared + tile::RESULTS, group, number,
                                               at / job.tiles_n * tile::M + group * ROWS * NHWC_PIECE,
                                               at % job.tiles_n * tile::N, sum);
    }
    if (threadIdx.x % CONVOY_WARPGROUP == 0)
        convoy_store_wait<0>(); /* shared memory stays until it was read */
}

#endif
