/* Operators that work on each element by itself: activations, arithmetic, casts and what does nothing. */
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

static int set_activation(struct onnx_importer *importer, struct convoy_activation activation)
{
    const struct onnx_value *x;
    struct convoy_node *node;
    int status = onnx_need_activation(importer, 0, &x);
    if (status == 0)
        status = onnx_emit(importer, CONVOY_OP_ACTIVATION, &x->tensor, 1, &x->shape, &node);
    if (status != 0)
        return status;
    node->activation = activation;
    return onnx_set_tensor(importer, node->output);
}

static int read_relu(struct onnx_importer *importer)
{
    return set_activation(importer, (struct convoy_activation){.kind = CONVOY_RELU});
}

static int read_sigmoid(struct onnx_importer *importer)
{
    return set_activation(importer, (struct convoy_activation){.kind = CONVOY_SIGMOID});
}

static int read_tanh(struct onnx_importer *importer)
{
    return set_activation(importer, (struct convoy_activation){.kind = CONVOY_TANH});
}

static int read_hard_swish(struct onnx_importer *importer)
{
    return set_activation(importer, (struct convoy_activation){.kind = CONVOY_HARD_SWISH});
}

static int read_leaky_relu(struct onnx_importer *importer)
{
    struct convoy_activation activation = {.kind = CONVOY_LEAKY_RELU};
    int status = onnx_attribute_float(importer, "alpha", 0.01F, &activation.alpha);
    return status == 0 ? set_activation(importer, activation) : status;
}

static int read_hard_sigmoid(struct onnx_importer *importer)
{
    struct convoy_activation activation = {.kind = CONVOY_HARD_SIGMOID};
    int status = onnx_attribute_float(importer, "alpha", 0.2F, &activation.alpha);
    if (status == 0)
        status = onnx_attribute_float(importer, "beta", 0.5F, &activation.beta);
    return status == 0 ? set_activation(importer, activation) : status;
}

static int read_clip(struct onnx_importer *importer)
{
    struct convoy_activation activation = {.kind = CONVOY_CLIP};
    double low = -INFINITY, high = INFINITY;
    float low_attribute = -INFINITY, high_attribute = INFINITY;
    int status = 0;
    if (importer->opset < 11) {
        status = onnx_attribute_float(importer, "min", -INFINITY, &low_attribute);
        if (status == 0)
            status = onnx_attribute_float(importer, "max", INFINITY, &high_attribute);
        low = low_attribute;
        high = high_attribute;
    } else {
        status = onnx_input_scalar(importer, 1, -INFINITY, &low);
        if (status == 0)
            status = onnx_input_scalar(importer, 2, INFINITY, &high);
    }
    activation.alpha = (float)low;
    activation.beta = (float)high;
    return status == 0 ? set_activation(importer, activation) : status;
}

static bool divide(struct onnx_int a, struct onnx_int b, struct onnx_int *result)
{
    if (b.batch != 0) {
        /* (a N) / (b N), the only quotient by the batch that is a whole number for every N. */
        if (a.fixed != 0 || b.fixed != 0 || b.batch < 0 || a.batch % b.batch != 0)
            return false;
        *result = (struct onnx_int){.fixed = a.batch / b.batch};
        return true;
    }
    if (b.fixed == 0 || b.fixed == -1 || (a.batch != 0 && (a.batch % b.fixed != 0 || a.fixed % b.fixed != 0)))
        return false;
    *result = (struct onnx_int){a.fixed / b.fixed, a.batch / b.fixed};
    return true;
}

/* False where the result overflows or is not fixed + batch * N. */
static bool combine_ints(enum convoy_binary_kind kind, struct onnx_int a, struct onnx_int b,
                         struct onnx_int *result)
{
    struct onnx_int factor = a.batch == 0 ? a : b, other = a.batch == 0 ? b : a;
    switch (kind) {
    case CONVOY_ADD:
        return !__builtin_add_overflow(a.fixed, b.fixed, &result->fixed) &&
               !__builtin_add_overflow(a.batch, b.batch, &result->batch);
    case CONVOY_SUB:
        return !__builtin_sub_overflow(a.fixed, b.fixed, &result->fixed) &&
               !__builtin_sub_overflow(a.batch, b.batch, &result->batch);
    case CONVOY_MUL:
        return factor.batch == 0 && !__builtin_mul_overflow(other.fixed, factor.fixed, &result->fixed) &&
               !__builtin_mul_overflow(other.batch, factor.fixed, &result->batch);
    default:
        return divide(a, b, result);
    }
}

