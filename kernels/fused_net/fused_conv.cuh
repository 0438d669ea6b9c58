/* A convolution of whole_net: products as tensor makes them (fused_steps.cuh), from planes in shared memory
 * to planes in that of all blocks that will read them. */
#ifndef CONVOY_KERNELS_FUSED_CONV_CUH
#define CONVOY_KERNELS_FUSED_CONV_CUH

#include "kernels/device/cluster.cuh"
#include "kernels/device/unary.cuh"
#include "kernels/fused_net/fused_result.cuh"
#include "kernels/fused_net/fused_steps.cuh"

/* Writes a value of a row to the blocks that will read it. */
template <bool CLUSTER, typename T>
static __device__ __forceinline__ void fused_store(const struct fused_target &target, T *at, T value)
{
    if constexpr (CLUSTER)
        for (int rank = target.first; rank <= target.last; rank++)
            convoy_cluster_store(at, rank, value);
    else
        *at = value;
}

/* A lane's two maps of a tile of 8, which are adjacent, and those of the tiles after it. */
template <int MATH> struct fused_maps {
    static constexpr int WORDS = fused_pairs<MATH> ? 1 : 2; /* of two maps */
    int first;                                              /* words from a row's place */
    int beside;                                             /* words to the next tile's */
    int count;                                              /* tiles for which there is room */

    __device__ __forceinline__ fused_maps(const struct fused_step &step, const struct fused_task &task)
    {
        constexpr int TILE = 4 * WORDS; /* words of 8 maps */
        int word = task.map * TILE + threadIdx.x % 4 * WORDS;
        first = fused_word_of(step.out_plane, word);
        beside = TILE / FUSED_CELL * step.out_plane;
        count = (fused_planes(step.out_words) * FUSED_CELL - word + TILE - 1) / TILE;
    }
};

/* Adds what lies around a block of layers. Reads from somewhere where there is nothing, so that all loads are
 * under way at once. ROWS: a table or struct fused_patch, here and below. */
template <int MATH, bool CLUSTER, int MT, int NT, typename ROWS>
static __device__ __forceinline__ void fused_add_residual(const struct fused_step &step,
                                                          const struct fused_task &task, const ROWS &rows,
                                                          const uint32_t *shared, float (&sum)[MT * NT][4])
{
    struct fused_maps<MATH> maps(step, task);
    const uint32_t *from = shared + step.residual + maps.first;
    int row = task.tile * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        int out = fused_row_target<CLUSTER>(rows, row + i * 8).out;
        const uint32_t *at = from + (out == FUSED_NOWHERE ? 0 : out);
#pragma unroll
        for (int j = 0; j < NT; j++) {
            float *to = &sum[i / 2 * NT + j][i % 2 * 2];
            const uint32_t *words = j < maps.count ? at + j * maps.beside : shared + step.residual;
            float2 add;
            if constexpr (fused_pairs<MATH>)
                add = fused_halves(words[0]);
            else
                add = *reinterpret_cast<const float2 *>(words);
            to[0] += add.x;
            to[1] += add.y;
        }
    }
}

/* Results that another layer reads. Maps past the last, as far as there is room for them, are what their zero
 * weights make of them; their readers multiply them by zero. */
template <int MATH, bool CLUSTER, int MT, int NT, typename ROWS>
static __device__ __forceinline__ void fused_keep(const struct fused_step &step,
                                                  const struct fused_task &task, const ROWS &rows,
                                                  uint32_t *shared, const float (&sum)[MT * NT][4])
{
    struct fused_maps<MATH> maps(step, task);
    uint32_t *to = shared + step.out + maps.first;
    int row = task.tile * 16 + threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        struct fused_target target = fused_row_target<CLUSTER>(rows, row + i * 8);
        bool there = target.out != FUSED_NOWHERE;
        uint32_t *at = to + target.out;
#pragma unroll
        for (int j = 0; j < NT; j++) {
            float one = sum[i / 2 * NT + j][i % 2 * 2], other = sum[i / 2 * NT + j][i % 2 * 2 + 1];
            if (there && j < maps.count) {
                if constexpr (fused_pairs<MATH>) {
                    fused_store<CLUSTER>(target, at + j * maps.beside, convoy_half2(one, other));
                } else {
                    fused_store<CLUSTER>(target, at + j * maps.beside, fused_word<MATH>(one));
                    fused_store<CLUSTER>(target, at + j * maps.beside + 1, fused_word<MATH>(other));
                }
            }
        }
    }
}

