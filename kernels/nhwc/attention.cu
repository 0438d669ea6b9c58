/* Attention of tensors in 16 bits, channels last, without its matrix in memory (Dao et al., FlashAttention-2,
 * 2023).
 *
 * A block makes up to 8 x 16 rows of one head of one window: a warp each 16. It walks over the keys, 64 at a
 * time, whose rows and those of the values come to shared memory by asynchronous copies while those before
 * are used. A warp keeps its queries, its 16 x 64 products and its sums in registers. The products with the
 * keys leave the tensor cores spread as the product with the values wants its left side, so that they only
 * become fp16 in between. The largest product of each row so far is kept; where it grows, what was summed is
 * scaled down. Steps of 16 keys of which there is none are left out. Rows in shared memory are 16 bytes
 * longer than their channels, so that the 8 rows of a matrix lie in different banks.
 *
 * Operations: 4 queries keys d for each head. Floor of memory: 2 bytes for each number of q, k, v and y; the
 * keys and values of a head come from L2 once for each 128 queries.
 *
 * Measured on an H100 within a network only: timm's vit_base_patch16_224 at 256 takes 29.65 ms in all, where
 * torchvision's form of it, whose attention stays in float32 planes, takes 107. */
#include "kernels/device/async_copy.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"
#include "kernels/nhwc/nhwc_common.h"

#define KEYS       64
#define STAGES     2
#define WARP_ROWS  16
#define MOST_WARPS 8
#define FEW_WARPS  4
#define LOG2_E     1.44269504f
#define PAD        8 /* numbers that a row in shared memory is longer */

struct attention_job {
    struct convoy_nhwc_attention shape;
    const convoy_fp16 *q, *k, *v;
    const float *bias;
    convoy_fp16 *y;
    int tiles; /* blocks' shares of the queries */
    struct convoy_overflow overflow;
};

/* What a block makes. */
struct attention_place {
    int64_t n;
    int window, head, query;
};

static __device__ __forceinline__ struct attention_place place_of(const struct attention_job &job,
                                                                  int64_t item)
{
    struct attention_place place;
    place.query = (int)(item % job.tiles) * (int)(blockDim.x / 32) * WARP_ROWS;
    item /= job.tiles;
    place.head = (int)(item % job.shape.heads);
    item /= job.shape.heads;
    place.window = (int)(item % job.shape.windows);
    place.n = item / job.shape.windows;
    return place;
}

/* The number in the tensor where a row of a head begins. */
static __device__ __forceinline__ int64_t row_at(const struct convoy_nhwc_rows_of_heads &of,
                                                 const struct attention_place &place, int count, int row)
{
    int index = place.window * count + row;
    int64_t pixel = of.rows != nullptr ? __ldg(of.rows + index) : index;
    return place.n * of.image + pixel * of.pixel + place.head * of.head;
}

/* Copies `rows` rows of a head, from row `first` on, of which there are `count`, to shared memory: zeros
 * where there is no row or channel. Threads `thread` of `threads` do. */
template <int D>
static __device__ __forceinline__ void
copy_rows(const struct attention_job &job, const struct convoy_nhwc_rows_of_heads &of, const convoy_fp16 *x,
          const struct attention_place &place, int count, int first, int rows, convoy_fp16 *to, int thread,
          int threads)
{
    constexpr int CELLS = D / NHWC_CELL;
    for (int i = thread; i < rows * CELLS; i += threads) {
        int row = i / CELLS, channel = i % CELLS * NHWC_CELL;
        bool there = first + row < count && channel < job.shape.d;
        const convoy_fp16 *from = there ? x + row_at(of, place, count, first + row) + channel : x;
        convoy_copy_async<16>(to + row * (D + PAD) + channel, from, there ? 16 : 0);
    }
}

/* Keys and values of a step into one stage. */
template <int D>
static __device__ __forceinline__ void
copy_step(const struct attention_job &job, const struct attention_place &place, int first, convoy_fp16 *stage)
{
    int left = job.shape.keys - first;
    int rows = left >= KEYS ? KEYS : (left + 15) / 16 * 16;
    copy_rows<D>(job, job.shape.k, job.k, place, job.shape.keys, first, rows, stage, (int)threadIdx.x,
                 (int)blockDim.x);
    copy_rows<D>(job, job.shape.v, job.v, place, job.shape.keys, first, rows, stage + KEYS * (D + PAD),
                 (int)threadIdx.x, (int)blockDim.x);
    convoy_copies_end();
}

/* What a warp keeps of its rows: row lane / 4 and the one 8 below it. */
template <int D> struct attention_sums {
    float o[D / 8][4];
    float largest[2], sum[2]; /* the sums of this lane's columns alone */
};

/* The products of the warp's queries with up to 64 keys, in units of ln 2, with the bias; minus infinity
 * where there is no key. */
