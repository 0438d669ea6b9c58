/* The end of a warpgroup's tile: its sums get bias, residual and activation, are rounded to fp16 and left in
 * shared memory, in panels from where the copy engine writes them. The residual came into the same place
 * before.
 *
 * At a tile's end a scheduler has one warp to run, two at most, so it is bound by how long one instruction
 * waits for another one. Hence loads without branches between them, words whose check is no chain of
 * comparisons, and stores of 16 bytes a lane. */
#ifndef CONVOY_KERNELS_NHWC_TILE_END_CUH
#define CONVOY_KERNELS_NHWC_TILE_END_CUH

#include "kernels/device/mma.cuh"
#include "kernels/device/tensor_copy.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/nhwc/activate.cuh"
#include "kernels/nhwc/conv_job.cuh"
#include "kernels/nhwc/overflow.cuh"

/* Those of k numbers, one for each map, that a lane's sums of NT tiles of columns from `column` on have;
 * columns that are no map get zeros. All loads are under way together. */
template <int NT>
static __device__ __forceinline__ void nhwc_load_columns(const float *of_maps, int k, int column, int lane,
                                                         float2 (&values)[NT])
{
    int first = column + lane % 4 * 2; /* even */
    const float *from = of_maps + first;
    if (column + NT * 8 <= k) {
#pragma unroll
        for (int j = 0; j < NT; j++)
            values[j] = __ldg(reinterpret_cast<const float2 *>(from + j * 8));
    } else {
#pragma unroll
        for (int j = 0; j < NT; j++)
            values[j] = make_float2(first + j * 8 < k ? __ldg(from + j * 8) : 0.0f,
                                    first + j * 8 + 1 < k ? __ldg(from + j * 8 + 1) : 0.0f);
    }
}

/* Adds the biases of NT tiles of columns, from `column` on. */
template <int NT>
static __device__ __forceinline__ void nhwc_add_bias(const struct nhwc_job &job, int column, int lane,
                                                     float (&sum)[NT][4])
{
    if (job.bias == nullptr)
        return;
    float2 bias[NT];
    nhwc_load_columns(job.bias, job.k, column, lane, bias);
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[j][e] += e % 2 == 0 ? bias[j].x : bias[j].y;
}

/* Where a lane loads or stores 16 bytes of tiles j and j + 1 of a warp's 16 rows, j even
 * (convoy_store_matrices()): bytes from the beginning of the panels. row: the warp's first one. */
template <typename TILE> static __device__ __forceinline__ int nhwc_cells_at(int row, int lane, int j)
{
    constexpr int ROW_BYTES = TILE::PANEL * 2, CELLS = TILE::PANEL / 8;
    int mine = row + lane % 16;
    /* Of cell j + lane / 16, which is the exclusive or of the two, so one of them is taken once. */
    int cell = convoy_swizzled_cell<ROW_BYTES>(mine, lane / 16) ^ j % CELLS;
    return j / CELLS * TILE::PANEL_BYTES + mine * ROW_BYTES + cell * 16;
}

/* Adds the residual, which is in the place of the results, to the sums of a piece of rows. */
template <typename TILE, int NT>
static __device__ __forceinline__ void nhwc_add_residual(const char *panels, int row, int lane,
                                                         float (&sum)[NT][4])
{
#pragma unroll
    for (int j = 0; j < NT; j += 2) {
        uint32_t words[4];
        convoy_load_matrices(words, panels, nhwc_cells_at<TILE>(row, lane, j));
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float(&two)[4] = sum[j + i / 2];
            two[i % 2 * 2] += convoy_from_half(words[i] & 0xffffu);
            two[i % 2 * 2 + 1] += convoy_from_half(words[i] >> 16);
        }
    }
}

/* Zeros in place of sums that are no output, from tile `tiles` on: they multiplied weights of another chunk.
 */
template <int NT> static __device__ __forceinline__ void nhwc_drop_tiles(int tiles, float (&sum)[NT][4])
{
#pragma unroll
    for (int j = 0; j < NT; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[j][e] = j < tiles ? sum[j][e] : 0.0f;
}

/* Rounds the sums of a piece and puts them where the copy engine takes them. over[half]: collects what fp16
 * does not hold of the lane's rows, lane / 4 of the warp's and 8 below it (overflow.cuh). */
template <typename TILE, int NT>
static __device__ __forceinline__ void nhwc_put(char *panels, int row, int lane, const float (&sum)[NT][4],
                                                uint32_t (&over)[2])
{
#pragma unroll
    for (int j = 0; j < NT; j += 2) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            words[i] = nhwc_word(sum[j + i / 2][i % 2 * 2], sum[j + i / 2][i % 2 * 2 + 1], &over[i % 2]);
        convoy_store_matrices(panels, nhwc_cells_at<TILE>(row, lane, j), words);
    }
}

/* The end of a piece of 64 rows by NT tiles of columns from `column` on; row: the warp's first one. over: as
 * nhwc_put() collects it. */
