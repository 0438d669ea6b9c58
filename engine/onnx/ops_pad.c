/* Pad in all its modes. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Elements that reflect, edge and wrap put on one side of a dimension, at most: each is a node of the graph.
 */
#define MOST_BORDER 512

/* The pads of every dimension: first all that come before, then all that come after. */
static int read_pads(struct onnx_importer *importer, int rank, int64_t before[], int64_t after[])
{
    int64_t pads[2 * CONVOY_MAX_RANK], axes[CONVOY_MAX_RANK];
    int count, axis_count = -1;
    int status = onnx_ints_of_either_form(importer, 11, 1, "pads", pads, 2 * CONVOY_MAX_RANK, &count);
    if (status == 0)
        status = onnx_input_ints(importer, 3, axes, CONVOY_MAX_RANK, &axis_count);
    if (status != 0)
        return status;
    bool axes_given = axis_count >= 0;
    if (!axes_given)
        axis_count = rank;
    if (count != 2 * axis_count)
        return onnx_fail(importer, -EINVAL, "it has %d pads for %d dimensions", count, axis_count);
    for (int i = 0; i < axis_count; i++) {
        int axis = i;
        if (axes_given)
            status = onnx_settle_axis(importer, axes[i], rank, &axis);
        if (status != 0)
            return status;
        before[axis] = pads[i];
        after[axis] = pads[axis_count + i];
    }
    return 0;
}

/* Sets the elements [from, to) of every dimension from `axis` on to 0; data is the first element of these
 * dimensions. A range may be empty. */
static void clear_inside(float *data, const struct convoy_shape *shape, const int64_t from[],
                         const int64_t to[], int axis)
{
    int64_t stride = onnx_product(shape, axis + 1, shape->rank);
    for (int64_t i = from[axis]; i < to[axis]; i++)
        if (axis == shape->rank - 1)
            data[i] = 0;
        else
            clear_inside(data + i * stride, shape, from, to, axis + 1);
}

/* A constant of the padded dimensions that is `value` in the border and 0 inside. */
static int border(struct onnx_importer *importer, const struct convoy_shape *shape, const int64_t before[],
                  const int64_t after[], float value, int *tensor)
{
    struct convoy_shape own = {.rank = shape->rank, .batch_axis = -1};
    int64_t from[CONVOY_MAX_RANK], to[CONVOY_MAX_RANK];
    void *data;
    for (int axis = 0; axis < shape->rank; axis++) {
        own.dims[axis] = before[axis] > 0 || after[axis] > 0 ? shape->dims[axis] : 1;
        from[axis] = before[axis] > 0 ? before[axis] : 0;
        to[axis] = own.dims[axis] - (after[axis] > 0 ? after[axis] : 0);
    }
    int status = onnx_allocate(importer, &own, false, &data);
    if (status != 0)
        return status;
    int64_t elements = convoy_shape_elements(&own);
    for (int64_t i = 0; i < elements; i++)
        ((float *)data)[i] = value;
    clear_inside(data, &own, from, to, 0);
    return onnx_emit_constant(importer, "border", &own, data, tensor);
}

static int pad_with_value(struct onnx_importer *importer, int x, const int64_t before[],
                          const int64_t after[], float value, int *result)
{
    struct convoy_shape shape = importer->graph->tensors[x].shape;
    struct convoy_node *node;
    bool grows = false;
    int edge;
    for (int axis = 0; axis < shape.rank; axis++) {
        shape.dims[axis] += before[axis] + after[axis];
        grows |= before[axis] > 0 || after[axis] > 0;
    }
    int status = onnx_emit(importer, CONVOY_OP_PAD, &x, 1, &shape, &node);
    if (status != 0)
        return status;
    memcpy(node->pad.before, before, sizeof node->pad.before);
    memcpy(node->pad.after, after, sizeof node->pad.after);
    *result = node->output;
    if (value == 0 || !grows)
        return 0;
    for (int axis = 0; axis < shape.rank; axis++)
        if (shape.dims[axis] == 1 && (before[axis] > 0 || after[axis] > 0))
            return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "it replaces a dimension by its padding");
    status = border(importer, &shape, before, after, value, &edge);
    return status == 0 ? onnx_emit_binary(importer, CONVOY_ADD, *result, edge, result) : status;
}

enum mode { REFLECT, EDGE, WRAP };

