/* The three layers of inverted.cu, each for a warpgroup and a chunk of 64 channels of the middle. */
#ifndef CONVOY_KERNELS_NHWC_INVERTED_LAYERS_CUH
#define CONVOY_KERNELS_NHWC_INVERTED_LAYERS_CUH

#include "kernels/nhwc/conv_wgmma.cuh"
#include "kernels/nhwc/inverted_job.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"

#define INV_INFINITY 0x7c00u /* of fp16 */

struct inv_place {
    int n, y, x; /* the patch's first output */
};

/* A lane's row of 16 that a warp has, of 64: of sums the one 8 below, too. */
static __device__ __forceinline__ int inv_row(int row_of_lane)
{
    return (int)threadIdx.x % CONVOY_WARPGROUP / 32 * 16 + row_of_lane;
}

static __device__ __forceinline__ void inv_tell(const struct inv_job &job, int layer, bool over, int n)
{
    nhwc_tell(convoy_overflow{job.overflow, job.marks[layer]}, over, n);
}

/* The largest magnitudes so far. */
static __device__ __forceinline__ uint32_t inv_worst(uint32_t worst, uint32_t word)
{
    return nhwc_larger(worst, word & 0x7fff7fffu);
}

/* Is one of both infinity or NaN? */
static __device__ __forceinline__ bool inv_is_over(uint32_t worst)
{
    return (worst & 0x7fffu) >= INV_INFINITY || (worst >> 16 & 0x7fffu) >= INV_INFINITY;
}

/* Sums begin with the bias of their channels. */
template <int N> static __device__ __forceinline__ void inv_begin_sums(const float *bias, float (&sum)[N][4])
{
#pragma unroll
    for (int j = 0; j < N; j++) {
        const float2 both = *reinterpret_cast<const float2 *>(bias + j * 8 + (int)threadIdx.x % 4 * 2);
        sum[j][0] = sum[j][2] = both.x;
        sum[j][1] = sum[j][3] = both.y;
    }
}

template <enum convoy_unary_kind KIND, int N>
static __device__ __forceinline__ void inv_apply(float (&sum)[N][4])
{
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[j][e] = convoy_apply_unary<true>(convoy_unary{KIND, 0.0f, 0.0f}, sum[j][e]);
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
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            words[j / 2][j % 2 * 2 + half] = convoy_half2(sum[j][half * 2], sum[j][half * 2 + 1]);
    if (act.kind == INV_BOUNDED)
#pragma unroll
        for (int i = 0; i < N / 2; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                words[i][e] = nhwc_smaller(nhwc_larger(words[i][e], act.low), act.high);
}

/* ---- The first layer ---- */

/* For 64 pixels of a patch. Its results lie pixel by pixel in `middle`, zeros outside of the image. */
template <typename TILE, int STRIDE>
static __device__ __forceinline__ void inv_expand(const struct inv_job &job, const char *x,
                                                  const char *weights, const float *bias, char *middle,
                                                  const struct inv_place &place, int piece)
{
    float sum[INV_CHANNELS / 8][4];
    inv_begin_sums(bias, sum);
    uint64_t a = convoy_matrix_rows(x + piece * NHWC_PIECE * job.x_row, job.x_row);
    uint64_t b = convoy_matrix_rows(weights, job.x_row);
    int a_panel = TILE::PIECES * NHWC_PIECE * job.x_row / 16, b_panel = INV_CHANNELS * job.x_row / 16;
    int step = 0, steps = convoy_uniform(job.steps);
    convoy_wgmma_begin();
#pragma unroll 1
    do {
        int panel = step >> job.panel_shift, cell = (step & ((1 << job.panel_shift) - 1)) * 2;
        convoy_wgmma(sum, convoy_matrix_at(a, panel * a_panel + cell),
                     convoy_matrix_at(b, panel * b_panel + cell));
    } while (++step < steps);
    convoy_wgmma_end();
    convoy_wgmma_wait<0>();
    uint32_t words[INV_CHANNELS / 16][4], worst = 0;
    inv_activate(job.act[0], sum, words);
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int pixel = piece * NHWC_PIECE + inv_row(lane / 4 + half * 8);
        int line = pixel / TILE::BOX, column = pixel - line * TILE::BOX;
        bool inside = pixel < TILE::PIXELS &&
                      (unsigned)(place.y * STRIDE - TILE::PAD + line) < (unsigned)job.h &&
                      (unsigned)(place.x * STRIDE - TILE::PAD + column) < (unsigned)job.w;
#pragma unroll
        for (int i = 0; i < INV_CHANNELS / 16; i++)
#pragma unroll
            for (int e = half; e < 4; e += 2) {
                words[i][e] = inside ? words[i][e] : 0;
                worst = inv_worst(worst, words[i][e]);
            }
    }
    inv_tell(job, 0, inv_is_over(worst), place.n);
    int pixel = piece * NHWC_PIECE + inv_row(lane % 16);
    char *to = middle + (pixel < TILE::PIXELS ? pixel : TILE::PIXELS) * INV_PITCH + lane / 16 * 16;
#pragma unroll
    for (int i = 0; i < INV_CHANNELS / 16; i++)
        convoy_store_matrices(to, i * 32, words[i]);
}

