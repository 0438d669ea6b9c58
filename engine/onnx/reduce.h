/* Averages, maxima and sums over axes, as pools. */
#ifndef CONVOY_ENGINE_ONNX_REDUCE_H
#define CONVOY_ENGINE_ONNX_REDUCE_H

#include "engine/onnx/importer.h"

/* The shape without the axes of a mask, or with 1 in their place. */
struct convoy_shape onnx_reduced_shape(const struct convoy_shape *in, unsigned mask, bool keep_dims);
/* The average or maximum over the axes of a mask, which stay as dimensions of 1. Refuses the batch. */
int onnx_emit_reduced(struct onnx_importer *importer, int tensor, enum convoy_pool_kind kind, unsigned mask,
                      int *result);
int onnx_emit_sum(struct onnx_importer *importer, int tensor, unsigned mask, int *result);

#endif
