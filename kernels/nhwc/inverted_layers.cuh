/* The three layers of inverted.cu, each for a warpgroup and a chunk of 64 channels of the middle. */
#ifndef CONVOY_KERNELS_NHWC_INVERTED_LAYERS_CUH
#define CONVOY_KERNELS_NHWC_INVERTED_LAYERS_CUH

#include "kernels/nhwc/conv_wgmma.cuh"
#include "kernels/nhwc/inverted_job.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"

struct inv_place {
    int n, y, x;     /* the patch's first output */
    int top, left;   /* what is read of x begins there, in the image */
    int down, right; /* and lies in the middle so far from its first line and column */
};

/* Row `row_of_lane` of the 16 that this warp has, counted among the warpgroup's 64. Of sums a lane also has
 * the row 8 below. */
static __device__ __forceinline__ int inv_row(int row_of_lane)
{
    return (int)threadIdx.x % CONVOY_WARPGROUP / 32 * 16 + row_of_lane;
}

static __device__ __forceinline__ void inv_tell(const struct inv_job &job, int layer, bool over, int n)
{
    nhwc_tell(convoy_overflow{job.overflow, job.marks[layer]}, over, n);
}

/* Collects what fp16 does not hold of four words, which do not wait for each other. */
static __device__ __forceinline__ void inv_collect_over(const uint32_t (&words)[4], uint32_t (&over)[4])
{
#pragma unroll
    for (int e = 0; e < 4; e++)
        nhwc_collect_over(words[e], &over[e]);
}

/* The biases of a lane's channels, two in each tile of 8. */
template <int N> struct inv_bias {
    float2 of[N];

    __device__ __forceinline__ explicit inv_bias(const float *bias)
    {
#pragma unroll
        for (int j = 0; j < N; j++)
            of[j] = *reinterpret_cast<const float2 *>(bias + j * 8 + (int)threadIdx.x % 4 * 2);
    }

    /* Sums begin with them. */
    __device__ __forceinline__ void begin(float (&sum)[N][4]) const
    {
#pragma unroll
        for (int j = 0; j < N; j++) {
            sum[j][0] = sum[j][2] = of[j].x;
            sum[j][1] = sum[j][3] = of[j].y;
        }
    }
};

template <enum convoy_unary_kind KIND, int N>
static __device__ __forceinline__ void inv_apply(float (&sum)[N][4])
{
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[j][e] = convoy_apply_unary<true>(convoy_unary{KIND, 0.0f, 0.0f}, sum[j][e]);
}

/* Two numbers in 16 bits, zeros in place of negative ones. */
static __device__ __forceinline__ uint32_t inv_positive(float low, float high)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t word;
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return nhwc_larger(convoy_half2(low, high), 0);
#endif
}

/* Results in 16 bits of sums of N tiles, in the order of a fragment (a of mma.cuh) for each two tiles. Bounds
 * are applied to rounded numbers, which gives the same bits: rounding keeps the order. */
template <int N>
static __device__ __forceinline__ void inv_activate(const struct inv_act &act, float (&sum)[N][4],
                                                    uint32_t (&words)[N / 2][4])
{
    if (act.kind == INV_SWISH)
        inv_apply<CONVOY_UNARY_SWISH>(sum);
    else if (act.kind == INV_HARD_SWISH)
        inv_apply<CONVOY_UNARY_HARD_SWISH>(sum);
    if (act.kind == INV_RELU || act.kind == INV_RELU_CLIP) {
#pragma unroll
        for (int i = 0; i < N * 2; i++)
            words[i / 4][i % 4] = inv_positive(sum[i / 2][i % 2 * 2], sum[i / 2][i % 2 * 2 + 1]);
        if (act.kind == INV_RELU_CLIP)
#pragma unroll
            for (int i = 0; i < N * 2; i++)
                words[i / 4][i % 4] = nhwc_smaller(words[i / 4][i % 4], act.high);
        return;
    }
#pragma unroll
    for (int i = 0; i < N * 2; i++)
        words[i / 4][i % 4] = convoy_half2(sum[i / 2][i % 2 * 2], sum[i / 2][i % 2 * 2 + 1]);
    if (act.kind == INV_CLIP)
#pragma unroll
        for (int i = 0; i < N * 2; i++)
            words[i / 4][i % 4] = nhwc_smaller(nhwc_larger(words[i / 4][i % 4], act.low), act.high);
}

/* ---- The first layer ---- */

/* A pixel of those that a patch reads. */
struct inv_pixel {
    int line, column;

