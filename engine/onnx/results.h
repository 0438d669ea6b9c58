/* Sets the value of output importer->output of the node that is being read: the first, unless an operator
 * with several counts it up. Each operator ends with a call of one of these. */
#ifndef CONVOY_ENGINE_ONNX_RESULTS_H
#define CONVOY_ENGINE_ONNX_RESULTS_H

#include "engine/onnx/importer.h"

/* The output is this tensor of the graph. */
int onnx_set_tensor(struct onnx_importer *importer, int tensor);
/* The same, of whole numbers, which are of this TensorProto.DataType in the file. */
int onnx_set_integers(struct onnx_importer *importer, int tensor, int type);
/* The output equals another value. */
int onnx_set_value(struct onnx_importer *importer, const struct onnx_value *same);
/* The output is a constant. data and ints, of the shape's elements, are taken over, also on failure. */
int onnx_set_floats(struct onnx_importer *importer, const struct convoy_shape *shape, float *data);
int onnx_set_ints(struct onnx_importer *importer, const struct convoy_shape *shape, struct onnx_int *ints);

/* The same, of ints where `like` is made of them, else of floats. */
int onnx_set_like(struct onnx_importer *importer, const struct onnx_value *like,
                  const struct convoy_shape *shape, void *data);
/* The output has no elements. Of these only the shape counts, and Concat leaves them out. */
int onnx_set_empty(struct onnx_importer *importer, const struct convoy_shape *shape);
/* The output is the constant `value` in another shape with as many elements. */
int onnx_set_reshaped(struct onnx_importer *importer, const struct onnx_value *value,
                      const struct convoy_shape *shape);
/* The output is a constant of this shape whose element at index i is value[start + sum i * step]: a
 * transpose, slice or broadcast. All indices must lie inside value. */
int onnx_set_strided(struct onnx_importer *importer, const struct onnx_value *value,
                     const struct convoy_shape *shape, int64_t start, const int64_t *steps);

#endif