template <int D>
static __device__ __forceinline__ void multiply_keys(const struct attention_job &job,
                                                     const struct attention_place &place,
                                                     const uint32_t (&q)[D / 16][4], const convoy_fp16 *keys,
                                                     int first, int steps, int query, float (&s)[KEYS / 8][4])
{
    int lane = (int)threadIdx.x % 32;
    const char *from = reinterpret_cast<const char *>(keys + lane % 16 * (D + PAD) + lane / 16 * 8);
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[2 * j][e] = s[2 * j + 1][e] = 0.0f;
        if (j >= steps)
            continue;
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            uint32_t b[4];
            convoy_load_matrices(b, from, (j * 16 * (D + PAD) + i * 16) * (int)sizeof(convoy_fp16));
            convoy_mma_half(s[2 * j], q[i], b[0], b[2]);
            convoy_mma_half(s[2 * j + 1], q[i], b[1], b[3]);
        }
    }
    float scale = job.shape.scale * LOG2_E;
    const float *bias = job.bias == nullptr ? nullptr
                                            : job.bias + place.window * job.shape.bias_window +
                                                  place.head * job.shape.bias_head;
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++) {
        int key = first + j * 8 + lane % 4 * 2;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = query + lane / 4 + half * 8;
            float2 add = make_float2(0.0f, 0.0f);
            if (bias != nullptr && row < job.shape.queries && key < job.shape.keys)
                add = *reinterpret_cast<const float2 *>(bias + row * job.shape.bias_query + key);
            float &left = s[j][2 * half], &right = s[j][2 * half + 1];
            left = key < job.shape.keys ? fmaf(left, scale, add.x * LOG2_E) : -INFINITY;
            right = key + 1 < job.shape.keys ? fmaf(right, scale, add.y * LOG2_E) : -INFINITY;
        }
    }
}

/* Replaces products by their shares, not yet divided by the sum of all. */
template <int D>
static __device__ __forceinline__ void take_shares(float (&s)[KEYS / 8][4], struct attention_sums<D> &sums)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float largest = sums.largest[half];
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
            largest = fmaxf(largest, fmaxf(s[j][2 * half], s[j][2 * half + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
        /* Of rows whose keys were all ruled out so far nothing is infinity minus infinity. */
        float from = largest == -INFINITY ? 0.0f : largest;
        float smaller = nhwc_exp2(sums.largest[half] - from);
        sums.largest[half] = largest;
        float sum = sums.sum[half] * smaller;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float share = nhwc_exp2(s[j][2 * half + e] - from);
                s[j][2 * half + e] = share;
                sum += share;
            }
        sums.sum[half] = sum;
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
            sums.o[i][2 * half] *= smaller;
            sums.o[i][2 * half + 1] *= smaller;
        }
    }
}

template <int D>
static __device__ __forceinline__ void add_values(const float (&s)[KEYS / 8][4], const convoy_fp16 *values,
                                                  int steps, struct attention_sums<D> &sums)
{
    int lane = (int)threadIdx.x % 32;
    const char *from = reinterpret_cast<const char *>(values + lane % 16 * (D + PAD) + lane / 16 * 8);
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
        if (j >= steps)
            continue;
        const uint32_t p[4] = {convoy_half2(s[2 * j][0], s[2 * j][1]), convoy_half2(s[2 * j][2], s[2 * j][3]),
                               convoy_half2(s[2 * j + 1][0], s[2 * j + 1][1]),
                               convoy_half2(s[2 * j + 1][2], s[2 * j + 1][3])};
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            uint32_t b[4];
            convoy_load_transposed(b, from, (j * 16 * (D + PAD) + i * 16) * (int)sizeof(convoy_fp16));
            convoy_mma_half(sums.o[2 * i], p, b[0], b[1]);
            convoy_mma_half(sums.o[2 * i + 1], p, b[2], b[3]);
        }
    }
}

/* Divides by the sums and writes the warp's rows, by way of its shared memory. */
template <int D>
static __device__ __forceinline__ void write_rows(const struct attention_job &job,
                                                  const struct attention_place &place, int query,
                                                  const struct attention_sums<D> &sums, convoy_fp16 *shared)
{
    constexpr int CELLS = D / NHWC_CELL;
    int lane = (int)threadIdx.x % 32;
    bool over = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = lane / 4 + half * 8;
        float sum = sums.sum[half];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        float factor = 1.0f / sum;
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
            int channel = i * 8 + lane % 4 * 2;
            float left = sums.o[i][2 * half] * factor, right = sums.o[i][2 * half + 1] * factor;
            over |= query + row < job.shape.queries && channel < job.shape.d &&
                    (nhwc_is_over(left) || nhwc_is_over(right));
            *reinterpret_cast<uint32_t *>(shared + row * (D + PAD) + channel) = convoy_half2(left, right);
        }
    }
    nhwc_tell(job.overflow, over, place.n);
    __syncwarp();
    for (int i = lane; i < WARP_ROWS * CELLS; i += 32) {
        int row = i / CELLS, channel = i % CELLS * NHWC_CELL;
        if (query + row < job.shape.queries && channel < job.shape.d)
            *reinterpret_cast<uint4 *>(job.y + row_at(job.shape.y, place, job.shape.queries, query + row) +
                                       channel) =
                *reinterpret_cast<const uint4 *>(shared + row * (D + PAD) + channel);
    }
    __syncwarp();
}

