/* Putting tensors and nodes into the graph. */
#ifndef CONVOY_ENGINE_ONNX_EMIT_H
#define CONVOY_ENGINE_ONNX_EMIT_H

#include "engine/onnx/importer.h"

/* Adds a constant of floats as a tensor of the graph. data is taken over, also on failure. */
int onnx_emit_constant(struct onnx_importer *importer, const char *name, const struct convoy_shape *shape,
                       float *data, int *tensor);
/* Adds a node that computes a new tensor of this shape, which is checked. The caller fills in *node before
 * the next call. */
int onnx_emit(struct onnx_importer *importer, enum convoy_op op, const int *inputs, int input_count,
              const struct convoy_shape *shape, struct convoy_node **node);
/* Adds a constant: one number, as a tensor of no dimensions. */
int onnx_emit_scalar(struct onnx_importer *importer, double value, int *tensor);
/* Add a RESHAPE or TRANSPOSE of a tensor. *result is the new tensor, or the same one if nothing changes. */
int onnx_emit_reshape(struct onnx_importer *importer, int tensor, const struct convoy_shape *shape,
                      int *result);
int onnx_emit_transpose(struct onnx_importer *importer, int tensor, const int *perm, int *result);
/* Exchanges the last two dimensions. */
int onnx_emit_turned(struct onnx_importer *importer, int tensor, int *result);
/* A RESHAPE of a tensor whose batch axis has been merged from `outer` x N x the rest (shapes.h), to a shape
 * whose batch axis is merged from new_outer x N x the rest. */
int onnx_emit_rearranged(struct onnx_importer *importer, int tensor, int64_t outer,
                         const struct convoy_shape *shape, int64_t new_outer, int *result);
/* Adds a BINARY of two tensors, broadcast. *result is the tensor that it computes. */
int onnx_emit_binary(struct onnx_importer *importer, enum convoy_binary_kind kind, int a, int b, int *result);
/* The same of two tensors whose broadcast shape is known. */
int onnx_emit_binary_of(struct onnx_importer *importer, enum convoy_binary_kind kind, const int inputs[2],
                        const struct convoy_shape *shape, int *result);
/* The same with one number on the right, or the left. */
int onnx_emit_with_scalar(struct onnx_importer *importer, enum convoy_binary_kind kind, int a, double b,
                          int *result);
int onnx_emit_scalar_with(struct onnx_importer *importer, enum convoy_binary_kind kind, double a, int b,
                          int *result);
int onnx_emit_activation(struct onnx_importer *importer, struct convoy_activation activation, int tensor,
                         int *result);
/* Add a DENSE, y = x W^T + bias, with a constant W of [K, M]; bias -1 where there is none. x is [rows, M], or
 * [..., M], whose rows, whatever dimensions they have, are then those of the dense layer. */
int onnx_emit_dense(struct onnx_importer *importer, int x, int weight, int bias, int *result);
int onnx_emit_rows_by_matrix(struct onnx_importer *importer, int x, int weight, int bias, int *result);
/* numpy.matmul of two tensors. What would add up over the batch is refused. */
int onnx_emit_matmul(struct onnx_importer *importer, int a, int b, int *result);
/* Softmax over the axes [axis, end) taken together, or its logarithm. */
int onnx_emit_softmax(struct onnx_importer *importer, int tensor, int axis, int end, bool log, int *result);
/* The elements [start, start + length) along an axis that is not the batch. */
int onnx_emit_crop(struct onnx_importer *importer, int tensor, int axis, int64_t start, int64_t length,
                   int *result);
/* Joins tensors along an axis that is not the batch; any number of them, which may be constants. Where there
 * is a batch, a constant stands for the same in each image. */
int onnx_emit_concat(struct onnx_importer *importer, const int *tensors, int64_t count, int axis,
                     int *result);
/* The elements at `indices`, all in [0, size), along an axis that is not the batch. */
int onnx_emit_take(struct onnx_importer *importer, int tensor, int axis, const int64_t *indices,
                   int64_t count, int *result);
/* Places along each axis of a tensor: `count` of them from `start` on, `step` apart. */
struct onnx_grid {
    int64_t start[CONVOY_MAX_RANK], step[CONVOY_MAX_RANK], count[CONVOY_MAX_RANK];
};
/* A tensor with the elements at the places of a grid replaced by `updates`, whose shape is that of the grid.
 * Both have the batch, along which all places are the grid's. */
int onnx_emit_written(struct onnx_importer *importer, int tensor, const struct onnx_grid *grid, int updates,
                      int *result);
/* Repeats a tensor along the axes where it has one element, to `shape`. */
int onnx_emit_expanded(struct onnx_importer *importer, int tensor, const struct convoy_shape *shape,
                       int *result);
/* An activation that is the same constant for each image: the constant in `shape`, which has a batch axis of
 * 1 that the constant has 1 along, or lacks. */
int onnx_emit_for_each_image(struct onnx_importer *importer, int constant, const struct convoy_shape *shape,
                             int *result);

/* Constants that are the same for each image, and attention's guards: exporters write masks with the batch in
 * their shape, and choose from them by Where. What is known of such values while the model is read need not
 * be computed for each image. */

/* Emits a BINARY of two tensors of which one at least is what onnx_emit_for_each_image() made, whose
 * broadcast shape is `shape`, without repeating it: *result is the tensor; -1 where that is not possible:
 * what was emitted then nothing reads. */
int onnx_emit_unrepeated(struct onnx_importer *importer, enum convoy_binary_kind kind, int a, int b,
                         const struct convoy_shape *shape, int *result);

/* In a file whose batch is 1: emits a BINARY of an activation, along whose batch axis lie the windows of an
 * image, and a constant with numbers for each window. Each image gets the same numbers, as of masks.
 * *result is the tensor; -1 and nothing emitted where the two are something else. */
int onnx_emit_windows_of_one(struct onnx_importer *importer, enum convoy_binary_kind kind, int a, int b,
                             int *result);

/* Is the tensor a softmax of products that are masked by finite numbers at most? It then has NaN only where
 * the network has computed infinity or NaN before, never because everything is masked. */
bool onnx_is_unmasked_softmax(struct onnx_importer *importer, int tensor);

#endif
