/* A strided copy: transposing, cropping, concatenating, writing rows that lie apart.
 *
 * The order of a copy is free, so the host sorts the dimensions by their stride in y, the smallest last, and
 * joins those that are contiguous in both tensors; concatenating and cropping become rows of contiguous
 * floats. Three kernels:
 * - contiguous runs in both tensors, of multiples of 4 floats on 16 bytes: 16 bytes a thread;
 * - y contiguous along one dimension, x along another (a transpose): tiles of 32 x 32 through shared memory,
 *   read along the one and written along the other; 33 floats a row keep the columns of a tile in different
 *   banks;
 * - everything else: a thread a float, neighbours writing neighbours.
 * Floor: 8 bytes an element.
 * Predicted: 85 % of it where runs are 128 bytes or more, 70 % for a transpose.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/device/strided_box.cuh"

#define THREADS 256

enum { X, Y }; /* the box's tensors; its third has strides 0 */

__global__ void __launch_bounds__(THREADS)
    copy_ones(struct convoy_box box, int64_t count, const float *x, float *y)
{
    for (int64_t i = convoy_first(); i < count; i += convoy_step()) {
        int64_t place[2];
        convoy_box_places(box, i, place);
        y[place[Y]] = x[place[X]];
    }
}

/* The box counts groups of 4 floats, in its last dimension and in all strides. */
__global__ void __launch_bounds__(THREADS)
    copy_fours(struct convoy_box box, int64_t count, const float4 *x, float4 *y)
{
    for (int64_t i = convoy_first(); i < count; i += convoy_step()) {
        int64_t place[2];
        convoy_box_places(box, i, place);
        y[place[Y]] = x[place[X]];
    }
}

/* The last dimension is y's contiguous one, the one before it x's. */
constexpr int side = 32;

__global__ void __launch_bounds__(THREADS)
    copy_transpose(struct convoy_box outer, int64_t tiles, int64_t rows, int64_t columns,
                   int64_t x_column_stride, int64_t y_row_stride, const float *x, float *y)
{
    __shared__ float tile_of[side][side + 1];
    int64_t row_tiles = (rows + side - 1) / side;
    int64_t column_tiles = (columns + side - 1) / side;
    int lane = (int)threadIdx.x % side;
    int first = (int)threadIdx.x / side;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        int64_t column0 = tile % column_tiles * side;
        int64_t rest = tile / column_tiles;
        int64_t row0 = rest % row_tiles * side;
        int64_t place[2];
        convoy_box_places(outer, rest / row_tiles, place);
        for (int c = first; c < side; c += THREADS / side)
            if (row0 + lane < rows && column0 + c < columns)
                tile_of[c][lane] = x[place[X] + (column0 + c) * x_column_stride + row0 + lane];
        __syncthreads();
        for (int r = first; r < side; r += THREADS / side)
            if (row0 + r < rows && column0 + lane < columns)
                y[place[Y] + (row0 + r) * y_row_stride + column0 + lane] = tile_of[lane][r];
        __syncthreads();
    }
}

/* ---- The host's side ---- */

static void swap(int64_t *a, int64_t *b)
{
    int64_t c = *a;
    *a = *b;
    *b = c;
}

static void swap_dims(struct convoy_box *box, int i, int j)
{
    swap(&box->dims[i], &box->dims[j]);
    for (int t = 0; t < CONVOY_BOX_TENSORS; t++)
        swap(&box->stride[t][i], &box->stride[t][j]);
}

static struct convoy_box box_of(const struct convoy_strided_copy *copy)
{
    struct convoy_box box = {};
    box.rank = copy->rank;
    for (int i = 0; i < copy->rank; i++) {
        box.dims[i] = copy->dims[i];
        box.stride[X][i] = copy->x_stride[i];
        box.stride[Y][i] = copy->y_stride[i];
    }
    for (int i = 1; i < box.rank; i++) /* few enough to insert one by one */
        for (int j = i; j > 0 && box.stride[Y][j - 1] < box.stride[Y][j]; j--)
            swap_dims(&box, j - 1, j);
    convoy_box_simplify(&box);
    return box;
}

/* Do all runs start and end on 16 bytes? Then the box counts groups of 4 from here on. */
static bool count_fours(struct convoy_box *box)
{
    int last = box->rank - 1;
    if (box->stride[X][last] != 1 || box->stride[Y][last] != 1 || box->dims[last] % 4 != 0)
        return false;
    for (int i = 0; i < last; i++)
        if (box->stride[X][i] % 4 != 0 || box->stride[Y][i] % 4 != 0)
            return false;
    for (int i = 0; i < last; i++) {
        box->stride[X][i] /= 4;
        box->stride[Y][i] /= 4;
    }
    box->dims[last] /= 4;
    return true;
}

static cudaError_t launch_transpose(struct convoy_box *box, const float *x, float *y, cudaStream_t stream)
{
    int last = box->rank - 1;
    struct convoy_box outer = *box;
    outer.rank -= 2;
    convoy_box_simplify(&outer); /* also makes one of rank 1 of none */
    int64_t rows = box->dims[last - 1];
    int64_t columns = box->dims[last];
    int64_t tiles = convoy_box_count(&outer) * convoy_div_up(rows, side) * convoy_div_up(columns, side);
    return convoy_launch(copy_transpose, convoy_grid(tiles, 1), THREADS, 0, stream, outer, tiles, rows,
                         columns, box->stride[X][last], box->stride[Y][last - 1], x, y);
}

cudaError_t convoy_launch_copy(const struct convoy_strided_copy *copy, const float *x, float *y,
                               cudaStream_t stream)
{
    struct convoy_box box = box_of(copy);
    int last = box.rank - 1;
    if (convoy_aligned(x, y) && count_fours(&box)) {
        int64_t count = convoy_box_count(&box);
        return convoy_launch(copy_fours, convoy_grid(count, THREADS), THREADS, 0, stream, box, count,
                             (const float4 *)x, (float4 *)y);
    }
    if (box.stride[Y][last] == 1 && box.stride[X][last] != 1 && box.dims[last] >= 8) {
        for (int i = 0; i < last; i++)
            if (box.stride[X][i] == 1 && box.dims[i] >= 8) {
                swap_dims(&box, i, last - 1);
                return launch_transpose(&box, x, y, stream);
            }
    }
    int64_t count = convoy_box_count(&box);
    return convoy_launch(copy_ones, convoy_grid(count, THREADS), THREADS, 0, stream, box, count, x, y);
}
