/* Dropping what no output depends on: nodes and constants that folding or the exporter left behind. */
#ifndef CONVOY_ENGINE_GRAPH_PRUNE_H
#define CONVOY_ENGINE_GRAPH_PRUNE_H

#include "engine/graph/graph.h"

/* Drops nodes and tensors that no output depends on, and removed nodes (output -1). The input stays. Tensor
 * and node indices change; producers are filled in. Returns 0 or -ENOMEM, the graph unchanged. */
int convoy_graph_prune(struct convoy_graph *graph);

#endif
