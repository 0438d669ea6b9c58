/* Recognising what exporters write in several nodes: the questions that the passes of fold.h ask. */
#ifndef CONVOY_ENGINE_GRAPH_FOLD_MATCH_H
#define CONVOY_ENGINE_GRAPH_FOLD_MATCH_H

#include "engine/graph/graph.h"

#include <math.h>

/* NULL for the input and constants. */
struct convoy_node *fold_producer(struct convoy_graph *graph, int tensor);
/* A constant of one element, about this value. */
bool fold_is_number(const struct convoy_graph *graph, int tensor, float value);
/* For a BINARY of `kind` with the constant `value` on either side (Div: on the right) the other input; else
 * -1. A constant of higher rank than the other input would change the shape, which a fused node cannot. */
int fold_other_operand(const struct convoy_graph *graph, const struct convoy_node *node,
                       enum convoy_binary_kind kind, float value);
/* For a product of x with something of x: the one factor that `factor_of` recognises as made from the other;
 * else -1. */
int fold_product_input(struct convoy_graph *graph, const struct convoy_node *node,
                       int (*factor_of)(struct convoy_graph *, int));
/* The node computes an activation of x instead. What it read before stays for others, or is left to
 * convoy_graph_prune(). */
void fold_become_activation(struct convoy_node *node, int x, struct convoy_activation activation);
/* May a tensor be scaled by this factor, from 1/16 to 16? By others it might leave the range of fp16. */
static inline bool fold_keeps_range(double factor)
{
    return fabs(factor) <= 16 && fabs(factor) >= 1.0 / 16;
}

#endif
