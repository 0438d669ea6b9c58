#include "engine/onnx/emit.h"

#include "engine/graph/build.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/shapes.h"

#include <string.h>

int onnx_emit_constant(struct onnx_importer *importer, const char *name, const struct convoy_shape *shape,
                       float *data, int *tensor)
{
    *tensor = convoy_graph_add_tensor(importer->graph, name, shape, data);
    return *tensor >= 0 ? 0 : onnx_out_of_memory(importer);
}

/* Names of tensors in the middle of a node do not matter; the one that becomes the node's output is named for
 * it by onnx_set_tensor(). */
int onnx_emit(struct onnx_importer *importer, enum convoy_op op, const int *inputs, int input_count,
              const struct convoy_shape *shape, struct convoy_node **node)
{
    int status = onnx_check_shape(importer, shape);
    if (status != 0)
        return status;
    int output = convoy_graph_add_tensor(importer->graph, importer->op, shape, NULL);
    if (output < 0)
        return onnx_out_of_memory(importer);
    *node = convoy_graph_add_node(importer->graph, op, importer->node->name, importer->op, inputs,
                                  input_count, output);
    return *node != NULL ? 0 : onnx_out_of_memory(importer);
}

int onnx_emit_reshape(struct onnx_importer *importer, int tensor, const struct convoy_shape *shape,
                      int *result)
{
    *result = tensor;
    if (convoy_same_shape(&importer->graph->tensors[tensor].shape, shape))
        return 0;
    struct convoy_node *node;
    int status = onnx_emit(importer, CONVOY_OP_RESHAPE, &tensor, 1, shape, &node);
    if (status == 0)
        *result = node->output;
    return status;
}

int onnx_emit_transpose(struct onnx_importer *importer, int tensor, const int *perm, int *result)
{
    const struct convoy_shape in = importer->graph->tensors[tensor].shape;
    struct convoy_shape out = {.rank = in.rank, .batch_axis = -1};
    bool moved = false;
    for (int axis = 0; axis < in.rank; axis++) {
        out.dims[axis] = in.dims[perm[axis]];
        if (perm[axis] == in.batch_axis)
            out.batch_axis = axis;
        moved |= perm[axis] != axis;
    }
    *result = tensor;
    if (!moved)
        return 0;
    struct convoy_node *node;
    int status = onnx_emit(importer, CONVOY_OP_TRANSPOSE, &tensor, 1, &out, &node);
    if (status != 0)
        return status;
    memcpy(node->perm, perm, sizeof *perm * (size_t)in.rank);
    *result = node->output;
    return 0;
}

int onnx_emit_turned(struct onnx_importer *importer, int tensor, int *result)
{
    int rank = importer->graph->tensors[tensor].shape.rank, perm[CONVOY_MAX_RANK];
    for (int axis = 0; axis < rank; axis++)
        perm[axis] = axis;
    perm[rank - 1] = rank - 2;
    perm[rank - 2] = rank - 1;
    return onnx_emit_transpose(importer, tensor, perm, result);
}

/* Reshapes to a x b x c x d, whose batch is axis 1 or 2, and exchanges these two. */
static int exchange(struct onnx_importer *importer, int tensor, const int64_t dims[4], int batch_axis,
                    int *result)
{
    static const int perm[4] = {0, 2, 1, 3};
    struct convoy_shape shape = {
        .rank = 4, .batch_axis = batch_axis, .dims = {dims[0], dims[1], dims[2], dims[3]}};
    int status = onnx_emit_reshape(importer, tensor, &shape, result);
    return status == 0 ? onnx_emit_transpose(importer, *result, perm, result) : status;
}

