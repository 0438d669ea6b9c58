/* The matrix product for few rows: k split over the lanes of a warp and over blocks.
 *
 * The idea: with 1 to 32 rows against a dense layer's weights there is nothing to reuse, and all that counts
 * is to read the weights once, as fast as memory gives them. Of the two operands, both with k contiguous, one
 * has few rows and the other many. A warp takes 4 of the many and up to 8 of the few; its lanes walk along k
 * side by side, 16 bytes each, so that every load of the warp is 512 contiguous bytes, and keep 4 x 8 sums
 * (16 rows do not fit into 128 registers: more than 8 of the few are other blocks' work, which finds the many
 * in the L2 cache). At the end the lanes' sums are added up by halving: in each of 5 steps a lane gives away
 * half of the sums that it still has, which takes 31 shuffles for 32 sums where one butterfly for each would
 * take 160.
 * k is cut into pieces until some 500 blocks run; partial results go to scratch (see gemm.h).
 * The few may be a's rows (small batches) or b's (the last layer, 10 classes, at any batch).
 *
 * Limits: b transposed; m or n at most 32. Where k is no multiple of 4, loads are 4 bytes wide.
 * Floor: the larger matrix: 160 x 17,496 is 11.2 MB, 2.7 us at 4.2 TB/s; 1,000 x 2,048 is 8.2 MB, 2.0 us.
 * Predicted: 5 us, with a second launch.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/device/unary.cuh"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_target.cuh"

constexpr int most_few = 32;     /* rows, in groups of 8 */
constexpr int many_per_warp = 4; /* rows */
constexpr int warps = 8;         /* a block */
constexpr int lane_floats = 4;   /* at a time */
constexpr int stride = 32 * lane_floats;
constexpr int target_blocks = 4 * CONVOY_GEMM_SMS;

struct split_job {
    int64_t few, many, k;
    int64_t piece; /* of k for each split, a multiple of stride */
    int64_t few_groups, many_groups, splits, batch;
    int64_t few_stride, many_stride, y_stride, split_stride; /* between matrices */
    int64_t y_few, y_many;                                   /* steps in y */
    bool bias, bias_along_few;
    struct convoy_unary act;
};

/* Adds up value[i] over all lanes. Afterwards lane l has the sums number l * count / 32 and following, or, if
 * there are fewer than 32, sum number l / (32 / count). */
template <int count> __device__ static void add_over_lanes(float (&value)[count])
{
    int lane = (int)threadIdx.x % 32;
    int left = count;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        if (left == 1) {
            value[0] += __shfl_xor_sync(0xffffffffu, value[0], offset);
            continue;
        }
        left /= 2;
        bool upper = lane & offset;
#pragma unroll
        for (int i = 0; i < count / 2; i++) {
            if (i >= left)
                continue;
            float give = upper ? value[i] : value[i + left];
            float keep = upper ? value[i + left] : value[i];
            value[i] = keep + __shfl_xor_sync(0xffffffffu, give, offset);
        }
    }
}

/* 4 floats of a row: contiguous ones, or those of this lane 32 apart where a row does not lie on 16 bytes. */
template <bool wide> __device__ static float4 load(const float *row, int64_t k, int64_t k_end)
{
    if (wide)
        return *(const float4 *)(row + k);
    float4 v;
    v.x = row[k];
    v.y = k + 32 < k_end ? row[k + 32] : 0;
    v.z = k + 64 < k_end ? row[k + 64] : 0;
    v.w = k + 96 < k_end ? row[k + 96] : 0;
    return v;
}

template <int few_per_warp, bool wide>
__global__ void __launch_bounds__(32 * warps, 2)
    gemm_split(struct split_job job, const float *few, const float *many, const float *bias, float *y)
{
    constexpr int count = few_per_warp * many_per_warp;
    int lane = (int)threadIdx.x % 32;
    int64_t tiles = job.few_groups * job.many_groups * job.splits * job.batch;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int64_t few0 = tile % job.few_groups * few_per_warp;
        int64_t rest = tile / job.few_groups;
        int64_t many0 = (rest % job.many_groups * warps + threadIdx.x / 32) * many_per_warp;
        rest /= job.many_groups;
        int64_t split = rest % job.splits;
        int64_t image = rest / job.splits;
        if (many0 >= job.many)
            continue; /* the whole warp */

        /* Rows past the end are read as the last one. */
        const float *few_rows = few + image * job.few_stride + few0 * job.k;
        const float *many_rows = many + image * job.many_stride + many0 * job.k;
        int few_last = (int)min(job.few - few0, (int64_t)few_per_warp) - 1;
        int many_last = (int)min(job.many - many0, (int64_t)many_per_warp) - 1;
        float sum[count] = {};
        int64_t k_end = min((split + 1) * job.piece, job.k);
        for (int64_t k = split * job.piece + lane * (wide ? lane_floats : 1); k < k_end; k += stride) {
            float4 w[many_per_warp];
#pragma unroll
            for (int j = 0; j < many_per_warp; j++)
                w[j] = load<wide>(many_rows + min(j, many_last) * job.k, k, k_end);
#pragma unroll
            for (int i = 0; i < few_per_warp; i++) {
                float4 x = load<wide>(few_rows + min(i, few_last) * job.k, k, k_end);
#pragma unroll
                for (int j = 0; j < many_per_warp; j++)
                    sum[i * many_per_warp + j] += x.x * w[j].x + x.y * w[j].y + x.z * w[j].z + x.w * w[j].w;
            }
        }
        add_over_lanes(sum);

        constexpr int lanes_each = count < 32 ? 32 / count : 1;
        constexpr int sums_each = count < 32 ? 1 : count / 32;
        if (lane % lanes_each != 0)
            continue;
        float *to = y + split * job.split_stride + image * job.y_stride;
#pragma unroll
        for (int s = 0; s < sums_each; s++) {
            int number = lane / lanes_each * sums_each + s;
            int i = number / many_per_warp;
            int j = number % many_per_warp;
            if (i > few_last || j > many_last)
                continue;
            float v = sum[s];
            if (job.bias)
                v += bias[job.bias_along_few ? few0 + i : many0 + j];
            to[(few0 + i) * job.y_few + (many0 + j) * job.y_many] = convoy_apply_unary(job.act, v);
        }
    }
}