/* The greatest of each 2 x 2, of which a lane has one map (tensor_pool). The unit of a lane is that of its
 * upper row. */
template <int MATH, bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void
fused_keep_pooled(const struct fused_step &step, const struct fused_task &task, const struct fused_row *rows,
                  uint32_t *shared, const float (&pooled)[MT * NT][1])
{
    using value = typename fused_element<MATH>::type;
    struct fused_maps<MATH> maps(step, task);
    int lane = threadIdx.x % 32, odd = lane / 4 % 2;
    value *to = reinterpret_cast<value *>(shared + step.out + maps.first) + odd;
#pragma unroll
    for (int i = 0; i < MT; i++) {
        struct fused_target target = fused_row_target<CLUSTER>(rows, (task.tile + i) * 16 + lane / 4);
        bool there = target.out != FUSED_NOWHERE;
#pragma unroll
        for (int j = 0; j < NT; j++) {
            value *at = to + (target.out + j * maps.beside) * (int)(sizeof(uint32_t) / sizeof(value));
            if (!there || j >= maps.count)
                continue;
            if constexpr (fused_pairs<MATH>)
                fused_store<CLUSTER>(target, at, (value)convoy_half2(pooled[i * NT + j][0], 0.0f));
            else
                fused_store<CLUSTER>(target, at, fused_word<MATH>(pooled[i * NT + j][0]));
        }
    }
}

/* Where the results of a convolution in phases go (struct fused_reduction): a map is 8 columns of the matrix
 * product in fp16, 4 otherwise, for adjacent outputs, of which a lane has two. What it needs of the
 * step is copied, since a store to shared memory might change the step for all the compiler knows. */
template <int MATH, bool CLUSTER> struct fused_phases {
    using value = typename fused_element<MATH>::type;
    static constexpr int PER_WORD = (int)(sizeof(uint32_t) / sizeof(value));
    static constexpr int MAPS = 2 / PER_WORD; /* of 8 columns */
    static constexpr int PAIRS = 4 / MAPS;    /* of phases */
    int pair, first_map, maps, places, plane;
    bool is_result;
    struct fused_result result;
    uint32_t *shared;

    __device__ __forceinline__ fused_phases(const struct fused_step &step, const struct fused_task &task,
                                            const struct fused_job &job, int image, uint32_t *memory)
        : pair(threadIdx.x % 4 % PAIRS), first_map(task.map * MAPS + threadIdx.x % 4 / PAIRS),
          maps(step.maps), places(step.places), plane(step.out_plane), is_result(step.result),
          result(job, image), shared(memory + step.out)
    {
    }

    /* The result of the lane's map of tile j, `beside` places from where the row's results begin. */
    __device__ __forceinline__ void put(const struct fused_target &target, int beside, int j, float sum) const
    {
        int map = first_map + j * MAPS;
        if (fused_has_vectors<MATH, CLUSTER> && is_result && result.vector != nullptr) {
            result.put(target.out + beside, map, sum);
            return;
        }
        if (map >= maps)
            return;
        if (is_result) {
            result.y[map * places + target.out + beside] = sum;
            return;
        }
        uint32_t *cell = shared + target.out + beside * FUSED_CELL + map / (FUSED_CELL * PER_WORD) * plane;
        value *at = reinterpret_cast<value *>(cell) + map % (FUSED_CELL * PER_WORD);
        if constexpr (fused_pairs<MATH>)
            fused_store<CLUSTER>(target, at, (value)convoy_half2(sum, 0.0f));
        else
            fused_store<CLUSTER>(target, at, fused_word<MATH>(sum));
    }

    /* Those of tiles j and j + 1, where the first map is even. */
    __device__ __forceinline__ void put_two(const struct fused_target &target, int beside, int j, float one,
                                            float other) const
    {
        int map = first_map + j;
        if (fused_has_vectors<MATH, CLUSTER> && is_result && result.vector != nullptr) {
            result.put_two(target.out + beside, map, one, other);
        } else if (is_result) {
            put(target, beside, j, one);
            put(target, beside, j + 1, other);
        } else if (map < maps) {
            uint32_t *cell = shared + target.out + beside * FUSED_CELL + map / 8 * plane;
            fused_store<CLUSTER>(target, cell + map % 8 / 2, convoy_half2(one, other));
        }
    }
};

