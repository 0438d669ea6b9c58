/* What load() does in every backend: checking a graph, and describing its shapes and layers. Any thread. */
#ifndef CONVOY_ENGINE_DESCRIBE_H
#define CONVOY_ENGINE_DESCRIBE_H

#include "engine/backend.h"

/* Returns 0 if backends can take the graph: no tensor is empty, and the batch is the first axis of the input.
 * Else -ENOTSUP with a sentence that names the tensor or node. */
int convoy_check_graph(const struct convoy_graph *graph, struct convoy_error *error);

/* Fills in the input and the outputs of info, which is all zero before. */
void convoy_describe_shapes(const struct convoy_graph *graph, struct convoy_net_info *info);

/* Copies as many whole UTF-8 characters of name as fit, so that the result is valid in JSON. */
void convoy_copy_layer_name(const char *name, char to[CONVOY_LAYER_NAME_BYTES]);

#endif