    __device__ __forceinline__ inv_pixel(const struct inv_job &job, int number)
        : line((int)((unsigned)number * job.box_part >> 16)), column(number - line * job.box_w)
    {
    }
};

/* Zeros in what lies around the image of the middle, where the box has only what is in the image. */
template <typename TILE>
static __device__ __forceinline__ void inv_clear(const struct inv_job &job, const struct inv_place &place,
                                                 char *middle)
{
    constexpr int CELLS = INV_ROW_BYTES / 16;
    for (int i = (int)threadIdx.x % CONVOY_WARPGROUP; i < TILE::PIXELS * CELLS; i += CONVOY_WARPGROUP) {
        int pixel = i / CELLS, line = pixel / TILE::BOX, column = pixel % TILE::BOX;
        if ((unsigned)(line - place.down) >= (unsigned)job.box_h ||
            (unsigned)(column - place.right) >= (unsigned)job.box_w)
            *reinterpret_cast<uint4 *>(middle + (line * TILE::BOX + TILE::at_column(column)) * INV_PITCH +
                                       i % CELLS * 16) = make_uint4(0, 0, 0, 0);
    }
}

/* Where the results of a patch's pixels lie in the middle: for each piece and thread, of the pixel for which
 * it stores 8 channels, in units of 16 bytes. It is the same for all patches unless only what lies in the
 * image is read. */
template <typename TILE>
static __device__ __forceinline__ void inv_make_table(const struct inv_job &job, int down, int right,
                                                      char *table)
{
    int lane = (int)threadIdx.x % 32;
    for (int piece = 0; piece < job.pieces; piece++) {
        int number = piece * NHWC_PIECE + inv_row(lane % 16);
        const inv_pixel pixel(job, number);
        int line = pixel.line + down, column = pixel.column + right;
        int at = number < job.box_w * job.box_h && line < TILE::BOX && column < TILE::BOX
                     ? line * TILE::BOX + TILE::at_column(column)
                     : TILE::PIXELS;
        reinterpret_cast<uint16_t *>(table + piece * INV_TABLE_ROW)[threadIdx.x % CONVOY_WARPGROUP] =
            (uint16_t)(at * (INV_PITCH / 16) + lane / 16);
    }
}

/* Which pixels lie in the image: of piece i the bits 2 i, of row lane / 4 of the 16 that a warp has the
 * results of, and 2 i + 1, of the row 8 below. */
static __device__ __forceinline__ unsigned inv_find_inside(const struct inv_job &job,
                                                           const struct inv_place &place)
{
    unsigned inside = 0;
    for (int i = 0; i < job.pieces * 2; i++) {
        int number = i / 2 * NHWC_PIECE + inv_row((int)threadIdx.x % 32 / 4 + i % 2 * 8);
        const inv_pixel pixel(job, number);
        if (number < job.box_w * job.box_h && (unsigned)(place.top + pixel.line) < (unsigned)job.h &&
            (unsigned)(place.left + pixel.column) < (unsigned)job.w)
            inside |= 1u << i;
    }
    return inside;
}

/* For 64 pixels of a patch. Its results lie pixel by pixel in `middle`, zeros outside of the image. */
static __device__ __forceinline__ void inv_expand(const struct inv_job &job, const char *x,
                                                  const char *weights, const inv_bias<INV_CHANNELS / 8> &bias,
                                                  char *middle, const char *table, unsigned inside, int n,
                                                  int piece)
{
    float sum[INV_CHANNELS / 8][4];
    bias.begin(sum);
    uint64_t a = convoy_matrix_begin(job.rows, x + piece * NHWC_PIECE * job.x_row);
    uint64_t b = convoy_matrix_begin(job.rows, weights);
    int step = 0, steps = convoy_uniform(job.steps);
    convoy_wgmma_begin();
#pragma unroll 1
    do {
        int panel = step >> job.panel_shift, cell = (step & ((1 << job.panel_shift) - 1)) * 2;
        convoy_wgmma(sum, convoy_matrix_at(a, panel * job.x_panel + cell),
                     convoy_matrix_at(b, panel * job.w_panel + cell));
    } while (++step < steps);
    convoy_wgmma_end();
    convoy_wgmma_wait<0>();
    uint32_t words[INV_CHANNELS / 16][4];
    inv_activate(job.act[0], sum, words);
    inside >>= piece * 2;
    if ((inside & 3u) != 3u)
#pragma unroll
        for (int i = 0; i < INV_CHANNELS / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                words[i][e] = (inside >> e % 2 & 1u) != 0 ? words[i][e] : 0;
    if (job.looks[0]) {
        uint32_t over[4] = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < INV_CHANNELS / 16; i++)
            inv_collect_over(words[i], over);
        inv_tell(job, 0, nhwc_any_over(over[0] | over[1] | over[2] | over[3]), n);
    }
    const uint16_t *at = reinterpret_cast<const uint16_t *>(table + piece * INV_TABLE_ROW);
    char *to = middle + at[threadIdx.x % CONVOY_WARPGROUP] * 16;
#pragma unroll
    for (int i = 0; i < INV_CHANNELS / 16; i++)
        convoy_store_matrices(to, i * 32, words[i]);
}

