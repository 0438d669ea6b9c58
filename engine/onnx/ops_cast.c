/* Casts, and what passes its input on: Identity, Dropout. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/tensor.h"

#include <errno.h>
#include <math.h>

enum to { TO_FLOATS, TO_INTS, TO_BOOL };

static int ints_to_floats(struct onnx_importer *importer, const struct onnx_value *x)
{
    void *data;
    int64_t elements = convoy_shape_elements(&x->shape);
    for (int64_t i = 0; i < elements; i++)
        if (x->ints[i].batch != 0 && importer->batch != 1)
            return onnx_refuse(importer, ONNX_BATCH_OF_ONE,
                               "it makes a floating-point number of the batch size");
    if (elements == 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                           "it makes floating-point numbers of an empty tensor");
    int status = onnx_allocate(importer, &x->shape, false, &data);
    if (status != 0)
        return status;
    for (int64_t i = 0; i < elements; i++)
        ((float *)data)[i] = (float)(x->ints[i].fixed + x->ints[i].batch);
    return onnx_set_floats(importer, &x->shape, data);
}

static int floats_to_ints(struct onnx_importer *importer, const struct onnx_value *x)
{
    void *data;
    const float *floats = onnx_floats(importer, x);
    int64_t elements = convoy_shape_elements(&x->shape);
    for (int64_t i = 0; i < elements; i++)
        if (!(fabsf(floats[i]) < 0x1p62F))
            return onnx_fail(importer, -EINVAL, "it makes an integer of %g", (double)floats[i]);
    int status = onnx_allocate(importer, &x->shape, true, &data);
    if (status != 0)
        return status;
    for (int64_t i = 0; i < elements; i++)
        ((struct onnx_int *)data)[i].fixed = (int64_t)floats[i];
    return onnx_set_ints(importer, &x->shape, data);
}

/* 0 or 1. */
static int to_truth(struct onnx_importer *importer, const struct onnx_value *x)
{
    int64_t elements = convoy_shape_elements(&x->shape);
    int result;
    void *data;
    if (x->kind == ONNX_ACTIVATION || x->shape.batch_axis >= 0) { /* 1 - (x = 0) */
        int status = onnx_need_tensor(importer, 0, &result);
        if (status == 0)
            status = onnx_emit_with_scalar(importer, CONVOY_EQUAL, result, 0, &result);
        if (status == 0)
            status = onnx_emit_scalar_with(importer, CONVOY_SUB, 1, result, &result);
        return status == 0 ? onnx_set_tensor(importer, result) : status;
    }
    int status = onnx_allocate(importer, &x->shape, true, &data);
    if (status != 0)
        return status;
    for (int64_t i = 0; i < elements; i++) {
        if (x->kind == ONNX_FLOATS)
            ((struct onnx_int *)data)[i].fixed = onnx_floats(importer, x)[i] != 0;
        else /* a number of images is not 0 */
            ((struct onnx_int *)data)[i].fixed = x->ints[i].fixed != 0 || x->ints[i].batch != 0;
    }
    return onnx_set_ints(importer, &x->shape, data);
}

/* Is the type wide enough for the places in any tensor, and for uint8? */
static bool is_wide(int64_t type)
{
    return type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 || type == ONNX__TENSOR_PROTO__DATA_TYPE__INT32 ||
           type == ONNX__TENSOR_PROTO__DATA_TYPE__UINT64 || type == ONNX__TENSOR_PROTO__DATA_TYPE__UINT32;
}

/* Every floating-point type is float32 here: what a model does in 16 bits is computed more exactly. `type`:
 * of integers. */
static int cast(struct onnx_importer *importer, const struct onnx_value *x, enum to to, int64_t type)
{
    if (x->kind == ONNX_ACTIVATION && x->integer_type != 0 && to == TO_INTS && is_wide(type))
        return onnx_set_integers(importer, x->tensor, (int)type);
    if (to == TO_BOOL)
        return to_truth(importer, x);
    if (x->kind == ONNX_ACTIVATION && to == TO_INTS)
        return onnx_refuse(importer, ONNX_CUT, "it makes integers of what depends on the model's input");
    if ((x->kind != ONNX_INTS) == (to == TO_FLOATS))
        return onnx_set_value(importer, x);
    if (to == TO_FLOATS && x->shape.batch_axis >= 0) {
        int tensor, status = onnx_need_tensor(importer, 0, &tensor);
        return status == 0 ? onnx_set_tensor(importer, tensor) : status;
    }
    return to == TO_FLOATS ? ints_to_floats(importer, x) : floats_to_ints(importer, x);
}

static int read_cast(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    int64_t type;
    int status = onnx_attribute_int(importer, "to", 0, &type);
    if (status == 0)
        status = onnx_need_input(importer, 0, &x);
    if (status != 0)
        return status;
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
        return cast(importer, x, TO_FLOATS, type);
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT64:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT32:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8:
        return cast(importer, x, TO_INTS, type);
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
        return cast(importer, x, TO_BOOL, type);
    default:
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "it casts to %s, which is not supported",
                           onnx_type_name((int32_t)type));
    }
}

static int read_cast_like(struct onnx_importer *importer)
{
    const struct onnx_value *x, *like;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_need_input(importer, 1, &like);
    if (status != 0)
        return status;
    int type = like->kind == ONNX_INTS ? like->type : like->integer_type;
    return cast(importer, x, like->kind == ONNX_INTS || type != 0 ? TO_INTS : TO_FLOATS, type);
}

static int read_identity(struct onnx_importer *importer)
{
    if (importer->inputs[0] == NULL)
        return onnx_fail(importer, -EINVAL, "its input is missing");
    return onnx_set_value(importer, importer->inputs[0]);
}

static int read_dropout(struct onnx_importer *importer)
{
    double training = 0;
    int64_t is_test;
    int status = importer->opset >= 12 ? onnx_input_scalar(importer, 2, 0, &training) : 0;
    if (status == 0)
        status = onnx_attribute_int(importer, "is_test", importer->opset >= 7, &is_test);
    if (status != 0)
        return status;
    if (training != 0 || is_test == 0)
        return onnx_refuse(importer, ONNX_EXPORT_FOR_INFERENCE, "it is in training mode");
    return read_identity(importer);
}

const struct onnx_operator onnx_cast_operators[] = {
    {"Cast", 1, 1, read_cast, ONNX_ANY_ORDER},
    {"CastLike", 2, 2, read_cast_like, ONNX_ANY_ORDER},
    {"Identity", 1, 1, read_identity, ONNX_ANY_ORDER},
    {"Dropout", 1, 3, read_dropout, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
