/* The matrix product in registers: a block computes BM x BN outputs, a warp 64 x 32 of them, a thread 8 x 8.
 *
 * The idea: an fp32 multiply-add unit must be fed two numbers; a thread that keeps 8 x 8 sums in registers
 * reads 16 numbers from shared memory (four 16-byte loads) for 64 multiply-adds, and a block reads BM + BN
 * numbers from device memory for BM x BN. Tiles of 8 along k are double-buffered: while one is multiplied,
 * the next travels from device memory into registers, is then written to the other half of shared memory, and
 * one barrier a tile suffices. Both operands lie in shared memory with k as the slow dimension; a row is
 * padded by 4 floats, so that the transposing stores of a warp (16 rows x 2 pieces) hit 32 different banks.
 *
 * Where m x n has too few tiles for 132 multiprocessors, k is split over blocks (see gemm.h). How often is
 * decided by a small model of the time, from the sizes alone. The case it is for: 10,000 x 160 x 17,496 has
 * 1.6 million outputs, that is 189 threads of 64 outputs for each multiprocessor, a tenth of what it can
 * hold. Tiles of 64 x 160 (157 of them), k in 5 pieces, are 785 blocks for the 396 that run at a time: 1.98
 * rounds.
 *
 * Blocks that share rows of A run next to each other (n is the fastest coordinate), so A comes from device
 * memory once and from the L2 cache after that.
 *
 * Limits: m, n and k below 2^31 - 1,024. Where k (or n, for a b that is not transposed) is no multiple of 4,
 * loads are 4 bytes wide instead of 16.
 * Floor: 10,000 x 500 x 7,200 is 36 G multiply-adds, 1.20 ms at 60 TFLOP/s; 0.32 GB, 0.08 ms at 4 TB/s.
 * 10,000 x 160 x 17,496 is 28 G, 0.93 ms; 0.72 GB, 0.18 ms.
 * Predicted: 1.6 and 1.3 ms. The inner loop is about 605 instructions for 512 multiply-adds (sm_90, nvcc
 * 13.0): 85 % of the issue slots at best.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/device/unary.cuh"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_target.cuh"
#include "kernels/gemm/gemm_tiles.cuh"

constexpr int most_splits = 128;

struct blocked_job {
    int m, n, k;
    int piece; /* of k for each split, a multiple of CONVOY_GEMM_DEPTH */
    int splits, m_tiles, n_tiles, batch;
    int64_t a_stride, b_stride, y_stride, split_stride;
    bool bias, wide_y;
    struct convoy_unary act;
};

/* A thread's 8 x 8 outputs lie 4 x 4 apart by half a warp's tile, so that the lanes' 16-byte loads and stores
 * touch one another. */
__device__ static void write_outputs(const struct blocked_job &job, float (&sum)[8][8], int row0, int column0,
                                     const float *bias, float *y)
{
    /* One row of sums at a time, then all move up by one: the activation is in the code 8 times, not 64. */
#pragma unroll 1
    for (int i = 0; i < 8; i++) {
        int row = row0 + i / 4 * 32 + i % 4;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int column = column0 + half * 16;
            if (row >= job.m || column >= job.n)
                continue;
            float value[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float v = sum[0][half * 4 + j];
                if (job.bias && column + j < job.n)
                    v += bias[column + j];
                value[j] = convoy_apply_unary(job.act, v);
            }
            float *to = y + (int64_t)row * job.n + column;
            if (job.wide_y) {
                *(float4 *)to = make_float4(value[0], value[1], value[2], value[3]);
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (column + j < job.n)
                        to[j] = value[j];
            }
        }
#pragma unroll
        for (int up = 0; up < 7; up++)
#pragma unroll
            for (int j = 0; j < 8; j++)
                sum[up][j] = sum[up + 1][j];
    }
}

/* How many blocks share a multiprocessor: as many as fit with 128 registers a thread. The loads of a dense
 * layer's weights, 16 bytes wide, get by with that; where a thread of the blocks of 4 or 5 warps needs more,
 * one block less. */
constexpr int resident(int blocks_per_sm, bool b_transposed, bool wide)
{
    return (b_transposed && wide) || blocks_per_sm < 3 || blocks_per_sm > 4 ? blocks_per_sm
                                                                            : blocks_per_sm - 1;
}

