/* Constants, and the arithmetic on shapes that exporters leave in the file: evaluated while the model is
 * read. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"
#include "engine/onnx/tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Takes a decoded tensor's values over as the node's output. */
static int set_decoded(struct onnx_importer *importer, struct convoy_onnx_tensor *tensor)
{
    int64_t elements = convoy_shape_elements(&tensor->shape);
    void *data;
    if (!tensor->is_int64 && elements > 0) {
        float *floats = tensor->floats;
        tensor->floats = NULL;
        return onnx_set_floats(importer, &tensor->shape, floats);
    }
    if (!tensor->is_int64)
        return onnx_fail(importer, -ENOTSUP, "it is a floating-point tensor with a dimension of zero");
    int status = onnx_allocate(importer, &tensor->shape, true, &data);
    if (status != 0)
        return status;
    for (int64_t i = 0; i < elements; i++)
        ((struct onnx_int *)data)[i].fixed = tensor->ints[i];
    return onnx_set_ints(importer, &tensor->shape, data);
}

static int set_int_list(struct onnx_importer *importer, const int64_t *values, size_t count, int rank)
{
    struct convoy_shape shape = {.rank = rank, .batch_axis = -1, .dims = {(int64_t)count}};
    void *data;
    int status = onnx_allocate(importer, &shape, true, &data);
    if (status != 0)
        return status;
    for (size_t i = 0; i < count; i++)
        ((struct onnx_int *)data)[i].fixed = values[i];
    return onnx_set_ints(importer, &shape, data);
}

static int set_float_list(struct onnx_importer *importer, const float *values, size_t count, int rank)
{
    struct convoy_shape shape = {.rank = rank, .batch_axis = -1, .dims = {(int64_t)count}};
    void *data;
    if (count == 0)
        return onnx_fail(importer, -ENOTSUP, "it is an empty list of floating-point numbers");
    int status = onnx_allocate(importer, &shape, false, &data);
    if (status != 0)
        return status;
    memcpy(data, values, count * sizeof *values);
    return onnx_set_floats(importer, &shape, data);
}

