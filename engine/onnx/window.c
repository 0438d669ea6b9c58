#include "engine/onnx/window.h"

#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Larger numbers than any tensor is long; keeps the arithmetic below far from overflowing. */
#define LARGEST INT32_MAX

int onnx_window_numbers(struct onnx_importer *importer, const struct onnx_window *window, const char *name,
                        int64_t least, int64_t values[2])
{
    int count, needed = window->flat ? 1 : window->deep > 0 ? 3 : 2;
    int64_t read[3];
    int status = onnx_attribute_ints(importer, name, read, 3, &count);
    if (status != 0 || count < 0)
        return status;
    if (count != needed)
        return onnx_fail(importer, -EINVAL, "attribute '%s' has %d numbers where its input asks for %d", name,
                         count, needed);
    for (int i = 0, put = window->flat ? 1 : 0; i < needed; i++) {
        bool skipped = window->deep == 2 + i;
        if (read[i] < least || read[i] > LARGEST)
            return onnx_fail(importer, -EINVAL, "attribute '%s' is %" PRId64 ", out of range", name, read[i]);
        if (skipped && read[i] != 1)
            return onnx_refuse(importer, ONNX_CUT, "attribute '%s' is not 1 along dimension %d of three",
                               name, i);
        if (!skipped)
            values[put++] = read[i];
    }
    return 0;
}

int onnx_window_pads(struct onnx_importer *importer, struct onnx_window *window)
{
    int count, dimensions = window->flat ? 1 : window->deep > 0 ? 3 : 2;
    int64_t read[6];
    int status = onnx_attribute_ints(importer, "pads", read, 6, &count);
    if (status != 0 || count < 0)
        return status;
    if (count != 2 * dimensions)
        return onnx_fail(importer, -EINVAL, "attribute 'pads' has %d numbers where its input asks for %d",
                         count, 2 * dimensions);
    for (int side = 0; side < 2; side++)
        for (int i = 0, put = window->flat ? 1 : 0; i < dimensions; i++) {
            int64_t pad = read[side * dimensions + i];
            bool skipped = window->deep == 2 + i;
            if (pad < 0 || pad > LARGEST)
                return onnx_fail(importer, -EINVAL, "attribute 'pads' has %" PRId64 ", out of range", pad);
            if (skipped && pad != 0)
                return onnx_refuse(importer, ONNX_CUT, "it pads dimension %d of three", i);
            if (!skipped)
                window->pad[side * 2 + put++] = pad;
        }
    return 0;
}

/* auto_pad as the operator's specification gives it: SAME makes ceil(input / stride) outputs. */
static void pad_for_same(struct onnx_window *window, int dim, int64_t input, bool more_at_end)
{
    int64_t outputs = (input + window->stride[dim] - 1) / window->stride[dim];
    int64_t reach = (window->size[dim] - 1) * window->dilation[dim] + 1;
    int64_t total = (outputs - 1) * window->stride[dim] + reach - input;
    if (total < 0)
        total = 0;
    window->pad[dim] = more_at_end ? total / 2 : total - total / 2;
    window->pad[2 + dim] = total - window->pad[dim];
}

