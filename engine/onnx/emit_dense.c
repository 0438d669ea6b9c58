#include "engine/onnx/emit.h"

#include "engine/onnx/fail.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <inttypes.h>

int onnx_emit_dense(struct onnx_importer *importer, int x, int weight, int bias, int *result)
{
    const struct convoy_shape in = importer->graph->tensors[x].shape;
    const struct convoy_shape filter = importer->graph->tensors[weight].shape;
    if (in.dims[1] != filter.dims[1])
        return onnx_fail(importer, -EINVAL, "its matrix takes %" PRId64 " numbers, its input has %" PRId64,
                         filter.dims[1], in.dims[1]);
    if (in.batch_axis > 0)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it would add up over the images of a batch");
    struct convoy_shape shape = in;
    shape.dims[1] = filter.dims[0];
    int inputs[3] = {x, weight, bias};
    struct convoy_node *node;
    int status = onnx_emit(importer, CONVOY_OP_DENSE, inputs, bias >= 0 ? 3 : 2, &shape, &node);
    if (status == 0)
        *result = node->output;
    return status;
}

int onnx_emit_rows_by_matrix(struct onnx_importer *importer, int x, int weight, int bias, int *result)
{
    const struct convoy_shape in = importer->graph->tensors[x].shape;
    struct convoy_shape out = in;
    struct convoy_shape rows = {.rank = 2,
                                .batch_axis = in.batch_axis >= 0 ? 0 : -1,
                                .dims = {onnx_product(&in, 0, in.rank - 1), in.dims[in.rank - 1]}};
    if (in.batch_axis == in.rank - 1)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it would add up over the images of a batch");
    int status = onnx_emit_reshape(importer, x, &rows, result);
    if (status == 0)
        status = onnx_emit_dense(importer, *result, weight, bias, result);
    if (status != 0)
        return status;
    out.dims[out.rank - 1] = importer->graph->tensors[*result].shape.dims[1];
    return onnx_emit_reshape(importer, *result, &out, result);
}
