/* Attention on warpgroups, for heads of 64 channels, at most 256 keys and no bias, as vision transformers
 * have them. Compute capability 9.0 alone.
 *
 * A block is a warpgroup and makes one head of one window, or where there are fewer heads than
 * multiprocessors 64 queries of it: each of these blocks has all keys and values, and the numbers are the
 * same. Keys and values lie in shared memory as a whole, so nothing is scaled down as keys come. 64 queries
 * at a time: their products with all keys stay in registers, become shares there, are rounded to fp16 and
 * are, still in registers, the left side of the product with the values. The next queries come meanwhile.
 * Three blocks a multiprocessor keep the tensor cores, the special functions and the copies busy beside each
 * other.
 *
 * Rows are 128 bytes, swizzled as the copy engine does, which asynchronous copies of 16 bytes do as well, and
 * these take rows from anywhere.
 *
 * Operations: 4 queries keys 64 for each head; an exponential for each query and key, of which a
 * multiprocessor makes 16 a cycle. Floor of memory: 2 bytes for each number of q, k, v and y.
 *
 * Predicted 130 us for 12 heads of 197 x 64, 256 images, where attention.cu takes 365. Measured within
 * vit_b_16 on an H100: 12 of them and the rest 20.58 ms in place of 22.09, so some 240 us each. 168
 * registers, of which a few are spilled; the profiler has not seen it. What dividing queries saves by itself
 * was not measured: conv_maps.cu has times of vit_b_16 with both. */
#include "kernels/device/async_copy.cuh"
#include "kernels/nhwc/attention.cuh"
#include "kernels/nhwc/conv_wgmma.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"

#define CHANNELS   64
#define ROW_BYTES  (CHANNELS * 2)
#define QUERIES    64 /* of a tile */
#define TILE_BYTES (QUERIES * ROW_BYTES)
#define PART       16 /* keys of a product with values */
#define PART_BYTES (PART * ROW_BYTES)

/* PARTS times 16 keys; two tiles of queries; 1024 to begin on a multiple of that. */
template <int PARTS> static constexpr int SHARED_BYTES = 2 * PARTS *PART_BYTES + 2 * TILE_BYTES + 1024;
/* Blocks of a multiprocessor: as many as registers and shared memory allow. */
template <int PARTS> static constexpr int BLOCKS = PARTS <= 4 ? 4 : PARTS <= 13 ? 3 : 2;

/* Where a cell of a row lies. */
static __device__ __forceinline__ int cell_at(int row, int cell)
{
    return row * ROW_BYTES + (cell ^ row % 8) * 16;
}

/* Asks for `rows` rows from row `first` on, of which there are `count`; zeros where there is none. */
static __device__ __forceinline__ void copy_rows(const attention_rows &from, const convoy_fp16 *x, int count,
                                                 int first, int rows, char *to)
{
    constexpr int CELLS = ROW_BYTES / 16;
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < rows * CELLS; i += CONVOY_WARPGROUP) {
        int row = i / CELLS, cell = i % CELLS;
        bool there = first + row < count;
        convoy_copy_async<16>(to + cell_at(row, cell),
                              there ? x + from.at(first + row) + cell * NHWC_CELL : x, there ? 16 : 0);
    }
}

