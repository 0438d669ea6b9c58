/* The first layer of a network from its images as they come, on warpgroups: convolution, bias, activation
 * and, where it follows, max pooling over 3 x 3 outputs, two apart, in one launch.
 *
 * Idea. What a filter row multiplies lies side by side in a row of pixels, and begins 16 bytes further for
 * the next output where a pixel takes 16 bytes, or 8 with a stride of 2. A matrix of wgmma without swizzling
 * is made of pieces, 8 rows of 16 bytes, and the descriptor says how far they are apart. So the row of pixels
 * in shared memory is the matrix of 64 outputs by one filter row as it is: its pieces overlap. No input is
 * unrolled, by nothing.
 *
 * A block takes an image, or a band of it, and goes down, two rows of outputs at a time; each of its two
 * warpgroups computes 64 columns of both. Meanwhile its threads have the next rows of the image on the way in
 * registers, which they then convert to fp16 and put into a ring of rows, and write the results of the pair
 * before to memory. Results go through shared memory, in two places by turns: with pooling one line, the
 * largest of three rows, taken in registers, of which the pair before left the first; without pooling both
 * rows. Two blocks share a multiprocessor. The weights, 29 KB for 7 x 7 and 64 maps, stay in shared memory.
 * A pixel has room for a fourth channel, which is 1: its weight is the bias.
 *
 * Limits: up to 3 channels, up to 64 maps, stride 1 or 2, the filters of the list below.
 *
 * Arithmetic, 256 images of 3 x 224 x 224 floats, 7 x 7, stride 2, 64 maps, with pooling: 154 MB in, 103 MB
 * out, 61 us at 4.2 TB/s. Each 64 x 64 outputs take 14 products of 32 cycles, in which A and B fill shared
 * memory's 128 bytes a cycle: 57,344 x 448 cycles on 132 multiprocessors, 115 us. Predicted 165 us with what
 * else passes through shared memory. Measured on an H200: 225 us; 8 images 21.2, one 13.1. Of the pair before
 * a band pooling wants the second row alone; with both, and weights that came before pixels were asked for,
 * it was 240, 23.6 and 14.5. Instructions bound it: products use 59 % of shared memory's cycles, and
 * conversion, pooling and stores do not hide behind them wholly. Before, in three launches: 776 us. */
#include "kernels/device/async_copy.cuh"
#include "kernels/device/conv_shape.h"
#include "kernels/device/launch.cuh"
#include "kernels/device/tensor_copy.cuh"
#include "kernels/nhwc/nhwc_common.h"
#include "kernels/nhwc/stem_rows.cuh"

#define STEM_LEAST 0xfc00fc00u /* minus infinity, twice */

template <typename TILE>
static __device__ __forceinline__ void stem_ask_weights(const struct stem_job &job, char *shared)
{
    constexpr int PIECE = STEM_THREADS * 16;
#pragma unroll
    for (int i = 0; i < TILE::WEIGHT_BYTES; i += PIECE) {
        int at = i + (int)threadIdx.x * 16;
        if (at < TILE::WEIGHT_BYTES)
            convoy_copy_async<16>(shared + at, job.weights + at, 16);
    }
    convoy_copies_end();
}

/* Once the weights are there, puts the bias beside them: rounded to fp16, and what that leaves, for channel 3
 * of the first two pixels of the first filter row. */
template <typename TILE>
static __device__ __forceinline__ void stem_put_bias(const struct stem_job &job, char *shared)
{
    convoy_copies_wait<0>();
    __syncthreads();
    int map = (int)threadIdx.x;
    if (job.bias != nullptr && map < job.maps) {
        constexpr int SECOND = TILE::PIXEL + STEM_CHANNELS;
        uint32_t most = convoy_half2(job.bias[map], 0.0f);
        uint32_t rest = convoy_half2(job.bias[map] - convoy_from_half(most), 0.0f);
        convoy_fp16 *to = reinterpret_cast<convoy_fp16 *>(shared) + map * 8;
        to[STEM_CHANNELS] = (convoy_fp16)most;
        to[SECOND / 8 * TILE::N * 8 + SECOND % 8] = (convoy_fp16)rest;
    }
    convoy_wgmma_publish();
}

