/* The matrix product for many rows on the tensor cores.
 *
 * Idea: a block of 8 warps makes 128 x BN of the result, a warp 32 x BN / 2. 32 of the reduction at a time
 * lie in shared memory, as they come from both operands (k is contiguous in both), in three stages that
 * cp.async fills. Any order of the reduction will do if both operands have the same, so a lane takes 4
 * neighbours of 16 and calls them what the instruction wants: a load of 16 bytes serves two steps. Rows are
 * swapped by halves where their number is odd, so that the two rows of such a load lie in different banks.
 * The products are those of conv_tensor.cuh: three of tf32 for fp32, with sums carried to registers every 128
 * terms; one of tf32; or of fp16. k is cut into pieces until there are blocks enough for the chip; partial
 * results go to scratch (see gemm.h).
 *
 * Limits: b transposed. Where rows do not lie on 16 bytes, copies are 4 bytes. Needs sm_80.
 * Floor: 2 m n k operations at 417 TFLOP/s (tf32, a third of that for fp32) or 775 (fp16), and both operands
 * once: 10,000 x 160 x 17,496 is 56 GFLOP, 0.40 ms in fp32, and 0.71 GB, 0.17 ms. Predicted: fp32 0.65 ms (62
 * % of the rate, which is what mma.sync reaches), tf32 and fp16 0.3 ms. Measured by docs/kernels.md's
 * networks alone. */
#ifndef CONVOY_KERNELS_GEMM_TENSOR_CUH
#define CONVOY_KERNELS_GEMM_TENSOR_CUH

#include "kernels/device/async_copy.cuh"
#include "kernels/device/grid.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tensor_products.cuh"
#include "kernels/device/unary.cuh"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_target.cuh"

#define GEMM_TENSOR_ROWS    128
#define GEMM_TENSOR_DEPTH   32 /* of k in a stage */
#define GEMM_TENSOR_STAGES  3
#define GEMM_TENSOR_THREADS 256
#define GEMM_TENSOR_FOLD    4 /* stages, until sums are carried to fp32 registers */

struct gemm_tensor_job {
    int64_t m, n, k, piece; /* piece: of k for each split, a multiple of GEMM_TENSOR_DEPTH */
    int64_t row_tiles, column_tiles, splits, tiles;
    int64_t a_stride, b_stride, y_stride, split_stride; /* between matrices */
    bool bias;
    struct convoy_unary act;
};

/* Where 16 bytes lie in a stage, in floats. */
static __device__ __forceinline__ int gemm_tensor_at(int row, int chunk)
{
    return row * GEMM_TENSOR_DEPTH + ((chunk ^ (row & 1) << 2) << 2);
}

/* Starts the copies of rows x GEMM_TENSOR_DEPTH of a matrix of `count` rows, from (row0, k0) on. */
template <bool WIDE>
static __device__ __forceinline__ void gemm_tensor_fetch(const float *matrix, int64_t count, int64_t k,
                                                         int64_t row0, int64_t k0, int64_t k_end, int rows,
                                                         float *stage)
{
    for (int i = threadIdx.x; i < rows * (GEMM_TENSOR_DEPTH / 4); i += GEMM_TENSOR_THREADS) {
        int row = i / (GEMM_TENSOR_DEPTH / 4), chunk = i % (GEMM_TENSOR_DEPTH / 4);
        int64_t at = k0 + chunk * 4;
        bool inside = row0 + row < count && at < k_end;
        int floats = inside ? (int)min(k_end - at, (int64_t)4) : 0;
        const float *from = matrix + (inside ? (row0 + row) * k + at : 0);
        float *to = stage + gemm_tensor_at(row, chunk);
        if constexpr (WIDE) {
            convoy_copy_async<16>(to, from, floats * 4);
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++)
                convoy_copy_async<4>(to + j, j < floats ? from + j : matrix, j < floats ? 4 : 0);
        }
    }
}

/* What lane t of a row has of 16 of k, as the words of two steps. */
template <int MATH> struct gemm_tensor_row {
    uint32_t word[4]; /* TENSOR_HALF: 2 of them, for one step */

    __device__ __forceinline__ void load(const float *stage, int row, int half)
    {
        float4 four =
            *reinterpret_cast<const float4 *>(stage + gemm_tensor_at(row, half * 4 + threadIdx.x % 4));
        if constexpr (MATH == TENSOR_HALF) {
            word[0] = convoy_half2(four.x, four.y);
            word[1] = convoy_half2(four.z, four.w);
        } else {
            const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
                word[i] = MATH == TENSOR_TF32 ? convoy_tf32(values[i]) : convoy_float_bits(values[i]);
        }
    }
};

/* Adds a stage to a warp's sums. */
template <int MATH, int NT>
static __device__ __forceinline__ void gemm_tensor_multiply(const float *a, const float *b,
                                                            float (&sum)[2 * NT][4])
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 32 + lane / 4;
    int column = warp % 2 * NT * 8 + lane / 4;