int onnx_emit_rearranged(struct onnx_importer *importer, int tensor, int64_t outer,
                         const struct convoy_shape *shape, int64_t new_outer, int *result)
{
    const struct convoy_shape in = importer->graph->tensors[tensor].shape;
    int status = 0;
    *result = tensor;
    if (in.batch_axis >= 0) {
        int64_t first = onnx_product(&in, 0, in.batch_axis);
        int64_t new_first = onnx_product(shape, 0, shape->batch_axis);
        int64_t rest = convoy_shape_elements(&in) / (first * outer);
        bool moves = first != new_first;
        if (moves && outer > 1)
            status = exchange(importer, *result, (int64_t[]){first, 1, outer, rest}, 1, result);
        if (status == 0 && moves && new_outer > 1)
            status = exchange(importer, *result, (int64_t[]){new_first, new_outer, 1, rest}, 2, result);
    }
    return status == 0 ? onnx_emit_reshape(importer, *result, shape, result) : status;
}

int onnx_emit_binary_of(struct onnx_importer *importer, enum convoy_binary_kind kind, const int inputs[2],
                        const struct convoy_shape *shape, int *result)
{
    struct convoy_node *node;
    int status = onnx_emit(importer, CONVOY_OP_BINARY, inputs, 2, shape, &node);
    if (status != 0)
        return status;
    node->binary = kind;
    *result = node->output;
    return 0;
}

int onnx_emit_binary(struct onnx_importer *importer, enum convoy_binary_kind kind, int a, int b, int *result)
{
    const struct convoy_shape a_shape = importer->graph->tensors[a].shape;
    const struct convoy_shape b_shape = importer->graph->tensors[b].shape;
    struct convoy_shape shape;
    int status = onnx_emit_windows_of_one(importer, kind, a, b, result);
    if (status != 0 || *result >= 0)
        return status;
    status = onnx_broadcast(importer, &a_shape, &b_shape, 0, &shape);
    if (status == 0)
        status = onnx_emit_unrepeated(importer, kind, a, b, &shape, result);
    return status != 0 || *result >= 0 ? status
                                       : onnx_emit_binary_of(importer, kind, (int[]){a, b}, &shape, result);
}

int onnx_emit_scalar(struct onnx_importer *importer, double value, int *tensor)
{
    struct convoy_shape scalar = {.rank = 0, .batch_axis = -1};
    void *data;
    int status = onnx_allocate(importer, &scalar, false, &data);
    if (status != 0)
        return status;
    *(float *)data = (float)value;
    return onnx_emit_constant(importer, "number", &scalar, data, tensor);
}

int onnx_emit_with_scalar(struct onnx_importer *importer, enum convoy_binary_kind kind, int a, double b,
                          int *result)
{
    int number;
    int status = onnx_emit_scalar(importer, b, &number);
    return status == 0 ? onnx_emit_binary(importer, kind, a, number, result) : status;
}

int onnx_emit_scalar_with(struct onnx_importer *importer, enum convoy_binary_kind kind, double a, int b,
                          int *result)
{
    int number;
    int status = onnx_emit_scalar(importer, a, &number);
    return status == 0 ? onnx_emit_binary(importer, kind, number, b, result) : status;
}

int onnx_emit_activation(struct onnx_importer *importer, struct convoy_activation activation, int tensor,
                         int *result)
{
    const struct convoy_shape shape = importer->graph->tensors[tensor].shape;
    struct convoy_node *node;
    int status = onnx_emit(importer, CONVOY_OP_ACTIVATION, &tensor, 1, &shape, &node);
    if (status != 0)
        return status;
    node->activation = activation;
    *result = node->output;
    return 0;
}

int onnx_emit_softmax(struct onnx_importer *importer, int tensor, int axis, int end, bool log, int *result)
{
    const struct convoy_shape shape = importer->graph->tensors[tensor].shape;
    struct convoy_node *node;
    if (shape.batch_axis >= axis && shape.batch_axis < end)
        return onnx_refuse(importer, ONNX_IMAGES_APART,
                           "it normalises over the batch, which would mix images");
    int status = onnx_emit(importer, CONVOY_OP_SOFTMAX, &tensor, 1, &shape, &node);
    if (status != 0)
        return status;
    node->softmax.axis = axis;
    node->softmax.axis_end = end;
    node->softmax.log = log;
    *result = node->output;
    return 0;
}
