/* Constants, and the arithmetic on shapes that exporters leave in the file: evaluated while the model is
 * read. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/names.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"
#include "engine/onnx/tensor.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
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
        return onnx_set_empty(importer, &tensor->shape);
    int status = onnx_allocate(importer, &tensor->shape, true, &data);
    if (status != 0)
        return status;
    for (int64_t i = 0; i < elements; i++)
        ((struct onnx_int *)data)[i].fixed = tensor->ints[i];
    status = onnx_set_ints(importer, &tensor->shape, data);
    struct onnx_value *made = onnx_find(importer, importer->node->output[importer->output]);
    if (made != NULL)
        made->type = tensor->data_type;
    return status;
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
        return onnx_set_empty(importer, &shape);
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
    return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                       "its value is missing, sparse or a string, which is not supported");
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

static int read_constant_of_shape(struct onnx_importer *importer)
{
    const Onnx__AttributeProto *value = onnx_attribute(importer, "value");
    struct convoy_shape shape;
    struct convoy_onnx_tensor tensor = {0};
    struct convoy_error inner;
    void *data = NULL;
    int status = onnx_input_shape(importer, 0, &shape);
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
    int batch_axis = shape.batch_axis, result;
    if (batch_axis < 0)
        return ints ? onnx_set_ints(importer, &shape, data) : onnx_set_floats(importer, &shape, data);
    if (ints) { /* the same in each image: of a batch there are floats only */
        free(data);
        return onnx_refuse(importer, ONNX_BATCH_OF_ONE, "it makes integers for each image of a batch");
    }
    shape.batch_axis = -1;
    status = onnx_emit_constant(importer, importer->op, &shape, data, &result);
    shape.batch_axis = batch_axis;
    if (status == 0)
        status = onnx_emit_for_each_image(importer, result, &shape, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int read_size(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    struct convoy_shape scalar = {.rank = 0, .batch_axis = -1};
    void *data;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_allocate(importer, &scalar, true, &data);
    if (status != 0)
        return status;
    int64_t elements = convoy_shape_elements(&x->shape);
    *(struct onnx_int *)data = x->shape.batch_axis >= 0 ? (struct onnx_int){.batch = elements}
                                                        : (struct onnx_int){.fixed = elements};
    return onnx_set_ints(importer, &scalar, data);
}

/* 0, 1, ... below k N: the places of the images in a batch, k each. */
static int range_of_batch(struct onnx_importer *importer, int64_t each)
{
    struct convoy_shape shape = {.rank = 1, .batch_axis = 0, .dims = {each}};
    void *data;
    int status = onnx_allocate(importer, &shape, true, &data);
    if (status != 0)
        return status;
    for (int64_t i = 0; i < each; i++)
        ((struct onnx_int *)data)[i] = (struct onnx_int){.fixed = i, .image = each};
    return onnx_set_ints(importer, &shape, data);
}

static int read_range(struct onnx_importer *importer)
{
    double numbers[3];
    void *data;
    bool ints = true;
    int status = 0;
    const struct onnx_value *limit = importer->inputs[1];
    if (limit != NULL && limit->kind == ONNX_INTS && convoy_shape_elements(&limit->shape) == 1 &&
        limit->ints[0].batch > 0 && limit->ints[0].fixed == 0 && importer->batch != 1) {
        status = onnx_input_scalar(importer, 0, 0, &numbers[0]);
        if (status == 0)
            status = onnx_input_scalar(importer, 2, 0, &numbers[2]);
        if (status == 0 && (numbers[0] != 0 || numbers[2] != 1))
            status = onnx_refuse(importer, ONNX_BATCH_OF_ONE, "it counts the images of a batch in steps");
        return status == 0 ? range_of_batch(importer, limit->ints[0].batch) : status;
    }
    for (int i = 0; i < 3 && status == 0; i++) {
        const struct onnx_value *value;
        status = onnx_need_input(importer, i, &value);
        if (status == 0)
            status = onnx_input_scalar(importer, i, 0, &numbers[i]);
        ints &= status == 0 && value->kind == ONNX_INTS;
    }
    if (status != 0)
        return status;
    double count = ceil((numbers[1] - numbers[0]) / numbers[2]);
    if (!(count <= INT32_MAX) || !(numbers[2] < 0 || numbers[2] > 0))
        return onnx_fail(importer, -EINVAL, "its limits and its step do not make a list");
    struct convoy_shape shape = {.rank = 1, .batch_axis = -1, .dims = {count > 0 ? (int64_t)count : 0}};
    if (!ints && shape.dims[0] == 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                           "it makes an empty list of floating-point numbers");
    status = onnx_allocate(importer, &shape, ints, &data);
    if (status != 0)
        return status;
    for (int64_t i = 0; i < shape.dims[0]; i++) {
        double value = numbers[0] + (double)i * numbers[2];
        if (ints)
            ((struct onnx_int *)data)[i].fixed = (int64_t)value;
        else
            ((float *)data)[i] = (float)value;
    }
    return ints ? onnx_set_ints(importer, &shape, data) : onnx_set_floats(importer, &shape, data);
}

const struct onnx_operator onnx_constant_operators[] = {
    {"Constant", 0, 0, read_constant, ONNX_ANY_ORDER},
    {"Shape", 1, 1, read_shape, ONNX_ANY_ORDER},
    {"Size", 1, 1, read_size, ONNX_ANY_ORDER},
    {"Range", 3, 3, read_range, ONNX_ANY_ORDER},
    {"ConstantOfShape", 1, 1, read_constant_of_shape, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
