/* The ends of a bottleneck's layers (bottleneck.cu): the groups add their sums, then bias, activation and
 * rounding, and where the results go. */
#ifndef CONVOY_KERNELS_NHWC_BOTTLENECK_ENDS_CUH
#define CONVOY_KERNELS_NHWC_BOTTLENECK_ENDS_CUH

#include "kernels/nhwc/bottleneck_products.cuh"

/* The threads that multiply wait for each other. */
static __device__ __forceinline__ void neck_meet(void)
{
    __syncwarp(); /* rows without a pixel, and waits, may have parted the lanes */
    convoy_threads_sync(NECK_CONSUMERS);
}

/* The biases of this block's maps, zeros where there are none, so that no layer's end waits for them. */
template <typename TILE>
static __device__ __forceinline__ void neck_copy_bias(const struct neck_job &job, float *to, int rank)
{
    constexpr int MAPS = TILE::NT * 8;
    int outputs = job.passes * TILE::OUT;
    for (int i = (int)threadIdx.x; i < 2 * MAPS + outputs; i += NECK_CONSUMERS) {
        int layer = i < 2 * MAPS ? i / MAPS : 2;
        int map = layer < 2 ? rank * MAPS + i % MAPS : rank * outputs + i - 2 * MAPS;
        bool there = job.bias[layer] != nullptr && map < (layer < 2 ? job.mid : job.c);
        to[i] = there ? __ldg(job.bias[layer] + map) : 0.0f;
    }
}

/* Zeros where the first layer's results of all blocks will lie: the border that no pixel is computed for.
 * Only what is computed is sent. Before the blocks have met. */
template <typename TILE>
static __device__ __forceinline__ void neck_clear(const struct neck_job &job, char *slabs)
{
    for (int i = (int)threadIdx.x; i < job.cluster * TILE::SLAB / 16; i += NECK_CONSUMERS)
        reinterpret_cast<uint4 *>(slabs)[i] = make_uint4(0, 0, 0, 0);
    convoy_wgmma_publish();
}

/* Adds the sums of both groups: each keeps half of the maps, `mine`. All have read their matrices then. */
template <int PIECES, int NT>
static __device__ __forceinline__ void neck_add_groups(char *scratch, int group,
                                                       const float (&sum)[PIECES][NT][4],
                                                       float (&mine)[PIECES * (NT / 2)][4])
{
    constexpr int HALF = NT / 2;
    int thread = (int)threadIdx.x % CONVOY_WARPGROUP;
    float4 *to =
        reinterpret_cast<float4 *>(scratch) + (1 - group) * PIECES * HALF * CONVOY_WARPGROUP + thread;
    const float4 *from =
        reinterpret_cast<const float4 *>(scratch) + group * PIECES * HALF * CONVOY_WARPGROUP + thread;
    neck_meet();
#pragma unroll
    for (int i = 0; i < PIECES * HALF; i++) {
        const float(&low)[4] = sum[i / HALF][i % HALF], (&high)[4] = sum[i / HALF][HALF + i % HALF];
#pragma unroll
        for (int e = 0; e < 4; e++)
            mine[i][e] = group == 0 ? low[e] : high[e];
        to[i * CONVOY_WARPGROUP] = group == 0 ? make_float4(high[0], high[1], high[2], high[3])
                                              : make_float4(low[0], low[1], low[2], low[3]);
    }
    neck_meet();
#pragma unroll
    for (int i = 0; i < PIECES * HALF; i++) {
        const float4 other = from[i * CONVOY_WARPGROUP];
        mine[i][0] += other.x;
        mine[i][1] += other.y;
        mine[i][2] += other.z;
        mine[i][3] += other.w;
    }
}

/* Adds the bias of tiles of 8 maps, TILES for each of some pieces; bias: of this lane's first map. */
template <int TILES, int ALL>
static __device__ __forceinline__ void neck_add_bias(const float *bias, float (&values)[ALL][4])
{
#pragma unroll
    for (int i = 0; i < ALL; i++) {
        const float2 both = *reinterpret_cast<const float2 *>(bias + i % TILES * 8);
        values[i][0] += both.x;
        values[i][1] += both.y;
        values[i][2] += both.x;
        values[i][3] += both.y;
    }
}

/* Where a lane's two maps of tile `cell` lie in row `row` of a matrix. */
template <int ROW_BYTES>
static __device__ __forceinline__ uint32_t *neck_word_at(char *matrix, int row, int cell)
{
    return reinterpret_cast<uint32_t *>(matrix + row * ROW_BYTES +
                                        convoy_swizzled_cell<ROW_BYTES>(row, cell) * 16 +
                                        (int)threadIdx.x % 4 * 4);
}

/* Of a piece's row that a lane's first number is of; the second one is 8 further. */
static __device__ __forceinline__ int neck_row(void)
{
    return (int)threadIdx.x % CONVOY_WARPGROUP / 32 * 16 + (int)threadIdx.x % 32 / 4;
}

static __device__ __forceinline__ void neck_tell(const struct neck_job &job, int layer, bool over, int n)
{
    nhwc_tell(convoy_overflow{job.overflow, job.marks[layer]}, over, n);
}

/* The first layer's results of this block into its slab: pixels of the patch with its border, zeros outside
 * of the image. */
