/* Building a graph node by node. The ONNX reader uses it, and code that makes a graph by hand.
 *
 * Tensors and nodes are added in topological order; convoy_graph_finish() (engine/graph/finish.h) comes last.
 * Threads: one builder thread per graph. */
#ifndef CONVOY_ENGINE_GRAPH_BUILD_H
#define CONVOY_ENGINE_GRAPH_BUILD_H

#include "engine/graph/graph.h"

/* An empty graph, or NULL when memory is out. */
struct convoy_graph *convoy_graph_new(void);

/* Adds a tensor and returns its index, or -ENOMEM. The name is copied. data is NULL for an activation; else
 * it is malloc'ed memory for all of the shape's elements, which the graph owns from here on (also on
 * failure). */
int convoy_graph_add_tensor(struct convoy_graph *graph, const char *name, const struct convoy_shape *shape,
                            float *data);

/* Adds a node that reads the given tensors and computes `output`, and returns it with its operator's own part
 * zeroed, or NULL when memory is out. The pointer is valid until the next call. name is copied (a NULL or
 * empty name becomes OP_index); onnx_op must outlive the graph, or be NULL. At most CONVOY_MAX_NODE_INPUTS
 * inputs. */
struct convoy_node *convoy_graph_add_node(struct convoy_graph *graph, enum convoy_op op, const char *name,
                                          const char *onnx_op, const int *inputs, int input_count,
                                          int output);

#endif
