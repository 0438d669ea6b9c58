/* What a block of conv_stem.cu works on, and how the rows of its images come into shared memory as pixels of
 * fp16. */
#ifndef CONVOY_KERNELS_NHWC_STEM_ROWS_CUH
#define CONVOY_KERNELS_NHWC_STEM_ROWS_CUH

#include "kernels/device/wgmma.cuh"
#include "kernels/nhwc/nhwc_cells.cuh"

#define STEM_THREADS  (2 * CONVOY_WARPGROUP)
#define STEM_OUTPUTS  128 /* of a row, of both warpgroups; the last few have no inputs */
#define STEM_CHANNELS 3
#define STEM_WINDOW   3 /* of pooling */
#define STEM_APART    2

struct stem_job {
    struct convoy_images images;
    int n, c, h, w;
    int pad[2];
    int rows, columns;         /* of the convolution's outputs */
    int y_rows, y_columns;     /* of y: pooled, or the same */
    int pool_pad;              /* with pooling */
    int bands, band, segments; /* of an image; pairs of rows of a band */
    int segment;               /* columns of y */
    int maps, cells;
    const char *weights;
    const float *bias;
    convoy_fp16 *y;
    int64_t y_pixel;
    struct convoy_unary act;
    struct convoy_overflow overflow;
};

/* Shared memory. A group is the rows of the image that two more rows of outputs need. */
template <int R, int STEPS, int STRIDE, int NT, bool POOL> struct stem_tile {
    static constexpr int N = NT * 8, PIXEL_BYTES = 16 / STRIDE, PIXEL = PIXEL_BYTES / 2;
    static constexpr int COLUMNS = STEM_OUTPUTS * STRIDE; /* of the image */
    static constexpr int ROW_BYTES = (STEM_OUTPUTS - 1) * 16 + STEPS * 32;
    static constexpr int GROUP = 2 * STRIDE, NEEDED = (STRIDE + R + GROUP - 1) / GROUP;
    static constexpr int GROUPS = NEEDED + 1, RING_ROWS = GROUPS * GROUP;
    static constexpr int LOADS = GROUP * COLUMNS / STEM_THREADS;
    static constexpr int STEP_BYTES = 32 * N, WEIGHT_BYTES = R * STEPS * STEP_BYTES;
    static constexpr int LINE_BYTES = STEM_OUTPUTS * N * 2, RESULT_BYTES = POOL ? LINE_BYTES : 2 * LINE_BYTES;
    static constexpr int RING = WEIGHT_BYTES, RESULTS = RING + RING_ROWS * ROW_BYTES;
    static constexpr int SHARED_BYTES = RESULTS + 2 * RESULT_BYTES;   /* of a pair, and of the next one */
    static constexpr int BLOCKS = SHARED_BYTES <= 113 * 1024 ? 2 : 1; /* of a multiprocessor */
    /* Outputs whose inputs are all among so many columns. */
    static constexpr int OUTPUTS = (COLUMNS - STEPS * 16 / PIXEL) / STRIDE + 1;
};

/* What a block works on: some columns of a band of an image. */
struct stem_part {
    int n, first, end;    /* pairs of rows */
    int y_column, column; /* the first, of y and of the convolution's outputs */
    int top, left;        /* of the image, for the first pair */

    template <bool POOL, int STRIDE>
    static __device__ __forceinline__ stem_part of(const struct stem_job &job, int number)
    {
        stem_part part;
        int band = number / job.segments, segment = number - band * job.segments;
        part.n = band / job.bands;
        part.first = (band - part.n * job.bands) * job.band;
        part.end = min(part.first + job.band, POOL ? job.y_rows : (job.rows + 1) / 2);
        if (POOL)
            part.first--; /* for its second row */
        part.y_column = segment * job.segment;
        part.column = POOL ? part.y_column * STEM_APART - job.pool_pad : part.y_column;
        part.top = row_of<POOL>(job, part.first) * STRIDE - job.pad[0];
        part.left = part.column * STRIDE - job.pad[1];
        return part;
    }

