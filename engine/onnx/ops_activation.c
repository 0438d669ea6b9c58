/* Operators on one tensor, element by element: activations and functions. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static int set_activation(struct onnx_importer *importer, struct convoy_activation activation)
{
    int x, result;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_emit_activation(importer, activation, x, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* What has no attributes and one kind in the graph. */
static int read_plain(struct onnx_importer *importer)
{
    static const struct {
        const char *name;
        enum convoy_activation_kind kind;
    } kinds[] = {{"Relu", CONVOY_RELU},         {"Sigmoid", CONVOY_SIGMOID},
                 {"Tanh", CONVOY_TANH},         {"HardSwish", CONVOY_HARD_SWISH},
                 {"Exp", CONVOY_EXP},           {"Log", CONVOY_LOG},
                 {"Sqrt", CONVOY_SQRT},         {"Erf", CONVOY_ERF},
                 {"Softplus", CONVOY_SOFTPLUS}, {"Mish", CONVOY_MISH},
                 {"Round", CONVOY_ROUND},       {"Floor", CONVOY_FLOOR},
                 {"Ceil", CONVOY_CEIL},         {"Sin", CONVOY_SIN},
                 {"Cos", CONVOY_COS},           {"Atan", CONVOY_ATAN}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(importer->op, kinds[i].name) == 0)
            return set_activation(importer, (struct convoy_activation){.kind = kinds[i].kind});
    return -EINVAL;
}

/* What has alpha alone, with a default. */
static int read_with_alpha(struct onnx_importer *importer, enum convoy_activation_kind kind, float absent)
{
    struct convoy_activation activation = {.kind = kind};
    int status = onnx_attribute_float(importer, "alpha", absent, &activation.alpha);
    return status == 0 ? set_activation(importer, activation) : status;
}

static int read_leaky_relu(struct onnx_importer *importer)
{
    return read_with_alpha(importer, CONVOY_LEAKY_RELU, 0.01F);
}

static int read_elu(struct onnx_importer *importer)
{
    return read_with_alpha(importer, CONVOY_ELU, 1);
}

static int read_thresholded_relu(struct onnx_importer *importer)
{
    return read_with_alpha(importer, CONVOY_THRESHOLDED, 1);
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
    activation.alpha =
        (float)(low > high ? high : low); /* the maximum counts where it is below the minimum */
    activation.beta = (float)high;
    return status == 0 ? set_activation(importer, activation) : status;
}

static int read_gelu(struct onnx_importer *importer)
{
    const char *form;
    int status = onnx_attribute_string(importer, "approximate", "none", &form);
    if (status != 0)
        return status;
    bool tanh_form = strcmp(form, "tanh") == 0;
    return set_activation(importer,
                          (struct convoy_activation){.kind = tanh_form ? CONVOY_GELU_TANH : CONVOY_GELU});
}

/* x sigmoid(alpha x) */
static int read_swish(struct onnx_importer *importer)
{
    float alpha;
    int x, result;
    int status = onnx_attribute_float(importer, "alpha", 1, &alpha);
    if (status == 0 && alpha == 1)
        return set_activation(importer, (struct convoy_activation){.kind = CONVOY_SWISH});
    if (status == 0)
        status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_MUL, x, (double)alpha, &result);
    if (status == 0)
        status = onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_SIGMOID}, result,
                                      &result);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_MUL, x, result, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* gamma elu(x; alpha) */
