/* How gemm_blocked brings its tiles from device memory through registers into shared memory: load() while the
 * tile before is multiplied, store() after that. In shared memory k is the slow dimension. */
#ifndef CONVOY_KERNELS_GEMM_TILES_CUH
#define CONVOY_KERNELS_GEMM_TILES_CUH

#include "kernels/device/launch.cuh"

#define CONVOY_GEMM_DEPTH 8 /* of a tile along k */
#define CONVOY_GEMM_PAD   4 /* floats after a row, against bank conflicts; keeps rows on 16 bytes */

/* How a block's threads bring a tile of `rows` x 8 of a matrix in which k is contiguous: in pieces of 4
 * floats along k, two of them a row. Rows past the end are read as the last one: no thread writes what they
 * add up to. What lies past the end of k is read as 0. */
template <int rows, int threads, bool wide> struct convoy_along_k {
    static constexpr int pieces = (2 * rows + threads - 1) / threads;
    const float *from[pieces];
    float4 value[pieces];

    __device__ void start(const float *matrix, int64_t row_stride, int row0, int row_end, int k)
    {
#pragma unroll
        for (int i = 0; i < pieces; i++) {
            int index = (int)threadIdx.x + i * threads;
            from[i] = matrix + min(row0 + index / 2, row_end - 1) * row_stride + k + index % 2 * 4;
        }
    }

    /* Two arguments are convoy_along_n's. */
    __device__ void load(int64_t, int, int k, int k_end)
    {
#pragma unroll
        for (int i = 0; i < pieces; i++) {
            int index = (int)threadIdx.x + i * threads;
            int left = k_end - k - index % 2 * 4;
            if (2 * rows % threads != 0 && index >= 2 * rows)
                left = 0;
            float4 v = make_float4(0, 0, 0, 0);
            if (wide) {
                if (left > 0)
                    v = *(const float4 *)from[i];
            } else {
                v.x = left > 0 ? from[i][0] : 0;
                v.y = left > 1 ? from[i][1] : 0;
                v.z = left > 2 ? from[i][2] : 0;
                v.w = left > 3 ? from[i][3] : 0;
            }
            value[i] = v;
            from[i] += CONVOY_GEMM_DEPTH;
        }
    }

    __device__ void store(float (*tile)[rows + CONVOY_GEMM_PAD]) const
    {
#pragma unroll
        for (int i = 0; i < pieces; i++) {
            int index = (int)threadIdx.x + i * threads;
            if (2 * rows % threads != 0 && index >= 2 * rows)
                continue;
            int row = index / 2;
            int k = index % 2 * 4;
            tile[k][row] = value[i].x;
            tile[k + 1][row] = value[i].y;
            tile[k + 2][row] = value[i].z;
            tile[k + 3][row] = value[i].w;
        }
    }
};

/* The same for a matrix of k x n: 8 rows of `columns`, in pieces of 4 floats along n. */
template <int columns, int threads, bool wide> struct convoy_along_n {
    static constexpr int row_pieces = columns / 4;
    static constexpr int pieces = (CONVOY_GEMM_DEPTH * row_pieces + threads - 1) / threads;
    const float *from[pieces];
    float4 value[pieces];

    __device__ static int column_of(int i)
    {
        return ((int)threadIdx.x + i * threads) % row_pieces * 4;
    }

    __device__ void start(const float *matrix, int64_t row_stride, int column0, int column_end, int k)
    {
#pragma unroll
        for (int i = 0; i < pieces; i++) {
            int row = k + ((int)threadIdx.x + i * threads) / row_pieces;
            int column = column0 + column_of(i);
            from[i] = matrix + row * row_stride + (wide ? min(column, column_end - 4) : column);
        }
    }

    __device__ void load(int64_t row_stride, int columns_left, int k, int k_end)
    {
#pragma unroll
        for (int i = 0; i < pieces; i++) {
            float4 v = make_float4(0, 0, 0, 0);
            if (k + ((int)threadIdx.x + i * threads) / row_pieces < k_end) {
                int left = columns_left - column_of(i);
                if (wide) {
                    v = *(const float4 *)from[i];
                } else {
                    v.x = left > 0 ? from[i][0] : 0;
                    v.y = left > 1 ? from[i][1] : 0;
                    v.z = left > 2 ? from[i][2] : 0;
                    v.w = left > 3 ? from[i][3] : 0;
                }
            }
            value[i] = v;
            from[i] += CONVOY_GEMM_DEPTH * row_stride;
        }
    }

    __device__ void store(float (*tile)[columns + CONVOY_GEMM_PAD]) const
    {
#pragma unroll
        for (int i = 0; i < pieces; i++) {
            int index = (int)threadIdx.x + i * threads;
            if (CONVOY_GEMM_DEPTH * row_pieces % threads == 0 || index < CONVOY_GEMM_DEPTH * row_pieces)
                *(float4 *)&tile[index / row_pieces][column_of(i)] = value[i];
        }
    }
};

template <bool transposed, int columns, int threads, bool wide> struct convoy_b_tile;
template <int columns, int threads, bool wide> struct convoy_b_tile<true, columns, threads, wide> {
    typedef convoy_along_k<columns, threads, wide> type;
};
template <int columns, int threads, bool wide> struct convoy_b_tile<false, columns, threads, wide> {
    typedef convoy_along_n<columns, threads, wide> type;
};

#endif