template <typename TILE, int PIECES>
static __device__ __forceinline__ void neck_put_first(const struct neck_job &job, char *slab,
                                                      const struct neck_place &place, int group,
                                                      const float (&values)[PIECES * (TILE::NT / 2)][4])
{
    constexpr int HALF = TILE::NT / 2;
    uint32_t over = 0;
#pragma unroll
    for (int i = 0; i < PIECES * 2; i++) {
        int row = i / 2 * NHWC_PIECE + neck_row() + i % 2 * 8;
        if (row >= job.box_h * job.box_w)
            continue;
        int line = row / job.box_w, column = place.box_x + row - line * job.box_w;
        line += place.box_y;
        bool inside = (unsigned)(place.y - 1 + line) < (unsigned)job.h &&
                      (unsigned)(place.x - 1 + column) < (unsigned)job.w;
#pragma unroll
        for (int j = 0; j < HALF; j++) {
            const float(&pair)[4] = values[i / 2 * HALF + j];
            uint32_t word = inside ? convoy_half2(pair[i % 2 * 2], pair[i % 2 * 2 + 1]) : 0;
            nhwc_collect_over(word, &over);
            *neck_word_at<TILE::ROW_BYTES>(slab, line * NECK_PITCH + column, group * HALF + j) = word;
        }
    }
    neck_tell(job, 0, nhwc_any_over(over), place.n);
}

/* Is there an output in row `row` of a piece? */
static __device__ __forceinline__ bool neck_is_output(const struct neck_job &job,
                                                      const struct neck_place &place, int row)
{
    int line = row / NECK_SIDE, column = row % NECK_SIDE;
    return line < job.side_y && column < job.side_x && place.y + line < job.h && place.x + column < job.w;
}

/* The second layer's. Rows without an output hold anything: only such rows come of them. */
template <typename TILE>
static __device__ __forceinline__ void neck_put_second(const struct neck_job &job, char *slab,
                                                       const struct neck_place &place, int group,
                                                       const float (&values)[TILE::NT / 2][4])
{
    constexpr int HALF = TILE::NT / 2;
    bool over = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = neck_row() + half * 8;
        uint32_t wrong = 0;
#pragma unroll
        for (int j = 0; j < HALF; j++)
            *neck_word_at<TILE::ROW_BYTES>(slab, row, group * HALF + j) =
                nhwc_word(values[j][half * 2], values[j][half * 2 + 1], &wrong);
        over |= nhwc_any_over(wrong) && neck_is_output(job, place, row);
    }
    neck_tell(job, 1, over, place.n);
}

/* Adds x to a pass's sums, which lies where the outputs go: panels of 64 maps, side_y x side_x outputs each.
 */
template <typename TILE>
static __device__ __forceinline__ void neck_add_residual(const struct neck_job &job, char *results, int group,
                                                         float (&sum)[TILE::OUT_NT][4])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int line = (neck_row() + half * 8) / NECK_SIDE, column = neck_row() % NECK_SIDE;
        if (line >= job.side_y || column >= job.side_x)
            continue;
#pragma unroll
        for (int j = 0; j < TILE::OUT_NT; j++) {
            int tile = group * TILE::OUT_NT + j;
            uint32_t word = *neck_word_at<NECK_ROW_BYTES>(results + tile / 8 * NECK_PANEL_BYTES,
                                                          line * job.side_x + column, tile % 8);
            sum[j][half * 2] += convoy_from_half(word & 0xffffu);
            sum[j][half * 2 + 1] += convoy_from_half(word >> 16);
        }
    }
}

/* Outputs, to the same places. */
template <typename TILE>
static __device__ __forceinline__ void neck_put_results(const struct neck_job &job, char *results,
                                                        const struct neck_place &place, int group,
                                                        const float (&sum)[TILE::OUT_NT][4])
{
    bool over = false;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = neck_row() + half * 8, line = row / NECK_SIDE, column = row % NECK_SIDE;
        uint32_t wrong = 0;
        if (line >= job.side_y || column >= job.side_x)
            continue;
#pragma unroll
        for (int j = 0; j < TILE::OUT_NT; j++) {
            int tile = group * TILE::OUT_NT + j;
            *neck_word_at<NECK_ROW_BYTES>(results + tile / 8 * NECK_PANEL_BYTES, line * job.side_x + column,
                                          tile % 8) =
                nhwc_word(sum[j][half * 2], sum[j][half * 2 + 1], &wrong);
        }
        over |= nhwc_any_over(wrong) && neck_is_output(job, place, row);
    }
    neck_tell(job, 2, over, place.n);
}

/* Sends rows of this block's slab, which all its threads have written, to the others, and waits for theirs.
 */
static __device__ __forceinline__ void neck_exchange(const struct neck_job &job, const char *rows, int bytes,
                                                     int rank, uint64_t *arrived)
{
    convoy_wgmma_publish();
    neck_meet();
    /* One thread of each warp: the copies begin side by side. In a launch without clusters no thread comes to
     * one: an H100 ended such a launch with "illegal instruction" at it, though no thread copied. */
    for (int i = 1 + (int)threadIdx.x / 32; i < job.cluster; i += NECK_CONSUMERS / 32)
        if (threadIdx.x % 32 == 0)
            convoy_copy_to_block(rows, bytes, arrived, (rank + i) % job.cluster);
    __syncwarp();
    convoy_barrier_wait(arrived, 0);
    __syncwarp();
}

#endif
