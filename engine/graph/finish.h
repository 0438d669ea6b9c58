/* The last step of building a graph: folding, pruning and the sums that readers of the graph rely on. */
#ifndef CONVOY_ENGINE_GRAPH_FINISH_H
#define CONVOY_ENGINE_GRAPH_FINISH_H

#include "engine/graph/graph.h"

/* Call it once, when all nodes, the input and the outputs are there. Fuses and folds (engine/graph/fold.h),
 * drops nodes and tensors that no output depends on (engine/graph/prune.h), and fills in producers,
 * weight_bytes and ends_in_softmax, ends_in_sigmoid. Tensor and node indices change. Returns 0 or -ENOMEM;
 * the caller frees the graph in both cases. */
int convoy_graph_finish(struct convoy_graph *graph, struct convoy_error *error);

#endif
