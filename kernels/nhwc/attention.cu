/* Attention of tensors in 16 bits, channels last, without its matrix in memory (Dao et al., FlashAttention-2,
 * 2023).
 *
 * A warp makes 32 rows (16 where heads are wide) of one head of one window, a block up to 128. It walks over
 * the keys, 64 at a time, whose rows and those of the values come to shared memory by asynchronous copies, as
 * many steps ahead as there is room for: all of them for 256 keys. A warp keeps its queries, its products
 * with 64 keys and its sums in registers, and uses each matrix that it reads from shared memory for two
 * pieces of 16 rows. The products with the keys leave the tensor cores spread as the product with the values
 * wants its left side, so that they only become fp16 in between. The largest product of each row so far is
 * kept; where it grows, what was summed is scaled down. Steps of 16 keys of which there is none are left out.
 * Rows in shared memory are 16 bytes longer than their channels, so that the 8 rows of a matrix lie in
 * different banks. Where blocks would leave multiprocessors idle they are made smaller.
 *
 * Operations: 4 queries keys d for each head. Floor of memory: 2 bytes for each number of q, k, v and y; the
 * keys and values of a head come from L2 once for each block.
 *
 * Measured on an H100, 12 heads of 197 x 64, 256 images: with 16 rows a warp, two steps in shared memory and
 * bounds tested at each key 385 us, 16 us for one image. Such heads are attention_wgmma.cu's. */
#include "kernels/device/async_copy.cuh"
#include "kernels/nhwc/attention.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"
#include "kernels/nhwc/nhwc_common.h"

#define KEYS       64
#define PIECE      16 /* rows of a product */
#define BLOCK_ROWS 128
#define PAD        8 /* numbers that a row in shared memory is longer */

/* Steps of keys in shared memory. */
template <int D> static constexpr int STAGES = D <= 64 ? 4 : 2;

/* Copies `rows` rows of a head, from row `first` on, of which there are `count`, to shared memory: zeros
 * where there is no row or channel. Threads `thread` of `threads` do. */
template <int D>
static __device__ __forceinline__ void copy_rows(const struct attention_rows &from, const convoy_fp16 *x,
                                                 int count, int channels, int first, int rows,
                                                 convoy_fp16 *to, int thread, int threads)
{
    constexpr int CELLS = D / NHWC_CELL;
#pragma unroll 4
    for (int i = thread; i < rows * CELLS; i += threads) {
        int row = i / CELLS, channel = i % CELLS * NHWC_CELL;
        bool there = first + row < count && channel < channels;
        convoy_copy_async<16>(to + row * (D + PAD) + channel, there ? x + from.at(first + row) + channel : x,
                              there ? 16 : 0);
    }
}

/* Where the rows of a step's keys lie; those of its values are job.rows rows behind. */
template <int D> static __device__ __forceinline__ convoy_fp16 *stage_of(convoy_fp16 *shared, int step)
{
    return shared + step % STAGES<D> * KEYS * (D + PAD);
}

/* Asks for keys and values of a step: a group of copies, which is empty where there is no such step. */
template <int D>
static __device__ __forceinline__ void
copy_step(const struct attention_job &job, const struct attention_rows &keys,
          const struct attention_rows &values, int step, convoy_fp16 *shared)
{
    int first = step * KEYS, left = job.shape.keys - first;
    if (left > 0) {
        int rows = left >= KEYS ? KEYS : (left + PIECE - 1) / PIECE * PIECE;
        convoy_fp16 *stage = stage_of<D>(shared, step);
        copy_rows<D>(keys, job.k, job.shape.keys, job.shape.d, first, rows, stage, (int)threadIdx.x,
                     (int)blockDim.x);
        copy_rows<D>(values, job.v, job.shape.keys, job.shape.d, first, rows, stage + job.rows * (D + PAD),
                     (int)threadIdx.x, (int)blockDim.x);
    }
    convoy_copies_end();
}

/* What a warp keeps of a piece: row lane / 4 and the one 8 below it. */
template <int D> struct attention_sums {
    float o[D / 8][4];
    float largest[2], sum[2]; /* the sums of this lane's columns alone */
};

