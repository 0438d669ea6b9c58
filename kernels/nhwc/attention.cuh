/* What the kernels of attention share: what a block makes, and where the rows of a head lie. */
#ifndef CONVOY_KERNELS_NHWC_ATTENTION_CUH
#define CONVOY_KERNELS_NHWC_ATTENTION_CUH

#include "kernels/nhwc/nhwc_common.h"

#define ATTENTION_LOG2_E 1.44269504f

struct attention_job {
    struct convoy_nhwc_attention shape;
    const convoy_fp16 *q, *k, *v;
    const float *bias;
    convoy_fp16 *y;
    int tiles;   /* blocks' shares of the queries */
    int rows;    /* of keys, and as many of values, in shared memory */
    bool scaled; /* products are multiplied before they are compared: there is a bias, or a factor of each
                    head */
    struct convoy_overflow overflow;
};

/* What a block makes. */
struct attention_place {
    int64_t n;
    int window, head, query;
};

static __device__ __forceinline__ struct attention_place place_of(const struct attention_job &job,
                                                                  int64_t item, int block_rows)
{
    struct attention_place place;
    place.query = (int)(item % job.tiles) * block_rows;
    item /= job.tiles;
    place.head = (int)(item % job.shape.heads);
    item /= job.shape.heads;
    place.window = (int)(item % job.shape.windows);
    place.n = item / job.shape.windows;
    return place;
}

/* The rows of one head and window. What they have in common is found once: an address in 64 bits costs as
 * many instructions as a row of products. */
struct attention_rows {
    const int32_t *table; /* the pixel of each row; NULL: in order from `first` on */
    int64_t start;        /* the number where pixel 0 begins */
    int pixel, first;     /* numbers from pixel to pixel */

    __device__ __forceinline__ attention_rows(const struct convoy_nhwc_rows_of_heads &of,
                                              const struct attention_place &place, int count)
        : table(of.rows != nullptr ? of.rows + place.window * count : nullptr),
          start(place.n * of.image + place.head * of.head), pixel((int)of.pixel), first(place.window * count)
    {
    }
    /* The number where a row begins. */
    __device__ __forceinline__ int64_t at(int row) const
    {
        int index = table != nullptr ? __ldg(table + row) : first + row;
        return start + (int64_t)index * pixel;
    }
};

/* attention_wgmma.cu: can it? */
bool attention_wgmma_takes(const struct attention_job *job);
cudaError_t attention_wgmma_launch(const struct attention_job *job, cudaStream_t stream);

#endif
