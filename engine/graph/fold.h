/* Making a graph smaller without changing what it computes (beyond float32 rounding). All passes work in
 * place and leave behind removed nodes (output -1) and unread tensors, which convoy_graph_prune() drops. */
#ifndef CONVOY_ENGINE_GRAPH_FOLD_H
#define CONVOY_ENGINE_GRAPH_FOLD_H

#include "engine/graph/graph.h"

/* All passes, in the order that lets one feed the next. Returns 0 or -ENOMEM. */
int convoy_graph_fold(struct convoy_graph *graph);

/* HardSigmoid and HardSwish as exporters before opset 14 wrote them, from Add, Clip, Mul and Div, into one
 * ACTIVATION. */
void convoy_fold_hard_swish(struct convoy_graph *graph);

/* A PAD of H and W into the pads of the CONV or average POOL that reads it. */
void convoy_fold_pads(struct convoy_graph *graph);

/* y = scale[k] x + shift[k], written as SCALE_SHIFT or as a BINARY with a constant, into the weights and bias
 * of the CONV or DENSE that computes x, where nothing else reads x and no more than 64 MiB of shared weights
 * have to be copied. readers[t] is how many nodes and graph outputs read tensor t, with room for two more
 * tensors per node; it is kept up to date. Returns 0 or -ENOMEM. */
int convoy_fold_scales(struct convoy_graph *graph, int *readers);

#endif