/* ---- The depthwise layer ---- */

/* A lane's share of two taps of 8 channels as diagonal matrices, one above the other (b of mma.cuh): the lane
 * has one number of the diagonals, if it has any. */
struct inv_diagonal {
    unsigned first, second; /* which bytes of the two taps' word go where; 4: zero */

    __device__ __forceinline__ inv_diagonal()
    {
        int lane = (int)threadIdx.x % 32, column = lane / 4, row = lane % 4 * 2;
        first = column == row ? 0x4410u : column == row + 1 ? 0x1044u : 0x4444u;
        second = column == row ? 0x4432u : column == row + 1 ? 0x3244u : 0x4444u;
    }
};

static __device__ __forceinline__ uint32_t inv_place_bytes(uint32_t word, unsigned places)
{
#ifdef __CUDA_ARCH__
    return __byte_perm(word, 0, places);
#else
    uint32_t to = 0;
    for (int i = 0; i < 4; i++) {
        unsigned from = places >> (4 * i) & 15u;
        to |= from < 4 ? (word >> (8 * from) & 0xffu) << (8 * i) : 0;
    }
    return to;
#endif
}

/* 32 channels of 64 outputs. A warp has two lines of 8 outputs, and multiplies their pixels at two taps by
 * the diagonals at a time. taps: two taps of each of the 64 channels, then the next two; half: of the
 * channels.
 */
template <typename TILE, int SIDE, int STRIDE>
static __device__ __forceinline__ void
inv_depthwise(const struct inv_job &job, const char *middle, const char *taps, const float *bias,
              const struct inv_diagonal &diagonal, int half, uint32_t (&words)[2][4])
{
    constexpr int TILES = INV_CHANNELS / 2 / 8;
    float sum[TILES][4];
    inv_begin_sums(bias + half * (INV_CHANNELS / 2), sum);
    int lane = (int)threadIdx.x % 32, output = inv_row(lane % 16);
    const char *from = middle +
                       (output / INV_SIDE * STRIDE * TILE::BOX + output % INV_SIDE * STRIDE) * INV_PITCH +
                       half * INV_CHANNELS;
    const uint32_t *weights = reinterpret_cast<const uint32_t *>(taps) + half * (INV_CHANNELS / 2) + lane / 4;
#pragma unroll
    for (int pair = 0; pair < TILE::PAIRS; pair++) {
        /* Behind the last tap its pixels again, by zeros. */
        const int first = pair * 2, second = first + 1 < SIDE * SIDE ? first + 1 : first;
        int tap = lane < 16 ? (first / SIDE * TILE::BOX + first % SIDE) * INV_PITCH
                            : (second / SIDE * TILE::BOX + second % SIDE) * INV_PITCH;
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            uint32_t a[4], word = weights[pair * INV_CHANNELS + j * 8];
            convoy_load_matrices(a, from + tap, j * 16);
            convoy_mma_half(sum[j], a, inv_place_bytes(word, diagonal.first),
                            inv_place_bytes(word, diagonal.second));
        }
    }
    inv_activate(job.act[1], sum, words);
}