/* Without a first layer: a chunk's channels of x, of one panel, come to the middle as they are, zeros outside
 * of the image, too. At least 32 channels, of which those beyond x's are zeros. */
template <typename TILE>
static __device__ __forceinline__ void inv_take(const struct inv_job &job, const struct inv_place &place,
                                                const char *x, char *middle)
{
    int cells = job.x_channels / NHWC_CELL, shift = cells == INV_CHANNELS / NHWC_CELL ? 3 : 2;
    int count = job.box_w * job.box_h << shift;
    for (int i = (int)threadIdx.x % CONVOY_WARPGROUP; i < count; i += CONVOY_WARPGROUP) {
        int number = i >> shift, cell = i & ((1 << shift) - 1);
        const inv_pixel pixel(job, number);
        int line = pixel.line + place.down, column = pixel.column + place.right;
        uint4 value = make_uint4(0, 0, 0, 0);
        if (cell < cells)
            value = *reinterpret_cast<const uint4 *>(x + number * job.x_row +
                                                     (cell ^ convoy_swizzle(job.x_row, number)) * 16);
        if (line < TILE::BOX && column < TILE::BOX)
            *reinterpret_cast<uint4 *>(middle + (line * TILE::BOX + TILE::at_column(column)) * INV_PITCH +
                                       cell * 16) = value;
    }
}

/* ---- The depthwise layer ---- */

/* Which taps the pair-th diagonals are of: two lines of a column; of the line that is left two columns. */
template <int SIDE, int STRIDE> struct inv_pair {
    static constexpr int HALF = SIDE / 2; /* pairs of a column */
    /* The line that is left. */
    static constexpr int LAST = STRIDE == 1 && SIDE == 3 ? 1 : SIDE - 1;
    int line[2], column[2];

    /* With stride 1 lines r and r + 2, which two lines of outputs read as four lines that follow each other.
     */
    static __host__ __device__ constexpr int first_of(int pair)
    {
        return STRIDE == 1 ? pair : pair * 2;
    }
    static __host__ __device__ constexpr int second_of(int pair)
    {
        return STRIDE == 1 ? pair + 2 : pair * 2 + 1;
    }

    __host__ __device__ constexpr inv_pair(int pair) : line{0, 0}, column{0, 0}
    {
        int two = pair / (2 * HALF + 1), rest = pair % (2 * HALF + 1);
        bool last = rest == 2 * HALF || (two == HALF && rest == HALF);
        line[0] = last ? LAST : first_of(rest % HALF);
        line[1] = last ? LAST : second_of(rest % HALF);
        column[0] = two * 2 + (last ? 0 : rest / HALF);
        column[1] = last ? column[0] + 1 : column[0]; /* SIDE: there is none, its weights are zeros */
    }
};

/* A lane's share of two taps of 8 channels as diagonal matrices, one above the other (b of mma.cuh), of which
 * a quarter of the lanes has one number each: where the bytes of a channel's two taps go; 4: zero. */
struct inv_diagonal {
    unsigned first, second;

    __device__ __forceinline__ inv_diagonal()
    {
        int lane = (int)threadIdx.x % 32, column = lane / 4, row = lane % 4 * 2;
        first = column == row ? 0x4410u : column == row + 1 ? 0x1044u : 0x4444u;
        second = column == row ? 0x4432u : column == row + 1 ? 0x3244u : 0x4444u;
    }
};

/* 32 channels of 64 outputs. A warp has two lines of 8 outputs, and multiplies their pixels at two taps by
 * the diagonals at a time. What it loads, 8 pixels of a line, it uses for each tap of that column. taps: of
 * each pair of them eight words for the first channel of 8, for the second one, ...; half: of the channels.
 */