/* ---- The host's side ---- */

static bool few_in_a(const struct convoy_gemm_shape *shape)
{
    return shape->m <= shape->n;
}

static bool takes(const struct convoy_gemm_shape *shape)
{
    return shape->b_transposed && (shape->m <= most_few || shape->n <= most_few);
}

static int few_per_warp(int64_t few)
{
    return few <= 1 ? 1 : few <= 2 ? 2 : few <= 4 ? 4 : 8;
}

static void plan(const struct convoy_gemm_shape *shape, struct split_job *job)
{
    bool a = few_in_a(shape);
    job->few = a ? shape->m : shape->n;
    job->many = a ? shape->n : shape->m;
    job->k = shape->k;
    job->few_groups = convoy_div_up(job->few, few_per_warp(job->few));
    job->many_groups = convoy_div_up(job->many, warps * many_per_warp);
    job->batch = shape->batch;
    int64_t blocks = job->few_groups * job->many_groups * job->batch;
    int64_t most = convoy_div_up(shape->k, 4 * stride);
    int64_t splits = target_blocks / blocks;
    splits = splits < 1 ? 1 : splits > most ? most : splits;
    job->piece = convoy_div_up(convoy_div_up(shape->k, splits), stride) * stride;
    job->splits = convoy_div_up(shape->k, job->piece);
}

static float estimate_us(const struct convoy_gemm_shape *shape)
{
    struct split_job job;
    plan(shape, &job);
    int per_warp = few_per_warp(job.few);
    int64_t blocks = job.few_groups * job.many_groups * job.batch * job.splits;
    float rounds = (float)convoy_div_up(blocks, 2 * CONVOY_GEMM_SMS);
    /* Of 8 warps; besides the arithmetic the few rows come from the L1 cache for every warp. */
    float steps =
        (float)(job.piece / stride) * (float)(4 * per_warp * many_per_warp + 8 * per_warp + 64) + 400;
    float compute = rounds * steps * 2 * warps * 32 / (CONVOY_GEMM_FMA_PER_US * 0.7f);
    float memory = convoy_gemm_memory_us(shape) + 1;
    return CONVOY_GEMM_LAUNCH_US + (compute > memory ? compute : memory) +
           convoy_gemm_sum_us(shape, (int)job.splits);
}

static size_t scratch_bytes(const struct convoy_gemm_shape *shape)
{
    struct split_job job;
    plan(shape, &job);
    return convoy_gemm_partial_bytes(shape, (int)job.splits);
}

template <bool wide>
static cudaError_t launch_width(const struct split_job &job, const float *few, const float *many,
                                const float *bias, float *y, cudaStream_t stream)
{
    void (*kernel)(struct split_job, const float *, const float *, const float *, float *) = nullptr;
    switch (few_per_warp(job.few)) {
    case 1:
        kernel = gemm_split<1, wide>;
        break;
    case 2:
        kernel = gemm_split<2, wide>;
        break;
    case 4:
        kernel = gemm_split<4, wide>;
        break;
    default:
        kernel = gemm_split<8, wide>;
        break;
    }
    int64_t tiles = job.few_groups * job.many_groups * job.splits * job.batch;
    return convoy_launch_early(kernel, convoy_grid(tiles, 1), 32 * warps, 0, stream, job, few, many, bias, y);
}

static cudaError_t launch(const struct convoy_gemm_shape *shape, const struct convoy_gemm_operands *operands,
                          cudaStream_t stream)
{
    struct split_job job = {};
    plan(shape, &job);
    bool a = few_in_a(shape);
    job.few_stride = a ? shape->a_stride : shape->b_stride;
    job.many_stride = a ? shape->b_stride : shape->a_stride;
    job.y_few = a ? shape->n : 1;
    job.y_many = a ? 1 : shape->n;
    job.bias_along_few = !a;
    float *y = convoy_gemm_target(shape, operands, &job);
    const float *few = a ? operands->a : operands->b;
    const float *many = a ? operands->b : operands->a;
    bool wide = shape->k % 4 == 0 && shape->a_stride % 4 == 0 && shape->b_stride % 4 == 0 &&
                convoy_aligned(few, many);
    cudaError_t status = wide ? launch_width<true>(job, few, many, operands->bias, y, stream)
                              : launch_width<false>(job, few, many, operands->bias, y, stream);
    return convoy_gemm_finish(status, shape, operands, job.splits, stream);
}

extern const struct convoy_gemm_kernel convoy_gemm_split = {"gemm_split", CONVOY_COMPUTE_FP32, takes,
                                                            estimate_us,  scratch_bytes,       launch};