/* Begins to add up a pair's rows of outputs, or its second one, 64 columns by N maps, of a warpgroup. */
template <int R, int STEPS, int STRIDE, typename TILE, int ROWS, int NT>
static __device__ __forceinline__ void stem_multiply(const char *shared, int pair, int warpgroup,
                                                     float (&sum)[ROWS][NT][4])
{
    const uint64_t b = convoy_matrix(shared, 16 * TILE::N, 128);
    const uint64_t a = convoy_matrix(shared + TILE::RING + warpgroup * (STEM_OUTPUTS / 2 * 16), 16, 128);
    int first = pair % TILE::GROUPS * TILE::GROUP;
    convoy_wgmma_begin();
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int step = 0; step < STEPS; step++)
#pragma unroll
            for (int row = 0; row < ROWS; row++) {
                int slot = first + (row + 2 - ROWS) * STRIDE + r;
                slot -= slot >= TILE::RING_ROWS ? TILE::RING_ROWS : 0;
                convoy_wgmma_tiles<NT>(sum[row],
                                       convoy_matrix_at(a, slot * (TILE::ROW_BYTES / 16) + step * 2),
                                       convoy_matrix_at(b, (r * STEPS + step) * (TILE::STEP_BYTES / 16)));
            }
    convoy_wgmma_end();
}

/* Where a lane's two numbers of tile j of output `column` lie in a line of results. */
template <typename TILE>
static __device__ __forceinline__ uint32_t *stem_word(char *line, int column, int j, int lane)
{
    constexpr int BYTES = TILE::N * 2;
    return reinterpret_cast<uint32_t *>(line + column * BYTES + convoy_swizzled_cell<BYTES>(column, j) * 16 +
                                        lane % 4 * 4);
}

template <typename TILE>
static __device__ __forceinline__ uint4 stem_cell(const char *line, int column, int cell)
{
    constexpr int BYTES = TILE::N * 2;
    return *reinterpret_cast<const uint4 *>(line + column * BYTES +
                                            convoy_swizzled_cell<BYTES>(column, cell) * 16);
}

/* Is this column an output of the convolution, and are its inputs all there? */
template <typename TILE>
static __device__ __forceinline__ bool stem_is_output(const struct stem_job &job, const stem_part &part,
                                                      int column)
{
    return column < TILE::OUTPUTS && (unsigned)(part.column + column) < (unsigned)job.columns;
}

/* From sums to results: both rows, or with pooling the largest of three, of which `before` is the first and
 * then the next pair's first. A row that is not there counts as the least. */
template <typename TILE, bool POOL, int NT>
static __device__ __forceinline__ void stem_finish(const struct stem_job &job, const stem_part &part,
                                                   int pair, float (&sum)[2][NT][4],
                                                   uint32_t (&before)[2][NT], char *results)
{
    int lane = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32 * 16 + lane / 4;
    int y = stem_part::row_of<POOL>(job, pair);
    bool relu = job.act.kind == CONVOY_UNARY_RELU; /* of fp16: fewer instructions */
    bool over = false,
         row_there[2] = {(unsigned)y < (unsigned)job.rows, (unsigned)(y + 1) < (unsigned)job.rows};
    results += (pair & 1) * TILE::RESULT_BYTES;
    if (!relu) {
        nhwc_activate_all(job.act, sum[0]);
        nhwc_activate_all(job.act, sum[1]);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int column = first + half * 8;
        uint32_t wrong[2] = {};
#pragma unroll
        for (int j = 0; j < NT; j++) {
            uint32_t word[2];
#pragma unroll
            for (int row = 0; row < 2; row++) {
                word[row] = convoy_half2(sum[row][j][half * 2], sum[row][j][half * 2 + 1]);
                nhwc_collect_over(word[row], &wrong[row]);
                if (POOL && !row_there[row])
                    word[row] = STEM_LEAST;
            }
            uint32_t result = POOL ? nhwc_larger(nhwc_larger(word[0], word[1]), before[half][j]) : word[0];
            before[half][j] = word[1];
            *stem_word<TILE>(results, column, j, lane) = relu ? nhwc_larger(result, 0u) : result;
            if (!POOL)
                *stem_word<TILE>(results + TILE::LINE_BYTES, column, j, lane) =
                    relu ? nhwc_larger(word[1], 0u) : word[1];
        }
        over |= stem_is_output<TILE>(job, part, column) &&
                ((row_there[0] && nhwc_any_over(wrong[0])) || (row_there[1] && nhwc_any_over(wrong[1])));
    }
    nhwc_tell(job.overflow, over, part.n);
}

