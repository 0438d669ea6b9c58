/* What 1 x 1 convolutions on warpgroups do to their inputs before they multiply: each number times the gate
 * of its image and channel (squeeze and excitation), or scaled and shifted by channel, with an activation (a
 * normalisation in front of the convolution, as DenseNet has it). The inputs of a chunk that the copy engine
 * brought are changed in shared memory, so the changed tensor is never in device memory. They are rounded to
 * fp16 once, as if it were.
 *
 * A warpgroup changes its own rows, which no other one reads, while the products of the chunk before run. A
 * thread has the same cell (8 channels) of every APART-th row: 8 threads take the 128 bytes of a row. */
#ifndef CONVOY_KERNELS_NHWC_INPUTS_CUH
#define CONVOY_KERNELS_NHWC_INPUTS_CUH

#include "kernels/device/tensor_copy.cuh"
#include "kernels/nhwc/conv_job.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"

/* Inputs as they are. All kinds have these functions. ROWS: pieces of 64 rows of a warpgroup. */
template <int ROWS, int DEPTH> struct nhwc_as_is {
    static constexpr bool CHANGES = false; /* the inputs in shared memory */
    static constexpr bool READS = false;   /* something that the kernel before wrote, or one before that */

    __device__ __forceinline__ void begin(const struct nhwc_job &, int)
    {
    }
    __device__ __forceinline__ void load(const struct nhwc_job &, int)
    {
    }
    __device__ __forceinline__ void change(const struct nhwc_job &, char *)
    {
    }
    __device__ __forceinline__ void tell(const struct nhwc_job &)
    {
    }
    /* What is done to the sums of maps from `column` on, before bias and residual. */
    template <int NT>
    __device__ __forceinline__ void end(const struct nhwc_job &, int, float (&)[ROWS][NT][4])
    {
    }
};

/* What the kinds that change inputs have in common. */
template <int ROWS, int DEPTH> struct nhwc_changed : nhwc_as_is<ROWS, DEPTH> {
    static constexpr bool CHANGES = true, READS = true;
    static constexpr int CELLS = DEPTH / NHWC_CELL, APART = CONVOY_WARPGROUP / CELLS;
    static constexpr int COUNT = ROWS * NHWC_PIECE / APART;
    int row = (int)threadIdx.x % CONVOY_WARPGROUP / CELLS, cell = (int)threadIdx.x % CELLS;
    int first;            /* the warpgroup's first output of the tile */
    uint32_t over[COUNT]; /* of each of the thread's rows: what fp16 does not hold (overflow.cuh) */

    /* A tile whose rows of this warpgroup are outputs from `output` on. */
    __device__ __forceinline__ void begin(const struct nhwc_job &, int output)
    {
        first = output;
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            over[i] = 0;
    }

    /* The image of a row. Of those beyond the last one no result is stored. */
    __device__ __forceinline__ int image(const struct nhwc_job &job, int i) const
    {
        int m = first + row + i * APART;
        return tensor_divide(m < job.m ? m : job.m - 1, job.pixels);
    }

    __device__ __forceinline__ uint4 *place(char *rows, int i) const
    {
        constexpr int ROW_BYTES = DEPTH * 2;
        int at = row + i * APART;
        return reinterpret_cast<uint4 *>(rows + at * ROW_BYTES +
                                         convoy_swizzled_cell<ROW_BYTES>(at, cell) * 16);
    }

    /* Behind the last chunk of a tile. */
    __device__ __forceinline__ void tell(const struct nhwc_job &job)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (nhwc_any_over(over[i]) && first + row + i * APART < job.m)
                nhwc_tell(job.overflow, true, image(job, i));
    }
};

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

/* Times gates. */
template <int ROWS, int DEPTH> struct nhwc_gated : nhwc_changed<ROWS, DEPTH> {
    using base = nhwc_changed<ROWS, DEPTH>;
    int from[base::COUNT]; /* where the gates of a row's image begin */
    uint4 gate[base::COUNT];

    __device__ __forceinline__ void begin(const struct nhwc_job &job, int output)
    {
        base::begin(job, output);
#pragma unroll
        for (int i = 0; i < base::COUNT; i++)
            from[i] = this->image(job, i) * job.gate_pixel;
    }

    /* What changes a chunk; before the chunk is waited for. */
    __device__ __forceinline__ void load(const struct nhwc_job &job, int chunk)
    {
        int channel = chunk * DEPTH + this->cell * NHWC_CELL;
#pragma unroll
        for (int i = 0; i < base::COUNT; i++)
            gate[i] = channel < job.c ? *reinterpret_cast<const uint4 *>(job.gates + from[i] + channel)
                                      : make_uint4(0, 0, 0, 0);
    }

    /* Changes the warpgroup's rows of the chunk; wgmma sees it after a barrier of the warpgroup. */
    __device__ __forceinline__ void change(const struct nhwc_job &, char *rows)
    {
#pragma unroll
        for (int i = 0; i < base::COUNT; i++) {
            uint4 *place = this->place(rows, i), x = *place;
            x = make_uint4(nhwc_times(x.x, gate[i].x), nhwc_times(x.y, gate[i].y), nhwc_times(x.z, gate[i].z),
                           nhwc_times(x.w, gate[i].w));
            nhwc_collect_over(x, &this->over[i]);
            *place = x;
        }
        convoy_wgmma_publish();
    }
};

/* Scaled and shifted, with ReLU if job.input_relu. */
template <int ROWS, int DEPTH> struct nhwc_scaled : nhwc_changed<ROWS, DEPTH> {
    using base = nhwc_changed<ROWS, DEPTH>;
    float scale[NHWC_CELL], shift[NHWC_CELL];

    __device__ __forceinline__ void load(const struct nhwc_job &job, int chunk)
    {
        int channel = chunk * DEPTH + this->cell * NHWC_CELL;
        nhwc_load_vector(job.input_scale, channel, job.c, 0.0f, scale); /* what is not there stays finite */
        nhwc_load_vector(job.input_shift, channel, job.c, 0.0f, shift);
    }

    __device__ __forceinline__ void change(const struct nhwc_job &job, char *rows)
    {
        float least = job.input_relu ? 0.0f : -INFINITY;
#pragma unroll
        for (int i = 0; i < base::COUNT; i++) {
            uint4 *place = this->place(rows, i);
            float values[NHWC_CELL];
            nhwc_unpack(*place, values);
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++)
                values[e] = convoy_larger(fmaf(values[e], scale[e], shift[e]), least);
            const uint4 x = nhwc_pack(values);
            nhwc_collect_over(x, &this->over[i]);
            *place = x;
        }
        convoy_wgmma_publish();
    }
};

#endif