/* Of a dimension of `size`, the element that position `at`, before it (negative) or behind it, repeats. */
static int64_t repeated_element(enum mode mode, int64_t at, int64_t size)
{
    if (mode == EDGE || size == 1)
        return at < 0 ? 0 : size - 1;
    if (mode == WRAP)
        return ((at % size) + size) % size;
    int64_t period = 2 * (size - 1), place = ((at % period) + period) % period;
    return place < size ? place : period - place;
}

/* Joins the elements [from, to) of the dimension as it would go on beyond its ends. */
static int extend(struct onnx_importer *importer, int x, int axis, enum mode mode, int64_t before,
                  int64_t after, int *result)
{
    int64_t size = importer->graph->tensors[x].shape.dims[axis];
    int parts[2 * MOST_BORDER + 1], count = 0, status = 0;
    if (before > MOST_BORDER || after > MOST_BORDER)
        return onnx_refuse(
            importer, ONNX_EXPORT_OTHERWISE,
            "it repeats more than %d elements at the end of a dimension, which is not supported",
            MOST_BORDER);
    for (int64_t at = -before; at < 0 && status == 0; at++)
        status = onnx_emit_crop(importer, x, axis, repeated_element(mode, at, size), 1, &parts[count++]);
    /* Negative amounts crop. */
    int64_t first = before < 0 ? -before : 0, last = size + (after < 0 ? after : 0);
    if (status == 0)
        status = onnx_emit_crop(importer, x, axis, first, last - first, &parts[count++]);
    for (int64_t at = size; at < size + after && status == 0; at++)
        status = onnx_emit_crop(importer, x, axis, repeated_element(mode, at, size), 1, &parts[count++]);
    return status == 0 ? onnx_emit_concat(importer, parts, count, axis, result) : status;
}

static int check_pads(struct onnx_importer *importer, const struct convoy_shape *shape,
                      const int64_t before[], const int64_t after[], bool *changes)
{
    *changes = false;
    for (int axis = 0; axis < shape->rank; axis++) {
        *changes |= before[axis] != 0 || after[axis] != 0;
        if (axis == shape->batch_axis && (before[axis] != 0 || after[axis] != 0))
            return onnx_refuse(importer, ONNX_IMAGES_APART, "it pads the batch");
        if (before[axis] < -shape->dims[axis] || after[axis] < -shape->dims[axis] ||
            before[axis] > INT32_MAX || after[axis] > INT32_MAX)
            return onnx_fail(importer, -EINVAL, "its pads are out of range");
        if (shape->dims[axis] + before[axis] + after[axis] < 1)
            return onnx_fail(importer, -EINVAL,
                             "dimension %d of its result would be %" PRId64 ", less than 1", axis,
                             shape->dims[axis] + before[axis] + after[axis]);
    }
    return 0;
}

static int read_pad(struct onnx_importer *importer)
{
    static const char *const modes[] = {[REFLECT] = "reflect", [EDGE] = "edge", [WRAP] = "wrap"};
    const char *mode;
    double value;
    float value_attribute = 0;
    int64_t before[CONVOY_MAX_RANK] = {0}, after[CONVOY_MAX_RANK] = {0};
    int tensor;
    bool changes;
    int status = onnx_need_tensor(importer, 0, &tensor);
    if (status == 0)
        status = onnx_attribute_string(importer, "mode", "constant", &mode);
    if (status == 0)
        status = onnx_input_scalar(importer, 2, 0, &value);
    if (status == 0 && importer->opset < 11)
        status = onnx_attribute_float(importer, "value", 0, &value_attribute);
    if (status != 0)
        return status;
    const struct convoy_shape shape = importer->graph->tensors[tensor].shape;
    status = read_pads(importer, shape.rank, before, after);
    if (status == 0)
        status = check_pads(importer, &shape, before, after, &changes);
    if (status != 0)
        return status;
    if (!changes)
        return onnx_set_tensor(importer, tensor);
    if (strcmp(mode, "constant") == 0) {
        status = pad_with_value(importer, tensor, before, after,
                                importer->opset < 11 ? value_attribute : (float)value, &tensor);
        return status == 0 ? onnx_set_tensor(importer, tensor) : status;
    }
    int kind = REFLECT;
    while (kind <= WRAP && strcmp(mode, modes[kind]) != 0)
        kind++;
    if (kind > WRAP)
        return onnx_fail(importer, -EINVAL, "it has no mode '%s'", mode);
    for (int axis = 0; axis < shape.rank && status == 0; axis++)
        if (before[axis] != 0 || after[axis] != 0)
            status = extend(importer, tensor, axis, (enum mode)kind, before[axis], after[axis], &tensor);
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

const struct onnx_operator onnx_pad_operators[] = {
    {"Pad", 1, 4, read_pad, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
