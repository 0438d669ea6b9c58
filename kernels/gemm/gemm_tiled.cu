/* The matrix product with tiles in shared memory: the textbook's first step, which takes every shape.
 *
 * A block of 16 x 16 threads computes 16 x 16 outputs; for each 16 of k it brings one tile of each operand
 * into shared memory, so that a number from device memory is used 16 times. Two shared loads for each
 * multiply-add: shared memory, not arithmetic, is the limit.
 * Floor: as gemm_blocked.
 * Predicted: about a tenth of its speed.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/device/unary.cuh"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_sum.h"

constexpr int side = 16;

__global__ void __launch_bounds__(side *side)
    gemm_tiled(struct convoy_gemm_shape shape, int64_t m_tiles, int64_t n_tiles, const float *a,
               const float *b, const float *bias, float *y)
{
    __shared__ float a_tile[side][side + 1];
    __shared__ float b_tile[side][side + 1];
    int tx = (int)threadIdx.x % side;
    int ty = (int)threadIdx.x / side;
    for (int64_t tile = blockIdx.x; tile < m_tiles * n_tiles * shape.batch; tile += gridDim.x) {
        int64_t column0 = tile % n_tiles * side;
        int64_t row0 = tile / n_tiles % m_tiles * side;
        int64_t image = tile / n_tiles / m_tiles;
        const float *a_matrix = a + image * shape.a_stride;
        const float *b_matrix = b + image * shape.b_stride;
        float sum = 0;
        for (int64_t k0 = 0; k0 < shape.k; k0 += side) {
            int64_t row = row0 + ty;
            int64_t k = k0 + tx;
            a_tile[ty][tx] = row < shape.m && k < shape.k ? a_matrix[row * shape.k + k] : 0;
            if (shape.b_transposed) { /* threads side by side read along k here, along n below */
                int64_t column = column0 + ty;
                b_tile[tx][ty] = column < shape.n && k < shape.k ? b_matrix[column * shape.k + k] : 0;
            } else {
                int64_t column = column0 + tx;
                k = k0 + ty;
                b_tile[ty][tx] = column < shape.n && k < shape.k ? b_matrix[k * shape.n + column] : 0;
            }
            __syncthreads();
            float part = 0; /* adding up tile by tile: k / 16 roundings of a large sum, not k */
#pragma unroll
            for (int i = 0; i < side; i++)
                part += a_tile[ty][i] * b_tile[i][tx];
            sum += part;
            __syncthreads();
        }
        int64_t row = row0 + ty;
        int64_t column = column0 + tx;
        if (row < shape.m && column < shape.n) {
            if (shape.bias)
                sum += bias[column];
            y[image * shape.y_stride + row * shape.n + column] = convoy_apply_unary(shape.act, sum);
        }
    }
}

static bool takes(const struct convoy_gemm_shape *shape)
{
    (void)shape;
    return true;
}

static float estimate_us(const struct convoy_gemm_shape *shape)
{
    float tiles =
        (float)convoy_div_up(shape->m, side) * (float)convoy_div_up(shape->n, side) * (float)shape->batch;
    float rounds = tiles < CONVOY_GEMM_SMS * 8 ? 8 : tiles / CONVOY_GEMM_SMS; /* 8 blocks a multiprocessor */
    float compute = rounds * side * side * (float)shape->k / (CONVOY_GEMM_FMA_PER_US * 0.1f);
    float memory = convoy_gemm_memory_us(shape);
    return CONVOY_GEMM_LAUNCH_US + (compute > memory ? compute : memory);
}

static size_t scratch_bytes(const struct convoy_gemm_shape *shape)
{
    (void)shape;
    return 0;
}

static cudaError_t launch(const struct convoy_gemm_shape *shape, const struct convoy_gemm_operands *operands,
                          cudaStream_t stream)
{
    int64_t m_tiles = convoy_div_up(shape->m, side);
    int64_t n_tiles = convoy_div_up(shape->n, side);
    return convoy_launch(gemm_tiled, convoy_grid(m_tiles * n_tiles * shape->batch, 1), side * side, 0, stream,
                         *shape, m_tiles, n_tiles, operands->a, operands->b, operands->bias, operands->y);
}

extern const struct convoy_gemm_kernel convoy_gemm_tiled = {"gemm_tiled", CONVOY_COMPUTE_FP32, takes,
                                                            estimate_us,  scratch_bytes,       launch};
