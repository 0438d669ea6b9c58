/* Makes a graph smaller without changing what it computes (beyond float32 rounding). All passes work in
 * place. They leave removed nodes (output -1) and tensors that nothing reads; convoy_graph_prune() drops
 * both. */
#ifndef CONVOY_ENGINE_GRAPH_FOLD_H
#define CONVOY_ENGINE_GRAPH_FOLD_H

#include "engine/graph/graph.h"

/* Runs all passes, in an order in which each profits from those before. Returns 0 or -ENOMEM. */
int convoy_graph_fold(struct convoy_graph *graph);

/* Takes out a TRANSPOSE of the input and a later one that undoes it: what lies between the two (activations,
 * BINARY with constants, PAD) is done in the input's own order of axes. Returns 0 or -ENOMEM. */
int convoy_fold_transposes(struct convoy_graph *graph);

/* Replaces HardSigmoid and HardSwish as exporters before opset 14 wrote them (Add, Clip, Mul and Div), and
 * swish (Sigmoid and Mul), by one ACTIVATION. */
void convoy_fold_swish(struct convoy_graph *graph);

/* Makes of x * Sigmoid(a x), as quick GELU is written, a product with a before a swish, and with 1 / a behind
 * it: the layers before and behind take both (convoy_fold_scales()). readers as below; it is kept up to date.
 * Returns 0 or -ENOMEM. */
int convoy_fold_scaled_swish(struct convoy_graph *graph, int *readers);

/* Replaces GELU, written with Erf or Tanh, by one ACTIVATION. */
void convoy_fold_gelu(struct convoy_graph *graph);

/* Replaces layer and RMS normalisation, written with means, by one NORMALIZE without scale and shift, and
 * division by the Euclidean length by one with a scale. Returns 0 or -ENOMEM. */
int convoy_fold_normalize(struct convoy_graph *graph);

/* Takes a product with a constant of the axes' lengths behind a NORMALIZE into it as its scale, and a sum as
 * its shift, if nothing else reads what is between. readers as below; it is kept up to date. */
void convoy_fold_normalize_scales(struct convoy_graph *graph, int *readers);

/* Makes one RESHAPE of each chain of them, and removes those that change nothing. Returns 0 or -ENOMEM. */
int convoy_fold_reshape_chains(struct convoy_graph *graph);

/* Moves activations, and BINARY nodes with constants, before the RESHAPE behind which they stand, where
 * nothing else reads that and a layer that may take them along is before it. readers as below; they stay as
 * they are. */
void convoy_fold_reshapes(struct convoy_graph *graph, const int *readers);

/* Moves a PAD of H and W into the pads of the CONV or average POOL that reads it. */
void convoy_fold_pads(struct convoy_graph *graph);

/* Folds y = scale[k] x + shift[k], written as SCALE_SHIFT or as a BINARY with a constant, into the weights
 * and bias of the CONV or DENSE that computes x, if nothing else reads x and no more than 64 MiB of shared
 * weights have to be copied; a product of an ACTIVATION with one number into the weights of the layer that
 * alone reads it. readers[t] is how many nodes and graph outputs read tensor t, with room for two
 * more tensors per node; it is kept up to date. Returns 0 or -ENOMEM. */
int convoy_fold_scales(struct convoy_graph *graph, int *readers);

#endif