template <typename TILE, int NT>
static __device__ __forceinline__ void nhwc_end_piece(const struct nhwc_job &job, char *panels, int row,
                                                      int lane, int column, float (&sum)[NT][4],
                                                      uint32_t (&over)[2])
{
    nhwc_add_bias(job, column, lane, sum);
    if (job.has_residual)
        nhwc_add_residual<TILE>(panels, row, lane, sum);
    nhwc_activate_all(job.act, sum);
    if (column + NT * 8 > job.columns)
        nhwc_drop_tiles((job.columns - column) / 8, sum);
    nhwc_put<TILE>(panels, row, lane, sum, over);
}

/* Sums of numbers and of their squares: of some channels of a pixel, then of all. */
struct nhwc_moments {
    float total, squares;

    __device__ __forceinline__ void add(float value)
    {
        total += value;
        squares = fmaf(value, value, squares);
    }
    __device__ __forceinline__ void add(const float2 &other)
    {
        total += other.x;
        squares += other.y;
    }
    /* Of LANES neighbouring lanes: all get the sums. */
    template <int LANES> __device__ __forceinline__ void join(void)
    {
#pragma unroll
        for (int offset = LANES / 2; offset > 0; offset /= 2) {
            total += __shfl_xor_sync(0xffffffffu, total, offset);
            squares += __shfl_xor_sync(0xffffffffu, squares, offset);
        }
    }
};

/* Writes the moments of results m and m + 8, 64 columns after 64. */
template <int NT>
static __device__ __forceinline__ void nhwc_put_moments(const struct nhwc_job &job, int m, int column,
                                                        int lane, const float (&sum)[NT][4])
{
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int first = 0; first < NT; first += 8) {
            struct nhwc_moments moments = {0, 0};
#pragma unroll
            for (int j = first; j < first + 8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    moments.add(sum[j][half * 2 + e]);
            moments.join<4>();
            int at = m + half * 8, part = column / 64 + first / 8;
            if (lane % 4 == 0 && at < job.m && part < job.parts)
                job.moments[(int64_t)at * job.parts + part] = make_float2(moments.total, moments.squares);
        }
}

/* Tells the images of outputs m and m + 8 of those that fp16 does not hold. */
static __device__ __forceinline__ void nhwc_tell_rows(const struct nhwc_job &job, int m,
                                                      const uint32_t (&over)[2])
{
    if (nhwc_any_over(over[0] | over[1]))
        for (int half = 0; half < 2; half++)
            if (m + half * 8 < job.m) /* others are not stored */
                nhwc_tell(job.overflow, nhwc_any_over(over[half]), (m + half * 8) / (job.oh * job.ow));
}

/* A barrier of one warpgroup. */
static __device__ __forceinline__ void nhwc_group_sync(int group)
{
#ifdef __CUDACC__
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(CONVOY_WARPGROUP) : "memory");
#else
    (void)group;
    convoy_emulated_group_sync();
#endif
}

/* The end of a warpgroup's number-th tile: its outputs from `first` on, columns from `column` on. results:
 * where the places for results of all groups begin. */
template <typename TILE, int ROWS, int NT, int BUFFERS, typename BARRIERS>
static __device__ __forceinline__ void nhwc_end_tile(const struct nhwc_job &job, const BARRIERS &barriers,
                                                     char *results, int group, int number, int first,
                                                     int column, float (&sum)[ROWS][NT][4])
{
    int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % CONVOY_WARPGROUP / 32 * 16;
    char *result = results + (group * BUFFERS + number % BUFFERS) * TILE::RESULT_BYTES;
    if (job.has_residual)
        convoy_barrier_wait(barriers.added(group, number), barriers.added_parity(number));
    else
        nhwc_group_sync(group); /* the thread that stores has waited until the place was free */
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        uint32_t over[2] = {};
        nhwc_end_piece<TILE>(job, result + i * TILE::PANELS * TILE::PANEL_BYTES, row, lane, column, sum[i],
                             over);
        nhwc_tell_rows(job, first + i * NHWC_PIECE + row + lane / 4, over);
        if constexpr (NT % 8 == 0)
            if (job.moments != nullptr)
                nhwc_put_moments(job, first + i * NHWC_PIECE + row + lane / 4, column, lane, sum[i]);
    }
    convoy_wgmma_publish();
    nhwc_group_sync(group);
    if (threadIdx.x % CONVOY_WARPGROUP != 0)
        return;
#pragma unroll
    for (int i = 0; i < ROWS * TILE::PANELS; i++)
        if (first + i / TILE::PANELS * NHWC_PIECE < job.m &&
            column + i % TILE::PANELS * TILE::PANEL < job.columns)
            convoy_store_box(&job.y, result + i * TILE::PANEL_BYTES, column + i % TILE::PANELS * TILE::PANEL,
                             first + i / TILE::PANELS * NHWC_PIECE);
    convoy_store_end();
    convoy_store_wait<BUFFERS - 1>();
    if (job.has_residual) /* the place of the tile after the next one, or of the next one, is free */
        convoy_barrier_arrive_if(number + 1 >= BUFFERS, barriers.free(group, number + 1));
}

#endif
