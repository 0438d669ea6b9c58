/* Groups: the nodes of a graph that one kernel computes. The anchor is a convolution, a matrix product, a sum
 * of two tensors, ...; the other nodes (residual, activation, pooling) are applied to its result while that
 * is still in registers.
 *
 * Groups depend on the graph alone, never on the batch size, so a network has the same layers in every
 * bucket. They are listed in an order in which they can run. */
#ifndef CONVOY_ENGINE_CUDA_GROUPS_H
#define CONVOY_ENGINE_CUDA_GROUPS_H

#include "engine/cuda/plan/attention.h"
#include "engine/cuda/plan/rows.h"
#include "engine/graph/graph.h"
#include "kernels/kernels.h"

struct convoy_cuda_group {
    int anchor;   /* node index */
    int residual; /* the tensor, of the output's shape, that is added before the activation; -1: none */
    struct convoy_unary act; /* of CONVOY_UNARY_NHWC_KINDS behind a convolution or a dense layer */
    const char *act_name;    /* for profiles; NULL: none */
    int pool;                /* of a convolution: maximum over pool x pool, stride pool; 1: none */
    int output;              /* the tensor that the last node of the group writes */
    bool view;               /* nothing runs: the output is another name for the anchor's input */
    struct convoy_cuda_attention *attention; /* instead of what the anchor, a softmax, does; owned; or NULL */
    struct convoy_cuda_rows *rows; /* instead of what the anchor and those before it do; owned; or NULL */
    /* Which rows of the output are computed, one after the other, because nothing reads others (picks.h); of
     * the group that reads them; NULL: all. */
    const struct convoy_cuda_rows *pick;
};

struct convoy_cuda_groups {
    int count;
    struct convoy_cuda_group *groups;
    bool nhwc;     /* one of them has attention or rows, which need tensors in 16 bits */
    int *last_use; /* per tensor: the last group that reads it, -1 for none, count for a graph's output */
};

/* The tensors that a group's anchor, attention or rows read, residual apart. Returns how many. */
int convoy_cuda_group_inputs(const struct convoy_graph *graph, const struct convoy_cuda_group *group,
                             const int **inputs);

/* Groups the nodes of graph; attention and rows become a group each only if tensors may be 16 bits. Free
 * groups also after a failure. 0 or -ENOMEM. */
int convoy_cuda_group_nodes(const struct convoy_graph *graph, struct convoy_cuda_groups *groups, bool nhwc,
                            struct convoy_error *error);
void convoy_cuda_groups_free(struct convoy_cuda_groups *groups);

#endif