/* Reads strides, dilations and pads for windows of window->size over x, and the H and W that come out. */
int onnx_slide(struct onnx_importer *importer, const struct convoy_shape *x, struct onnx_window *window,
               int64_t out[2])
{
    const char *auto_pad;
    for (int i = 0; i < 2; i++)
        window->stride[i] = window->dilation[i] = 1;
    memset(window->pad, 0, sizeof window->pad);
    int status = onnx_window_numbers(importer, window, "strides", 1, window->stride);
    if (status == 0)
        status = onnx_window_numbers(importer, window, "dilations", 1, window->dilation);
    if (status == 0)
        status = onnx_attribute_string(importer, "auto_pad", "NOTSET", &auto_pad);
    if (status == 0 && strcmp(auto_pad, "NOTSET") == 0)
        status = onnx_window_pads(importer, window);
    if (status != 0)
        return status;
    for (int i = 0; i < 2; i++) {
        int64_t input = x->dims[2 + i];
        int64_t reach = (window->size[i] - 1) * window->dilation[i] + 1;
        if (strncmp(auto_pad, "SAME", 4) == 0)
            pad_for_same(window, i, input, strcmp(auto_pad, "SAME_UPPER") == 0);
        int64_t span = input + window->pad[i] + window->pad[2 + i] - reach;
        if (window->ceil_mode && span < 0 && span + window->stride[i] > 0) {
            /* One window, larger than all there is (EfficientNet's last pool, as transformers has it). */
            window->size[i] = (span + reach - 1) / window->dilation[i] + 1;
            out[i] = 1;
            continue;
        }
        if (span < 0)
            return onnx_fail(importer, -EINVAL,
                             "its window reaches over %" PRId64 " pixels, the padded input has only %" PRId64,
                             reach, span + reach);
        out[i] = span / window->stride[i] + 1;
        if (window->ceil_mode) {
            out[i] = (span + window->stride[i] - 1) / window->stride[i] + 1;
            /* The last window must begin in the input or its leading padding. */
            if ((out[i] - 1) * window->stride[i] >= input + window->pad[i])
                out[i]--;
        }
    }
    return 0;
}

/* The permutation that moves dimension `from` of five to place 1. */
static void move_to_second(int from, int perm[5])
{
    int count = 0;
    perm[count++] = 0;
    perm[count++] = from;
    for (int axis = 1; axis < 5; axis++)
        if (axis != from)
            perm[count++] = axis;
}

/* N x C x D x H x W, of which `deep` is one of the last three, to (N times that) x C x the other two. */
static int slices_as_images(struct onnx_importer *importer, int deep, int *tensor)
{
    int perm[5];
    move_to_second(deep, perm);
    int status = onnx_emit_transpose(importer, *tensor, perm, tensor);
    if (status != 0)
        return status;
    struct convoy_shape shape = importer->graph->tensors[*tensor].shape;
    shape.rank = 4;
    shape.dims[0] *= shape.dims[1];
    memmove(&shape.dims[1], &shape.dims[2], 3 * sizeof shape.dims[0]);
    return onnx_emit_reshape(importer, *tensor, &shape, tensor);
}

/* And back. */
static int slices_from_images(struct onnx_importer *importer, const struct onnx_window *window, int *tensor)
{
    struct convoy_shape shape = importer->graph->tensors[*tensor].shape;
    int perm[5], back[5];
    move_to_second(window->deep, perm);
    for (int i = 0; i < 5; i++)
        back[perm[i]] = i;
    shape.rank = 5;
    memmove(&shape.dims[2], &shape.dims[1], 3 * sizeof shape.dims[0]);
    shape.dims[1] = window->depth;
    shape.dims[0] /= window->depth;
    int status = onnx_emit_reshape(importer, *tensor, &shape, tensor);
    return status == 0 ? onnx_emit_transpose(importer, *tensor, back, tensor) : status;
}

/* The first dimension may be the batch and no other. */
int onnx_as_images(struct onnx_importer *importer, struct onnx_window *window, int *tensor)
{
    struct convoy_shape shape = importer->graph->tensors[*tensor].shape;
    window->flat = shape.rank == 3;
    if (shape.rank == 5 && window->deep > 0 && shape.batch_axis <= 0)
        return slices_as_images(importer, window->deep, tensor);
    if (shape.rank != 4 && shape.rank != 3)
        return onnx_refuse(
            importer, ONNX_CUT,
            "its input has %d dimensions, only N x C x H x W and N x C x L are supported (N x C x D "
            "x H x W for filters whose size is 1 along a dimension)",
            shape.rank);
    if (shape.batch_axis > 0)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "the batch is not the first dimension of its input");
    if (!window->flat)
        return 0;
    shape.rank = 4;
    shape.dims[3] = shape.dims[2];
    shape.dims[2] = 1;
    return onnx_emit_reshape(importer, *tensor, &shape, tensor);
}

