#include "engine/onnx/window.h"

#include "engine/onnx/attributes.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int onnx_emit_conv(struct onnx_importer *importer, int x_tensor, int weight, int bias, int *result)
{
    struct onnx_window window = {0};
    int64_t groups, out[2] = {0, 0};
    const struct convoy_shape *volume = &importer->graph->tensors[x_tensor].shape;
    const struct convoy_shape *size = &importer->graph->tensors[weight].shape;
    for (int axis = 2; volume->rank == 5 && size->rank == 5 && axis < 5; axis++)
        if (size->dims[axis] == 1) {
            window.deep = axis;
            window.depth = volume->dims[axis];
        }
    int status = onnx_as_images(importer, &window, &x_tensor);
    if (status == 0)
        status = onnx_as_filter(importer, &window, &weight);
    if (status == 0)
        status = onnx_attribute_int(importer, "group", 1, &groups);
    if (status != 0)
        return status;
    const struct convoy_shape x = importer->graph->tensors[x_tensor].shape;
    const struct convoy_shape filter_shape = importer->graph->tensors[weight].shape;
    const int64_t *filter = filter_shape.dims;
    if (groups < 1 || groups > filter[0] || filter[0] % groups != 0)
        return onnx_fail(importer, -EINVAL,
                         "%" PRId64 " groups do not divide its %" PRId64 " output channels", groups,
                         filter[0]);
    if (filter[1] > INT64_MAX / groups || filter[1] * groups != x.dims[1])
        return onnx_fail(importer, -EINVAL,
                         "its weight is for %" PRId64 " groups of %" PRId64
                         " channels, its input has %" PRId64 " channels",
                         groups, filter[1], x.dims[1]);
    window.size[0] = filter[2];
    window.size[1] = filter[3];
    status = onnx_window_numbers(importer, &window, "kernel_shape", 1, window.size);
    if (status == 0 && (window.size[0] != filter[2] || window.size[1] != filter[3]))
        status = onnx_fail(importer, -EINVAL, "its kernel_shape is not that of its weight");
    if (status == 0)
        status = onnx_slide(importer, &x, &window, out);
    if (status != 0)
        return status;
    struct convoy_shape shape = x;
    shape.dims[1] = filter[0];
    shape.dims[2] = out[0];
    shape.dims[3] = out[1];
    int inputs[3] = {x_tensor, weight, bias};
    struct convoy_node *node;
    status = onnx_emit(importer, CONVOY_OP_CONV, inputs, bias >= 0 ? 3 : 2, &shape, &node);
    if (status != 0)
        return status;
    node->conv.groups = groups;
    memcpy(node->conv.stride, window.stride, sizeof window.stride);
    memcpy(node->conv.dilation, window.dilation, sizeof window.dilation);
    memcpy(node->conv.pad, window.pad, sizeof window.pad);
    *result = node->output;
    return onnx_from_images(importer, &window, result);
}
