/* Tensors of whole numbers that depend on the input: uint8 pixels, places that ArgMax and TopK find. In the
 * graph they are float32, which is the same as long as their elements are only moved, compared or cast. What
 * the operators of ONNX compute on integers (sums that wrap, quotients that are cut) is something else, and
 * is refused. */
#ifndef CONVOY_ENGINE_ONNX_INTEGER_ACTIVATIONS_H
#define CONVOY_ENGINE_ONNX_INTEGER_ACTIVATIONS_H

#include "engine/onnx/importer.h"

/* Refuses the node that is being read, whose inputs have been gathered, if it computes on integers. *kept:
 * the type of its outputs where these are integers, too, else 0. */
int onnx_check_integers(const struct onnx_importer *importer, int *kept);
/* Marks the outputs of the node that has been read. */
void onnx_mark_integers(const struct onnx_importer *importer, int type);

#endif
