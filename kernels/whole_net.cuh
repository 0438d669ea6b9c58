/* whole_net: all layers of a network, or its first ones, in one launch.
 *
 * Idea (beyond the reports): between the layers of a small network there is more waiting and traffic than in
 * them. Here an image stays on the chip: a block, or a cluster of blocks, keeps all tensors that are alive in
 * shared memory, as planes of words with their padding around them, and runs layer after layer on the tensor
 * cores as `tensor` does (tensor_steps.cuh), from planes to planes. Every address that a layer needs is a
 * table made on the host (whole_plan.cu), so any filter, stride, padding and way around is the same code. In
 * fp16 a word is two channels: a tensor is rounded when it is written, where `tensor` rounds when it reads.
 *
 * In a cluster each block computes a part of the places and maps of a layer and writes what it has computed
 * into the shared memory of all that will read it, neighbours of the next layer's filter included; a barrier
 * of the cluster ends the layer. The weights of the next layer are copied to shared memory meanwhile. A large
 * dense layer is divided by places, so that nobody needs more of its input than it made itself, and its
 * weights pass through all of the cluster's multiprocessors.
 *
 * With many images a block takes one after the other by itself, and several blocks on a multiprocessor fill
 * each other's gaps.
 *
 * Floor, batch 1: launch and a barrier for each layer, about 0.5 us each, and the weights once through the
 * L2 cache (ece408's dense layer in fp16: 5.6 MB, 1.3 us at 4.2 TB/s; of 16 multiprocessors at 64 bytes a
 * cycle 3.2 us). Many images: 4 words of A and 2 of B a lane for 8 words of the reduction from shared memory,
 * so that a multiprocessor makes about 1,000 products of fp16 a cycle: cifar10-convnet's 4.1 million take
 * 4,100 cycles, 10,000 images 0.19 ms.
 * Predicted: docs/kernels.md. */
#ifndef CONVOY_KERNELS_WHOLE_NET_CUH
#define CONVOY_KERNELS_WHOLE_NET_CUH

#include "kernels/async_copy.cuh"
#include "kernels/cluster.cuh"
#include "kernels/launch.cuh"
#include "kernels/tensor_words.cuh"
#include "kernels/unary.cuh"
#include "kernels/whole_plan.h"

#define WHOLE_MOST_THREADS 512

/* Two channels of a tensor are a word, or each is one. */
template <int MATH> static constexpr bool whole_pairs = MATH == TENSOR_HALF;

/* What a single channel takes. */
template <int MATH> struct whole_element {
    using type = uint32_t;
};
template <> struct whole_element<TENSOR_HALF> {
    using type = uint16_t;
};

template <int MATH> static __device__ __forceinline__ uint32_t whole_word(float x)
{
    return MATH == TENSOR_TF32 ? convoy_tf32(x) : convoy_float_bits(x);
}

static __device__ __forceinline__ float2 whole_halves(uint32_t word)
{
    return make_float2(convoy_from_half(word & 0xffffu), convoy_from_half(word >> 16));
}

/* From shared memory, or by way of the cache for what does not change. */
template <bool SHARED, typename T> static __device__ __forceinline__ T whole_load(const T *at)
{
    if constexpr (SHARED)
        return *at;
    else
        return __ldg(at);
}

template <bool SHARED>
static __device__ __forceinline__ struct whole_row whole_row(const struct whole_row *rows, int at)
{
    uint2 words = whole_load<SHARED>(reinterpret_cast<const uint2 *>(rows) + at);
    struct whole_row row;
    row.in = (uint16_t)words.x;
    row.out = (uint16_t)(words.x >> 16);
    row.first = (uint8_t)words.y;
    row.last = (uint8_t)(words.y >> 8);
    return row;
}

/* Ends a layer. */
template <bool CLUSTER> static __device__ __forceinline__ void whole_sync(bool block_alone)
{
    if (CLUSTER && !block_alone)
        convoy_cluster_sync();
    else
        __syncthreads();
}