/* The products of the warp's queries with `parts` times 16 keys; 0 beyond. */
template <int D, int PIECES>
static __device__ __forceinline__ void multiply_keys(const uint32_t (&q)[PIECES][D / 16][4],
                                                     const convoy_fp16 *keys, int parts,
                                                     float (&s)[PIECES][KEYS / 8][4])
{
    int lane = (int)threadIdx.x % 32;
    const char *from = reinterpret_cast<const char *>(keys + lane % 16 * (D + PAD) + lane / 16 * 8);
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
#pragma unroll
        for (int p = 0; p < PIECES; p++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[p][2 * j][e] = s[p][2 * j + 1][e] = 0.0f;
        if (j >= parts)
            continue;
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            uint32_t b[4];
            convoy_load_matrices(b, from, (j * 16 * (D + PAD) + i * 16) * (int)sizeof(convoy_fp16));
#pragma unroll
            for (int p = 0; p < PIECES; p++) {
                convoy_mma_half(s[p][2 * j], q[p][i], b[0], b[2]);
                convoy_mma_half(s[p][2 * j + 1], q[p][i], b[1], b[3]);
            }
        }
    }
}

/* Turns products of a piece into units of ln 2 and adds the bias. */
static __device__ __forceinline__ void add_bias(const struct attention_job &job,
                                                const struct attention_place &place, int first, int query,
                                                float (&s)[KEYS / 8][4])
{
    int lane = (int)threadIdx.x % 32;
    float scale = job.shape.scale * ATTENTION_LOG2_E;
    if (job.shape.head_scale != nullptr)
        scale *= __ldg(job.shape.head_scale + place.head);
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
            s[j][2 * half] = fmaf(s[j][2 * half], scale, add.x * ATTENTION_LOG2_E);
            s[j][2 * half + 1] = fmaf(s[j][2 * half + 1], scale, add.y * ATTENTION_LOG2_E);
        }
    }
}

