/* A convolution of whole_net: products as tensor makes them (tensor_steps.cuh), from planes in shared memory
 * to planes in that of all blocks that will read them. */
#ifndef CONVOY_KERNELS_WHOLE_CONV_CUH
#define CONVOY_KERNELS_WHOLE_CONV_CUH

#include "kernels/cluster.cuh"
#include "kernels/tensor_steps.cuh"
#include "kernels/unary.cuh"
#include "kernels/whole_words.cuh"

/* What a warp makes of its rows and maps. */
template <int MT, int NT> struct whole_task {
    int tile, map;              /* the first of 16 rows, and of 8 maps */
    int tiles;                  /* of MT that are this block's */
    struct whole_row at[MT][2]; /* of a lane's two rows of each */
};

/* Writes COUNT values of a row to the blocks that will read it, or nowhere. real: which of them there are. */
template <bool CLUSTER, int COUNT, typename T>
static __device__ __forceinline__ void whole_store(const struct whole_row &row, T *const (&at)[COUNT],
                                                   const T (&values)[COUNT], const bool (&real)[COUNT])
{
    if constexpr (CLUSTER) {
        for (int rank = row.first; rank <= row.last; rank++)
#pragma unroll
            for (int j = 0; j < COUNT; j++)
                if (real[j])
                    convoy_cluster_store(at[j], rank, values[j]);
    } else {
#pragma unroll
        for (int j = 0; j < COUNT; j++)
            if (real[j])
                *at[j] = values[j];
    }
}

/* Adds what lies around a block of layers. Reads from somewhere where there is nothing, so that all loads are
 * under way at once. */
template <int MATH, int MT, int NT>
static __device__ __forceinline__ void whole_add_residual(const struct whole_step &step,
                                                          const struct whole_task<MT, NT> &task,
                                                          const uint32_t *shared, float (&sum)[MT * NT][4])
{
    constexpr int PER_WORD = whole_pairs<MATH> ? 2 : 1;
    const uint32_t *from = shared + step.residual;
    int plane = step.out_plane, last = step.out_words - 1,
        first = (task.map + threadIdx.x % 4 * 2) / PER_WORD;
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        const struct whole_row &row = task.at[i / 2][i % 2];
        const uint32_t *at = from + (row.out == WHOLE_NOWHERE ? 0 : row.out);
#pragma unroll
        for (int j = 0; j < NT; j++) {
            float *to = &sum[i / 2 * NT + j][i % 2 * 2];
            int word = first + j * 8 / PER_WORD;
            if constexpr (whole_pairs<MATH>) {
                float2 add = whole_halves(at[min(word, last) * plane]);
                to[0] += add.x;
                to[1] += add.y;
            } else {
                to[0] += convoy_bits_float(at[min(word, last) * plane]);
                to[1] += convoy_bits_float(at[min(word + 1, last) * plane]);
            }
        }
    }
}

template <int MATH, bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void whole_keep(const struct whole_step &step,
                                                  const struct whole_task<MT, NT> &task, float *y,
                                                  uint32_t *shared, float (&sum)[MT * NT][4])
{
    constexpr int VALUES = whole_pairs<MATH> ? NT : 2 * NT; /* words of a row */
    int lane = threadIdx.x % 32, first = task.map + lane % 4 * 2, maps = step.maps;
    int plane = step.out_plane, places = step.places;
    uint32_t *out = shared + step.out;
    bool result = step.result;
    if (step.has_residual)
        whole_add_residual<MATH, MT, NT>(step, task, shared, sum);
    convoy_activate(step.act, sum);
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        const struct whole_row &row = task.at[i / 2][i % 2];
        bool there = row.out != WHOLE_NOWHERE && i / 2 < task.tiles;
        float *to = y + (task.tile + i / 2) * 16 + lane / 4 + i % 2 * 8;
        uint32_t *at[VALUES], values[VALUES];
        bool real[VALUES];
#pragma unroll
        for (int j = 0; j < NT; j++) {
            float one = sum[i / 2 * NT + j][i % 2 * 2], other = sum[i / 2 * NT + j][i % 2 * 2 + 1];
            int map = first + j * 8;
            if (result) {
                if (there && map < maps)
                    to[map * places] = one;
                if (there && map + 1 < maps)
                    to[(map + 1) * places] = other;
            }
            if constexpr (whole_pairs<MATH>) {
                at[j] = out + map / 2 * plane + row.out;
                values[j] = convoy_half2(one, map + 1 < maps ? other : 0.0f);
                real[j] = there && map < maps;
            } else {
                at[2 * j] = out + map * plane + row.out;
                at[2 * j + 1] = at[2 * j] + plane;
                values[2 * j] = whole_word<MATH>(one);
                values[2 * j + 1] = whole_word<MATH>(other);
                real[2 * j] = there && map < maps;
                real[2 * j + 1] = there && map + 1 < maps;
            }
        }
        if (!result)
            whole_store<CLUSTER, VALUES>(row, at, values, real);
    }
}

