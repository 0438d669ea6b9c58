/* Folding constants: what nodes of the graph compute from constants alone is computed while the model is
 * read, so that every operator takes constants where it takes activations, without code of its own. */
#ifndef CONVOY_ENGINE_ONNX_FOLDING_H
#define CONVOY_ENGINE_ONNX_FOLDING_H

#include "engine/onnx/importer.h"

/* Computes the graph's nodes from first_node on that read constants alone, and drops them. Outputs of the
 * node that is being read that were activations become constants. Constants among the tensors from
 * first_tensor on that are then neither read nor an output are freed, and are not counted any longer. */
int onnx_fold(struct onnx_importer *importer, int first_node, int first_tensor);

#endif