static int read_constant(struct onnx_importer *importer)
{
    const Onnx__AttributeProto *value = onnx_attribute(importer, "value");
    if (value != NULL && value->t != NULL) {
        struct convoy_onnx_tensor tensor;
        struct convoy_error inner;
        int status = onnx_count_stored(importer, value->t);
        if (status != 0)
            return status;
        status = onnx_decode_tensor(value->t, importer->folder, &tensor, &inner);
        if (status != 0)
            return onnx_fail(importer, status, "%s", inner.message);
        status = set_decoded(importer, &tensor);
        convoy_onnx_tensor_free(&tensor);
        return status;
    }
    if ((value = onnx_attribute(importer, "value_int")) != NULL)
        return set_int_list(importer, &value->i, 1, 0);
    if ((value = onnx_attribute(importer, "value_ints")) != NULL)
        return set_int_list(importer, value->ints, value->n_ints, 1);
    if ((value = onnx_attribute(importer, "value_float")) != NULL)
        return set_float_list(importer, &value->f, 1, 0);
    if ((value = onnx_attribute(importer, "value_floats")) != NULL)
        return set_float_list(importer, value->floats, value->n_floats, 1);
    return onnx_fail(importer, -ENOTSUP, "its value is missing, sparse or a string, which is not supported");
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* The one place where the batch enters the arithmetic. */
static int read_shape(struct onnx_importer *importer)
{
    const struct onnx_value *x = importer->inputs[0];
    int64_t start, end;
    void *data;
    if (x == NULL)
        return onnx_fail(importer, -EINVAL, "its input is missing");
    int rank = x->shape.rank;
    int status = onnx_attribute_int(importer, "start", 0, &start);
    if (status == 0)
        status = onnx_attribute_int(importer, "end", rank, &end);
    if (status != 0)
        return status;
    int first = (int)clamp(start < 0 ? start + rank : start, 0, rank);
    int last = (int)clamp(end < 0 ? end + rank : end, 0, rank);
    struct convoy_shape shape = {.rank = 1, .batch_axis = -1, .dims = {last > first ? last - first : 0}};
    status = onnx_allocate(importer, &shape, true, &data);
    if (status != 0)
        return status;
    struct onnx_int *ints = data;
    for (int axis = first; axis < last; axis++) {
        if (axis == x->shape.batch_axis)
            ints[axis - first].batch = x->shape.dims[axis];
        else
            ints[axis - first].fixed = x->shape.dims[axis];
    }
    return onnx_set_ints(importer, &shape, ints);
}

static int need_constant(struct onnx_importer *importer, const struct onnx_value **x)
{
    *x = importer->inputs[0];
    if (*x == NULL)
        return onnx_fail(importer, -EINVAL, "its input is missing");
    if ((*x)->kind == ONNX_ACTIVATION)
        return onnx_fail(importer, -ENOTSUP,
                         "it works on what depends on the model's input, which is not supported");
    return 0;
}

static int read_gather(struct onnx_importer *importer)
{
    const struct onnx_value *x, *indices = importer->inputs[1];
    int64_t given;
    int axis = 0;
    void *data;
    int status = need_constant(importer, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "axis", 0, &given);
    if (status == 0)
        status = onnx_settle_axis(importer, given, x->shape.rank, &axis);
    if (status != 0)
        return status;
    if (indices == NULL || indices->kind != ONNX_INTS ||
        x->shape.rank - 1 + indices->shape.rank > CONVOY_MAX_RANK)
        return onnx_fail(importer, -ENOTSUP, "its indices are not constant integers");

    struct convoy_shape shape = {.batch_axis = -1};
    for (int i = 0; i < axis; i++)
        shape.dims[shape.rank++] = x->shape.dims[i];
    for (int i = 0; i < indices->shape.rank; i++)
        shape.dims[shape.rank++] = indices->shape.dims[i];
    for (int i = axis + 1; i < x->shape.rank; i++)
        shape.dims[shape.rank++] = x->shape.dims[i];

    int64_t count = convoy_shape_elements(&indices->shape), limit = x->shape.dims[axis];
    int64_t outer = onnx_product(&x->shape, 0, axis),
            inner = onnx_product(&x->shape, axis + 1, x->shape.rank);
    bool ints = x->kind == ONNX_INTS;
    for (int64_t i = 0; i < count; i++)
        if (indices->ints[i].batch != 0 || indices->ints[i].fixed < -limit || indices->ints[i].fixed >= limit)
            return onnx_fail(importer, -EINVAL, "one of its indices is outside its input");
    if (!ints && count == 0)
        return onnx_fail(importer, -ENOTSUP, "it gathers nothing");
    status = onnx_allocate(importer, &shape, ints, &data);
    if (status != 0)
        return status;
    size_t size = ints ? sizeof(struct onnx_int) : sizeof(float);
    const uint8_t *from = ints ? (const void *)x->ints : (const void *)onnx_floats(importer, x);
    uint8_t *to = data;
    for (int64_t block = 0; block < outer; block++) {
        for (int64_t i = 0; i < count; i++) {
            int64_t index = indices->ints[i].fixed;
            index += index < 0 ? limit : 0;
            memcpy(to, from + (size_t)((block * limit + index) * inner) * size, (size_t)inner * size);
            to += (size_t)inner * size;
        }
    }
    return ints ? onnx_set_ints(importer, &shape, data) : onnx_set_floats(importer, &shape, data);
}

/* One axis of a Slice, as the operator's specification clamps it. Returns how many elements are taken. */
static int64_t slice_axis(int64_t size, int64_t *start, int64_t end, int64_t step)
{
    *start = clamp(*start < 0 ? *start + size : *start, 0, step > 0 ? size : size - 1);
    end = clamp(end < 0 ? end + size : end, step > 0 ? 0 : -1, size);
    int64_t span = step > 0 ? end - *start : *start - end, stride = step > 0 ? step : -step;
    return span > 0 ? (span - 1) / stride + 1 : 0;
}

static int read_slice(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    int64_t starts[CONVOY_MAX_RANK], ends[CONVOY_MAX_RANK], axes[CONVOY_MAX_RANK], steps[CONVOY_MAX_RANK];
    int start_count, end_count, axis_count, step_count = -1;
    int status = need_constant(importer, &x);
    if (status == 0)
        status = onnx_ints_of_either_form(importer, 10, 1, "starts", starts, CONVOY_MAX_RANK, &start_count);
    if (status == 0)
        status = onnx_ints_of_either_form(importer, 10, 2, "ends", ends, CONVOY_MAX_RANK, &end_count);
    if (status == 0)
        status = onnx_ints_of_either_form(importer, 10, 3, "axes", axes, CONVOY_MAX_RANK, &axis_count);
    if (status == 0 && importer->opset >= 10)
        status = onnx_input_ints(importer, 4, steps, CONVOY_MAX_RANK, &step_count);
    if (status != 0)
        return status;
    int rank = x->shape.rank;
    if (start_count < 0 || start_count != end_count || (axis_count >= 0 && axis_count != start_count) ||
        (step_count >= 0 && step_count != start_count) || start_count > rank)
        return onnx_fail(importer, -EINVAL, "its starts, ends, axes and steps do not go together");

    struct convoy_shape shape = x->shape;
    int64_t moves[CONVOY_MAX_RANK], first = 0;
    unsigned seen = 0;
    for (int axis = 0; axis < rank; axis++)
        moves[axis] = onnx_product(&x->shape, axis + 1, rank);
    for (int i = 0; i < start_count; i++) {
        int axis;
        int64_t step = step_count >= 0 ? steps[i] : 1;
        status = onnx_settle_axis(importer, axis_count >= 0 ? axes[i] : i, rank, &axis);
        if (status != 0)
            return status;
        if (step == 0 || step < -INT32_MAX || step > INT32_MAX || x->shape.dims[axis] == 0)
            return onnx_fail(importer, -EINVAL, "its step is 0 or out of range, or its input is empty");
        if ((seen & (1U << axis)) != 0)
            return onnx_fail(importer, -EINVAL, "its axes name %d twice", axis);
        seen |= 1U << axis;
        int64_t start = starts[i];
        shape.dims[axis] = slice_axis(x->shape.dims[axis], &start, ends[i], step);
        first += start * moves[axis];
        moves[axis] *= step;
    }
    if (x->kind == ONNX_FLOATS && convoy_shape_elements(&shape) == 0)
        return onnx_fail(importer, -ENOTSUP, "it takes nothing of its input");
    return onnx_set_strided(importer, x, &shape, first, moves);
}

/* Shapes as inputs: up to CONVOY_MAX_RANK dimensions that do not depend on the batch. */
static int input_shape(struct onnx_importer *importer, int index, struct convoy_shape *shape)
{
    int count;
    *shape = (struct convoy_shape){.batch_axis = -1};
    int status = onnx_input_ints(importer, index, shape->dims, CONVOY_MAX_RANK, &count);
    if (status != 0)
        return status;
    shape->rank = count;
    if (count < 0)
        return onnx_fail(importer, -EINVAL, "its shape is missing");
    for (int axis = 0; axis < count; axis++)
        if (shape->dims[axis] < 0)
            return onnx_fail(importer, -EINVAL, "it asks for a dimension of %" PRId64, shape->dims[axis]);
    return 0;
}

static int read_constant_of_shape(struct onnx_importer *importer)
{
    const Onnx__AttributeProto *value = onnx_attribute(importer, "value");
    struct convoy_shape shape;
    struct convoy_onnx_tensor tensor = {0};
    struct convoy_error inner;
    void *data = NULL;
    int status = input_shape(importer, 0, &shape);
    if (status != 0)
        return status;
    if (value != NULL && value->t != NULL) {
        status = onnx_decode_tensor(value->t, importer->folder, &tensor, &inner);
        if (status != 0)
            return onnx_fail(importer, status, "%s", inner.message);
        if (convoy_shape_elements(&tensor.shape) != 1)
            status = onnx_fail(importer, -EINVAL, "its value is not one number");
    }
    if (status == 0 && !tensor.is_int64 && onnx_check_shape(importer, &shape) != 0)
        status = -EINVAL;
    if (status == 0)
        status = onnx_allocate(importer, &shape, tensor.is_int64, &data);
    int64_t elements = status == 0 ? convoy_shape_elements(&shape) : 0;
    for (int64_t i = 0; i < elements; i++) {
        if (tensor.is_int64)
            ((struct onnx_int *)data)[i].fixed = tensor.ints[0];
        else
            ((float *)data)[i] = tensor.floats != NULL ? tensor.floats[0] : 0;
    }
    bool ints = tensor.is_int64;
    convoy_onnx_tensor_free(&tensor);
    if (status != 0)
        return status;
    return ints ? onnx_set_ints(importer, &shape, data) : onnx_set_floats(importer, &shape, data);
}

/* Of constants; and of an activation whose shape it does not change. */
static int read_expand(struct onnx_importer *importer)
{
    const struct onnx_value *x = importer->inputs[0];
    struct convoy_shape wanted, shape;
    int64_t steps[CONVOY_MAX_RANK];
    int status = input_shape(importer, 1, &wanted);
    if (status != 0)
        return status;
    if (x == NULL)
        return onnx_fail(importer, -EINVAL, "its input is missing");
    status = onnx_broadcast(importer, &x->shape, &wanted, 0, &shape);
    if (status == 0)
        status = onnx_check_shape(importer, &shape);
    if (status != 0)
        return status;
    if (x->kind == ONNX_ACTIVATION) {
        if (shape.rank != x->shape.rank || memcmp(shape.dims, x->shape.dims, sizeof shape.dims) != 0)
            return onnx_fail(importer, -ENOTSUP, "it repeats what depends on the model's input");
        return onnx_set_value(importer, x);
    }
    for (int axis = 0; axis < shape.rank; axis++) {
        int from = axis - (shape.rank - x->shape.rank);
        steps[axis] =
            from >= 0 && x->shape.dims[from] > 1 ? onnx_product(&x->shape, from + 1, x->shape.rank) : 0;
    }
    return onnx_set_strided(importer, x, &shape, 0, steps);
}

const struct onnx_operator onnx_constant_operators[] = {
    {"Constant", 0, 0, read_constant},
    {"Shape", 1, 1, read_shape},
    {"Gather", 2, 2, read_gather},
    {"Slice", 1, 5, read_slice},
    {"ConstantOfShape", 1, 1, read_constant_of_shape},
    {"Expand", 2, 2, read_expand},
    {NULL, 0, 0, NULL},
};