#pragma unroll
    for (int half = 0; half < GEMM_TENSOR_DEPTH / 16; half++) {
        struct gemm_tensor_row<MATH> rows[2][2], columns[NT];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            rows[i][0].load(a, row + i * 16, half);
            rows[i][1].load(a, row + i * 16 + 8, half);
        }
#pragma unroll
        for (int j = 0; j < NT; j++)
            columns[j].load(b, column + j * 8, half);
#pragma unroll
        for (int step = 0; step < (MATH == TENSOR_HALF ? 1 : 2); step++) {
            struct tensor_weights<MATH> words[NT];
#pragma unroll
            for (int j = 0; j < NT; j++)
                words[j] = tensor_weights_of<MATH>(columns[j].word[step * 2], columns[j].word[step * 2 + 1]);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const uint32_t fragment[4] = {rows[i][0].word[step * 2], rows[i][1].word[step * 2],
                                              rows[i][0].word[step * 2 + 1], rows[i][1].word[step * 2 + 1]};
                tensor_multiply<MATH, NT>(fragment, words, &sum[i * NT]);
            }
        }
    }
}

template <int MATH, int NT>
static __device__ __forceinline__ void gemm_tensor_store(const struct gemm_tensor_job &job, const float *bias,
                                                         int64_t row0, int64_t column0,
                                                         float (&sum)[2 * NT][4], float *y)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t row = row0 + warp / 2 * 32 + lane / 4, column = column0 + warp % 2 * NT * 8 + lane % 4 * 2;
    if (job.bias) {
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float add = __ldg(bias + min(column + j * 8 + e % 2, job.n - 1));
                sum[j][e] += add;
                sum[NT + j][e] += add;
            }
    }
    convoy_activate(job.act, sum);
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int64_t to_row = row + i * 16 + e / 2 * 8, to_column = column + j * 8 + e % 2;
                if (to_row < job.m && to_column < job.n)
                    y[to_row * job.n + to_column] = sum[i * NT + j][e];
            }
}