/* Two constants, broadcast and combined right away. */
static int fold_constants(struct onnx_importer *importer, enum convoy_binary_kind kind,
                          const struct onnx_value *a, const struct onnx_value *b)
{
    struct convoy_shape shape;
    void *data;
    bool ints = a->kind == ONNX_INTS;
    int status = onnx_broadcast(importer, &a->shape, &b->shape, 0, &shape);
    if (status == 0)
        status = onnx_allocate(importer, &shape, ints, &data);
    if (status != 0)
        return status;
    int64_t elements = convoy_shape_elements(&shape);
    for (int64_t i = 0; i < elements; i++) {
        int64_t at_a = 0, at_b = 0, step_a = 1, step_b = 1, rest = i;
        for (int axis = shape.rank - 1; axis >= 0; axis--) {
            int64_t index = rest % shape.dims[axis];
            int in_a = axis - (shape.rank - a->shape.rank), in_b = axis - (shape.rank - b->shape.rank);
            rest /= shape.dims[axis];
            at_a += in_a >= 0 && a->shape.dims[in_a] > 1 ? index * step_a : 0;
            at_b += in_b >= 0 && b->shape.dims[in_b] > 1 ? index * step_b : 0;
            step_a *= in_a >= 0 ? a->shape.dims[in_a] : 1;
            step_b *= in_b >= 0 ? b->shape.dims[in_b] : 1;
        }
        if (!ints) {
            ((float *)data)[i] =
                convoy_binary_apply(kind, onnx_floats(importer, a)[at_a], onnx_floats(importer, b)[at_b]);
        } else if (!combine_ints(kind, a->ints[at_a], b->ints[at_b], &((struct onnx_int *)data)[i])) {
            free(data);
            return onnx_fail(
                importer, -ENOTSUP,
                "it computes a shape that overflows or depends on the batch in a way that cannot be "
                "followed");
        }
    }
    return ints ? onnx_set_ints(importer, &shape, data) : onnx_set_floats(importer, &shape, data);
}

static int read_binary(struct onnx_importer *importer, enum convoy_binary_kind kind)
{
    const struct onnx_value *a = importer->inputs[0], *b = importer->inputs[1];
    int result;
    if (a == NULL || b == NULL)
        return onnx_fail(importer, -EINVAL, "one of its inputs is missing");
    /* Before opset 7 dimensions could be matched from another one than the last. */
    if (importer->opset < 7 && onnx_attribute(importer, "axis") != NULL)
        return onnx_fail(importer, -ENOTSUP, "its broadcast axis is of an opset before 7");
    if ((a->kind == ONNX_INTS) != (b->kind == ONNX_INTS))
        return onnx_fail(importer, -EINVAL, "it combines integers with floating-point numbers");
    if (a->kind != ONNX_ACTIVATION && b->kind != ONNX_ACTIVATION)
        return fold_constants(importer, kind, a, b);
    int status = onnx_emit_binary(importer, kind, a->tensor, b->tensor, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int read_add(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_ADD);
}

static int read_sub(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_SUB);
}

static int read_mul(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_MUL);
}

static int read_div(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_DIV);
}

static int ints_to_floats(struct onnx_importer *importer, const struct onnx_value *x)
{
    void *data;
    int64_t elements = convoy_shape_elements(&x->shape);
    for (int64_t i = 0; i < elements; i++)
        if (x->ints[i].batch != 0)
            return onnx_fail(importer, -ENOTSUP, "it makes a floating-point number of the batch size");
    if (elements == 0)
        return onnx_fail(importer, -ENOTSUP, "it makes floating-point numbers of an empty tensor");
    int status = onnx_allocate(importer, &x->shape, false, &data);
    if (status != 0)
        return status;
    for (int64_t i = 0; i < elements; i++)
        ((float *)data)[i] = (float)x->ints[i].fixed;
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

/* Every floating-point type is float32 here: what a model does in 16 bits is computed more exactly. */
static int cast(struct onnx_importer *importer, const struct onnx_value *x, bool to_floats)
{
    if (x->kind == ONNX_ACTIVATION && !to_floats)
        return onnx_fail(importer, -ENOTSUP, "it makes integers of what depends on the model's input");
    if ((x->kind != ONNX_INTS) == to_floats)
        return onnx_set_value(importer, x);
    return to_floats ? ints_to_floats(importer, x) : floats_to_ints(importer, x);
}

static int read_cast(struct onnx_importer *importer)
{
    const struct onnx_value *x = importer->inputs[0];
    int64_t type;
    int status = onnx_attribute_int(importer, "to", 0, &type);
    if (status != 0)
        return status;
    if (x == NULL)
        return onnx_fail(importer, -EINVAL, "its input is missing");
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
        return cast(importer, x, true);
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
        return cast(importer, x, false);
    default:
        return onnx_fail(importer, -ENOTSUP, "it casts to %s, which is not supported",
                         onnx_type_name((int32_t)type));
    }
}

static int read_cast_like(struct onnx_importer *importer)
{
    const struct onnx_value *x = importer->inputs[0], *like = importer->inputs[1];
    if (x == NULL || like == NULL)
        return onnx_fail(importer, -EINVAL, "one of its inputs is missing");
    return cast(importer, x, like->kind != ONNX_INTS);
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
        return onnx_fail(importer, -ENOTSUP, "it is in training mode: export the model for inference");
    return read_identity(importer);
}

const struct onnx_operator onnx_elementwise_operators[] = {
    {"Relu", 1, 1, read_relu},
    {"LeakyRelu", 1, 1, read_leaky_relu},
    {"Sigmoid", 1, 1, read_sigmoid},
    {"Tanh", 1, 1, read_tanh},
    {"Clip", 1, 3, read_clip},
    {"HardSwish", 1, 1, read_hard_swish},
    {"HardSigmoid", 1, 1, read_hard_sigmoid},
    {"Add", 2, 2, read_add},
    {"Sub", 2, 2, read_sub},
    {"Mul", 2, 2, read_mul},
    {"Div", 2, 2, read_div},
    {"Cast", 1, 1, read_cast},
    {"CastLike", 2, 2, read_cast_like},
    {"Identity", 1, 1, read_identity},
    {"Dropout", 1, 3, read_dropout},
    {NULL, 0, 0, NULL},
};
