/* Which nodes of a graph run together on the CPU.
 *
 * oneDNN computes a convolution, a dense layer, a matrix product, a pooling or a sum of two tensors and,
 * while the result is still in registers, applies elementwise functions to it and adds a tensor that lies
 * where the result goes. A group is such an anchor with what it absorbs. Groups depend on the graph alone,
 * never on the batch size, so every bucket of a network has the same layers.
 *
 * Groups are in the order in which they can run: each reads only what earlier groups wrote. */
#ifndef CONVOY_ENGINE_CPU_GROUPS_H
#define CONVOY_ENGINE_CPU_GROUPS_H

#include "engine/graph/graph.h"

#include <dnnl.h>

#define CONVOY_CPU_MAX_POSTS 8

enum convoy_cpu_post_kind {
    CONVOY_CPU_ELTWISE, /* y = algorithm(x) */
    CONVOY_CPU_SUM      /* y = x + tensor, equal shapes */
};

struct convoy_cpu_post {
    enum convoy_cpu_post_kind kind;
    dnnl_alg_kind_t algorithm; /* ELTWISE, with oneDNN's alpha and beta */
    float alpha, beta;
    int tensor;        /* SUM */
    const char *label; /* for profiles: "relu", "add" */
};

struct convoy_cpu_group {
    int anchor;       /* node index */
    bool elementwise; /* the anchor itself is posts[0]: nothing is computed before the posts */
    int source;       /* tensor that the anchor reads first: its first input, or what is flattened into it */
    int output;       /* tensor that the last absorbed node writes */
    int post_count;
    struct convoy_cpu_post posts[CONVOY_CPU_MAX_POSTS];
};

struct convoy_cpu_groups {
    int count;
    struct convoy_cpu_group *groups;
    bool keeps_nan;
    bool rounds;   /* the graph has a CONVOY_ROUND, as quantised networks do */
    int *last_use; /* per tensor: index of the group that reads it last, -1 for none, INT_MAX for outputs */
};

/* Fills groups from graph; to be freed with convoy_cpu_groups_free() whatever is returned. -ENOMEM.
 * keeps_nan: what oneDNN computes of NaN as if it were a number (activations, maxima, minima, softmax) is
 * left to loops, which give NaN. */
int convoy_cpu_group_nodes(const struct convoy_graph *graph, bool keeps_nan, struct convoy_cpu_groups *groups,
                           struct convoy_error *error);
void convoy_cpu_groups_free(struct convoy_cpu_groups *groups);

#endif