/* The images' rows that this block needs, into planes with their padding. WORDS planes. */
template <int MATH, bool U8, int WORDS>
static __device__ __forceinline__ void whole_read(const struct whole_job &job, int image, int rank,
                                                  uint32_t *planes)
{
    constexpr int AHEAD = 4; /* elements on their way at once */
    bool tap_pairs = MATH == TENSOR_HALF && job.tap_pairs;
    struct tensor_source source;
    source.first_c = 0;
    source.channels = job.first.c;
    const unsigned char *from =
        static_cast<const unsigned char *>(job.x.data) + (int64_t)image * job.x.image_bytes;
    int begin = job.first_row[rank] * job.in_width, end = job.end_row[rank] * job.in_width;
    for (int i = begin + threadIdx.x; i < end; i += blockDim.x * AHEAD) {
        uint32_t words[AHEAD][WORDS];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int at = min(i + k * (int)blockDim.x, end - 1);
            int row = tensor_divide(at, job.by_in_width), column = at - row * job.in_width - job.in_left;
            int y = row - job.in_top;
            bool row_inside = (unsigned)y < (unsigned)job.first.h;
            source.inside = row_inside && (unsigned)column < (unsigned)job.first.w;
            source.next_inside =
                tap_pairs && row_inside && (unsigned)(column + job.first.dilation[1]) < (unsigned)job.first.w;
            int element = y * job.first.w + column; /* may lie outside: then it is not read */
            source.from = from + (int64_t)element * (U8 ? job.first.c : (int)sizeof(float));
#pragma unroll
            for (int word = 0; word < WORDS; word++)
                words[k][word] = tensor_word<MATH, U8>(job.first, job.x, tap_pairs, source, word);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
#pragma unroll
            for (int word = 0; word < WORDS; word++)
                if (i + k * (int)blockDim.x < end)
                    planes[word * job.in_plane + i + k * blockDim.x] = words[k][word];
    }
}

template <int MATH, bool U8>
static __device__ __forceinline__ void whole_read_any(const struct whole_job &job, int image, int rank,
                                                      uint32_t *planes)
{
    if (job.in_words == 1)
        whole_read<MATH, U8, 1>(job, image, rank, planes);
    else if (job.in_words == 2)
        whole_read<MATH, U8, 2>(job, image, rank, planes);
    else if (job.in_words == 3)
        whole_read<MATH, U8, 3>(job, image, rank, planes);
    else
        whole_read<MATH, U8, 4>(job, image, rank, planes);
}

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

/* Word offset of a place of a dense layer's or a mean's input. */
static __device__ __forceinline__ int whole_place(const struct whole_step &step, int place)
{
    int row = tensor_divide(place, step.by_w);
    return step.first + row * step.width + place - row * step.real_w;
}

/* What a dense layer or a mean has found for one output: into the result, or into the vector that the next
 * layer reads. */
template <int MATH>
static __device__ __forceinline__ void whole_keep_one(const struct whole_step &step, float *y,
                                                      uint32_t *shared, int at, float value)
{
    if (step.result)
        y[at] = value;
    else if constexpr (whole_pairs<MATH>)
        reinterpret_cast<uint16_t *>(shared + step.out)[at] = (uint16_t)convoy_half2(value, 0.0f);
    else
        shared[step.out + at] = whole_word<MATH>(value);
}

static __device__ __forceinline__ float whole_bias(const struct whole_job &job, const struct whole_step &step,
                                                   int at)
{
    return step.bias == WHOLE_NO_BIAS ? 0.0f
                                      : __ldg(reinterpret_cast<const float *>(job.weights + step.bias) + at);
}

template <int MATH>
static __device__ __forceinline__ void whole_finish_dense(const struct whole_step &step, float *y,
                                                          uint32_t *shared, int at, float sum, float bias)
{
    whole_keep_one<MATH>(step, y, shared, at, convoy_apply_unary(step.act, sum + bias));
}

/* 4 words of weights, 4 of the input. */
template <int MATH>
static __device__ __forceinline__ float whole_dot(const uint32_t (&x)[4], uint4 weights, float sum)
{
    const uint32_t w[4] = {weights.x, weights.y, weights.z, weights.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if constexpr (whole_pairs<MATH>) {
            float2 a = whole_halves(x[j]), b = whole_halves(w[j]);
            sum = fmaf(a.y, b.y, fmaf(a.x, b.x, sum));
        } else {
            sum = fmaf(convoy_bits_float(x[j]), convoy_bits_float(w[j]), sum);
        }
    }
    return sum;
}

/* A dense layer: a warp takes WHOLE_OUTS outputs, its lanes 4 words each of a place of the input. Products of
 * fp16 are exact in fp32, so this is what tensor cores would give, or better. Undivided it is the first
 * block's alone. Divided by places, as the layer before it, each block sends its sums to the first. */