template <typename TILE, int SIDE, int STRIDE>
static __device__ __forceinline__ void
inv_depthwise(const struct inv_job &job, const char *middle, const char *taps, const float *bias,
              const struct inv_diagonal &diagonal, int half, uint32_t (&words)[2][4])
{
    using pair_of = inv_pair<SIDE, STRIDE>;
    constexpr int TILES = INV_CHANNELS / 2 / 8, LINES = TILE::LINES, LINE_BYTES = TILE::BOX * INV_PITCH;
    float sum[TILES][4];
    inv_bias<TILES>(bias + half * (INV_CHANNELS / 2)).begin(sum);
    int lane = (int)threadIdx.x % 32, quarter = lane / 8;
    const char *first =
        middle + inv_row(0) / INV_SIDE * STRIDE * LINE_BYTES + lane % 8 * INV_PITCH + half * INV_CHANNELS;
    /* The first four lines in the order in which a pair of taps reads them. */
    const char *four = first + (STRIDE == 1 ? quarter : quarter % 2 * 2 + quarter / 2) * LINE_BYTES;
    const char *one = first + quarter * 16;
    const char *weights = taps + lane / 4 * (INV_TAP_ROW / 8) + half * (TILES * 4);
    uint32_t lines[TILES][LINES], alone[TILES][4]; /* of a column; of two columns, at the line that is left */
    int pair = 0;
    const auto multiply = [&](int j, const uint32_t(&a)[4], const uint4 &b) {
        uint32_t word = j == 0 ? b.x : j == 1 ? b.y : j == 2 ? b.z : b.w;
        convoy_mma_half(sum[j], a, convoy_pick_bytes(word, diagonal.first),
                        convoy_pick_bytes(word, diagonal.second));
    };
    const auto load = [&]() { return *reinterpret_cast<const uint4 *>(weights + pair++ * INV_TAP_ROW); };
#pragma unroll
    for (int column = 0; column < SIDE; column++) {
        const int at = TILE::at_column(column) * INV_PITCH;
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            uint32_t all[4];
            convoy_load_matrices(all, four, at + j * 16);
#pragma unroll
            for (int i = 0; i < 4; i++)
                lines[j][STRIDE == 1 ? i : i % 2 * 2 + i / 2] = all[i];
        }
#pragma unroll
        for (int i = 4; i < LINES; i++) {
            uint32_t all[4];
            convoy_load_matrices(all, one, at + i * LINE_BYTES);
#pragma unroll
            for (int j = 0; j < TILES; j++)
                lines[j][i] = all[j];
        }
#pragma unroll
        for (int v = 0; v < SIDE / 2; v++) {
            const uint4 b = load();
            const int r = pair_of::first_of(v), q = pair_of::second_of(v);
#pragma unroll
            for (int j = 0; j < TILES; j++) {
                const uint32_t a[4] = {lines[j][r], lines[j][r + STRIDE], lines[j][q], lines[j][q + STRIDE]};
                multiply(j, a, b);
            }
        }
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            const int k = column % 2 * 2;
            alone[j][k] = lines[j][pair_of::LAST];
            alone[j][k + 1] = lines[j][pair_of::LAST + STRIDE];
        }
        if (column % 2 == 1 || column == SIDE - 1) { /* behind the last column an old one, by zeros */
            const uint4 b = load();
#pragma unroll
            for (int j = 0; j < TILES; j++)
                multiply(j, alone[j], b);
        }
    }
    inv_activate(job.act[1], sum, words);
}

/* Is it an output of the patch, and in the image? */
static __device__ __forceinline__ bool inv_is_output(const struct inv_job &job, const struct inv_place &place,
                                                     int number)
{
    int line = number / INV_SIDE, column = number % INV_SIDE;
    return line < job.side && column < job.side && place.y + line < job.oh && place.x + column < job.ow;
}

/* Tells of results that fp16 does not hold, of outputs that there are; over: of a lane's
 * output lane / 4 in 0 and 2, of the one a line below in the others. */
static __device__ __forceinline__ void inv_tell_outputs(const struct inv_job &job, int layer,
                                                        const struct inv_place &place,
                                                        const uint32_t (&over)[4])
{
    int output = inv_row((int)threadIdx.x % 32 / 4);
    inv_tell(job, layer,
             (nhwc_any_over(over[0] | over[2]) && inv_is_output(job, place, output)) ||
                 (nhwc_any_over(over[1] | over[3]) && inv_is_output(job, place, output + INV_SIDE)),
             place.n);
}

static __device__ __forceinline__ void inv_look(const struct inv_job &job, const struct inv_place &place,
                                                const uint32_t (&words)[INV_CHANNELS / 16][4])
{
    if (!job.looks[1])
        return;
    uint32_t over[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < INV_CHANNELS / 16; i++)
        inv_collect_over(words[i], over);
    inv_tell_outputs(job, 1, place, over);
}

