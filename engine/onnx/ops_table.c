/* Operators that make or change tables while the model is read: EyeLike, OneHot, Trilu, ScatterND; and
 * CumSum, a product with a triangular matrix. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"
#include "engine/onnx/tensor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int read_eye_like(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    int64_t diagonal, type;
    void *data;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "k", 0, &diagonal);
    if (status == 0)
        status = onnx_attribute_int(importer, "dtype", 0, &type);
    if (status != 0)
        return status;
    if (x->shape.rank != 2 || x->shape.batch_axis >= 0)
        return onnx_refuse(importer, ONNX_CUT, "its input is no matrix of a known size");
    bool ints = type == 0 ? x->kind == ONNX_INTS
                          : type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT &&
                                type != ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE &&
                                type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
    const struct convoy_shape shape = x->shape;
    status = onnx_allocate(importer, &shape, ints, &data);
    if (status != 0)
        return status;
    for (int64_t row = 0; row < shape.dims[0]; row++)
        for (int64_t column = 0; column < shape.dims[1]; column++) {
            int64_t at = row * shape.dims[1] + column;
            if (ints)
                ((struct onnx_int *)data)[at].fixed = column - row == diagonal;
            else
                ((float *)data)[at] = column - row == diagonal ? 1 : 0;
        }
    return ints ? onnx_set_ints(importer, &shape, data) : onnx_set_floats(importer, &shape, data);
}

static int read_trilu(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    struct convoy_shape shape;
    int64_t upper, diagonals[1] = {0};
    int count = -1;
    size_t size;
    void *data;
    int status = onnx_need_constant(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "upper", 1, &upper);
    if (status == 0)
        status = onnx_input_ints(importer, 1, diagonals, 1, &count);
    if (status == 0 && x->shape.rank < 2)
        status = onnx_fail(importer, -EINVAL, "its input is no matrix");
    if (status == 0)
        status = onnx_allocate(importer, &x->shape, x->kind == ONNX_INTS, &data);
    if (status != 0)
        return status;
    shape = x->shape;
    const uint8_t *from = onnx_bytes(importer, x, &size);
    int64_t rows = x->shape.dims[x->shape.rank - 2], columns = x->shape.dims[x->shape.rank - 1];
    int64_t elements = convoy_shape_elements(&x->shape);
    for (int64_t i = 0; i < elements; i++) {
        int64_t above = i % columns - i / columns % rows;
        if (upper != 0 ? above >= diagonals[0] : above <= diagonals[0])
            memcpy((uint8_t *)data + (size_t)i * size, from + (size_t)i * size, size);
    }
    return onnx_set_like(importer, x, &shape, data);
}

/* Of places that depend on the input: off + (place = 0, 1, ...) (on - off). */
static int emit_one_hot(struct onnx_importer *importer, const struct onnx_value *indices, int axis,
                        int64_t depth, const struct onnx_value *values)
{
    struct convoy_shape shape = indices->shape, range = {.rank = 1 + shape.rank - axis, .batch_axis = -1};
    int places, result;
    double numbers[2];
    void *data;
    for (int i = shape.rank++; i > axis; i--)
        shape.dims[i] = shape.dims[i - 1];
    shape.dims[axis] = 1;
    shape.batch_axis += axis <= shape.batch_axis;
    for (int i = 1; i < range.rank; i++)
        range.dims[i] = 1;
    range.dims[0] = depth;
    for (int i = 0; i < 2; i++) {
        if (values->kind == ONNX_INTS && values->ints[i].batch != 0 && importer->batch != 1)
            return onnx_refuse(importer, ONNX_BATCH_OF_ONE, "its values depend on the batch size");
        numbers[i] = values->kind == ONNX_INTS ? (double)(values->ints[i].fixed + values->ints[i].batch)
                                               : (double)onnx_floats(importer, values)[i];
    }
    if (!isfinite(numbers[0]) || !isfinite(numbers[1])) /* 0 times their difference would be NaN */
        return onnx_refuse(importer, ONNX_CUT, "its values are not finite");
    int status = onnx_allocate(importer, &range, false, &data);
    if (status != 0)
        return status;
    for (int64_t i = 0; i < depth; i++)
        ((float *)data)[i] = (float)i;
    status = onnx_emit_constant(importer, importer->op, &range, data, &places);
    if (status == 0)
        status = onnx_emit_reshape(importer, indices->tensor, &shape, &result);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_EQUAL, result, places, &result);
    if (status == 0 && numbers[1] - numbers[0] != 1)
        status = onnx_emit_with_scalar(importer, CONVOY_MUL, result, numbers[1] - numbers[0], &result);
    if (status == 0 && numbers[0] != 0)
        status = onnx_emit_with_scalar(importer, CONVOY_ADD, result, numbers[0], &result);
    if (status != 0)
        return status;
    return values->kind == ONNX_INTS
               ? onnx_set_integers(importer, result, ONNX__TENSOR_PROTO__DATA_TYPE__INT64)
               : onnx_set_tensor(importer, result);
}