/* The same of the greatest of each 2 x 2. */
template <int MATH, bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void whole_keep_pooled(const struct whole_step &step,
                                                         const struct whole_task<MT, NT> &task, float *y,
                                                         uint32_t *shared, const float (&sum)[MT * NT][4])
{
    using value = typename whole_element<MATH>::type;
    int lane = threadIdx.x % 32, first = task.map + lane % 4 * 2 + lane / 4 % 2, maps = step.maps;
    int plane = step.out_plane, places = step.places;
    uint32_t *out = shared + step.out;
    bool result = step.result;
    float pooled[MT * NT][1];
    tensor_pool<MT * NT>(sum, pooled);
    convoy_activate(step.act, pooled);
#pragma unroll
    for (int i = 0; i < MT; i++) {
        const struct whole_row &row = task.at[i][0];
        bool there = row.out != WHOLE_NOWHERE && i < task.tiles;
        value *at[NT], values[NT];
        bool real[NT];
#pragma unroll
        for (int j = 0; j < NT; j++) {
            int map = first + j * 8;
            real[j] = there && map < maps;
            if (result && real[j])
                y[map * places + (task.tile + i) * 4 + lane / 8] = pooled[i * NT + j][0];
            if constexpr (whole_pairs<MATH>) {
                at[j] = reinterpret_cast<value *>(out + map / 2 * plane + row.out) + map % 2;
                values[j] = (value)convoy_half2(pooled[i * NT + j][0], 0.0f);
            } else {
                at[j] = out + map * plane + row.out;
                values[j] = whole_word<MATH>(pooled[i * NT + j][0]);
            }
        }
        if (!result)
            whole_store<CLUSTER, NT>(row, at, values, real);
    }
}

/* Where a task's rows lie: byte offsets of their inputs, and what is kept with them. */
template <bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void whole_find(const struct whole_step &step, const struct whole_row *rows,
                                                  struct whole_task<MT, NT> &task, int (&base)[MT][2])
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        /* What lies past this block's tiles is computed and thrown away. */
        int tile = task.tile + min(i / 2, task.tiles - 1), row = lane / 4 + i % 2 * 8;
        task.at[i / 2][i % 2] = whole_row<CLUSTER>(rows, tile * 16 + row);
        base[i / 2][i % 2] = task.at[i / 2][i % 2].in * 4;
    }
    if (step.pool == 2) { /* a lane keeps the unit of two of the upper rows */
#pragma unroll
        for (int i = 0; i < MT; i++)
            task.at[i][0] =
                whole_row<CLUSTER>(rows, (task.tile + min(i, task.tiles - 1)) * 16 + lane / 8 * 2);
    }
}

/* Sums begin with their map's bias. */
template <bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void whole_start(const float *bias, float (&sum)[MT * NT][4])
{
#pragma unroll
    for (int j = 0; j < NT; j++) {
        float2 first =
            whole_load<CLUSTER>(reinterpret_cast<const float2 *>(bias + j * 8 + threadIdx.x % 4 * 2));
#pragma unroll
        for (int i = 0; i < MT; i++) {
            sum[i * NT + j][0] = sum[i * NT + j][2] = first.x;
            sum[i * NT + j][1] = sum[i * NT + j][3] = first.y;
        }
    }
}

