#include "engine/onnx/emit.h"

#include "engine/graph/build.h"
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

static bool same_shape(const struct convoy_shape *a, const struct convoy_shape *b)
{
    return a->rank == b->rank && a->batch_axis == b->batch_axis &&
           memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank) == 0;
}

int onnx_emit_reshape(struct onnx_importer *importer, int tensor, const struct convoy_shape *shape,
                      int *result)
{
    *result = tensor;
    if (same_shape(&importer->graph->tensors[tensor].shape, shape))
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

int onnx_emit_binary(struct onnx_importer *importer, enum convoy_binary_kind kind, int a, int b, int *result)
{
    const struct convoy_shape a_shape = importer->graph->tensors[a].shape;
    const struct convoy_shape b_shape = importer->graph->tensors[b].shape;
    struct convoy_shape shape;
    int inputs[2] = {a, b};
    struct convoy_node *node;
    int status = onnx_broadcast(importer, &a_shape, &b_shape, 0, &shape);
    if (status == 0)
        status = onnx_emit(importer, CONVOY_OP_BINARY, inputs, 2, &shape, &node);
    if (status != 0)
        return status;
    node->binary = kind;
    *result = node->output;
    return 0;
}
