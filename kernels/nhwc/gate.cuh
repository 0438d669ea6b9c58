/* Gates of squeeze and excitation, in front of a 1 x 1 convolution on warpgroups: the inputs of a chunk that
 * the copy engine brought are multiplied in shared memory, each by the gate of its image and channel, before
 * the warpgroup multiplies with the weights. So the product of a tensor with its gates is never in device
 * memory. It is rounded to fp16 once, as if it were.
 *
 * A warpgroup does so with its own rows, which no other one reads. A thread has the same cell (8 channels) of
 * every APART-th row; rows of the same cell lie so that 8 threads take 128 bytes of a row. */
#ifndef CONVOY_KERNELS_NHWC_GATE_CUH
#define CONVOY_KERNELS_NHWC_GATE_CUH

#include "kernels/device/tensor_copy.cuh"
#include "kernels/nhwc/conv_job.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"

/* The products of two words of two numbers each. */
static __device__ __forceinline__ uint32_t nhwc_times(uint32_t a, uint32_t b)
{
#if defined(__CUDA_ARCH__)
    uint32_t product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
#else
    return convoy_half2(convoy_from_half(a & 0xffffu) * convoy_from_half(b & 0xffffu),
                        convoy_from_half(a >> 16) * convoy_from_half(b >> 16));
#endif
}

/* What a thread has of ROWS pieces of 64 rows. */
template <int ROWS, int DEPTH> struct nhwc_gates {
    static constexpr int CELLS = DEPTH / NHWC_CELL, APART = CONVOY_WARPGROUP / CELLS;
    static constexpr int COUNT = ROWS * NHWC_PIECE / APART;
    int row, cell;
    int from[COUNT]; /* where the gates of a row's image begin */
    uint4 gate[COUNT];

    __device__ __forceinline__ nhwc_gates(void)
        : row((int)threadIdx.x % CONVOY_WARPGROUP / CELLS), cell((int)threadIdx.x % CELLS)
    {
    }

    /* Rows from output `first` on. Of those beyond the last one no result is stored. */
    __device__ __forceinline__ void begin(const struct nhwc_job &job, int first)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int m = first + row + i * APART;
            from[i] = tensor_divide(m < job.m ? m : job.m - 1, job.pixels) * job.gate_pixel;
        }
    }

    /* The gates of a chunk; before the chunk is waited for. */
    __device__ __forceinline__ void load(const struct nhwc_job &job, int chunk)
    {
        int channel = chunk * DEPTH + cell * NHWC_CELL;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            gate[i] = channel < job.c ? *reinterpret_cast<const uint4 *>(job.gates + from[i] + channel)
                                      : make_uint4(0, 0, 0, 0);
    }

    /* rows: of the chunk, this warpgroup's. What it wrote is there for wgmma after a barrier of the
     * warpgroup.
     */
    __device__ __forceinline__ void multiply(char *rows) const
    {
        constexpr int ROW_BYTES = DEPTH * 2;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            int at = row + i * APART;
            uint4 *place = reinterpret_cast<uint4 *>(rows + at * ROW_BYTES +
                                                     convoy_swizzled_cell<ROW_BYTES>(at, cell) * 16);
            uint4 x = *place;
            *place = make_uint4(nhwc_times(x.x, gate[i].x), nhwc_times(x.y, gate[i].y),
                                nhwc_times(x.z, gate[i].z), nhwc_times(x.w, gate[i].w));
        }
        convoy_wgmma_publish();
    }
};

#endif
