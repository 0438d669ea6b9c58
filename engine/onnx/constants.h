/* Bounds on a model's constants, so that a small file cannot take much memory. */
#ifndef CONVOY_ENGINE_ONNX_CONSTANTS_H
#define CONVOY_ENGINE_ONNX_CONSTANTS_H

#include "engine/onnx/importer.h"

/* Counts a constant of the file against the bound on stored constants, before it is decoded. Each stored
 * constant raises the bound on computed ones. */
int onnx_count_stored(struct onnx_importer *importer, const Onnx__TensorProto *tensor);
/* Allocates zeroed memory for a computed constant of this shape (struct onnx_int if ints, else float), and
 * counts it against the bound on computed ones. The caller frees *data. */
int onnx_allocate(struct onnx_importer *importer, const struct convoy_shape *shape, bool ints, void **data);
/* A computed constant of this shape is freed: it does not count any longer. */
void onnx_release(struct onnx_importer *importer, const struct convoy_shape *shape, bool ints);

#endif