/* A convolution, by all warps of the block, for its part of the rows and maps. */
template <int MATH, bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void whole_conv(const struct whole_job &job, const struct whole_step &step,
                                                  float *y, uint32_t *shared, const int *offsets)
{
    using words = struct tensor_weights<MATH>;
    int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    int tile_begin = step.tile_begin, tile_end = step.tile_end, map_begin = step.map_begin;
    int across = (step.map_end - map_begin) / NT, tasks = step.tasks;
    int map_stride = step.steps * 32;
    /* From here on, numbers of tiles count from this block's first in what it has in its own memory. */
    const words *weights =
        CLUSTER ? reinterpret_cast<const words *>(shared + step.staged) - map_begin * map_stride
                : reinterpret_cast<const words *>(job.weights + step.weights);
    const float *bias = CLUSTER ? reinterpret_cast<const float *>(shared + step.staged_bias) - map_begin * 8
                                : reinterpret_cast<const float *>(job.weights + step.bias);
    const struct whole_row *rows =
        CLUSTER ? reinterpret_cast<const struct whole_row *>(shared + step.staged_rows) - tile_begin * 16
                : job.rows + step.rows;
    /* In a cluster there are fewer tasks than warps as a rule: then several warps share one, a part of its
     * steps each. */
    int warp = threadIdx.x / 32, shares = CLUSTER ? step.shares : 1, share = 0, begin = 0, end = step.steps;
    if (CLUSTER && shares > 1) {
        while (warp >= tasks && share < shares) {
            warp -= tasks;
            share++;
        }
        begin = share * step.share_steps;
        end = min(begin + step.share_steps, end);
    }
    /* All warps go round equally often, because they meet at the barrier inside. */
    for (int from = 0; from < tasks; from += warps) {
        int number = warp + from;
        bool active = number < tasks && share < shares;
        struct whole_task<MT, NT> task = {
        };
        float sum[MT * NT][4] = {};
        if (active) {
            int down = tensor_divide(number, step.by_across), beside = number - down * across;
            task.tile = tile_begin + down * MT;
            task.tiles = min(MT, tile_end - task.tile);
            task.map = (map_begin + beside * NT) * 8;
            int base[MT][2];
            whole_find<CLUSTER, MT, NT>(step, rows, task, base);
            if (step.bias != WHOLE_NO_BIAS && share == 0)
                whole_start<CLUSTER, MT, NT>(bias + task.map, sum);
            tensor_add<MATH, MT, NT, CLUSTER>(shared + step.in, offsets + begin * TENSOR_STEP, base,
                                              weights + task.map / 8 * map_stride + begin * 32 + lane,
                                              map_stride, end - begin, sum);
        }
        if constexpr (CLUSTER) {
            static_assert(MT * NT == 1, "shares are added up for one tile");
            if (shares > 1) {
                float4 *parts = reinterpret_cast<float4 *>(shared + job.shares) + number * 32 + lane;
                if (active && share > 0)
                    parts[(share - 1) * tasks * 32] = make_float4(sum[0][0], sum[0][1], sum[0][2], sum[0][3]);
                __syncthreads();
                for (int other = 0; active && share == 0 && other < shares - 1; other++) {
                    float4 add = parts[other * tasks * 32];
                    sum[0][0] += add.x;
                    sum[0][1] += add.y;
                    sum[0][2] += add.z;
                    sum[0][3] += add.w;
                }
            }
        }
        if (!active || share > 0)
            continue;
        if (step.pool == 2)
            whole_keep_pooled<MATH, CLUSTER, MT, NT>(step, task, y, shared, sum);
        else
            whole_keep<MATH, CLUSTER, MT, NT>(step, task, y, shared, sum);
    }
}

template <int MATH, bool CLUSTER>
static __device__ __forceinline__ void whole_conv_any(const struct whole_job &job,
                                                      const struct whole_step &step, float *y,
                                                      uint32_t *shared, const int *offsets)
{
    /* A cluster is for few images: one kind of task, because each costs its way through the instruction cache
     * (2,000 to 4,000 cycles where one was met for the first time). */
    if constexpr (CLUSTER) {
        whole_conv<MATH, CLUSTER, 1, 1>(job, step, y, shared, offsets);
    } else {
        switch (step.mt * 8 + step.nt) {
#define WHOLE_CASE(MT, NT)                                                                                   \
    case MT * 8 + NT:                                                                                        \
        whole_conv<MATH, CLUSTER, MT, NT>(job, step, y, shared, offsets);                                    \
        return;
            WHOLE_CASE(1, 1)
            WHOLE_CASE(1, 2)
            WHOLE_CASE(1, 3)
            WHOLE_CASE(1, 4)
            WHOLE_CASE(2, 1)
            WHOLE_CASE(2, 2)
            WHOLE_CASE(2, 3)
            WHOLE_CASE(2, 4)
            WHOLE_CASE(4, 1)
            WHOLE_CASE(4, 2)
        default:
            break;
        }
        if constexpr (MATH != TENSOR_FP32) {
            if (step.nt == 3)
                whole_conv<MATH, CLUSTER, 4, 3>(job, step, y, shared, offsets);
        }
    }
#undef WHOLE_CASE
}

#endif