template <int BM, int BN, int blocks_per_sm, bool b_transposed, bool wide>
__global__ void __launch_bounds__(BM *BN / 64, resident(blocks_per_sm, b_transposed, wide))
    gemm_blocked(struct blocked_job job, const float *a, const float *b, const float *bias, float *y)
{
    constexpr int threads = BM * BN / 64;
    __shared__ __align__(16) float a_shared[2][CONVOY_GEMM_DEPTH][BM + CONVOY_GEMM_PAD];
    __shared__ __align__(16) float b_shared[2][CONVOY_GEMM_DEPTH][BN + CONVOY_GEMM_PAD];
    int lane = (int)threadIdx.x % 32;
    int warp = (int)threadIdx.x / 32;
    int thread_row = warp / (BN / 32) * 64 + lane / 4 * 4;
    int thread_column = warp % (BN / 32) * 32 + lane % 4 * 4;
    int64_t b_row = b_transposed ? job.k : job.n;
    unsigned tile = blockIdx.x;
    int column0 = (int)(tile % (unsigned)job.n_tiles) * BN;
    tile /= (unsigned)job.n_tiles;
    int row0 = (int)(tile % (unsigned)job.m_tiles) * BM;
    tile /= (unsigned)job.m_tiles;
    int split = (int)(tile % (unsigned)job.splits);
    int64_t image = tile / (unsigned)job.splits;
    int k = split * job.piece;
    int k_end = min(k + job.piece, job.k);

    convoy_along_k<BM, threads, wide> a_next;
    typename convoy_b_tile<b_transposed, BN, threads, wide>::type b_next;
    a_next.start(a + image * job.a_stride, job.k, row0, job.m, k);
    b_next.start(b + image * job.b_stride, b_row, column0, job.n, k);
    a_next.load(job.k, 0, k, k_end);
    b_next.load(b_row, job.n - column0, k, k_end);
    a_next.store(a_shared[0]);
    b_next.store(b_shared[0]);
    __syncthreads();

    float sum[8][8] = {};
    for (int stage = 0; k < k_end; stage ^= 1) {
        /* Also after the last tile, where it reads nothing and stores zeros: under a condition the compiler
         * moves the loads down to where they are used, past the arithmetic that hides their latency. */
        k += CONVOY_GEMM_DEPTH;
        a_next.load(job.k, 0, k, k_end);
        b_next.load(b_row, job.n - column0, k, k_end);
#pragma unroll
        for (int step = 0; step < CONVOY_GEMM_DEPTH; step++) {
            float4 a0 = *(const float4 *)&a_shared[stage][step][thread_row];
            float4 a1 = *(const float4 *)&a_shared[stage][step][thread_row + 32];
            float4 b0 = *(const float4 *)&b_shared[stage][step][thread_column];
            float4 b1 = *(const float4 *)&b_shared[stage][step][thread_column + 16];
            float av[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w};
            float bv[8] = {b0.x, b0.y, b0.z, b0.w, b1.x, b1.y, b1.z, b1.w};
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    sum[i][j] += av[i] * bv[j];
        }
        a_next.store(a_shared[stage ^ 1]);
        b_next.store(b_shared[stage ^ 1]);
        __syncthreads();
    }
    write_outputs(job, sum, row0 + thread_row, column0 + thread_column, bias,
                  y + split * job.split_stride + image * job.y_stride);
}

/* ---- The host's side ---- */

static int piece_of_k(const struct convoy_gemm_shape *shape, int splits)
{
    return (int)(convoy_div_up(convoy_div_up(shape->k, splits), CONVOY_GEMM_DEPTH) * CONVOY_GEMM_DEPTH);
}

/* Microseconds with k in so many pieces. A multiprocessor needs about 9 warps to be busy, and a tile of 8
 * along k cannot take less than the way to device memory and back. */
static float time_us(const struct convoy_gemm_shape *shape, int bm, int bn, int blocks_per_sm, int splits)
{
    int64_t tiles = convoy_div_up(shape->m, bm) * convoy_div_up(shape->n, bn) * shape->batch * splits;
    int64_t rounds = convoy_div_up(tiles, CONVOY_GEMM_SMS);
    float piece = (float)piece_of_k(shape, splits);
    float warps = (float)(rounds < blocks_per_sm ? rounds : blocks_per_sm) * (float)(bm * bn / 64 / 32);
    float busy = 0.85f * (warps < 9 ? warps / 9 : 1);
    float compute = (float)rounds * (float)bm * (float)bn * piece / (CONVOY_GEMM_FMA_PER_US * busy);
    /* Every tile of BM x BN brings BM + BN numbers for each k, mostly from the L2 cache at some 4.5 TB/s;
     * part of that is hidden behind the arithmetic. */
    float l2 = (float)tiles * (float)(bm + bn) * piece * 4 / 4.5e6f;
    compute = compute + l2 / 8 > l2 ? compute + l2 / 8 : l2;
    float latency = (float)convoy_div_up(rounds, blocks_per_sm) * piece / CONVOY_GEMM_DEPTH * 0.4f;
    float memory = convoy_gemm_memory_us(shape);
    float most = compute > latency ? compute : latency;
    return CONVOY_GEMM_LAUNCH_US + (most > memory ? most : memory) + convoy_gemm_sum_us(shape, splits);
}