static int read_selu(struct onnx_importer *importer)
{
    struct convoy_activation elu = {.kind = CONVOY_ELU};
    float gamma;
    int x, result;
    int status = onnx_attribute_float(importer, "alpha", 1.67326319217681884765625F, &elu.alpha);
    if (status == 0)
        status = onnx_attribute_float(importer, "gamma", 1.05070102214813232421875F, &gamma);
    if (status == 0)
        status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_emit_activation(importer, elu, x, &result);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_MUL, result, (double)gamma, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* max(0, x) + min(0, alpha (exp(x / alpha) - 1)) = alpha elu(x / alpha) for alpha > 0 */
static int read_celu(struct onnx_importer *importer)
{
    const struct convoy_activation elu = {.kind = CONVOY_ELU, .alpha = 1};
    float alpha;
    int x, result;
    int status = onnx_attribute_float(importer, "alpha", 1, &alpha);
    if (status == 0 && !(alpha > 0))
        status = onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its alpha is %g, not above 0", (double)alpha);
    if (status == 0)
        status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_DIV, x, (double)alpha, &result);
    if (status == 0)
        status = onnx_emit_activation(importer, elu, result, &result);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_MUL, result, (double)alpha, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* x / (1 + |x|) */
static int read_softsign(struct onnx_importer *importer)
{
    int x, result;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_ABS}, x, &result);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_ADD, result, 1, &result);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_DIV, x, result, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* x < -lambda: x + bias; x > lambda: x - bias; else 0. For bias 0 it is a threshold on both sides. */
static int read_shrink(struct onnx_importer *importer)
{
    float lambda, bias;
    int x, high, low, sign, result;
    int status = onnx_attribute_float(importer, "lambd", 0.5F, &lambda);
    if (status == 0)
        status = onnx_attribute_float(importer, "bias", 0, &bias);
    if (status == 0)
        status = onnx_need_tensor(importer, 0, &x);
    if (status == 0) /* 1 above lambda, -1 below -lambda, else 0 */
        status = onnx_emit_scalar(importer, (double)lambda, &high);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_LESS, high, x, &high);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_LESS, x, -(double)lambda, &low);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_SUB, high, low, &sign);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_ADD, high, low, &high);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_MUL, x, high, &result);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_MUL, sign, (double)bias, &sign);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_SUB, result, sign, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* max(x, 0) + slope min(x, 0) */
static int read_prelu(struct onnx_importer *importer)
{
    const struct onnx_value *slope;
    int x, weight, high, low;
    int status = onnx_need_input(importer, 1, &slope);
    if (status == 0 && slope->kind == ONNX_FLOATS && convoy_shape_elements(&slope->shape) == 1)
        return set_activation(importer, (struct convoy_activation){.kind = CONVOY_LEAKY_RELU,
                                                                   .alpha = onnx_floats(importer, slope)[0]});
    if (status == 0)
        status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_need_tensor(importer, 1, &weight);
    if (status == 0)
        status = onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_RELU}, x, &high);
    if (status == 0)
        status = onnx_emit_activation(
            importer, (struct convoy_activation){.kind = CONVOY_CLIP, .alpha = -INFINITY, .beta = 0}, x,
            &low);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_MUL, low, weight, &low);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_ADD, high, low, &high);
    return status == 0 ? onnx_set_tensor(importer, high) : status;
}

/* ---- What ints have, too ---- */

static int64_t apply_to_int(const char *op, int64_t x)
{
    if (strcmp(op, "Not") == 0)
        return x == 0;
    if (strcmp(op, "Sign") == 0)
        return x > 0 ? 1 : x < 0 ? -1 : 0;
    if (strcmp(op, "Abs") == 0)
        return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
    return (int64_t)(0 - (uint64_t)x);
}

static int set_of_ints(struct onnx_importer *importer, const struct onnx_value *x)
{
    void *data;
    int64_t elements = convoy_shape_elements(&x->shape);
    bool negates = strcmp(importer->op, "Neg") == 0;
    int status = onnx_allocate(importer, &x->shape, true, &data);
    if (status != 0)
        return status;
    struct onnx_int *to = data;
    for (int64_t i = 0; i < elements; i++) {
        /* What is made of the batch is above 0, so that there is a sign to it. */
        struct onnx_int from = x->ints[i];
        bool positive = from.batch > 0 && from.fixed >= 0;
        if (from.batch == 0)
            to[i].fixed = apply_to_int(importer->op, from.fixed);
        else if (negates)
            to[i] =
                (struct onnx_int){(int64_t)(0 - (uint64_t)from.fixed), (int64_t)(0 - (uint64_t)from.batch)};
        else if (positive && strcmp(importer->op, "Abs") == 0)
            to[i] = from;
        else
            to[i].fixed = positive && strcmp(importer->op, "Sign") == 0;
    }
    return onnx_set_ints(importer, &x->shape, data);
}