    /* The first of a pair's rows. A pooled row looks at the second row of the pair before, and at both. */
    template <bool POOL> static __device__ __forceinline__ int row_of(const struct stem_job &job, int pair)
    {
        return pair * 2 + (POOL ? 1 - job.pool_pad : 0);
    }
};

/* A thread's pixels of a group, all of one column of the image, on the way from there to the ring. */
template <typename TILE> struct stem_pixels {
    uint32_t raw[TILE::LOADS][STEM_CHANNELS];

    static __device__ __forceinline__ int column(void)
    {
        return (int)threadIdx.x % TILE::COLUMNS;
    }
    static __device__ __forceinline__ int row(int load)
    {
        return (int)threadIdx.x / TILE::COLUMNS + load * (STEM_THREADS / TILE::COLUMNS);
    }
    static __device__ __forceinline__ bool inside(const struct stem_job &job, int y, int x)
    {
        return (unsigned)y < (unsigned)job.h && (unsigned)x < (unsigned)job.w;
    }

    template <typename T>
    __device__ __forceinline__ void ask_for(const struct stem_job &job, const T *image, int top, int x,
                                            int pixel, int plane)
    {
#pragma unroll
        for (int i = 0; i < TILE::LOADS; i++) {
            int y = top + row(i);
            const T *from = image + (y * job.w + x) * pixel;
#pragma unroll
            for (int c = 0; c < STEM_CHANNELS; c++) {
                T value = 0;
                if (inside(job, y, x) && c < job.c)
                    value = __ldg(from + c * plane);
                if constexpr (sizeof(T) == sizeof(float))
                    raw[i][c] = convoy_float_bits(value);
                else
                    raw[i][c] = value;
            }
        }
    }

    /* wanted: else nothing is read, without a branch, over which the compiler keeps no products in flight. */
    __device__ __forceinline__ void ask(const struct stem_job &job, const stem_part &part, int group,
                                        bool wanted)
    {
        const char *image =
            static_cast<const char *>(job.images.data) + (int64_t)part.n * job.images.image_bytes;
        int top = wanted ? part.top + group * TILE::GROUP : job.h, x = part.left + column();
        if (job.images.u8)
            ask_for(job, reinterpret_cast<const unsigned char *>(image), top, x, job.c, 1);
        else
            ask_for(job, reinterpret_cast<const float *>(image), top, x, 1, job.h * job.w);
    }

    /* Channel 3 of every pixel is 1: its weight is the bias. A number that fp16 does not hold makes the
     * outputs that need it infinite or NaN, which is told of there. */
    __device__ __forceinline__ void put(const struct stem_job &job, const stem_part &part, int group,
                                        char *ring) const
    {
        char *to =
            ring + group % TILE::GROUPS * (TILE::GROUP * TILE::ROW_BYTES) + column() * TILE::PIXEL_BYTES;
#pragma unroll
        for (int i = 0; i < TILE::LOADS; i++) {
            float value[STEM_CHANNELS];
#pragma unroll
            for (int c = 0; c < STEM_CHANNELS; c++)
                value[c] = convoy_bits_float(raw[i][c]);
            if (job.images.u8) {
                bool there = inside(job, part.top + group * TILE::GROUP + row(i), part.left + column());
#pragma unroll
                for (int c = 0; c < STEM_CHANNELS; c++)
                    value[c] = there && c < job.c
                                   ? fmaf((float)raw[i][c], job.images.multiply[c], job.images.add[c])
                                   : 0.0f;
            }
            uint32_t low = convoy_half2(value[0], value[1]), high = convoy_half2(value[2], 1.0f);
            if (TILE::PIXEL == 4)
                *reinterpret_cast<uint2 *>(to + row(i) * TILE::ROW_BYTES) = make_uint2(low, high);
            else
                *reinterpret_cast<uint4 *>(to + row(i) * TILE::ROW_BYTES) = make_uint4(low, high, 0, 0);
        }
        convoy_wgmma_publish();
    }
};

#endif
