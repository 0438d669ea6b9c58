/* Reads an ONNX file (opset 7 to 26) into a graph.
 *
 * The input (input.h) is float32, float16 or uint8, of images N x C x H x W or N x H x W x C; in the graph it
 * is float32 and N x C x H x W. Its first dimension is the batch, whether the file leaves it open or has a
 * number there; what the file computes from that number (Shape, Gather, Concat, Reshape, ...) is followed,
 * and what would mix images of a batch is refused. What nodes compute from constants alone is computed here
 * (folding.h), nodes may stand in any order, and of an If with a known condition the branch that is taken is
 * read. Operators that the graph lacks are made of those that it has: slices are paddings by negative
 * amounts, reductions are pools, a resized image is a product with a matrix of weights, quantised numbers are
 * whole numbers in float32 (exact up to 2^24; of DynamicQuantizeLinear each image has its own range). Every
 * floating-point type is float32 in the graph: 16-bit weights are widened, a Cast to 16 bits does nothing.
 * Nodes that no output depends on are not read, whatever they are.
 *
 * The file is not trusted: before it is unpacked one walk over its bytes refuses nesting deeper than 64 and
 * lengths past the end; external data must lie inside the model's own folder; shapes that overflow or do not
 * fit are refused; an operator that is not supported is refused with its name and its node's.
 *
 * Source of the semantics: the ONNX operator specification, versions 7 to 26 of the default domain. */
#ifndef CONVOY_ENGINE_ONNX_ONNX_H
#define CONVOY_ENGINE_ONNX_ONNX_H

#include "engine/graph/graph.h"
#include "engine/onnx/options.h"

/* Reads the model at path. options may be NULL (all zero). On success *graph is the caller's, to be freed
 * with convoy_graph_free(). On failure returns -ENOENT, -EINVAL (damaged or hostile), -ENOTSUP (an operator,
 * type or opset that is not supported), -ENOMEM or -EIO, with a sentence that names the file and the node.
 * Any thread. Allocates; keeps no file open. */
int convoy_onnx_load(const char *path, const struct convoy_onnx_options *options, struct convoy_graph **graph,
                     struct convoy_error *error);

#endif
