#include "engine/onnx/emit.h"

#include "engine/onnx/fail.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <inttypes.h>

/* The batch of one operand of a matrix product, or a refusal where the product would add up over it. */
static int check_contraction(struct onnx_importer *importer, const struct convoy_shape *shape, int contracted)
{
    if (shape->batch_axis >= 0 && shape->batch_axis == contracted)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it would add up over the images of a batch");
    return 0;
}

int onnx_emit_matmul(struct onnx_importer *importer, int a_tensor, int b_tensor, int *result)
{
    const struct convoy_shape a = importer->graph->tensors[a_tensor].shape;
    const struct convoy_shape b = importer->graph->tensors[b_tensor].shape;
    if (a.rank < 1 || b.rank < 1)
        return onnx_fail(importer, -EINVAL, "one of its inputs is a single number");
    int b_inner = b.rank > 1 ? b.rank - 2 : 0;
    int status = check_contraction(importer, &a, a.rank - 1);
    if (status == 0)
        status = check_contraction(importer, &b, b_inner);
    if (status != 0)
        return status;
    if (a.dims[a.rank - 1] != b.dims[b_inner])
        return onnx_fail(importer, -EINVAL, "its matrix takes %" PRId64 " numbers, its input has %" PRId64,
                         b.dims[b_inner], a.dims[a.rank - 1]);
    if (a.rank > CONVOY_MAX_RANK || b.rank > CONVOY_MAX_RANK)
        return onnx_fail(importer, -EINVAL, "its inputs have too many dimensions");

    /* A vector is a matrix of one row or column whose dimension is dropped afterwards. */
    struct convoy_shape left = a, right = b, out;
    if (a.rank == 1)
        left = (struct convoy_shape){.rank = 2, .batch_axis = -1, .dims = {1, a.dims[0]}};
    if (b.rank == 1)
        right = (struct convoy_shape){.rank = 2, .batch_axis = -1, .dims = {b.dims[0], 1}};
    bool rows_are_batch = left.batch_axis == left.rank - 2 && left.batch_axis >= 0;
    bool columns_are_batch = right.batch_axis == right.rank - 1 && right.batch_axis >= 0;
    if ((rows_are_batch && right.batch_axis >= 0) || (columns_are_batch && left.batch_axis >= 0))
        return onnx_refuse(importer, ONNX_IMAGES_APART,
                           "it would combine every image of a batch with every other");
    status = onnx_broadcast(importer, &left, &right, 2, &out);
    if (status != 0)
        return status;
    if (rows_are_batch)
        out.batch_axis = out.rank;
    if (a.rank > 1)
        out.dims[out.rank++] = left.dims[left.rank - 2];
    if (columns_are_batch)
        out.batch_axis = out.rank;
    if (b.rank > 1)
        out.dims[out.rank++] = right.dims[right.rank - 1];

    int inputs[2] = {a_tensor, b_tensor};
    struct convoy_node *node;
    status = onnx_emit(importer, CONVOY_OP_MATMUL, inputs, 2, &out, &node);
    if (status == 0)
        *result = node->output;
    return status;
}