/* Rules out what is beyond the last of `left` keys. */
static __device__ __forceinline__ void rule_out(int left, float (&s)[KEYS / 8][4])
{
    int key = (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (j * 8 + key + e % 2 >= left)
                s[j][e] = -INFINITY;
}

/* Replaces products by their shares, not yet divided by the sum of all. unit: what a product is multiplied by
 * to be in units of ln 2, above 0. */
template <int D>
static __device__ __forceinline__ void take_shares(float (&s)[KEYS / 8][4], float unit,
                                                   struct attention_sums<D> &sums)
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
        float from = largest == -INFINITY ? 0.0f : largest * unit;
        float smaller = convoy_rough_exp2(fmaf(sums.largest[half], unit, -from));
        sums.largest[half] = largest;
        float sum = sums.sum[half] * smaller;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float share = convoy_rough_exp2(fmaf(s[j][2 * half + e], unit, -from));
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

template <int D, int PIECES>
static __device__ __forceinline__ void add_values(const float (&s)[PIECES][KEYS / 8][4],
                                                  const convoy_fp16 *values, int parts,
                                                  struct attention_sums<D> (&sums)[PIECES])
{
    int lane = (int)threadIdx.x % 32;
    const char *from = reinterpret_cast<const char *>(values + lane % 16 * (D + PAD) + lane / 16 * 8);
#pragma unroll
    for (int j = 0; j < KEYS / 16; j++) {
        if (j >= parts)
            continue;
        uint32_t shares[PIECES][4];
#pragma unroll
        for (int p = 0; p < PIECES; p++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                shares[p][i] =
                    convoy_half2(s[p][2 * j + i / 2][i % 2 * 2], s[p][2 * j + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            uint32_t b[4];
            convoy_load_transposed(b, from, (j * 16 * (D + PAD) + i * 16) * (int)sizeof(convoy_fp16));
#pragma unroll
            for (int p = 0; p < PIECES; p++) {
                convoy_mma_half(sums[p].o[2 * i], shares[p], b[0], b[1]);
                convoy_mma_half(sums[p].o[2 * i + 1], shares[p], b[2], b[3]);
            }
        }
    }
}

/* Divides by the sums and puts the rows of a piece into the warp's shared memory. */
template <int D>
static __device__ __forceinline__ void put_rows(const struct attention_job &job,
                                                const struct attention_place &place, int query,
                                                const struct attention_sums<D> &sums, convoy_fp16 *shared)
{
    int lane = (int)threadIdx.x % 32;
    bool over = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = lane / 4 + half * 8;
        float sum = sums.sum[half];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        float factor = 1.0f / sum;
        uint32_t wrong = 0;
#pragma unroll
        for (int i = 0; i < D / 8; i++) {
            int channel = i * 8 + lane % 4 * 2;
            uint32_t word = convoy_half2(sums.o[i][2 * half] * factor, sums.o[i][2 * half + 1] * factor);
            nhwc_collect_over(channel < job.shape.d ? word : 0, &wrong);
            *reinterpret_cast<uint32_t *>(shared + row * (D + PAD) + channel) = word;
        }
        over |= query + row < job.shape.queries && nhwc_any_over(wrong);
    }
    nhwc_tell(job.overflow, over, place.n);
}

/* Writes the warp's rows from its shared memory. */
template <int D>
static __device__ __forceinline__ void write_rows(const struct attention_job &job,
                                                  const struct attention_place &place, int query, int rows,
                                                  const convoy_fp16 *shared)
{
    constexpr int CELLS = D / NHWC_CELL;
    const attention_rows to(job.shape.y, place, job.shape.queries);
    __syncwarp();
    for (int i = (int)threadIdx.x % 32; i < rows * CELLS; i += 32) {
        int row = i / CELLS, channel = i % CELLS * NHWC_CELL;
        if (query + row < job.shape.queries && channel < job.shape.d)
            *reinterpret_cast<uint4 *>(job.y + to.at(query + row) + channel) =
                *reinterpret_cast<const uint4 *>(shared + row * (D + PAD) + channel);
    }
    __syncwarp();
}

/* All keys and values, step by step, for the warp's rows from `query` on, whose queries are in `own`. */
template <int D, int PIECES>
static __device__ __forceinline__ void
walk(const struct attention_job &job, const struct attention_place &place, int query, convoy_fp16 *shared,
     const convoy_fp16 *own, const struct attention_rows &keys, const struct attention_rows &values,
     struct attention_sums<D> (&sums)[PIECES])
{
    const struct convoy_nhwc_attention &shape = job.shape;
    int lane = (int)threadIdx.x % 32;
    float unit = job.scaled ? 1.0f : shape.scale * ATTENTION_LOG2_E;
    uint32_t q[PIECES][D / 16][4];
    for (int first = 0, step = 0; first < shape.keys; first += KEYS, step++) {
        convoy_copies_wait<STAGES<D> - 1>();
        __syncthreads();
        if (step == 0) {
            const char *from = reinterpret_cast<const char *>(own + lane % 16 * (D + PAD) + lane / 16 * 8);
#pragma unroll
            for (int p = 0; p < PIECES; p++)
#pragma unroll
                for (int i = 0; i < D / 16; i++)
                    convoy_load_matrices(q[p][i], from,
                                         (p * PIECE * (D + PAD) + i * 16) * (int)sizeof(convoy_fp16));
        }
        if (query < shape.queries) {
            const convoy_fp16 *stage = stage_of<D>(shared, step);
            int left = shape.keys - first, parts = left >= KEYS ? KEYS / 16 : (left + 15) / 16;
            float s[PIECES][KEYS / 8][4];
            multiply_keys<D, PIECES>(q, stage, parts, s);
#pragma unroll
            for (int p = 0; p < PIECES; p++) {
                if (job.scaled)
                    add_bias(job, place, first, query + p * PIECE, s[p]);
                if (left < KEYS)
                    rule_out(left, s[p]);
                take_shares<D>(s[p], unit, sums[p]);
            }
            add_values<D, PIECES>(s, stage + job.rows * (D + PAD), parts, sums);
        }
        if (first + STAGES<D> * KEYS < shape.keys)
            __syncthreads(); /* the step is written over */
        copy_step<D>(job, keys, values, step + STAGES<D>, shared);
    }
}

template <int D, int PIECES>
__global__ void __launch_bounds__(BLOCK_ROWS / PIECES * 2)
    nhwc_attention(CONVOY_PARAMETER(struct attention_job) job)
{
    constexpr int WARP_ROWS = PIECES * PIECE;
    CONVOY_DYNAMIC_SHARED(convoy_fp16, shared);
    const struct convoy_nhwc_attention &shape = job.shape;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    convoy_fp16 *own = shared + (2 * job.rows + warp * WARP_ROWS) * (D + PAD);
    int64_t items = shape.n * shape.windows * shape.heads * job.tiles;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
        struct attention_place place = place_of(job, item, (int)blockDim.x / 32 * WARP_ROWS);
        int query = place.query + warp * WARP_ROWS;
        struct attention_sums<D> sums[PIECES] = {
        };
#pragma unroll
        for (int p = 0; p < PIECES; p++)
            sums[p].largest[0] = sums[p].largest[1] = -INFINITY;
        /* The queries are in the same group of copies as the first keys. */
        const attention_rows queries(shape.q, place, shape.queries), keys(shape.k, place, shape.keys),
            values(shape.v, place, shape.keys);
        copy_rows<D>(queries, job.q, shape.queries, shape.d, query, WARP_ROWS, own, lane, 32);
        for (int step = 0; step < STAGES<D>; step++)
            copy_step<D>(job, keys, values, step, shared);
        walk<D, PIECES>(job, place, query, shared, own, keys, values, sums);
        if (query < shape.queries) {
#pragma unroll
            for (int p = 0; p < PIECES; p++)
                put_rows<D>(job, place, query + p * PIECE, sums[p], own + p * PIECE * (D + PAD));
            write_rows<D>(job, place, query, WARP_ROWS, own);
        }
        __syncthreads(); /* before keys and values are written again */
    }
}

template <int D, int PIECES> static cudaError_t launch(struct attention_job *job, cudaStream_t stream)
{
    const struct convoy_nhwc_attention *shape = &job->shape;
    int64_t heads = shape->n * shape->windows * shape->heads, most = BLOCK_ROWS / (PIECES * PIECE);
    int64_t parts = convoy_div_up(shape->queries, PIECES * PIECE);
    /* Each block reads all keys and values, so blocks are as large as keeps the chip busy. */
    while (most > 2 && heads * convoy_div_up(parts, most) < NHWC_SMS)
        most /= 2;
    job->tiles = (int)convoy_div_up(parts, most);
    int warps = (int)convoy_div_up(parts, job->tiles);
    int rows = (shape->keys + PIECE - 1) / PIECE * PIECE;
    job->rows = rows < STAGES<D> * KEYS ? rows : STAGES<D> * KEYS;
    size_t bytes = (size_t)(2 * job->rows + warps * PIECES * PIECE) * (D + PAD) * sizeof(convoy_fp16);
    return convoy_launch_early(nhwc_attention<D, PIECES>, convoy_grid(heads * job->tiles, 1), warps * 32,
                               bytes, stream, *job);
}

cudaError_t convoy_launch_nhwc_attention(const struct convoy_nhwc_attention *shape, const convoy_fp16 *q,
                                         const convoy_fp16 *k, const convoy_fp16 *v, const float *bias,
                                         convoy_fp16 *y, struct convoy_overflow overflow, cudaStream_t stream)
{
    /* Without a bias, and with one factor above 0, products are compared before they are multiplied by it. */
    bool scaled = bias != nullptr || shape->head_scale != nullptr || !(shape->scale > 0);
    struct attention_job job = {*shape, q, k, v, bias, y, 0, 0, scaled, overflow};
    if (shape->d % NHWC_CELL != 0 || shape->d < 1 || shape->keys < 1 || shape->queries < 1)
        return cudaErrorInvalidValue;
    if (attention_wgmma_takes(&job))
        return attention_wgmma_launch(&job, stream);
    /* Two warps of one piece are done sooner than one of two where there are multiprocessors for both. */
    bool few = shape->n * shape->windows * shape->heads * convoy_div_up(shape->queries, 64) < NHWC_SMS;
    if (shape->d <= 16)
        return few ? launch<16, 1>(&job, stream) : launch<16, 2>(&job, stream);
    if (shape->d <= 32)
        return few ? launch<32, 1>(&job, stream) : launch<32, 2>(&job, stream);
    if (shape->d <= 64)
        return few ? launch<64, 1>(&job, stream) : launch<64, 2>(&job, stream);
    if (shape->d <= 96)
        return launch<96, 1>(&job, stream);
    return shape->d <= CONVOY_NHWC_ATTENTION_CHANNELS ? launch<128, 1>(&job, stream) : cudaErrorInvalidValue;
}