/* ---- The last layer ---- */

/* Adds the products with the depthwise layer's results, of the first STEPS * 16 channels of a chunk. */
template <int STEPS, int NT>
static __device__ __forceinline__ void inv_project(const uint32_t (&words)[INV_CHANNELS / 16][4],
                                                   const char *weights, float (&sum)[NT][4])
{
    uint64_t b = convoy_matrix_swizzled<INV_ROW_BYTES>(weights);
    convoy_wgmma_begin();
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        convoy_wgmma_rows(sum, words[i], convoy_matrix_at(b, i * 2));
    convoy_wgmma_end();
    convoy_wgmma_wait<0>();
}

/* A pixel of x, as the copy engine left it. */
struct inv_x {
    const char *row;
    int swizzle;

    __device__ __forceinline__ inv_x(const struct inv_job &job, const char *x, int pixel)
        : row(x + pixel * job.x_row), swizzle(convoy_swizzle(job.x_row, pixel))
    {
    }

    /* Two numbers, from channel `map` of tile j of 8 on. */
    __device__ __forceinline__ float2 at(const struct inv_job &job, int j, int map) const
    {
        int in_panel = job.panel_shift + 1, panel = j >> in_panel, cell = j & ((1 << in_panel) - 1);
        uint32_t word = *reinterpret_cast<const uint32_t *>(
            row + panel * job.pieces * NHWC_PIECE * job.x_row + (cell ^ swizzle) * 16 + map * 2);
        return make_float2(convoy_from_half(word & 0xffffu), convoy_from_half(word >> 16));
    }
};

/* Adds the pixels of x under the outputs. */
template <typename TILE, int NT>
static __device__ __forceinline__ void inv_add_x(const struct inv_job &job, const char *x,
                                                 const struct inv_place &place, float (&sum)[NT][4])
{
    int lane = (int)threadIdx.x % 32, output = inv_row(lane / 4);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int line = output / INV_SIDE + half + TILE::PAD - place.down;
        int column = output % INV_SIDE + TILE::PAD - place.right;
        bool there = line < job.box_h && column < job.box_w;
        const inv_x pixel(job, x, there ? line * job.box_w + column : 0);
#pragma unroll
        for (int j = 0; j < NT; j++) {
            if (j * 8 >= job.k)
                continue;
            const float2 added = pixel.at(job, j, lane % 4 * 2);
            sum[j][half * 2] += added.x;
            sum[j][half * 2 + 1] += added.y;
        }
    }
}

/* Stores 16 maps or channels of 16 outputs in a panel of 64, as the copy engine wants it: a patch's outputs
 * one after the other. */
static __device__ __forceinline__ void inv_store(const struct inv_job &job, char *panel, int i,
                                                 const uint32_t (&words)[4])
{
    int lane = (int)threadIdx.x % 32, output = inv_row(lane % 16);
    int line = output / INV_SIDE, column = output % INV_SIDE;
    int row = line < job.side && column < job.side ? line * job.side + column : NHWC_PIECE - 1;
    convoy_store_matrices(panel + row * INV_ROW_BYTES,
                          convoy_swizzled_cell<INV_ROW_BYTES>(row, i * 2 + lane / 16) * 16, words);
}

/* Bias, x, activation; the results lie in panels where the middle was. */
template <typename TILE, int NT>
static __device__ __forceinline__ void inv_finish(const struct inv_job &job, const char *x, char *results,
                                                  const struct inv_place &place, float (&sum)[NT][4])
{
    int map = (int)threadIdx.x % 4 * 2;
    float2 bias[NT];
#pragma unroll
    for (int j = 0; j < NT; j++)
        bias[j] = job.bias[2] != nullptr && j * 8 < job.k
                      ? __ldg(reinterpret_cast<const float2 *>(job.bias[2] + j * 8 + map))
                      : make_float2(0.0f, 0.0f);
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[j][e] += e % 2 == 0 ? bias[j].x : bias[j].y;
    if (job.residual)
        inv_add_x<TILE>(job, x, place, sum);
    uint32_t words[NT / 2][4], over[4] = {0, 0, 0, 0};
    inv_activate(job.act[2], sum, words);
#pragma unroll
    for (int i = 0; i < NT / 2; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (i * 16 + e / 2 * 8 < job.k) /* others are zeros, which an infinity before makes NaN */
                nhwc_collect_over(words[i][e], &over[e]);
        inv_store(job, results + i / 4 * TILE::RESULT_BYTES, i % 4, words[i]);
    }
    inv_tell_outputs(job, 2, place, over);
}

#endif