static int read_one_hot(struct onnx_importer *importer)
{
    const struct onnx_value *indices, *values;
    double depth;
    int64_t given;
    int axis;
    size_t size;
    void *data;
    int status = onnx_need_input(importer, 0, &indices);
    bool found = status == 0 && indices->kind == ONNX_ACTIVATION && indices->integer_type != 0;
    if (status == 0 && !found)
        status = onnx_need_constant(importer, 0, &indices);
    if (status == 0)
        status = onnx_input_scalar(importer, 1, 0, &depth);
    if (status == 0)
        status = onnx_need_constant(importer, 2, &values);
    if (status == 0)
        status = onnx_attribute_int(importer, "axis", -1, &given);
    if (status == 0)
        status = onnx_settle_axis(importer, given, indices->shape.rank + 1, &axis);
    if (status != 0)
        return status;
    if ((indices->kind != ONNX_INTS && !found) || indices->shape.rank == CONVOY_MAX_RANK || !(depth >= 1) ||
        !(depth <= INT32_MAX) || convoy_shape_elements(&values->shape) != 2)
        return onnx_fail(importer, -EINVAL, "its indices, depth and values do not go together");
    if (found)
        return emit_one_hot(importer, indices, axis, (int64_t)depth, values);
    struct convoy_shape shape = {.batch_axis = -1};
    for (int i = 0; i <= indices->shape.rank; i++)
        shape.dims[shape.rank++] = i == axis  ? (int64_t)depth
                                   : i < axis ? indices->shape.dims[i]
                                              : indices->shape.dims[i - 1];
    status = onnx_allocate(importer, &shape, values->kind == ONNX_INTS, &data);
    if (status != 0)
        return status;
    const uint8_t *from = onnx_bytes(importer, values, &size);
    int64_t inner = onnx_product(&shape, axis + 1, shape.rank), elements = convoy_shape_elements(&shape);
    for (int64_t i = 0; i < elements; i++) {
        int64_t place = i / inner % shape.dims[axis];
        struct onnx_int index = indices->ints[i / inner / shape.dims[axis] * inner + i % inner];
        bool hot = index.batch == 0 && index.fixed + (index.fixed < 0 ? shape.dims[axis] : 0) == place;
        memcpy((uint8_t *)data + (size_t)i * size, from + (hot ? size : 0), size);
    }
    return values->kind == ONNX_INTS ? onnx_set_ints(importer, &shape, data)
                                     : onnx_set_floats(importer, &shape, data);
}

/* Ones where element `row` counts towards sum `column`. */
static int triangle(struct onnx_importer *importer, int64_t size, bool exclusive, bool reverse, int *tensor)
{
    struct convoy_shape shape = {.rank = 2, .batch_axis = -1, .dims = {size, size}};
    void *data;
    int status = onnx_allocate(importer, &shape, false, &data);
    if (status != 0)
        return status;
    for (int64_t row = 0; row < size; row++)
        for (int64_t column = 0; column < size; column++) {
            bool counts = reverse ? row > column : row < column;
            ((float *)data)[row * size + column] = counts || (row == column && !exclusive) ? 1 : 0;
        }
    return onnx_emit_constant(importer, "triangle", &shape, data, tensor);
}

static int read_cum_sum(struct onnx_importer *importer)
{
    double given;
    int64_t exclusive, reverse;
    int x, axis, matrix, perm[CONVOY_MAX_RANK];
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_input_scalar(importer, 1, 0, &given);
    if (status == 0)
        status = onnx_attribute_int(importer, "exclusive", 0, &exclusive);
    if (status == 0)
        status = onnx_attribute_int(importer, "reverse", 0, &reverse);
    if (status == 0)
        status = onnx_settle_axis(importer, (int64_t)given, importer->graph->tensors[x].shape.rank, &axis);
    if (status != 0)
        return status;
    const struct convoy_shape shape = importer->graph->tensors[x].shape;
    if (axis == shape.batch_axis)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it adds up over the images of a batch");
    for (int i = 0; i < shape.rank; i++)
        perm[i] = i;
    perm[axis] = shape.rank - 1;
    perm[shape.rank - 1] = axis;
    status = triangle(importer, shape.dims[axis], exclusive != 0, reverse != 0, &matrix);
    if (status == 0)
        status = onnx_emit_transpose(importer, x, perm, &x);
    if (status == 0)
        status = onnx_emit_matmul(importer, x, matrix, &x);
    if (status == 0)
        status = onnx_emit_transpose(importer, x, perm, &x);
    return status == 0 ? onnx_set_tensor(importer, x) : status;
}

const struct onnx_operator onnx_table_operators[] = {
    {"EyeLike", 1, 1, read_eye_like, ONNX_ANY_ORDER},
    {"OneHot", 3, 3, read_one_hot, ONNX_ANY_ORDER},
    {"Trilu", 1, 2, read_trilu, ONNX_ANY_ORDER},
    {"CumSum", 2, 2, read_cum_sum, ONNX_FILE_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