/* The second row of the pair before a band: all that pooling wants of it. */
template <typename TILE, int NT>
static __device__ __forceinline__ void stem_keep(const struct stem_job &job, const stem_part &part,
                                                 float (&sum)[1][NT][4], uint32_t (&before)[2][NT])
{
    int first = (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4;
    int y = stem_part::row_of<true>(job, part.first) + 1;
    bool over = false, row_there = (unsigned)y < (unsigned)job.rows;
    if (job.act.kind != CONVOY_UNARY_RELU)
        nhwc_activate_all(job.act, sum[0]);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint32_t wrong = 0;
#pragma unroll
        for (int j = 0; j < NT; j++) {
            uint32_t word = convoy_half2(sum[0][j][half * 2], sum[0][j][half * 2 + 1]);
            nhwc_collect_over(word, &wrong);
            before[half][j] = row_there ? word : STEM_LEAST;
        }
        over |= stem_is_output<TILE>(job, part, first + half * 8) && row_there && nhwc_any_over(wrong);
    }
    nhwc_tell(job.overflow, over, part.n);
}

/* Stores without a branch, over which the compiler keeps no products of warpgroups in flight. */
static __device__ __forceinline__ void stem_store_if(bool mine, convoy_fp16 *to, const uint4 &cell)
{
#ifdef __CUDACC__
    asm volatile("{.reg .pred mine;\n\t"
                 "setp.ne.u32 mine, %1, 0;\n\t"
                 "@mine st.global.v4.b32 [%0], {%2, %3, %4, %5};}" ::"l"(to),
                 "r"((int)mine), "r"(cell.x), "r"(cell.y), "r"(cell.z), "r"(cell.w)
                 : "memory");
#else
    if (mine)
        *reinterpret_cast<uint4 *>(to) = cell;
#endif
}

/* Writes a row of y, or without pooling two, from the results of a pair. */
template <typename TILE, bool POOL>
static __device__ __forceinline__ void stem_store(const struct stem_job &job, const stem_part &part, int pair,
                                                  const char *results)
{
    constexpr int CELLS = TILE::N / NHWC_CELL,
                  ROW = (POOL ? STEM_OUTPUTS / STEM_APART : STEM_OUTPUTS) * CELLS;
    constexpr int ROWS = POOL ? 1 : 2;
    int columns = min(job.segment, job.y_columns - part.y_column);
    bool there = pair >= part.first + (POOL ? 1 : 0);
    results += (pair & 1) * TILE::RESULT_BYTES;
    convoy_fp16 *to =
        job.y + (((int64_t)part.n * job.y_rows + pair * ROWS) * job.y_columns + part.y_column) * job.y_pixel;
#pragma unroll
    for (int i = 0; i < ROWS * ROW; i += STEM_THREADS) {
        int at = (int)threadIdx.x + i % ROW, column = at / CELLS, cell = at % CELLS, row = i / ROW;
        const char *line = results + row * TILE::LINE_BYTES;
        uint4 value;
        if (POOL) { /* what lies outside is another column of the window */
            int least = max(0, -part.column), most = min(STEM_OUTPUTS, job.columns - part.column) - 1;
            int left = column * STEM_APART;
            value = nhwc_larger(stem_cell<TILE>(line, min(max(left, least), most), cell),
                                nhwc_larger(stem_cell<TILE>(line, min(left + 1, most), cell),
                                            stem_cell<TILE>(line, min(left + 2, most), cell)));
        } else {
            value = stem_cell<TILE>(line, column, cell);
        }
        bool mine = there && at < ROW && column < columns && cell < job.cells &&
                    (POOL || pair * ROWS + row < job.y_rows);
        stem_store_if(mine, to + (row * job.y_columns + column) * job.y_pixel + cell * NHWC_CELL, value);
    }
}

