/* What every backend says of a network in the same words: common help for load(). */
#ifndef CONVOY_ENGINE_DESCRIBE_H
#define CONVOY_ENGINE_DESCRIBE_H

#include "engine/backend.h"

/* A graph that a backend can take at all: no empty tensors, the batch outermost in the input. -ENOTSUP. */
int convoy_check_graph(const struct convoy_graph *graph, struct convoy_error *error);

/* Fills in the input's and the outputs' part of info. */
void convoy_describe_shapes(const struct convoy_graph *graph, struct convoy_net_info *info);

/* As much of a name as fits, in whole characters: it goes into JSON. */
void convoy_copy_layer_name(const char *name, char to[CONVOY_LAYER_NAME_BYTES]);

#endif