static int best_splits(const struct convoy_gemm_shape *shape, int bm, int bn, int blocks_per_sm)
{
    int best = 1;
    float best_us = time_us(shape, bm, bn, blocks_per_sm, 1);
    for (int splits = 2; splits <= most_splits && shape->k / splits >= 64; splits++) {
        if (convoy_div_up(shape->k, piece_of_k(shape, splits)) != splits ||
            shape->m * shape->n > CONVOY_GEMM_SCRATCH_FLOATS / splits / shape->batch)
            continue; /* an empty last piece, or too much scratch */
        float us = time_us(shape, bm, bn, blocks_per_sm, splits);
        if (us < best_us) {
            best = splits;
            best_us = us;
        }
    }
    return best;
}

static bool takes(const struct convoy_gemm_shape *shape)
{
    int64_t most = INT32_MAX - 1024;
    if (shape->m > most || shape->n > most || shape->k > most)
        return false;
    /* As many blocks as a grid may have, with the smallest tiles and the most splits. */
    int64_t row_tiles = convoy_div_up(shape->m, 64) * most_splits * shape->batch;
    return row_tiles <= most && convoy_div_up(shape->n, 32) <= most / row_tiles;
}

template <int BM, int BN, int blocks_per_sm> static float estimate_us(const struct convoy_gemm_shape *shape)
{
    return time_us(shape, BM, BN, blocks_per_sm, best_splits(shape, BM, BN, blocks_per_sm));
}

template <int BM, int BN, int blocks_per_sm>
static size_t scratch_bytes(const struct convoy_gemm_shape *shape)
{
    return convoy_gemm_partial_bytes(shape, best_splits(shape, BM, BN, blocks_per_sm));
}

template <int BM, int BN, int blocks_per_sm>
static cudaError_t launch(const struct convoy_gemm_shape *shape, const struct convoy_gemm_operands *operands,
                          cudaStream_t stream)
{
    int splits = best_splits(shape, BM, BN, blocks_per_sm);
    struct blocked_job job = {};
    job.m = (int)shape->m;
    job.n = (int)shape->n;
    job.k = (int)shape->k;
    job.piece = piece_of_k(shape, splits);
    job.splits = splits;
    job.m_tiles = (int)convoy_div_up(shape->m, BM);
    job.n_tiles = (int)convoy_div_up(shape->n, BN);
    job.batch = shape->batch;
    job.a_stride = shape->a_stride;
    job.b_stride = shape->b_stride;
    float *y = convoy_gemm_target(shape, operands, &job);
    job.wide_y = shape->n % 4 == 0 && job.y_stride % 4 == 0 && convoy_aligned(y, y);
    bool wide = shape->k % 4 == 0 && (shape->b_transposed || shape->n % 4 == 0) && shape->a_stride % 4 == 0 &&
                shape->b_stride % 4 == 0 && convoy_aligned(operands->a, operands->b);
    int64_t tiles = (int64_t)job.m_tiles * job.n_tiles * splits * shape->batch;
    void (*kernel)(struct blocked_job, const float *, const float *, const float *, float *) =
        shape->b_transposed ? (wide ? gemm_blocked<BM, BN, blocks_per_sm, true, true>
                                    : gemm_blocked<BM, BN, blocks_per_sm, true, false>)
                            : (wide ? gemm_blocked<BM, BN, blocks_per_sm, false, true>
                                    : gemm_blocked<BM, BN, blocks_per_sm, false, false>);
    cudaError_t status = convoy_launch(kernel, (unsigned)tiles, BM * BN / 64, 0, stream, job, operands->a,
                                       operands->b, operands->bias, y);
    return convoy_gemm_finish(status, shape, operands, job.splits, stream);
}

#define BLOCKED(BM, BN, BLOCKS)                                                                              \
    extern const struct convoy_gemm_kernel convoy_gemm_blocked_##BM##x##BN = {                               \
        "gemm_blocked:" #BM "x" #BN, CONVOY_COMPUTE_FP32,           takes,                                   \
        estimate_us<BM, BN, BLOCKS>, scratch_bytes<BM, BN, BLOCKS>, launch<BM, BN, BLOCKS>};

BLOCKED(128, 128, 2)
BLOCKED(128, 64, 4)
BLOCKED(64, 160, 3)
BLOCKED(64, 64, 6)
BLOCKED(64, 32, 12)
