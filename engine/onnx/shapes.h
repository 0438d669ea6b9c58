/* Shapes with a batch in them.
 *
 * The graph holds shapes for one image and says along which axis N images are stacked. Stacking is exact:
 * along its batch axis of N * d elements, image n has the elements n * d to n * d + d - 1. An operator may be
 * read only if it gives the same whether the images are stacked before or after it; what would mix images is
 * refused.
 *
 * Exporters merge a dimension with the batch behind it, too ([L,N,D] into [L * N,D], so that a dense layer is
 * one product). Such an axis runs over outer x N x the rest in the file. The graph has the batch first even
 * there, N x outer x the rest: operators that treat the elements of the axis alike cannot tell, and those
 * that reshape it move its elements (onnx_emit_rearranged() of emit.h). */
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
/* Sets out->batch_axis to the axis that is the batch when `in` is reshaped to `out`, and *outer to what that
 * axis was merged from (below); `axis` is the expected one (-1: none). Refuses a reshape that would mix
 * images. out's dimensions are for one image. */
int onnx_place_batch(const struct onnx_importer *importer, const struct convoy_shape *in, int64_t in_outer,
                     int axis, struct convoy_shape *out, int64_t *outer);
/* *out is the shape that the targets of a Reshape ask for. */
int onnx_reshape_targets(const struct onnx_importer *importer, const struct convoy_shape *in,
                         int64_t in_outer, const struct onnx_int *targets, int count, bool allow_zero,
                         struct convoy_shape *out, int64_t *outer);

#endif