/* Integers are computed here; of an activation it is `lead` - x, or -x where lead is 0. */
static int read_negated(struct onnx_importer *importer, double lead)
{
    const struct onnx_value *value;
    int x, result;
    int status = onnx_need_input(importer, 0, &value);
    if (status == 0 && value->kind == ONNX_INTS)
        return set_of_ints(importer, value);
    if (status == 0)
        status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = lead != 0 ? onnx_emit_scalar_with(importer, CONVOY_SUB, lead, x, &result)
                           : onnx_emit_with_scalar(importer, CONVOY_MUL, x, -1, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int read_neg(struct onnx_importer *importer)
{
    return read_negated(importer, 0);
}

/* A truth value is 0 or 1. */
static int read_not(struct onnx_importer *importer)
{
    return read_negated(importer, 1);
}

/* 1 - (x = x): a NaN alone is not what it is. */
static int read_is_nan(struct onnx_importer *importer)
{
    int x, result;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_EQUAL, x, x, &result);
    if (status == 0)
        status = onnx_emit_scalar_with(importer, CONVOY_SUB, 1, result, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int read_abs(struct onnx_importer *importer)
{
    const struct onnx_value *value;
    int status = onnx_need_input(importer, 0, &value);
    if (status == 0 && value->kind == ONNX_INTS)
        return set_of_ints(importer, value);
    return status == 0 ? set_activation(importer, (struct convoy_activation){.kind = CONVOY_ABS}) : status;
}

static int read_sign(struct onnx_importer *importer)
{
    const struct onnx_value *value;
    int status = onnx_need_input(importer, 0, &value);
    if (status == 0 && value->kind == ONNX_INTS)
        return set_of_ints(importer, value);
    return status == 0 ? set_activation(importer, (struct convoy_activation){.kind = CONVOY_SIGN}) : status;
}

static int read_reciprocal(struct onnx_importer *importer)
{
    int x, result;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_emit_scalar_with(importer, CONVOY_DIV, 1, x, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

const struct onnx_operator onnx_activation_operators[] = {
    {"Relu", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Sigmoid", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Tanh", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"HardSwish", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Exp", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Log", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Sqrt", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Erf", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Softplus", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Mish", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Round", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Floor", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Ceil", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"LeakyRelu", 1, 1, read_leaky_relu, ONNX_ANY_ORDER},
    {"Elu", 1, 1, read_elu, ONNX_ANY_ORDER},
    {"ThresholdedRelu", 1, 1, read_thresholded_relu, ONNX_ANY_ORDER},
    {"HardSigmoid", 1, 1, read_hard_sigmoid, ONNX_ANY_ORDER},
    {"Clip", 1, 3, read_clip, ONNX_ANY_ORDER},
    {"Gelu", 1, 1, read_gelu, ONNX_ANY_ORDER},
    {"Swish", 1, 1, read_swish, ONNX_ANY_ORDER},
    {"Selu", 1, 1, read_selu, ONNX_ANY_ORDER},
    {"Celu", 1, 1, read_celu, ONNX_ANY_ORDER},
    {"Softsign", 1, 1, read_softsign, ONNX_ANY_ORDER},
    {"Shrink", 1, 1, read_shrink, ONNX_ANY_ORDER},
    {"PRelu", 2, 2, read_prelu, ONNX_ANY_ORDER},
    {"Neg", 1, 1, read_neg, ONNX_ANY_ORDER},
    {"Not", 1, 1, read_not, ONNX_ANY_ORDER},
    {"IsNaN", 1, 1, read_is_nan, ONNX_ANY_ORDER},
    {"Abs", 1, 1, read_abs, ONNX_ANY_ORDER},
    {"Sign", 1, 1, read_sign, ONNX_ANY_ORDER},
    {"Reciprocal", 1, 1, read_reciprocal, ONNX_ANY_ORDER},
    {"Sin", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Cos", 1, 1, read_plain, ONNX_ANY_ORDER},
    {"Atan", 1, 1, read_plain, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