template <int R, int STEPS, int STRIDE, int NT, bool POOL>
static __global__ void __launch_bounds__(STEM_THREADS, stem_tile<R, STEPS, STRIDE, NT, POOL>::BLOCKS)
    nhwc_stem(CONVOY_PARAMETER(struct stem_job) job)
{
    using tile = stem_tile<R, STEPS, STRIDE, NT, POOL>;
    CONVOY_DYNAMIC_SHARED(char, shared);
    char *ring = shared + tile::RING, *results = shared + tile::RESULTS;
    int warpgroup = convoy_uniform((int)threadIdx.x / CONVOY_WARPGROUP);
    convoy_let_next_begin();
    stem_ask_weights<tile>(job, shared);
    convoy_wait_for_previous();
    int parts = job.n * job.bands * job.segments;
    for (int number = (int)blockIdx.x; number < parts; number += (int)gridDim.x) {
        const stem_part part = stem_part::of<POOL, STRIDE>(job, number);
        {
            stem_pixels<tile> pixels[tile::NEEDED];
#pragma unroll
            for (int group = 0; group < tile::NEEDED; group++)
                pixels[group].ask(job, part, group, true);
#pragma unroll
            for (int group = 0; group < tile::NEEDED; group++)
                pixels[group].put(job, part, group, ring);
        }
        if (number == (int)blockIdx.x)
            stem_put_bias<tile>(job, shared);
        uint32_t before[2][NT];
        if constexpr (POOL) {
            stem_pixels<tile> pixels;
            float sum[1][NT][4] = {};
            __syncthreads();
            pixels.ask(job, part, tile::NEEDED, true);
            stem_multiply<R, STEPS, STRIDE, tile>(shared, 0, warpgroup, sum);
            convoy_wgmma_wait<0>();
            stem_keep<tile>(job, part, sum, before);
            pixels.put(job, part, tile::NEEDED, ring);
        }
        for (int pair = part.first + (POOL ? 1 : 0); pair < part.end; pair++) {
            int next = pair - part.first + tile::NEEDED;
            stem_pixels<tile> pixels;
            float sum[2][NT][4] = {};
            __syncthreads(); /* the rows and the results of the pair before are there; those before it were
                                read */
            pixels.ask(job, part, next, pair + 1 < part.end);
            stem_multiply<R, STEPS, STRIDE, tile>(shared, pair - part.first, warpgroup, sum);
            stem_store<tile, POOL>(job, part, pair - 1, results);
            convoy_wgmma_wait<0>();
            stem_finish<tile, POOL>(job, part, pair, sum, before, results);
            if (pair + 1 < part.end)
                pixels.put(job, part, next, ring);
        }
        __syncthreads();
        stem_store<tile, POOL>(job, part, part.end - 1, results);
    }
}

/* ---- Shapes ---- */

