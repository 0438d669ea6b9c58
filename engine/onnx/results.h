/* The value of the first output of the node that is being read. */
#ifndef CONVOY_ENGINE_ONNX_RESULTS_H
#define CONVOY_ENGINE_ONNX_RESULTS_H

#include "engine/onnx/importer.h"

/* Each operator ends with a call of one of these. Data is taken over, also on failure. */
int onnx_set_tensor(struct onnx_importer *importer, int tensor);
int onnx_set_value(struct onnx_importer *importer, const struct onnx_value *same);
int onnx_set_floats(struct onnx_importer *importer, const struct convoy_shape *shape, float *data);
int onnx_set_ints(struct onnx_importer *importer, const struct convoy_shape *shape, struct onnx_int *ints);

/* Sets the node's output to `value`, a constant, with its elements in another shape of as many elements. */
int onnx_set_reshaped(struct onnx_importer *importer, const struct onnx_value *value,
                      const struct convoy_shape *shape);
/* Sets the node's output to a constant of this shape whose element at index i is value[start + sum i * step]:
 * transposes, slices and broadcasts, all of which stay inside value. */
int onnx_set_strided(struct onnx_importer *importer, const struct onnx_value *value,
                     const struct convoy_shape *shape, int64_t start, const int64_t *steps);

#endif
