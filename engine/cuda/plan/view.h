/* What a tensor shows of another one through reshapes, transpositions, slices, paddings, concatenations, and
 * products and sums with constants: kernels that take tables of rows read that other one instead.
 *
 * Everything is for one image. Numbers that stay next to each other all along are one unit, so a map has an
 * entry for each unit. */
#ifndef CONVOY_ENGINE_CUDA_VIEW_H
#define CONVOY_ENGINE_CUDA_VIEW_H

#include "engine/cuda/plan/channels.h"
#include "engine/graph/graph.h"

#define CONVOY_CUDA_VIEW_ELEMENTS (INT64_C(1) << 24) /* of tensors that are followed, at most */

struct convoy_cuda_view {
    int base;      /* the tensor that is shown */
    int64_t unit;  /* numbers */
    int64_t count; /* units */
    int32_t *map;  /* for each unit: which one of the base; -1: zeros */
    double scale;  /* by which the base is multiplied */
    float *add;    /* for each number what is added then; NULL: nothing */
};

/* What views of one graph are found with. All but `left` stays the caller's. */
struct convoy_cuda_tracer {
    const struct convoy_graph *graph;
    const enum convoy_cuda_channels *channels; /* as convoy_cuda_find_channels() finds them */
    const int64_t *before;
    const bool *ends; /* for each tensor: it is a base, whatever node makes it */
    int64_t left;     /* what may still be done, in units of a map: what hostile graphs can cost */
    int depth;        /* nodes that are being followed */
    bool adds;        /* sums with constants are seen through, too */
    /* One normalisation along the last axis, of tensors that are no rows of channels, is seen through, too,
     * and its node is put here, which is -1 before; NULL: none is. Which numbers are a row of it, the caller
     * asks. */
    int *normalize;
};
#define CONVOY_CUDA_TRACER_WORK (INT64_C(1) << 30) /* for `left` in the beginning */

/* The largest unit with which the tensor can be followed to its base: 1 where its last axis is transposed. */
int64_t convoy_cuda_view_unit(struct convoy_cuda_tracer *tracer, int tensor);

/* Follows the tensor as far as its numbers come in units of that many from one other tensor; that may be the
 * tensor itself. False: not possible, too large, or no memory. Free the view in any case. */
bool convoy_cuda_view_trace(struct convoy_cuda_tracer *tracer, int tensor, int64_t unit,
                            struct convoy_cuda_view *view);
void convoy_cuda_view_free(struct convoy_cuda_view *view);

/* If the node multiplies an activation by one number or divides by it: which one, and by what. */
bool convoy_cuda_scalar_operand(const struct convoy_graph *graph, const struct convoy_node *node, int *x,
                                double *factor);

/* Adds a constant, broadcast to the shape (of which the images have the same), to so many floats in its
 * order; `row` apart are its rows along the last axis. False: it cannot be broadcast so. */
bool convoy_cuda_add_broadcast(const struct convoy_tensor *constant, const struct convoy_shape *shape,
                               int64_t row, double scale, float *to);

#endif
