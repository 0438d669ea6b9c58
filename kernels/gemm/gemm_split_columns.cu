/* The matrix product for few rows with b as k x n: as gemm_split, but n is what lies side by side.
 *
 * A warp takes 128 columns, 4 a lane, so that its loads of a row of b are 512 contiguous bytes; the 8 warps
 * of a block share a piece of k, 4 rows at a time (4 loads of b in flight a lane, and a's 4 numbers in one
 * load that all lanes share), and add up their sums through shared memory in the warps' order. Pieces of k
 * over blocks as in gemm_split.
 *
 * Limits: b not transposed; m at most 32, in goes of 1, 4 or 8 rows. Where n or k is no multiple of 4, loads
 * are 4 bytes wide.
 * Floor: b once: 2,048 x 1,000 is 8.2 MB, 2.0 us at 4.2 TB/s.
 * Predicted: 5 us, with a second launch; for 32 rows b comes from the L2 cache four times.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/device/unary.cuh"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_target.cuh"

constexpr int most_rows = 32;
constexpr int columns = 128; /* a block */
constexpr int warps = 8;
constexpr int step = 4 * warps; /* of k a block takes at a time */
constexpr int target_blocks = 4 * CONVOY_GEMM_SMS;

struct columns_job {
    int64_t m, n, k;
    int64_t piece; /* of k for each split, a multiple of step */
    int64_t row_groups, column_groups, splits, batch;
    int64_t a_stride, b_stride, y_stride, split_stride;
    bool bias;
    struct convoy_unary act;
};

/* 4 floats, of which `left` are there; a lane's lie side by side, on 16 bytes if wide. */
template <bool wide> __device__ static float4 load(const float *from, int64_t left)
{
    float4 v = make_float4(0, 0, 0, 0);
    if (wide) {
        if (left > 0)
            v = *(const float4 *)from;
    } else {
        v.x = left > 0 ? from[0] : 0;
        v.y = left > 1 ? from[1] : 0;
        v.z = left > 2 ? from[2] : 0;
        v.w = left > 3 ? from[3] : 0;
    }
    return v;
}

template <int rows, bool wide>
__global__ void __launch_bounds__(32 * warps, 2)
    gemm_split_columns(struct columns_job job, const float *a, const float *b, const float *bias, float *y)
{
    __shared__ __align__(16) float sums[warps][rows][columns];
    int lane = (int)threadIdx.x % 32;
    int warp = (int)threadIdx.x / 32;
    int64_t tiles = job.row_groups * job.column_groups * job.splits * job.batch;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int64_t row0 = tile % job.row_groups * rows;
        int64_t rest = tile / job.row_groups;
        int64_t column0 = rest % job.column_groups * columns;
        rest /= job.column_groups;
        int64_t split = rest % job.splits;
        int64_t image = rest / job.splits;
        int last_row = (int)min(job.m - row0, (int64_t)rows) - 1;
        const float *a_rows = a + image * job.a_stride + row0 * job.k;
        const float *b_columns = b + image * job.b_stride + column0 + lane * 4;
        int64_t left = job.n - column0 - lane * 4;
        int64_t k_end = min((split + 1) * job.piece, job.k);

        float4 sum[rows];
#pragma unroll
        for (int i = 0; i < rows; i++)
            sum[i] = make_float4(0, 0, 0, 0);
        for (int64_t k = split * job.piece + warp * 4; k < k_end; k += step) {
            float4 w[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                w[j] = load<wide>(b_columns + (k + j) * job.n, k + j < k_end ? left : 0);
#pragma unroll
            for (int i = 0; i < rows; i++) { /* rows past the end are read as the last one */
                float4 x = load<wide>(a_rows + min(i, last_row) * job.k + k, k_end - k);
                sum[i].x += x.x * w[0].x + x.y * w[1].x + x.z * w[2].x + x.w * w[3].x;
                sum[i].y += x.x * w[0].y + x.y * w[1].y + x.z * w[2].y + x.w * w[3].y;
                sum[i].z += x.x * w[0].z + x.y * w[1].z + x.z * w[2].z + x.w * w[3].z;
                sum[i].w += x.x * w[0].w + x.y * w[1].w + x.z * w[2].w + x.w * w[3].w;
            }
        }
#pragma unroll
        for (int i = 0; i < rows; i++)
            *(float4 *)&sums[warp][i][lane * 4] = sum[i];
        __syncthreads();
        for (int i = (int)threadIdx.x; i < rows * columns; i += 32 * warps) {
            int row = i / columns;
            int64_t column = column0 + i % columns;
            if (row > last_row || column >= job.n)
                continue;
            float v = 0;
#pragma unroll
            for (int w = 0; w < warps; w++)
                v += sums[w][row][i % columns];
            if (job.bias)
                v += bias[column];
            y[split * job.split_stride + image * job.y_stride + (row0 + row) * job.n + column] =
                convoy_apply_unary(job.act, v);
        }
        __syncthreads(); /* before the next tile's sums */
    }
}