/* The products of 64 queries with all keys. */
template <int PARTS>
static __device__ __forceinline__ void multiply_keys(const char *queries, const char *keys,
                                                     float (&s)[PARTS * 2][4])
{
    uint64_t a = convoy_matrix_swizzled<ROW_BYTES>(queries), b = convoy_matrix_swizzled<ROW_BYTES>(keys);
#pragma unroll
    for (int j = 0; j < PARTS * 2; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[j][e] = 0.0f;
    convoy_wgmma_begin();
#pragma unroll
    for (int step = 0; step < CHANNELS / 16; step++)
        nhwc_multiply<PARTS * 2, ROW_BYTES>(s, convoy_matrix_at(a, step * 2), convoy_matrix_at(b, step * 2));
    convoy_wgmma_end();
    convoy_wgmma_wait<0>();
}

/* Turns products into shares, not yet divided by their sum, in fp16. unit: what a product is multiplied by to
 * be in units of ln 2, above 0. sum: of this lane's keys alone, of row lane / 4 and the one 8 below it. */
template <int PARTS>
static __device__ __forceinline__ void take_shares(float (&s)[PARTS * 2][4], int keys, float unit,
                                                   uint32_t (&shares)[PARTS][4], float (&sum)[2])
{
    int key = (int)threadIdx.x % 4 * 2;
    float from[2];
#pragma unroll
    for (int j = 0; j < PARTS * 2; j++)
        if (j * 8 + 8 > keys)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (j * 8 + key + e % 2 >= keys)
                    s[j][e] = -INFINITY;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float largest = -INFINITY;
#pragma unroll
        for (int j = 0; j < PARTS * 2; j++)
            largest = fmaxf(largest, fmaxf(s[j][2 * half], s[j][2 * half + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
        from[half] = largest * unit;
        sum[half] = 0.0f;
    }
#pragma unroll
    for (int j = 0; j < PARTS * 2; j++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float left = convoy_rough_exp2(fmaf(s[j][2 * half], unit, -from[half]));
            float right = convoy_rough_exp2(fmaf(s[j][2 * half + 1], unit, -from[half]));
            sum[half] += left + right;
            shares[j / 2][j % 2 * 2 + half] = convoy_half2(left, right);
        }
}

template <int PARTS>
static __device__ __forceinline__ void add_values(const uint32_t (&shares)[PARTS][4], const char *values,
                                                  float (&o)[CHANNELS / 8][4])
{
    uint64_t b = convoy_matrix_swizzled<ROW_BYTES>(values);
#pragma unroll
    for (int i = 0; i < CHANNELS / 8; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            o[i][e] = 0.0f;
    convoy_wgmma_begin();
#pragma unroll
    for (int part = 0; part < PARTS; part++)
        convoy_wgmma_registers(o, shares[part], convoy_matrix_at(b, part * (PART_BYTES / 16)));
    convoy_wgmma_end();
    convoy_wgmma_wait<0>();
}

/* Divides by the sums and writes the warp's 16 rows, from `query` on, by way of shared memory. */
static __device__ __forceinline__ void write_rows(const struct attention_job &job,
                                                  const struct attention_place &place, int query,
                                                  const float (&o)[CHANNELS / 8][4], const float (&sums)[2],
                                                  char *shared)
{
    constexpr int CELLS = ROW_BYTES / 16;
    const attention_rows to(job.shape.y, place, job.shape.queries);
    int lane = (int)threadIdx.x % 32;
    bool over = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = lane / 4 + half * 8;
        float sum = sums[half];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        float factor = 1.0f / sum;
        uint32_t wrong = 0;
#pragma unroll
        for (int i = 0; i < CHANNELS / 8; i++)
            *reinterpret_cast<uint32_t *>(shared + cell_at(row, i) + lane % 4 * 4) =
                nhwc_word(o[i][2 * half] * factor, o[i][2 * half + 1] * factor, &wrong);
        over |= query + row < job.shape.queries && nhwc_any_over(wrong);
    }
    nhwc_tell(job.overflow, over, place.n);
    __syncwarp();
    for (int i = lane; i < 16 * CELLS; i += 32) {
        int row = i / CELLS, cell = i % CELLS;
        if (query + row < job.shape.queries)
            *reinterpret_cast<uint4 *>(job.y + to.at(query + row) + cell * NHWC_CELL) =
                *reinterpret_cast<const uint4 *>(shared + cell_at(row, cell));
    }
}

template <int PARTS>
__global__ void __launch_bounds__(CONVOY_WARPGROUP, BLOCKS<PARTS>)
    nhwc_attention_wgmma(CONVOY_PARAMETER(struct attention_job) job)
{
    const struct convoy_nhwc_attention &shape = job.shape;
    char *keys = nhwc_shared(), *values = keys + PARTS * PART_BYTES, *queries = values + PARTS * PART_BYTES;
    int warp = convoy_uniform((int)threadIdx.x / 32);
    int64_t items = shape.n * shape.windows * shape.heads * job.tiles;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
        struct attention_place place = place_of(job, item, QUERIES);
        const attention_rows of_queries(shape.q, place, shape.queries), of_keys(shape.k, place, shape.keys),
            of_values(shape.v, place, shape.keys);
        int end = job.tiles == 1 ? shape.queries : place.query + 1; /* of the first ones of a tile */
        copy_rows(of_queries, job.q, shape.queries, place.query, QUERIES, queries);
        copy_rows(of_keys, job.k, shape.keys, 0, PARTS * PART, keys);
        copy_rows(of_values, job.v, shape.keys, 0, PARTS * PART, values);
        for (int query = place.query, tile = 0; query < end; query += QUERIES, tile++) {
            char *own = queries + tile % 2 * TILE_BYTES;
            convoy_copies_end();
            convoy_copies_wait<0>();
            convoy_wgmma_publish();
            __syncthreads(); /* and the results of the tile before are out of the other half */
            if (query + QUERIES < end)
                copy_rows(of_queries, job.q, shape.queries, query + QUERIES, QUERIES,
                          queries + (tile + 1) % 2 * TILE_BYTES);
            float s[PARTS * 2][4], o[CHANNELS / 8][4], sum[2];
            uint32_t shares[PARTS][4];
            multiply_keys<PARTS>(own, keys, s);
            take_shares<PARTS>(s, shape.keys, shape.scale * ATTENTION_LOG2_E, shares, sum);
            add_values<PARTS>(shares, values, o);
            write_rows(job, place, query + warp * 16, o, sum, own + warp * 16 * ROW_BYTES);
        }
        __syncthreads(); /* before keys and values are written again */
    }
}

static bool fills_chip(const struct convoy_nhwc_attention *shape)
{
    return shape->n * shape->windows * shape->heads >= NHWC_SMS;
}

bool attention_wgmma_takes(const struct attention_job *job)
{
    const struct convoy_nhwc_attention *shape = &job->shape;
    return shape->d == CHANNELS && shape->keys <= 16 * PART && !job->scaled && convoy_has_wgmma();
}

template <int PARTS> static cudaError_t launch(struct attention_job job, cudaStream_t stream)
{
    job.tiles = fills_chip(&job.shape) ? 1 : (int)convoy_div_up(job.shape.queries, QUERIES);
    return convoy_launch_early(nhwc_attention_wgmma<PARTS>,
                               convoy_grid(job.shape.n * job.shape.windows * job.shape.heads * job.tiles, 1),
                               CONVOY_WARPGROUP, SHARED_BYTES<PARTS>, stream, job);
}

cudaError_t attention_wgmma_launch(const struct attention_job *job, cudaStream_t stream)
{
    int keys = job->shape.keys;
    return keys <= 4 * PART    ? launch<4>(*job, stream)
           : keys <= 8 * PART  ? launch<8>(*job, stream)
           : keys <= 13 * PART ? launch<13>(*job, stream)
                               : launch<16>(*job, stream);
}