int onnx_find_deep(struct onnx_importer *importer, struct onnx_window *window)
{
    const struct onnx_value *x;
    int64_t size[3];
    int count;
    int status = onnx_need_input(importer, 0, &x);
    if (status != 0 || x->shape.rank != 5)
        return status;
    status = onnx_attribute_ints(importer, "kernel_shape", size, 3, &count);
    for (int i = 0; status == 0 && i < count; i++)
        if (size[i] == 1) {
            window->deep = 2 + i;
            window->depth = x->shape.dims[2 + i];
        }
    return status;
}

int onnx_need_images(struct onnx_importer *importer, struct onnx_window *window, int *tensor)
{
    int status = onnx_need_tensor(importer, 0, tensor);
    return status == 0 ? onnx_as_images(importer, window, tensor) : status;
}

int onnx_from_images(struct onnx_importer *importer, const struct onnx_window *window, int *tensor)
{
    struct convoy_shape shape = importer->graph->tensors[*tensor].shape;
    if (window->deep > 0)
        return slices_from_images(importer, window, tensor);
    if (!window->flat)
        return 0;
    shape.rank = 3;
    shape.dims[2] = shape.dims[3];
    return onnx_emit_reshape(importer, *tensor, &shape, tensor);
}

int onnx_set_images(struct onnx_importer *importer, const struct onnx_window *window, int tensor)
{
    int status = onnx_from_images(importer, window, &tensor);
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

int onnx_emit_pool(struct onnx_importer *importer, int x, enum convoy_pool_kind kind,
                   const struct onnx_window *window, const int64_t out[2], bool count_include_pad,
                   int *result)
{
    struct convoy_shape shape = importer->graph->tensors[x].shape;
    shape.dims[2] = out[0];
    shape.dims[3] = out[1];
    struct convoy_node *node;
    int status = onnx_emit(importer, CONVOY_OP_POOL, &x, 1, &shape, &node);
    if (status != 0)
        return status;
    node->pool.kind = kind;
    node->pool.count_include_pad = count_include_pad;
    memcpy(node->pool.window, window->size, sizeof window->size);
    memcpy(node->pool.stride, window->stride, sizeof window->stride);
    memcpy(node->pool.dilation, window->dilation, sizeof window->dilation);
    memcpy(node->pool.pad, window->pad, sizeof window->pad);
    *result = node->output;
    return 0;
}

int onnx_emit_pooled(struct onnx_importer *importer, int x, enum convoy_pool_kind kind, int64_t height,
                     int64_t width, int *result)
{
    const int64_t *dims = importer->graph->tensors[x].shape.dims;
    struct onnx_window window = {.size = {height, width}, .stride = {height, width}, .dilation = {1, 1}};
    int64_t out[2] = {dims[2] / height, dims[3] / width};
    return onnx_emit_pool(importer, x, kind, &window, out, false, result);
}

int onnx_as_filter(struct onnx_importer *importer, const struct onnx_window *window, int *tensor)
{
    struct convoy_shape shape = importer->graph->tensors[*tensor].shape;
    if (window->deep > 0) {
        shape.rank = 4;
        for (int axis = window->deep; axis < 4; axis++)
            shape.dims[axis] = shape.dims[axis + 1];
        return onnx_emit_reshape(importer, *tensor, &shape, tensor);
    }
    if (shape.rank != (window->flat ? 3 : 4))
        return onnx_fail(importer, -EINVAL, "its weight has %d dimensions, %d are needed", shape.rank,
                         window->flat ? 3 : 4);
    if (window->flat) {
        shape.rank = 4;
        shape.dims[3] = shape.dims[2];
        shape.dims[2] = 1;
    }
    return onnx_emit_reshape(importer, *tensor, &shape, tensor);
}

int onnx_read_bias(struct onnx_importer *importer, int64_t channels, const struct onnx_value **bias)
{
    *bias = NULL;
    if (importer->input_count < 3 || importer->inputs[2] == NULL)
        return 0;
    int status = onnx_need_floats(importer, 2, "bias", bias);
    if (status == 0 && ((*bias)->shape.rank != 1 || (*bias)->shape.dims[0] != channels))
        status = onnx_fail(importer, -EINVAL,
                           "its bias does not have one number for each of %" PRId64 " channels", channels);
    return status;
}