/* Filter rows, products of a filter row, stride, tiles of 8 maps, the most maps that are too few, pooling. */
enum { alone, pooled };
#define STEM_INSTANCES(X)                                                                                    \
    X(7, 2, 2, 8, 0, pooled)                                                                                 \
    X(7, 2, 2, 8, 0, alone)                                                                                  \
    X(3, 1, 2, 8, 32, pooled)                                                                                \
    X(3, 1, 2, 8, 32, alone)                                                                                 \
    X(3, 1, 2, 4, 0, pooled)                                                                                 \
    X(3, 1, 2, 4, 16, alone)                                                                                 \
    X(3, 1, 2, 2, 0, alone)                                                                                  \
    X(3, 2, 1, 8, 32, alone)                                                                                 \
    X(3, 2, 1, 4, 0, alone)

/* Does each window have an output within? */
static bool pool_fits(const struct convoy_conv_shape *s)
{
    const struct convoy_nhwc_pool *pool = &s->nhwc.pool;
    return (pool->pad == 0 || pool->pad == 1) && (pool->oh - 1) * STEM_APART - pool->pad < s->oh &&
           (pool->ow - 1) * STEM_APART - pool->pad < s->ow;
}

template <int R, int STEPS, int STRIDE, int NT, int TOO_FEW, bool POOL>
static bool takes(const struct convoy_conv_shape *s)
{
    using tile = stem_tile<R, STEPS, STRIDE, NT, POOL>;
    return s->nhwc.on && s->nhwc.images && s->c <= STEM_CHANNELS && s->r == R &&
           convoy_div_up(s->s * tile::PIXEL, 16) == STEPS && s->stride[0] == STRIDE &&
           s->stride[1] == STRIDE && s->dilation[0] == 1 && s->dilation[1] == 1 && s->groups == 1 &&
           s->k > TOO_FEW && s->k <= tile::N && !s->residual && s->pool == 1 &&
           s->compute_type >= CONVOY_COMPUTE_FP16 && POOL == (s->nhwc.pool.oh > 0) &&
           (!POOL || pool_fits(s)) && s->nhwc.y_pixel % NHWC_CELL == 0 && convoy_has_wgmma();
}

/* What device memory, the products and the launch take. */
template <int R, int STEPS, int NT> static float estimate(const struct convoy_conv_shape *s)
{
    double outputs = (double)s->n * s->oh * s->ow;
    double written = s->nhwc.pool.oh > 0 ? (double)s->n * s->nhwc.pool.oh * s->nhwc.pool.ow : outputs;
    double bytes = (double)s->n * s->c * s->h * s->w * (s->u8 ? 1 : 4) + written * s->k * 2;
    double products = outputs / CONVOY_ESTIMATE_FLOPS_PER_US * R * STEPS * 2 * NT; /* a third of the peak */
    return (float)(bytes / CONVOY_ESTIMATE_BYTES_PER_US + products) + CONVOY_ESTIMATE_LAUNCH_US;
}

template <int R, int STEPS, int STRIDE, int NT> static size_t packed_floats(const struct convoy_conv_shape *)
{
    return stem_tile<R, STEPS, STRIDE, NT, false>::WEIGHT_BYTES / sizeof(float);
}

/* Product after product, of each the first and the last 8 numbers of the reduction, map after map: pieces of
 * 8 maps by 16 bytes. */
template <int R, int STEPS, int STRIDE, int NT>
static void pack(const struct convoy_conv_shape *s, const float *weights, float *packed)
{
    using tile = stem_tile<R, STEPS, STRIDE, NT, false>;
    convoy_fp16 *to = reinterpret_cast<convoy_fp16 *>(packed);
    for (int half = 0; half < R * STEPS * 2; half++)
        for (int k = 0; k < tile::N; k++)
            for (int i = 0; i < 8; i++) {
                int at = half % (STEPS * 2) * 8 + i, column = at / tile::PIXEL, c = at % tile::PIXEL;
                bool there = k < s->k && c < s->c && column < s->s;
                *to++ =
                    there ? convoy_half(weights[((k * s->c + c) * s->r + half / (STEPS * 2)) * s->s + column])
                          : (convoy_fp16)0;
            }
}