template <int MATH, int NT, bool WIDE>
static __global__ void __launch_bounds__(GEMM_TENSOR_THREADS, MATH == TENSOR_FP32 && NT > 2 ? 1 : 2)
    gemm_tensor_kernel(CONVOY_PARAMETER(struct gemm_tensor_job) job, const float *a, const float *b,
                       const float *bias, float *y)
{
    CONVOY_DYNAMIC_SHARED(float, stages);
    constexpr int columns = NT * 16, stage_floats = (GEMM_TENSOR_ROWS + columns) * GEMM_TENSOR_DEPTH;
    int64_t tile = blockIdx.x, column0 = tile % job.column_tiles * columns;
    tile /= job.column_tiles;
    int64_t row0 = tile % job.row_tiles * GEMM_TENSOR_ROWS;
    tile /= job.row_tiles;
    int64_t split = tile % job.splits, image = tile / job.splits;
    int64_t k_begin = split * job.piece, k_end = min(k_begin + job.piece, job.k);
    int depth = (int)((k_end - k_begin + GEMM_TENSOR_DEPTH - 1) / GEMM_TENSOR_DEPTH);
    a += image * job.a_stride;
    b += image * job.b_stride;
    auto fetch = [&](int number) {
        float *stage = stages + number % GEMM_TENSOR_STAGES * stage_floats;
        int64_t k0 = k_begin + (int64_t)number * GEMM_TENSOR_DEPTH;
        if (number < depth) {
            gemm_tensor_fetch<WIDE>(a, job.m, job.k, row0, k0, k_end, GEMM_TENSOR_ROWS, stage);
            gemm_tensor_fetch<WIDE>(b, job.n, job.k, column0, k0, k_end, columns,
                                    stage + GEMM_TENSOR_ROWS * GEMM_TENSOR_DEPTH);
        }
        convoy_copies_end(); /* an empty one, too, so that they can be counted */
    };

    convoy_let_next_begin();
    convoy_wait_for_previous();
    float sum[2 * NT][4] = {}, part[2 * NT][4] = {};
    for (int number = 0; number < GEMM_TENSOR_STAGES - 1; number++)
        fetch(number);
    for (int number = 0; number < depth; number++) {
        convoy_copies_wait<GEMM_TENSOR_STAGES - 2>();
        __syncthreads(); /* this stage has come; no warp reads the one before it any more */
        fetch(number + GEMM_TENSOR_STAGES - 1);
        const float *stage = stages + number % GEMM_TENSOR_STAGES * stage_floats;
        gemm_tensor_multiply<MATH, NT>(stage, stage + GEMM_TENSOR_ROWS * GEMM_TENSOR_DEPTH, part);
        if (MATH == TENSOR_FP32 && (number + 1) % GEMM_TENSOR_FOLD == 0) {
#pragma unroll
            for (int i = 0; i < 2 * NT * 4; i++) {
                sum[i / 4][i % 4] += part[i / 4][i % 4];
                part[i / 4][i % 4] = 0;
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2 * NT * 4; i++)
        sum[i / 4][i % 4] += part[i / 4][i % 4];
    gemm_tensor_store<MATH, NT>(job, bias, row0, column0, sum,
                                y + split * job.split_stride + image * job.y_stride);
}

template <int MATH, int NT> struct gemm_tensor {
    static bool takes(const struct convoy_gemm_shape *shape)
    {
        return shape->b_transposed && tensor_allows((enum tensor_math)MATH, shape->compute_type) &&
               convoy_has_mma();
    }

    static void plan(const struct convoy_gemm_shape *shape, struct gemm_tensor_job *job)
    {
        job->m = shape->m;
        job->n = shape->n;
        job->k = shape->k;
        job->row_tiles = convoy_div_up(shape->m, GEMM_TENSOR_ROWS);
        job->column_tiles = convoy_div_up(shape->n, NT * 16);
        int64_t blocks = job->row_tiles * job->column_tiles * shape->batch;
        int64_t most = convoy_div_up(shape->k, 8 * GEMM_TENSOR_DEPTH); /* a piece is worth starting for */
        int64_t splits = 4 * CONVOY_GEMM_SMS / blocks;
        splits = splits < 1 ? 1 : splits > most ? most : splits;
        job->piece = convoy_div_up(convoy_div_up(shape->k, splits), GEMM_TENSOR_DEPTH) * GEMM_TENSOR_DEPTH;
        job->splits = convoy_div_up(shape->k, job->piece);
        job->tiles = blocks * job->splits;
    }

    static float estimate_us(const struct convoy_gemm_shape *shape)
    {
        struct gemm_tensor_job job = {};
        plan(shape, &job);
        float rate = MATH == TENSOR_FP32 ? 1.4f : MATH == TENSOR_TF32 ? 3.0f : 4.0f;
        float rounds = (float)convoy_div_up(job.tiles, 2 * CONVOY_GEMM_SMS);
        float block = (float)job.piece * GEMM_TENSOR_ROWS * NT * 16;
        float compute = rounds * 2 * block / (CONVOY_GEMM_FMA_PER_US * rate) + 2;
        float memory = convoy_gemm_memory_us(shape);
        return CONVOY_GEMM_LAUNCH_US + (compute > memory ? compute : memory) +
               convoy_gemm_sum_us(shape, (int)job.splits);
    }

    static size_t scratch_bytes(const struct convoy_gemm_shape *shape)
    {
        struct gemm_tensor_job job = {};
        plan(shape, &job);
        return convoy_gemm_partial_bytes(shape, (int)job.splits);
    }

    static cudaError_t launch(const struct convoy_gemm_shape *shape,
                              const struct convoy_gemm_operands *operands, cudaStream_t stream)
    {
        struct gemm_tensor_job job = {};
        plan(shape, &job);
        job.a_stride = shape->a_stride;
        job.b_stride = shape->b_stride;
        float *y = convoy_gemm_target(shape, operands, &job);
        if (job.tiles > INT32_MAX)
            return cudaErrorInvalidConfiguration;
        bool wide = shape->k % 4 == 0 && shape->a_stride % 4 == 0 && shape->b_stride % 4 == 0 &&
                    convoy_aligned(operands->a, operands->b);
        size_t shared =
            (size_t)GEMM_TENSOR_STAGES * (GEMM_TENSOR_ROWS + NT * 16) * GEMM_TENSOR_DEPTH * sizeof(float);
        cudaError_t status = convoy_launch_early(wide ? gemm_tensor_kernel<MATH, NT, true>
                                                      : gemm_tensor_kernel<MATH, NT, false>,
                                                 dim3((unsigned)job.tiles), dim3(GEMM_TENSOR_THREADS), shared,
                                                 stream, job, operands->a, operands->b, operands->bias, y);
        return convoy_gemm_finish(status, shape, operands, job.splits, stream);
    }
};

#define CONVOY_DEFINE_GEMM_TENSOR(prefix, math, compute_type, columns)                                       \
    extern const struct convoy_gemm_kernel convoy_gemm_##prefix##_##columns = {                              \
        "gemm_" #prefix ":128x" #columns,                                                                    \
        compute_type,                                                                                        \
        gemm_tensor<math, columns / 16>::takes,                                                              \
        gemm_tensor<math, columns / 16>::estimate_us,                                                        \
        gemm_tensor<math, columns / 16>::scratch_bytes,                                                      \
        gemm_tensor<math, columns / 16>::launch,                                                             \
    };

#endif
