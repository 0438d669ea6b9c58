/* Reading the nodes of one graph of the file: the model's, or a branch of an If. */
#ifndef CONVOY_ENGINE_ONNX_SCOPE_H
#define CONVOY_ENGINE_ONNX_SCOPE_H

#include "engine/onnx/importer.h"

/* How many names the graph and all graphs inside it have. */
size_t onnx_count_names(const Onnx__GraphProto *graph);
/* Add the names of the graph's initializers, and of its nodes' outputs, as values of importer->scope. */
int onnx_register_initializers(struct onnx_importer *importer, const Onnx__GraphProto *graph);
int onnx_register_nodes(struct onnx_importer *importer, const Onnx__GraphProto *graph);
/* Reads the nodes that the graph's outputs depend on, each after what it reads; they may stand in any order
 * in the file. Names must be registered. */
int onnx_read_nodes(struct onnx_importer *importer, const Onnx__GraphProto *graph);

#endif