template <int MATH, bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void
fused_finish_phases(const struct fused_job &job, const struct fused_step &step, const struct fused_task &task,
                    const struct fused_row *rows, int image, uint32_t *shared, float (&sum)[MT * NT][4])
{
    constexpr bool ROUGH = fused_pairs<MATH>, TWO = fused_pairs<MATH> && NT % 2 == 0;
    struct fused_phases<MATH, CLUSTER> to(step, task, job, image, shared);
    int row = task.tile * 16 + threadIdx.x % 32 / 4;
    if (step.pool == 2) { /* adjacent outputs are a lane's own, and those under them too */
        float pooled[MT * NT][1];
#pragma unroll
        for (int i = 0; i < MT * NT; i++)
            pooled[i][0] =
                convoy_larger(convoy_larger(sum[i][0], sum[i][1]), convoy_larger(sum[i][2], sum[i][3]));
        convoy_activate<ROUGH>(step.act, pooled);
#pragma unroll
        for (int i = 0; i < MT; i++) {
            struct fused_target target = fused_row_target<CLUSTER>(rows, row + i * 16);
            if (to.pair >= fused_load<CLUSTER>(&rows[row + i * 16].places))
                continue;
#pragma unroll
            for (int j = 0; j < NT; j += TWO ? 2 : 1) {
                if constexpr (TWO)
                    to.put_two(target, to.pair, j, pooled[i * NT + j][0], pooled[i * NT + j + 1][0]);
                else
                    to.put(target, to.pair, j, pooled[i * NT + j][0]);
            }
        }
        return;
    }
    convoy_activate<ROUGH>(step.act, sum);
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        struct fused_target target = fused_row_target<CLUSTER>(rows, row + i * 8);
        int there = fused_load<CLUSTER>(&rows[row + i * 8].places);
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (to.pair * 2 + e < there)
                    to.put(target, to.pair * 2 + e, j, sum[i / 2 * NT + j][i % 2 * 2 + e]);
    }
}

/* What becomes of a task's sums. */
template <int MATH, bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void
fused_finish(const struct fused_job &job, const struct fused_step &step, const struct fused_task &task,
             const struct fused_row *rows, int image, uint32_t *shared, float (&sum)[MT * NT][4])
{
    constexpr bool ROUGH = fused_pairs<MATH>, VECTORS = fused_has_vectors<MATH, CLUSTER>;
    if (step.phases) {
        fused_finish_phases<MATH, CLUSTER, MT, NT>(job, step, task, rows, image, shared, sum);
        return;
    }
    if (step.pool == 2) {
        float pooled[MT * NT][1];
        tensor_pool<MT * NT>(sum, pooled);
        convoy_activate<ROUGH>(step.act, pooled);
        if (step.result)
            fused_give_pooled<VECTORS, MT, NT>(step, task, fused_result(job, image), pooled);
        else
            fused_keep_pooled<MATH, CLUSTER, MT, NT>(step, task, rows, shared, pooled);
        return;
    }
    if (step.has_residual)
        fused_add_residual<MATH, CLUSTER, MT, NT>(step, task, rows, shared, sum);
    convoy_activate<ROUGH>(step.act, sum);
    if (step.result)
        fused_give<VECTORS, MT, NT>(step, task, fused_result(job, image), sum);
    else
        fused_keep<MATH, CLUSTER, MT, NT>(step, task, rows, shared, sum);
}

/* Byte offsets of a task's inputs, of the rows whose addresses a lane gives. */
template <bool CLUSTER, int MT>
static __device__ __forceinline__ void fused_find(const struct fused_task &task, const struct fused_row *rows,
                                                  int (&base)[MT])
{
    int row = task.tile * 16 + threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < MT; i++)
        base[i] = fused_row_in<CLUSTER>(rows, row + i * 16);
}

