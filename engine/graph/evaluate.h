/* Computes one node whose inputs are all constants, straight from its definition in graph.h: nested loops,
 * sums in double, each result rounded to float once. For folding constants, not for speed. */
#ifndef CONVOY_ENGINE_GRAPH_EVALUATE_H
#define CONVOY_ENGINE_GRAPH_EVALUATE_H

#include "engine/graph/graph.h"

/* The activation of one number. */
double convoy_activation_apply(const struct convoy_activation *activation, double x);

/* About how many simple operations convoy_graph_evaluate() needs, so that the caller can bound them;
 * INT64_MAX where the number overflows. */
int64_t convoy_graph_evaluation_work(const struct convoy_graph *graph, const struct convoy_node *node);

/* Writes the elements of the node's output to y, which has room for them. All inputs must be constants and
 * the node's shapes must have been checked. */
void convoy_graph_evaluate(const struct convoy_graph *graph, const struct convoy_node *node, float *y);

#endif