template <int MATH, bool CLUSTER>
static __device__ __forceinline__ void whole_dense(const struct whole_job &job, const struct whole_step &step,
                                                   int rank, float *y, uint32_t *shared)
{
    bool divided = CLUSTER && step.parts > 1;
    if (rank > 0 && !divided)
        return;
    int lane = threadIdx.x % 32, warps = blockDim.x / 32, groups = (step.in_words + 3) / 4;
    int begin = step.tile_begin, end = step.tile_end;
    const uint4 *weights = reinterpret_cast<const uint4 *>(job.weights + step.weights);
    for (int out = threadIdx.x / 32 * WHOLE_OUTS; out < step.maps; out += warps * WHOLE_OUTS) {
        float sum[WHOLE_OUTS] = {};
        float bias = whole_bias(job, step, min(out + lane, step.maps - 1));
#pragma unroll 2
        for (int i = begin * groups + lane; i < end * groups; i += 32) {
            int place = tensor_divide(i, step.by_groups), word = (i - place * groups) * 4;
            const uint32_t *from = shared + step.in + whole_place(step, place);
            uint32_t x[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                x[j] = word + j < step.in_words ? from[(word + j) * step.in_plane] : 0;
#pragma unroll
            for (int k = 0; k < WHOLE_OUTS; k++) {
                int64_t at = ((int64_t)place * step.maps + min(out + k, step.maps - 1)) * groups + word / 4;
                sum[k] = whole_dot<MATH>(x, __ldg(weights + at), sum[k]);
            }
        }
        float mine = 0.0f; /* lane k keeps output k */
#pragma unroll
        for (int k = 0; k < WHOLE_OUTS; k++) {
#pragma unroll
            for (int other = 16; other > 0; other /= 2)
                sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], other);
            mine = lane == k ? sum[k] : mine;
        }
        int at = out + lane;
        if (lane >= WHOLE_OUTS || at >= step.maps)
            continue;
        if (divided)
            convoy_cluster_store(reinterpret_cast<float *>(shared + job.partial + rank * step.maps + at), 0,
                                 mine);
        else
            whole_finish_dense<MATH>(step, y, shared, at, mine, bias);
    }
    if (!divided)
        return;
    convoy_cluster_sync();
    for (int at = threadIdx.x; rank == 0 && at < step.maps; at += blockDim.x) {
        float sum = 0.0f, bias = whole_bias(job, step, at);
        for (int part = 0; part < step.parts; part++)
            sum += convoy_bits_float(shared[job.partial + part * step.maps + at]);
        whole_finish_dense<MATH>(step, y, shared, at, sum, bias);
    }
}

/* The mean of each channel, by the first block. */
template <int MATH>
static __device__ __forceinline__ void whole_mean(const struct whole_step &step, int rank, float *y,
                                                  uint32_t *shared)
{
    int lane = threadIdx.x % 32;
    for (int word = threadIdx.x / 32; rank == 0 && word < step.in_words; word += blockDim.x / 32) {
        float2 sum = make_float2(0.0f, 0.0f);
        for (int place = lane; place < step.places; place += 32) {
            uint32_t x = shared[step.in + word * step.in_plane + whole_place(step, place)];
            float2 add = whole_pairs<MATH> ? whole_halves(x) : make_float2(convoy_bits_float(x), 0.0f);
            sum.x += add.x;
            sum.y += add.y;
        }
#pragma unroll
        for (int other = 16; other > 0; other /= 2) {
            sum.x += __shfl_xor_sync(0xffffffffu, sum.x, other);
            sum.y += __shfl_xor_sync(0xffffffffu, sum.y, other);
        }
        float scale = 1.0f / (float)step.places;
        int map = whole_pairs<MATH> ? word * 2 : word;
        if (lane == 0)
            whole_keep_one<MATH>(step, y, shared, map, sum.x * scale);
        if (whole_pairs<MATH> && lane == 1 && map + 1 < step.maps)
            whole_keep_one<MATH>(step, y, shared, map + 1, sum.y * scale);
    }
}

static __device__ __forceinline__ void whole_copy(void *to, const void *from, int bytes)
{
    for (int i = threadIdx.x * 16; i < bytes; i += blockDim.x * 16)
        convoy_copy_async<16>(static_cast<char *>(to) + i, static_cast<const char *>(from) + i, 16);
}

/* What the next convolution will find in shared memory: its offsets and, in a cluster, its weights, bias and
 * rows. */