/* Sums begin with their map's bias. */
template <bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void fused_start(const float *bias, float (&sum)[MT * NT][4])
{
#pragma unroll
    for (int j = 0; j < NT; j++) {
        float2 first =
            fused_load<CLUSTER>(reinterpret_cast<const float2 *>(bias + j * 8 + threadIdx.x % 4 * 2));
#pragma unroll
        for (int i = 0; i < MT; i++) {
            sum[i * NT + j][0] = sum[i * NT + j][2] = first.x;
            sum[i * NT + j][1] = sum[i * NT + j][3] = first.y;
        }
    }
}

/* A convolution, by all warps of the block, for its part of the rows and maps. */
template <int MATH, bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void fused_conv(const struct fused_job &job, const struct fused_step &step,
                                                  int image, uint32_t *shared, const int *offsets)
{
    using words = struct tensor_weights<MATH>;
    int lane = threadIdx.x % 32, warps = job.threads / 32;
    int tile_begin = step.tile_begin, map_begin = step.map_begin, map_count = step.map_end - map_begin;
    int across = map_count / NT, tasks = step.tasks;
    /* From here on, numbers of tiles count from this block's first in what it has in its own memory. */
    const words *weights = CLUSTER ? reinterpret_cast<const words *>(shared + step.staged) - map_begin * 32
                                   : reinterpret_cast<const words *>(job.weights + step.weights);
    int weight_stride = (CLUSTER ? map_count : step.n_tiles) * 32;
    const float *bias = CLUSTER ? reinterpret_cast<const float *>(shared + step.staged_bias) - map_begin * 8
                                : reinterpret_cast<const float *>(job.weights + step.bias);
    const struct fused_row *rows =
        CLUSTER ? reinterpret_cast<const struct fused_row *>(shared + step.staged_rows) - tile_begin * 16
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
        struct fused_task task = {};
        float sum[MT * NT][4] = {};
        if (active) {
            int down = tensor_divide(number, step.by_across), beside = number - down * across;
            task.tile = tile_begin + down * MT;
            task.map = map_begin + beside * NT;
            int base[MT];
            fused_find<CLUSTER, MT>(task, rows, base);
            if (step.bias != FUSED_NO_BIAS && share == 0)
                fused_start<CLUSTER, MT, NT>(bias + task.map * 8, sum);
            fused_add<MATH, MT, NT, CLUSTER>(shared + step.in, offsets + begin * FUSED_STEP_CELLS, base,
                                             weights + begin * weight_stride + task.map * 32 + lane,
                                             weight_stride, end - begin, sum);
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
        if (active && share == 0)
            fused_finish<MATH, CLUSTER, MT, NT>(job, step, task, rows, image, shared, sum);
    }
}

template <int MATH, bool CLUSTER, bool WGMMA>
static __device__ __forceinline__ void fused_conv_any(const struct fused_job &job,
                                                      const struct fused_step &step, int image,
                                                      uint32_t *shared, const int *offsets)
{
    /* A cluster is for few images: one kind of task, because each costs its way through the instruction cache
     * (2,000 to 4,000 cycles where one was met for the first time). */
    if constexpr (CLUSTER) {
        fused_conv<MATH, CLUSTER, 1, 1>(job, step, image, shared, offsets);
    } else {
        switch (step.mt * 8 + step.nt) { /* as takes_tiles() (fused_divide.cu) says */
#define FUSED_CASE(MT, NT)                                                                                   \
    case MT * 8 + NT:                                                                                        \
        if constexpr (MT * NT <= fused_most_tiles((enum tensor_math)MATH, WGMMA))                            \
            fused_conv<MATH, CLUSTER, MT, NT>(job, step, image, shared, offsets);                            \
        return;
            FUSED_CASE(1, 1)
            FUSED_CASE(1, 2)
            FUSED_CASE(1, 3)
            FUSED_CASE(1, 4)
            FUSED_CASE(2, 1)
            FUSED_CASE(2, 2)
            FUSED_CASE(2, 3)
            FUSED_CASE(2, 4)
            FUSED_CASE(4, 1)
            FUSED_CASE(4, 2)
            FUSED_CASE(4, 3)
            FUSED_CASE(4, 4)
#undef FUSED_CASE
        default:
            return;
        }
    }
}

#endif
