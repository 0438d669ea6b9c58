/* Tensors of rows of channels in 16 bits whose rows are those of another tensor, in another order or copied.
 *
 * A window of an image, an image that is rolled, T x N x C behind N x T x C: such a tensor is the other one
 * in memory, and only the plan knows that its rows are meant in another order; what works row by row does not
 * mind. Where rows are left out, repeated, put side by side or put behind a row of constants, one kernel
 * copies them, whatever the nodes were that said so. */
#ifndef CONVOY_ENGINE_CUDA_ROWS_H
#define CONVOY_ENGINE_CUDA_ROWS_H

#include "engine/cuda/plan/view.h"

struct convoy_cuda_rows {
    int base;           /* the tensor that has the rows */
    int64_t count;      /* rows of an image */
    bool copies;        /* false: each row of the base is there once, as it is, and nothing is added */
    bool in_order;      /* each row is where it is in the base */
    int64_t width;      /* numbers of a piece: a row of a tensor that is no copy */
    int pieces;         /* of a row */
    int64_t per_row;    /* pieces of a row of the base */
    int32_t *pieces_of; /* count x pieces: which piece of the base; -1: zeros; owned */
    float *add;         /* count x pieces x width: what is added; owned; or NULL */
};

/* How the tensor's rows are those of another one. NULL: they are not, or the node that makes the tensor says
 * it all (convoy_cuda_is_pixel_view()), or there is no memory. The caller frees it. */
struct convoy_cuda_rows *convoy_cuda_find_rows(struct convoy_cuda_tracer *tracer, int tensor);
void convoy_cuda_rows_free(struct convoy_cuda_rows *rows);

#endif