/* ---- Launch ---- */

/* The number of bands of each image that takes the least time: turns of the blocks, each of so many pairs of
 * rows and what a band costs besides. */
static int bands_for(int64_t parts, int64_t slots, int pairs, bool pool)
{
    const double beside = pool ? 2.0 : 1.5; /* in pairs of rows; pooling needs another row */
    double least = 0;
    int best = 1;
    for (int bands = 1; bands <= pairs; bands++) {
        double time =
            (double)convoy_div_up(parts * bands, slots) * ((double)convoy_div_up(pairs, bands) + beside);
        if (bands == 1 || time < least) {
            least = time;
            best = bands;
        }
    }
    return best;
}

template <int R, int STEPS, int STRIDE, int NT, bool POOL>
static cudaError_t launch(const struct convoy_conv_shape *s, const struct convoy_conv_operands *operands,
                          cudaStream_t stream)
{
    using tile = stem_tile<R, STEPS, STRIDE, NT, POOL>;
    const int most = POOL ? (tile::OUTPUTS - STEM_WINDOW) / STEM_APART + 1 : tile::OUTPUTS;
    struct stem_job job = {};
    job.images = operands->x;
    job.n = s->n;
    job.c = s->c;
    job.h = s->h;
    job.w = s->w;
    job.pad[0] = s->pad[0];
    job.pad[1] = s->pad[1];
    job.rows = s->oh;
    job.columns = s->ow;
    job.y_rows = POOL ? s->nhwc.pool.oh : s->oh;
    job.y_columns = POOL ? s->nhwc.pool.ow : s->ow;
    job.pool_pad = s->nhwc.pool.pad;
    job.segments = (int)convoy_div_up(job.y_columns, most);
    job.segment = (int)convoy_div_up(job.y_columns, job.segments);
    int pairs = POOL ? job.y_rows : (int)convoy_div_up(s->oh, 2);
    int blocks = NHWC_SMS * tile::BLOCKS;
    int bands = bands_for((int64_t)s->n * job.segments, blocks, pairs, POOL);
    job.band = (int)convoy_div_up(pairs, bands);
    job.bands = (int)convoy_div_up(pairs, job.band);
    job.maps = s->k;
    job.cells = (int)(convoy_nhwc_channels(s->k) / NHWC_CELL);
    job.weights = reinterpret_cast<const char *>(operands->weights);
    job.bias = s->bias ? operands->bias : nullptr;
    job.y = reinterpret_cast<convoy_fp16 *>(operands->y);
    job.y_pixel = s->nhwc.y_pixel;
    job.act = s->act;
    job.overflow = operands->overflow;
    int64_t parts = (int64_t)s->n * job.bands * job.segments;
    if (parts > INT32_MAX)
        return cudaErrorInvalidValue;
    return convoy_launch_early(nhwc_stem<R, STEPS, STRIDE, NT, POOL>,
                               dim3((unsigned)(parts < blocks ? parts : blocks)), dim3(STEM_THREADS),
                               tile::SHARED_BYTES, stream, job);
}

#define STEM(R, STEPS, STRIDE, NT, TOO_FEW, POOL)                                                            \
    {"nhwc_stem:" #R "/" #STRIDE "x" #NT "/" #POOL,                                                          \
     CONVOY_COMPUTE_FP16,                                                                                    \
     takes<R, STEPS, STRIDE, NT, TOO_FEW, POOL>,                                                             \
     estimate<R, STEPS, NT>,                                                                                 \
     packed_floats<R, STEPS, STRIDE, NT>,                                                                    \
     pack<R, STEPS, STRIDE, NT>,                                                                             \
     convoy_no_scratch,                                                                                      \
     launch<R, STEPS, STRIDE, NT, POOL>,                                                                     \
     true},

const struct convoy_conv_kernel convoy_conv_nhwc_stem[CONVOY_NHWC_STEM_KERNELS] = {STEM_INSTANCES(STEM)};
