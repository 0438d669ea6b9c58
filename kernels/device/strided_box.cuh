/* Boxes of strided dimensions, over which copy and binary iterate: the host simplifies a box, the device
 * turns an element's number into its place in each tensor. */
#ifndef CONVOY_KERNELS_STRIDED_BOX_CUH
#define CONVOY_KERNELS_STRIDED_BOX_CUH

#include "kernels/kernels.h"

#define CONVOY_BOX_TENSORS 3

/* stride[t] are tensor t's, in floats. */
struct convoy_box {
    int rank; /* at least 1 */
    int64_t dims[CONVOY_KERNEL_RANK];
    int64_t stride[CONVOY_BOX_TENSORS][CONVOY_KERNEL_RANK];
};

static inline int64_t convoy_box_count(const struct convoy_box *box)
{
    int64_t count = 1;
    for (int i = 0; i < box->rank; i++)
        count *= box->dims[i];
    return count;
}

/* Leaves out dimensions of 1 and joins neighbours that are contiguous in every tensor. */
static inline void convoy_box_simplify(struct convoy_box *box)
{
    int rank = 0; /* of what is kept */
    for (int i = 0; i < box->rank; i++) {
        if (box->dims[i] == 1)
            continue;
        bool joins = rank > 0;
        for (int t = 0; t < CONVOY_BOX_TENSORS && joins; t++)
            joins = box->stride[t][rank - 1] == box->stride[t][i] * box->dims[i];
        int64_t dim = box->dims[i];
        if (joins)
            dim *= box->dims[--rank];
        for (int t = 0; t < CONVOY_BOX_TENSORS; t++)
            box->stride[t][rank] = box->stride[t][i];
        box->dims[rank++] = dim;
    }
    if (rank == 0) {
        box->dims[0] = 1;
        for (int t = 0; t < CONVOY_BOX_TENSORS; t++)
            box->stride[t][0] = 1;
        rank = 1;
    }
    box->rank = rank;
}

/* The places in the first `tensors` tensors of element i of the box, the last dimension fastest. */
template <int tensors>
static __device__ __forceinline__ void convoy_box_places(const struct convoy_box &box, int64_t i,
                                                         int64_t (&place)[tensors])
{
#pragma unroll
    for (int t = 0; t < tensors; t++)
        place[t] = 0;
    for (int d = box.rank - 1; d > 0; d--) {
        int64_t rest = i / box.dims[d];
        int64_t index = i - rest * box.dims[d];
#pragma unroll
        for (int t = 0; t < tensors; t++)
            place[t] += index * box.stride[t][d];
        i = rest;
    }
#pragma unroll
    for (int t = 0; t < tensors; t++)
        place[t] += i * box.stride[t][0];
}

#endif
