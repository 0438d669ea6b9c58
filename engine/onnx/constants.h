/* Bounds on a model's constants, so that a small file cannot take much memory. */
#ifndef CONVOY_ENGINE_ONNX_CONSTANTS_H
#define CONVOY_ENGINE_ONNX_CONSTANTS_H

#include "engine/onnx/importer.h"

/* Counts a constant that the file holds against the model's bound, before it is decoded; each makes room for
 * some that are computed from it. */
int onnx_count_stored(struct onnx_importer *importer, const Onnx__TensorProto *tensor);
/* Memory for a constant of this shape, counted against the bound of computed ones; floats if !ints. */
int onnx_allocate(struct onnx_importer *importer, const struct convoy_shape *shape, bool ints, void **data);

#endif