/* ---- The host's side ---- */

static bool takes(const struct convoy_gemm_shape *shape)
{
    return !shape->b_transposed && shape->m <= most_rows;
}

static int rows_of(int64_t m)
{
    return m <= 1 ? 1 : m <= 4 ? 4 : 8;
}

static void plan(const struct convoy_gemm_shape *shape, struct columns_job *job)
{
    job->m = shape->m;
    job->n = shape->n;
    job->k = shape->k;
    job->row_groups = convoy_div_up(shape->m, rows_of(shape->m));
    job->column_groups = convoy_div_up(shape->n, columns);
    job->batch = shape->batch;
    int64_t most = convoy_div_up(shape->k, 2 * step);
    int64_t splits = target_blocks / (job->row_groups * job->column_groups * job->batch);
    splits = splits < 1 ? 1 : splits > most ? most : splits;
    job->piece = convoy_div_up(convoy_div_up(shape->k, splits), step) * step;
    job->splits = convoy_div_up(shape->k, job->piece);
}

static float estimate_us(const struct convoy_gemm_shape *shape)
{
    struct columns_job job;
    plan(shape, &job);
    int64_t blocks = job.row_groups * job.column_groups * job.batch * job.splits;
    float rounds = (float)convoy_div_up(blocks, 2 * CONVOY_GEMM_SMS);
    float steps = (float)(job.piece / step) * (float)(24 * rows_of(shape->m) + 64) + 400;
    float compute = rounds * steps * 2 * warps * 32 / (CONVOY_GEMM_FMA_PER_US * 0.7f);
    float memory = convoy_gemm_memory_us(shape) + 1;
    return CONVOY_GEMM_LAUNCH_US + (compute > memory ? compute : memory) +
           convoy_gemm_sum_us(shape, (int)job.splits);
}

static size_t scratch_bytes(const struct convoy_gemm_shape *shape)
{
    struct columns_job job;
    plan(shape, &job);
    return convoy_gemm_partial_bytes(shape, (int)job.splits);
}

static cudaError_t launch(const struct convoy_gemm_shape *shape, const struct convoy_gemm_operands *operands,
                          cudaStream_t stream)
{
    struct columns_job job = {};
    plan(shape, &job);
    job.a_stride = shape->a_stride;
    job.b_stride = shape->b_stride;
    float *y = convoy_gemm_target(shape, operands, &job);
    bool wide = shape->k % 4 == 0 && shape->n % 4 == 0 && shape->a_stride % 4 == 0 &&
                shape->b_stride % 4 == 0 && convoy_aligned(operands->a, operands->b);
    void (*kernel)(struct columns_job, const float *, const float *, const float *, float *) = nullptr;
    switch (rows_of(shape->m)) {
    case 1:
        kernel = wide ? gemm_split_columns<1, true> : gemm_split_columns<1, false>;
        break;
    case 4:
        kernel = wide ? gemm_split_columns<4, true> : gemm_split_columns<4, false>;
        break;
    default:
        kernel = wide ? gemm_split_columns<8, true> : gemm_split_columns<8, false>;
        break;
    }
    int64_t tiles = job.row_groups * job.column_groups * job.splits * job.batch;
    cudaError_t status = convoy_launch(kernel, convoy_grid(tiles, 1), 32 * warps, 0, stream, job, operands->a,
                                       operands->b, operands->bias, y);
    return convoy_gemm_finish(status, shape, operands, job.splits, stream);
}

extern const struct convoy_gemm_kernel convoy_gemm_split_columns = {
    "gemm_split_columns", CONVOY_COMPUTE_FP32, takes, estimate_us, scratch_bytes, launch};
