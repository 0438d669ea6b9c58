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
/* Elements of the dimensions [from, to). */
int64_t onnx_product(const struct convoy_shape *shape, int from, int to);
/* numpy broadcasting of two shapes; of all but their last `keep` dimensions, which are left out of *out. */
int onnx_broadcast(const struct onnx_importer *importer, const struct convoy_shape *a,
                   const struct convoy_shape *b, int keep, struct convoy_shape *out);
/* Finds out which axis of `out` is the batch when `in` is reshaped to it, `axis` being the one expected (-1:
 * none), and refuses what would mix images. out's dimensions are for one image. */
int onnx_place_batch(const struct onnx_importer *importer, const struct convoy_shape *in, int axis,
                     struct convoy_shape *out);
/* The shape that Reshape's targets ask for. */
int onnx_reshape_targets(const struct onnx_importer *importer, const struct convoy_shape *in,
                         const struct onnx_int *targets, int count, bool allow_zero,
                         struct convoy_shape *out);

#endif