template <int MATH, bool CLUSTER>
static __device__ __forceinline__ void
whole_prepare(const struct whole_job &job, const struct whole_step &step, int *offsets, uint32_t *shared)
{
    if (step.kind != CONVOY_WHOLE_CONV)
        return;
    whole_copy(offsets, job.offsets + step.offsets, step.steps * TENSOR_STEP * 4);
    if constexpr (CLUSTER) {
        int maps = step.map_end - step.map_begin;
        int tile_words = step.steps * 32 * (int)(sizeof(struct tensor_weights<MATH>) / 4);
        whole_copy(shared + step.staged, job.weights + step.weights + (int64_t)step.map_begin * tile_words,
                   maps * tile_words * 4);
        if (step.bias != WHOLE_NO_BIAS)
            whole_copy(shared + step.staged_bias, job.weights + step.bias + step.map_begin * 8, maps * 8 * 4);
        whole_copy(shared + step.staged_rows, job.rows + step.rows + step.tile_begin * 16,
                   (step.tile_end - step.tile_begin) * 16 * (int)sizeof(struct whole_row));
    }
    convoy_copies_end();
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

template <int MATH, bool CLUSTER>
static __global__ void __launch_bounds__(WHOLE_MOST_THREADS, 1)
    whole_net(CONVOY_PARAMETER struct whole_job job)
{
    CONVOY_DYNAMIC_SHARED(uint32_t, shared);
    int rank = CLUSTER ? convoy_cluster_rank() : 0, cluster = CLUSTER ? job.cluster : 1;
    int *offsets = reinterpret_cast<int *>(shared + job.offsets_at);
    int turn = 0, stride = gridDim.x / cluster;
    const struct whole_step *steps = reinterpret_cast<const struct whole_step *>(shared + job.steps_at);
    whole_copy(shared + job.steps_at, job.steps + rank * job.count,
               job.count * (int)sizeof(struct whole_step));
    convoy_copies_end();
    for (int i = threadIdx.x * 4; i < job.words; i += blockDim.x * 4)
        *reinterpret_cast<uint4 *>(shared + i) = make_uint4(0, 0, 0, 0);
    convoy_copies_wait<0>();
    __syncthreads();
    whole_prepare<MATH, CLUSTER>(job, steps[0], offsets, shared);
    for (int image = blockIdx.x / cluster; image < job.n; image += stride) {
        float *y = job.y + image * job.y_stride;
        if (job.x.u8)
            whole_read_any<MATH, true>(job, image, rank, shared + job.in);
        else
            whole_read_any<MATH, false>(job, image, rank, shared + job.in);
        convoy_copies_wait<0>();
        whole_sync<CLUSTER>(turn >
                            0); /* what is read lies in this block's own memory, but all have to be there */
        for (int i = 0; i < job.count; i++, turn++) {
            const struct whole_step &step = steps[i];
            bool last = i + 1 == job.count;
            if (!last || image + stride < job.n)
                whole_prepare<MATH, CLUSTER>(job, steps[last ? 0 : i + 1],
                                             offsets + (turn + 1) % 2 * job.offset_words, shared);
            if (step.clear) {
                for (int k = threadIdx.x; k < step.out_words * step.out_plane; k += blockDim.x)
                    shared[step.out + k] = 0;
                whole_sync<CLUSTER>(false);
            }
            if (step.kind == CONVOY_WHOLE_CONV)
                whole_conv_any<MATH, CLUSTER>(job, step, y, shared, offsets + turn % 2 * job.offset_words);
            else if (step.kind == CONVOY_WHOLE_DENSE)
                whole_dense<MATH, CLUSTER>(job, step, rank, y, shared);
            else
                whole_mean<MATH>(step, rank, y, shared);
            convoy_copies_wait<0>();
            whole_sync<CLUSTER>(step.block_alone);
        }
    }
}

template <int MATH>
static cudaError_t whole_launch(const struct convoy_whole_plan *plan, const struct whole_job *job,
                                cudaStream_t stream)
{
    int threads = plan->kernel->threads;
    return job->cluster > 1 ? convoy_launch_cluster(whole_net<MATH, true>, dim3((unsigned)plan->blocks),
                                                    dim3((unsigned)threads), job->cluster, plan->shared_bytes,
                                                    stream, *job)
                            : convoy_launch(whole_net<MATH, false>, dim3((unsigned)plan->blocks),
                                            dim3((unsigned)threads), plan->shared_bytes, stream, *job);
}

#endif
