/* Tensors of uint8 that depend on the input. In the graph they are float32, which is the same as long as
 * their elements are only moved, compared or cast. What the operators of ONNX compute on uint8 (sums that
 * wrap, quotients that are cut) is something else, and is refused. */
#ifndef CONVOY_ENGINE_ONNX_BYTES_H
#define CONVOY_ENGINE_ONNX_BYTES_H

#include "engine/onnx/importer.h"

/* Refuses the node that is being read, whose inputs have been gathered, if it computes on uint8. *keeps:
 * whether its outputs are uint8. */
int onnx_check_bytes(const struct onnx_importer *importer, bool *keeps);
/* Marks the outputs of the node that has been read. */
void onnx_mark_bytes(const struct onnx_importer *importer);

#endif