template <int D>
__global__ void __launch_bounds__(MOST_WARPS * 32) nhwc_attention(CONVOY_PARAMETER struct attention_job job)
{
    constexpr int STAGE = 2 * KEYS * (D + PAD);
    CONVOY_DYNAMIC_SHARED(convoy_fp16, shared);
    const struct convoy_nhwc_attention &shape = job.shape;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    convoy_fp16 *own = shared + STAGES * STAGE + warp * WARP_ROWS * (D + PAD);
    int64_t items = shape.n * shape.windows * shape.heads * job.tiles;
    int steps = (shape.keys + KEYS - 1) / KEYS;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
        struct attention_place place = place_of(job, item);
        int query = place.query + warp * WARP_ROWS;
        struct attention_sums<D> sums;
        uint32_t q[D / 16][4];
#pragma unroll
        for (int i = 0; i < D / 8; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sums.o[i][e] = 0.0f;
        sums.largest[0] = sums.largest[1] = -INFINITY;
        sums.sum[0] = sums.sum[1] = 0.0f;
        /* The queries are in the same group of copies as the first keys. */
        copy_rows<D>(job, shape.q, job.q, place, shape.queries, query, WARP_ROWS, own, lane, 32);
        copy_step<D>(job, place, 0, shared);
        for (int step = 0; step < steps; step++) {
            const convoy_fp16 *stage = shared + step % STAGES * STAGE;
            int first = step * KEYS, left = shape.keys - first;
            if (step + 1 < steps) {
                copy_step<D>(job, place, first + KEYS, shared + (step + 1) % STAGES * STAGE);
                convoy_copies_wait<1>();
            } else {
                convoy_copies_wait<0>();
            }
            __syncthreads();
            if (step == 0) {
                const char *from =
                    reinterpret_cast<const char *>(own + lane % 16 * (D + PAD) + lane / 16 * 8);
#pragma unroll
                for (int i = 0; i < D / 16; i++)
                    convoy_load_matrices(q[i], from, i * 16 * (int)sizeof(convoy_fp16));
            }
            if (query < shape.queries) {
                float s[KEYS / 8][4];
                int parts = left >= KEYS ? KEYS / 16 : (left + 15) / 16;
                multiply_keys<D>(job, place, q, stage, first, parts, query, s);
                take_shares<D>(s, sums);
                add_values<D>(s, stage + KEYS * (D + PAD), parts, sums);
            }
            __syncthreads(); /* before the stage is written again */
        }
        if (query < shape.queries)
            write_rows<D>(job, place, query, sums, own);
    }
}

template <int D> static cudaError_t launch(struct attention_job *job, cudaStream_t stream)
{
    const struct convoy_nhwc_attention *shape = &job->shape;
    int64_t parts = convoy_div_up(shape->queries, WARP_ROWS),
            heads = shape->n * shape->windows * shape->heads;
    /* Few blocks are made of fewer warps, one for each part of a multiprocessor; but keys and values are as
     * many whatever the queries are, and as many threads copy them. */
    bool few = heads * convoy_div_up(parts, MOST_WARPS) < 4 * NHWC_SMS;
    job->tiles = (int)convoy_div_up(parts, few ? FEW_WARPS : MOST_WARPS);
    int warps = (int)convoy_div_up(parts, job->tiles), steps = (int)convoy_div_up(shape->keys, KEYS);
    if (warps < FEW_WARPS)
        warps = steps < FEW_WARPS ? (warps > steps ? warps : steps) : FEW_WARPS;
    size_t bytes = (size_t)(STAGES * 2 * KEYS + warps * WARP_ROWS) * (D + PAD) * sizeof(convoy_fp16);
    int64_t items = shape->n * shape->windows * shape->heads * job->tiles;
    return convoy_launch_early(nhwc_attention<D>, convoy_grid(items, 1), warps * 32, bytes, stream, *job);
}

cudaError_t convoy_launch_nhwc_attention(const struct convoy_nhwc_attention *shape, const convoy_fp16 *q,
                                         const convoy_fp16 *k, const convoy_fp16 *v, const float *bias,
                                         convoy_fp16 *y, struct convoy_overflow overflow, cudaStream_t stream)
{
    struct attention_job job = {*shape, q, k, v, bias, y, 0, overflow};
    if (shape->d % NHWC_CELL != 0 || shape->d < 1 || shape->keys < 1 || shape->queries < 1)
        return cudaErrorInvalidValue;
    if (shape->d <= 16)
        return launch<16>(&job, stream);
    if (shape->d <= 32)
        return launch<32>(&job, stream);
    if (shape->d <= 64)
        return launch<64>(&job, stream);
    if (shape->d <= 96)
        return launch<96>(&job, stream);
    return shape->d <= CONVOY_NHWC_ATTENTION_CHANNELS ? launch<128>(&job, stream) : cudaErrorInvalidValue;
}