/* Tells of results of the depthwise layer that fp16 does not hold, of outputs that there are. */
static __device__ __forceinline__ void inv_look(const struct inv_job &job, const struct inv_place &place,
                                                const uint32_t (&words)[INV_CHANNELS / 16][4])
{
    int output = inv_row((int)threadIdx.x % 32 / 4), x = place.x + output % INV_SIDE;
    uint32_t worst[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < INV_CHANNELS / 16; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            worst[e % 2] = inv_worst(worst[e % 2], words[i][e]);
    int y = place.y + output / INV_SIDE; /* and the line below */
    inv_tell(job, 1,
             x < job.ow &&
                 ((inv_is_over(worst[0]) && y < job.oh) || (inv_is_over(worst[1]) && y + 1 < job.oh)),
             place.n);
}

/* ---- The last layer ---- */

/* NT tiles of maps from FIRST on. */
template <int NT, int FIRST = 0, int TILES>
static __device__ __forceinline__ void inv_multiply(float (&sum)[TILES][4], const uint32_t (&a)[4],
                                                    uint64_t b)
{
    constexpr int PART = NT >= 16 ? 16 : NT >= 8 ? 8 : 4;
    convoy_wgmma_rows(reinterpret_cast<float(&)[PART][4]>(sum[FIRST]), a, b);
    if constexpr (NT > PART)
        inv_multiply<NT - PART, FIRST + PART>(sum, a, convoy_matrix_at(b, PART * 8 * INV_ROW_BYTES / 16));
}

/* Adds a chunk's products with the depthwise layer's results. */
template <int NT>
static __device__ __forceinline__ void inv_project(const uint32_t (&words)[INV_CHANNELS / 16][4],
                                                   const char *weights, float (&sum)[NT][4])
{
    uint64_t b = convoy_matrix_swizzled<INV_ROW_BYTES>(weights);
    convoy_wgmma_begin();
#pragma unroll
    for (int i = 0; i < INV_CHANNELS / 16; i++)
        inv_multiply<NT>(sum, words[i], convoy_matrix_at(b, i * 2));
    convoy_wgmma_end();
    convoy_wgmma_wait<0>();
}

/* Two numbers of x: of a pixel, from channel on. */
template <typename TILE>
static __device__ __forceinline__ float2 inv_x(const struct inv_job &job, const char *x, int pixel,
                                               int channel)
{
    int panel = channel / job.x_channels, cell = channel % job.x_channels / 8;
    int swizzled = cell ^ ((pixel * job.x_row >> 7) & (job.x_row / 16 - 1));
    uint32_t word = *reinterpret_cast<const uint32_t *>(
        x + (panel * TILE::PIECES * NHWC_PIECE + pixel) * job.x_row + swizzled * 16 + channel % 8 * 2);
    return make_float2(convoy_from_half(word & 0xffffu), convoy_from_half(word >> 16));
}

/* Stores 16 maps or channels of 16 outputs in a panel of 64 by 64, as the copy engine wants it. */
static __device__ __forceinline__ void inv_store(char *panel, int i, const uint32_t (&words)[4])
{
    int lane = (int)threadIdx.x % 32, row = inv_row(lane % 16);
    convoy_store_matrices(panel + row * INV_ROW_BYTES,
                          convoy_swizzled_cell<INV_ROW_BYTES>(row, i * 2 + lane / 16) * 16, words);
}

/* Bias, x, activation; the results lie in panels where the middle was. */
template <typename TILE, int NT>
static __device__ __forceinline__ void inv_finish(const struct inv_job &job, const char *x, char *results,
                                                  const struct inv_place &place, float (&sum)[NT][4])
{
    int lane = (int)threadIdx.x % 32, output = inv_row(lane / 4), map = lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < NT; j++) {
        if (j * 8 >= job.k) /* zeros, which an infinity before makes NaN */
            continue;
        const float2 bias = job.bias[2] != nullptr
                                ? __ldg(reinterpret_cast<const float2 *>(job.bias[2] + j * 8 + map))
                                : make_float2(0.0f, 0.0f);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            sum[j][half * 2] += bias.x;
            sum[j][half * 2 + 1] += bias.y;
            if (!job.residual)
                continue;
            int at = output + half * 8;
            int pixel = (at / INV_SIDE + TILE::PAD) * TILE::BOX + at % INV_SIDE + TILE::PAD;
            const float2 added = inv_x<TILE>(job, x, pixel, j * 8 + map);
            sum[j][half * 2] += added.x;
            sum[j][half * 2 + 1] += added.y;
        }
    }
    uint32_t words[NT / 2][4], worst[2] = {0, 0};
    inv_activate(job.act[2], sum, words);
#pragma unroll
    for (int i = 0; i < NT / 2; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (i * 16 + e / 2 * 8 < job.k)
                worst[e % 2] = inv_worst(worst[e % 2], words[i][e]);
        inv_store(results + i / 4 * TILE::RESULT_BYTES, i % 4, words[i]);
    }
    int py = place.y + output / INV_SIDE, px = place.x + output % INV_SIDE;
    inv_tell(job, 2,
             px < job.ow &&
                 ((inv_is_over(worst[0]) && py < job.oh) || (inv_is_over(worst[1]) && py + 1 < job.oh)),
             place.n);
}

#endif
