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

template <int MATH> static __device__ __forceinline__ uint32_t whole_word(float x)
{
    return MATH == TENSOR_TF32 ? convoy_tf32(x) : convoy_float_bits(x);
}

static __device__ __forceinline__ float2 whole_halves(uint32_t word)
{
    return make_float2(convoy_from_half(word & 0xffffu), convoy_from_half(word >> 16));
}

static __device__ __forceinline__ struct whole_row whole_row(const struct whole_row *rows, int at)
{
    uint2 words = __ldg(reinterpret_cast<const uint2 *>(rows) + at);
    struct whole_row row;
    row.in = (uint16_t)words.x;
    row.out = (uint16_t)(words.x >> 16);
    row.first = (uint8_t)words.y;
    row.last = (uint8_t)(words.y >> 8);
    return row;
}

/* Writes to all blocks that will read it. */
template <bool CLUSTER, typename T>
static __device__ __forceinline__ void whole_store(T *at, T value, struct whole_row row)
{
    if constexpr (CLUSTER) {
        for (int rank = row.first; rank <= row.last; rank++)
            convoy_cluster_store(at, rank, value);
    } else {
        *at = value;
    }
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

/* The part of count things that comes as number `part` of `parts`. */
static __device__ __forceinline__ int whole_part(int count, int part, int parts)
{
    return count * part / parts;
}

/* What a warp makes of its rows and maps. */
template <int MT, int NT> struct whole_task {
    int tile, map;              /* the first of 16 rows, and of 8 maps */
    int tiles;                  /* of MT that are this block's */
    struct whole_row at[MT][2]; /* of a lane's two rows of each */
};

template <int MATH, bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void whole_keep(const struct whole_step &step,
                                                  const struct whole_task<MT, NT> &task, float *y,
                                                  uint32_t *shared, float (&sum)[MT * NT][4])
{
    int lane = threadIdx.x % 32, first = task.map + lane % 4 * 2;
    if (step.has_residual) {
#pragma unroll
        for (int i = 0; i < MT * NT * 2; i++) {
            int map = first + i / 2 % NT * 8;
            const struct whole_row &row = task.at[i / 2 / NT][i % 2];
            if (map >= step.maps || row.out == WHOLE_NOWHERE)
                continue;
            const uint32_t *word = shared + step.residual + row.out;
            float2 add;
            if constexpr (whole_pairs<MATH>)
                add = whole_halves(word[map / 2 * step.out_plane]);
            else
                add = make_float2(convoy_bits_float(word[map * step.out_plane]),
                                  map + 1 < step.maps ? convoy_bits_float(word[(map + 1) * step.out_plane])
                                                      : 0.0f);
            sum[i / 2][i % 2 * 2] += add.x;
            sum[i / 2][i % 2 * 2 + 1] += add.y;
        }
    }
    convoy_activate(step.act, sum);
#pragma unroll
    for (int i = 0; i < MT * NT * 2; i++) {
        int map = first + i / 2 % NT * 8, tile = i / 2 / NT, half = i % 2;
        const struct whole_row &row = task.at[tile][half];
        float one = sum[i / 2][half * 2], other = map + 1 < step.maps ? sum[i / 2][half * 2 + 1] : 0.0f;
        if (map >= step.maps || row.out == WHOLE_NOWHERE || tile >= task.tiles)
            continue;
        if (step.result) {
            int place = (task.tile + tile) * 16 + lane / 4 + half * 8;
            y[map * step.places + place] = one;
            if (map + 1 < step.maps)
                y[(map + 1) * step.places + place] = other;
        } else if constexpr (whole_pairs<MATH>) {
            whole_store<CLUSTER>(shared + step.out + map / 2 * step.out_plane + row.out,
                                 convoy_half2(one, other), row);
        } else {
            uint32_t *to = shared + step.out + map * step.out_plane + row.out;
            whole_store<CLUSTER>(to, whole_word<MATH>(one), row);
            if (map + 1 < step.maps)
                whole_store<CLUSTER>(to + step.out_plane, whole_word<MATH>(other), row);
        }
    }
}

/* The same of the greatest of each 2 x 2. */
template <int MATH, bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void whole_keep_pooled(const struct whole_step &step,
                                                         const struct whole_task<MT, NT> &task, float *y,
                                                         uint32_t *shared, const float (&sum)[MT * NT][4])
{
    int lane = threadIdx.x % 32, first = task.map + lane % 4 * 2 + lane / 4 % 2;
    float pooled[MT * NT][1];
    tensor_pool<MT * NT>(sum, pooled);
    convoy_activate(step.act, pooled);
#pragma unroll
    for (int i = 0; i < MT * NT; i++) {
        int map = first + i % NT * 8, tile = i / NT;
        const struct whole_row &row = task.at[tile][0];
        if (map >= step.maps || row.out == WHOLE_NOWHERE || tile >= task.tiles)
            continue;
        if (step.result) {
            y[map * step.places + (task.tile + tile) * 4 + lane / 8] = pooled[i][0];
        } else if constexpr (whole_pairs<MATH>) {
            uint16_t *to =
                reinterpret_cast<uint16_t *>(shared + step.out + map / 2 * step.out_plane + row.out);
            uint16_t value = (uint16_t)convoy_half2(pooled[i][0], 0.0f);
            whole_store<CLUSTER>(to + map % 2, value, row);
        } else {
            whole_store<CLUSTER>(shared + step.out + map * step.out_plane + row.out,
                                 whole_word<MATH>(pooled[i][0]), row);
        }
    }
}

/* A convolution, by all warps of the block, for its part of the rows and maps. */
template <int MATH, bool CLUSTER, int MT, int NT>
static __device__ __forceinline__ void whole_conv(const struct whole_job &job, const struct whole_step &step,
                                                  int rank, float *y, uint32_t *shared, const int *offsets)
{
    using words = struct tensor_weights<MATH>;
    int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    int part = CLUSTER ? rank / step.map_parts : 0, map_part = CLUSTER ? rank % step.map_parts : 0;
    int tile_begin = CLUSTER ? whole_part(step.m_tiles, part, step.parts) : 0;
    int tile_end = CLUSTER ? whole_part(step.m_tiles, part + 1, step.parts) : step.m_tiles;
    int map_begin = CLUSTER ? whole_part(step.n_tiles, map_part, step.map_parts) : 0;
    int map_end = CLUSTER ? whole_part(step.n_tiles, map_part + 1, step.map_parts) : step.n_tiles;
    int across = (map_end - map_begin) / NT, tasks = (tile_end - tile_begin + MT - 1) / MT * across;
    const words *weights = CLUSTER ? reinterpret_cast<const words *>(shared + step.staged)
                                   : reinterpret_cast<const words *>(job.weights + step.weights);
    int map_stride = step.steps * 32;
    const struct whole_row *rows = job.rows + step.rows;
    for (int number = threadIdx.x / 32; number < tasks; number += warps) {
        struct whole_task<MT, NT> task;
        int down = across == 1 ? number : number / across, beside = number - down * across;
        task.tile = tile_begin + down * MT;
        task.tiles = min(MT, tile_end - task.tile);
        task.map = (map_begin + beside * NT) * 8;
        int base[MT][2];
#pragma unroll
        for (int i = 0; i < MT * 2; i++) {
            /* What lies past this block's tiles is computed and thrown away. */
            int tile = task.tile + min(i / 2, task.tiles - 1), row = lane / 4 + i % 2 * 8;
            task.at[i / 2][i % 2] = whole_row(rows, tile * 16 + row);
            base[i / 2][i % 2] = task.at[i / 2][i % 2].in;
        }
        if (step.pool == 2) { /* a lane keeps the unit of two of the upper rows */
#pragma unroll
            for (int i = 0; i < MT; i++)
                task.at[i][0] = whole_row(rows, (task.tile + min(i, task.tiles - 1)) * 16 + lane / 8 * 2);
        }
        float sum[MT * NT][4];
#pragma unroll
        for (int j = 0; j < NT; j++) {
            float2 bias = make_float2(0.0f, 0.0f);
            if (step.bias != WHOLE_NO_BIAS)
                bias = __ldg(reinterpret_cast<const float2 *>(job.weights + step.bias + task.map + j * 8 +
                                                              lane % 4 * 2));
#pragma unroll
            for (int i = 0; i < MT; i++) {
                sum[i * NT + j][0] = sum[i * NT + j][2] = bias.x;
                sum[i * NT + j][1] = sum[i * NT + j][3] = bias.y;
            }
        }
        tensor_add<MATH, MT, NT, CLUSTER>(shared + step.in, offsets, base,
                                          weights + (task.map / 8 - (CLUSTER ? map_begin : 0)) * map_stride +
                                              lane,
                                          map_stride, step.steps, sum);
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

template <int MATH>
static __device__ __forceinline__ void whole_finish_dense(const struct whole_job &job,
                                                          const struct whole_step &step, float *y,
                                                          uint32_t *shared, int at, float sum)
{
    if (step.bias != WHOLE_NO_BIAS)
        sum += __ldg(reinterpret_cast<const float *>(job.weights + step.bias) + at);
    whole_keep_one<MATH>(step, y, shared, at, convoy_apply_unary(step.act, sum));
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
    int begin = 0, end = step.places;
    if (divided) {
        begin = min(whole_part(step.m_tiles, rank, step.parts) * step.tile_places, (int)step.places);
        end = min(whole_part(step.m_tiles, rank + 1, step.parts) * step.tile_places, (int)step.places);
    }
    const uint4 *weights = reinterpret_cast<const uint4 *>(job.weights + step.weights);
    for (int out = threadIdx.x / 32 * WHOLE_OUTS; out < step.maps; out += warps * WHOLE_OUTS) {
        float sum[WHOLE_OUTS] = {};
#pragma unroll 4
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
#pragma unroll
        for (int k = 0; k < WHOLE_OUTS; k++) {
#pragma unroll
            for (int other = 16; other > 0; other /= 2)
                sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], other);
            int at = out + k;
            if (lane != k || at >= step.maps)
                continue;
            if (divided)
                convoy_cluster_store(reinterpret_cast<float *>(shared + job.partial + rank * step.maps + at),
                                     0, sum[k]);
            else
                whole_finish_dense<MATH>(job, step, y, shared, at, sum[k]);
        }
    }
    if (!divided)
        return;
    convoy_cluster_sync();
    for (int at = threadIdx.x; rank == 0 && at < step.maps; at += blockDim.x) {
        float sum = 0.0f;
        for (int part = 0; part < step.parts; part++)
            sum += convoy_bits_float(shared[job.partial + part * step.maps + at]);
        whole_finish_dense<MATH>(job, step, y, shared, at, sum);
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

/* What the next convolution will find in shared memory: its offsets and, in a cluster, its weights. */
template <int MATH, bool CLUSTER>
static __device__ __forceinline__ void whole_prepare(const struct whole_job &job,
                                                     const struct whole_step &step, int rank, int *offsets,
                                                     uint32_t *shared)
{
    if (step.kind != CONVOY_WHOLE_CONV)
        return;
    for (int i = threadIdx.x; i < step.steps * TENSOR_STEP / 4; i += blockDim.x)
        convoy_copy_async<16>(offsets + i * 4, job.offsets + step.offsets + i * 4, 16);
    if constexpr (CLUSTER) {
        int begin = whole_part(step.n_tiles, rank % step.map_parts, step.map_parts);
        int end = whole_part(step.n_tiles, rank % step.map_parts + 1, step.map_parts);
        int tile_words = step.steps * 32 * (int)(sizeof(struct tensor_weights<MATH>) / 4);
        const uint32_t *from = job.weights + step.weights + (int64_t)begin * tile_words;
        for (int i = threadIdx.x * 4; i < (end - begin) * tile_words; i += blockDim.x * 4)
            convoy_copy_async<16>(shared + step.staged + i, from + i, 16);
    }
    convoy_copies_end();
}

template <int MATH, bool CLUSTER>
static __device__ __forceinline__ void whole_conv_any(const struct whole_job &job,
                                                      const struct whole_step &step, int rank, float *y,
                                                      uint32_t *shared, const int *offsets)
{
    switch (step.mt * 8 + step.nt) {
#define WHOLE_CASE(MT, NT)                                                                                   \
    case MT * 8 + NT:                                                                                        \
        whole_conv<MATH, CLUSTER, MT, NT>(job, step, rank, y, shared, offsets);                              \
        return;
        WHOLE_CASE(1, 1)
        WHOLE_CASE(1, 2)
        WHOLE_CASE(2, 1)
        WHOLE_CASE(2, 2)
    default:
        break;
    }
    if constexpr (!CLUSTER) {
        switch (step.mt * 8 + step.nt) {
            WHOLE_CASE(1, 3)
            WHOLE_CASE(1, 4)
            WHOLE_CASE(2, 3)
            WHOLE_CASE(2, 4)
            WHOLE_CASE(4, 1)
            WHOLE_CASE(4, 2)
        default:
            break;
        }
        if constexpr (MATH != TENSOR_FP32) {
            switch (step.mt * 8 + step.nt) {
                WHOLE_CASE(4, 3)
                WHOLE_CASE(4, 4)
            default:
                break;
            }
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
    int *offsets[2] = {reinterpret_cast<int *>(shared + job.offsets_at),
                       reinterpret_cast<int *>(shared + job.offsets_at + job.offset_words)};
    int turn = 0, stride = gridDim.x / cluster;
    whole_prepare<MATH, CLUSTER>(job, job.steps[0], rank, offsets[0], shared);
    for (int i = threadIdx.x; i < job.words; i += blockDim.x)
        shared[i] = 0;
    whole_sync<CLUSTER>(false);
    for (int image = blockIdx.x / cluster; image < job.n; image += stride) {
        float *y = job.y + image * job.y_stride;
        if (job.x.u8)
            whole_read_any<MATH, true>(job, image, rank, shared + job.in);
        else
            whole_read_any<MATH, false>(job, image, rank, shared + job.in);
        convoy_copies_wait<0>();
        __syncthreads(); /* what is read here lies in this block's own memory */
        for (int i = 0; i < job.count; i++, turn++) {
            const struct whole_step &step = job.steps[i];
            bool last = i + 1 == job.count;
            if (!last || image + stride < job.n)
                whole_prepare<MATH, CLUSTER>(job, job.steps[last ? 0 : i + 1], rank, offsets[(turn + 1) % 2],
                                             shared);
            if (step.clear) {
                for (int k = threadIdx.x; k < step.out_words * step.out_plane; k += blockDim.x)
                    shared[step.out + k] = 0;
                whole_sync<CLUSTER>(false);
            }
            if (step.kind == CONVOY_WHOLE_CONV)
                whole_conv_any<MATH, CLUSTER>(job, step, rank, y, shared, offsets[turn % 2]);
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
