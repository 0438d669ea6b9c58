/* Reading and writing at indices of what depends on the model's input: what PyTorch makes of
 * x[:, :, 1:-1, ::2] = y, of x[..., rows, columns] and of x.gather(1, places). The places must be the same in
 * each image; those that are written form a grid: from, to and step along each axis. The functions set the
 * node's output. */
#ifndef CONVOY_ENGINE_ONNX_SCATTER_H
#define CONVOY_ENGINE_ONNX_SCATTER_H

#include "engine/onnx/importer.h"

/* x or updates, or both, are activations; indices are ints. */
int onnx_scatter_slices(struct onnx_importer *importer, const struct onnx_value *x,
                        const struct onnx_value *indices, const struct onnx_value *updates);
/* The same, along an axis of x; the indices have x's rank. */
int onnx_scatter_elements(struct onnx_importer *importer, const struct onnx_value *x,
                          const struct onnx_value *indices, const struct onnx_value *updates, int axis);
/* x is an activation; each index names a place along its first `depth` dimensions, none of which is the
 * batch. */
int onnx_gather_slices(struct onnx_importer *importer, const struct onnx_value *x,
                       const struct onnx_value *indices);
/* x is an activation. */
int onnx_gather_elements(struct onnx_importer *importer, const struct onnx_value *x,
                         const struct onnx_value *indices, int axis);

#endif
