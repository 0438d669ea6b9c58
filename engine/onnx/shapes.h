/* Shapes with a batch in them.
 *
 * The graph holds shapes for one image and says along which axis N images are stacked. Stacking is exact:
 * along its batch axis of N * d elements, image n has the elements n * d to n * d + d - 1. An operator may be
 * read only if it gives the same whether the images are stacked before or after it; what would mix images is
 * refused. */
#ifndef CONVOY_ENGINE_ONNX_SHAPES_H
#define CONVOY_ENGINE_ONNX_SHAPES_H

#include "engine/onnx/importer.h"

/* Refuses a shape with a dimension below 1 or more than 2^31-1 elements. */
int onnx_check_shape(const struct onnx_importer *importer, const struct convoy_shape *shape);
/* Returns the product of the dimensions [from, to). */
int64_t onnx_product(const struct convoy_shape *shape, int from, int to);
/* *out is the shape to which numpy broadcasts a and b, both without their last `keep` dimensions. */
int onnx_broadcast(const struct onnx_importer *importer, const struct convoy_shape *a,
                   const struct convoy_shape *b, int keep, struct convoy_shape *out);
/* Sets out->batch_axis to the axis that is the batch when `in` is reshaped to `out`; `axis` is the expected
 * one (-1: none). Refuses a reshape that would mix images. out's dimensions are for one image. */
int onnx_place_batch(const struct onnx_importer *importer, const struct convoy_shape *in, int axis,
                     struct convoy_shape *out);
/* *out is the shape that the targets of a Reshape ask for. */
int onnx_reshape_targets(const struct onnx_importer *importer, const struct convoy_shape *in,
                         const struct onnx_int *targets, int count, bool allow_zero,
                         struct convoy_shape *out);

#endif
