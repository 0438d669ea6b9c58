/* Putting tensors and nodes into the graph. */
#ifndef CONVOY_ENGINE_ONNX_EMIT_H
#define CONVOY_ENGINE_ONNX_EMIT_H

#include "engine/onnx/importer.h"

/* Adds a constant of floats as a tensor of the graph. data is taken over, also on failure. */
int onnx_emit_constant(struct onnx_importer *importer, const char *name, const struct convoy_shape *shape,
                       float *data, int *tensor);
/* Adds a node that computes a new tensor of this shape, which is checked. The caller fills in *node before
 * the next call. */
int onnx_emit(struct onnx_importer *importer, enum convoy_op op, const int *inputs, int input_count,
              const struct convoy_shape *shape, struct convoy_node **node);
/* Add a RESHAPE or TRANSPOSE of a tensor. *result is the new tensor, or the same one if nothing changes. */
int onnx_emit_reshape(struct onnx_importer *importer, int tensor, const struct convoy_shape *shape,
                      int *result);
int onnx_emit_transpose(struct onnx_importer *importer, int tensor, const int *perm, int *result);
/* Adds a BINARY of two tensors, broadcast. *result is the tensor that it computes. */
int onnx_emit_binary(struct onnx_importer *importer, enum convoy_binary_kind kind, int a, int b, int *result);

#endif
