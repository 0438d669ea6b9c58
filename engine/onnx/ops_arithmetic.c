/* Operators on two tensors or more, element by element with broadcasting: arithmetic, comparisons, logic,
 * Where. Truth values of activations are floats, 0 and 1. */
#include "engine/graph/fold_match.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ints.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"

#include <errno.h>

static int need_two(struct onnx_importer *importer, const struct onnx_value **a, const struct onnx_value **b)
{
    int status = onnx_need_input(importer, 0, a);
    if (status == 0)
        status = onnx_need_input(importer, 1, b);
    /* Before opset 7 dimensions could be matched from another one than the last. */
    if (status == 0 && importer->opset < 7 && onnx_attribute(importer, "axis") != NULL)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its broadcast axis is of an opset before 7");
    return status;
}

static bool are_ints(const struct onnx_value *a, const struct onnx_value *b)
{
    return a->kind == ONNX_INTS && b->kind == ONNX_INTS;
}

static int set_binary(struct onnx_importer *importer, enum convoy_binary_kind kind, int left, int right)
{
    int a, b, result;
    int status = onnx_need_tensor(importer, left, &a);
    if (status == 0)
        status = onnx_need_tensor(importer, right, &b);
    if (status == 0)
        status = onnx_emit_binary(importer, kind, a, b, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* Of floats or activations one, of ints alone the other. */
static int read_binary(struct onnx_importer *importer, enum convoy_binary_kind kind,
                       enum onnx_int_operation operation)
{
    const struct onnx_value *a, *b;
    int status = need_two(importer, &a, &b);
    if (status != 0)
        return status;
    return are_ints(a, b) ? onnx_set_combined(importer, operation, a, b) : set_binary(importer, kind, 0, 1);
}

static int read_add(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_ADD, ONNX_INT_ADD);
}

static int read_sub(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_SUB, ONNX_INT_SUB);
}

static int read_mul(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_MUL, ONNX_INT_MUL);
}

static int read_div(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_DIV, ONNX_INT_DIV);
}

static int read_equal(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_EQUAL, ONNX_INT_EQUAL);
}

static int read_less(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_LESS, ONNX_INT_LESS);
}

static int read_less_or_equal(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_LESS_EQUAL, ONNX_INT_LESS_EQUAL);
}

/* a > b is b < a. */
static int read_turned(struct onnx_importer *importer, enum convoy_binary_kind kind,
                       enum onnx_int_operation operation)
{
    const struct onnx_value *a, *b;
    int status = need_two(importer, &a, &b);
    if (status != 0)
        return status;
    return are_ints(a, b) ? onnx_set_combined(importer, operation, b, a) : set_binary(importer, kind, 1, 0);
}

static int read_greater(struct onnx_importer *importer)
{
    return read_turned(importer, CONVOY_LESS, ONNX_INT_LESS);
}

static int read_greater_or_equal(struct onnx_importer *importer)
{
    return read_turned(importer, CONVOY_LESS_EQUAL, ONNX_INT_LESS_EQUAL);
}

static int read_and(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_MUL, ONNX_INT_AND);
}

static int read_or(struct onnx_importer *importer)
{
    return read_binary(importer, CONVOY_MAX, ONNX_INT_OR);
}

static int read_xor(struct onnx_importer *importer)
{
    const struct onnx_value *a, *b;
    int x, y, result;
    int status = need_two(importer, &a, &b);
    if (status == 0 && are_ints(a, b))
        return onnx_set_combined(importer, ONNX_INT_XOR, a, b);
    if (status == 0)
        status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_need_tensor(importer, 1, &y);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_SUB, x, y, &result);
    if (status == 0)
        status =
            onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_ABS}, result, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int read_pow(struct onnx_importer *importer)
{
    const struct onnx_value *a, *b;
    double exponent = 0;
    int x, result;
    int status = need_two(importer, &a, &b);
    if (status == 0 && are_ints(a, b))
        return onnx_set_combined(importer, ONNX_INT_POW, a, b);
    if (status != 0 || b->kind == ONNX_ACTIVATION || convoy_shape_elements(&b->shape) != 1 ||
        b->shape.rank > a->shape.rank)
        return status != 0 ? status : set_binary(importer, CONVOY_POWER, 0, 1);
    status = onnx_input_scalar(importer, 1, 0, &exponent);
    if (status == 0)
        status = onnx_need_tensor(importer, 0, &x);
    struct convoy_activation power = {.kind = exponent == 0.5 ? CONVOY_SQRT : CONVOY_POW,
                                      .alpha = (float)exponent};
    if (status == 0 && exponent == 2)
        status = onnx_emit_binary(importer, CONVOY_MUL, x, x, &result);
    else if (status == 0)
        status = onnx_emit_activation(importer, power, x, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* a - whole(a / b) b, where whole() rounds down, or towards 0 with fmod. */
static int emit_mod(struct onnx_importer *importer, int a, int b, bool towards_zero, int *result)
{
    int quotient, sign;
    int status = onnx_emit_binary(importer, CONVOY_DIV, a, b, &quotient);
    if (status == 0 && towards_zero) {
        status =
            onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_SIGN}, quotient, &sign);
        if (status == 0)
            status = onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_ABS}, quotient,
                                          &quotient);
    }
    if (status == 0)
        status = onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_FLOOR}, quotient,
                                      &quotient);
    if (status == 0 && towards_zero)
        status = onnx_emit_binary(importer, CONVOY_MUL, quotient, sign, &quotient);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_MUL, quotient, b, &quotient);
    return status == 0 ? onnx_emit_binary(importer, CONVOY_SUB, a, quotient, result) : status;
}

static int read_mod(struct onnx_importer *importer)
{
    const struct onnx_value *a, *b;
    int64_t fmod;
    int x, y, result;
    int status = need_two(importer, &a, &b);
    if (status == 0)
        status = onnx_attribute_int(importer, "fmod", 0, &fmod);
    if (status == 0 && are_ints(a, b))
        return onnx_set_combined(importer, fmod != 0 ? ONNX_INT_FMOD : ONNX_INT_MOD, a, b);
    if (status == 0)
        status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_need_tensor(importer, 1, &y);
    if (status == 0)
        status = emit_mod(importer, x, y, fmod != 0, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* ---- Any number of tensors ---- */

static int fold_all(struct onnx_importer *importer, enum convoy_binary_kind kind, int *result)
{
    int status = onnx_need_tensor(importer, 0, result);
    for (int i = 1; i < importer->input_count && status == 0; i++) {
        int next;
        status = onnx_need_tensor(importer, i, &next);
        if (status == 0)
            status = onnx_emit_binary(importer, kind, *result, next, result);
    }
    return status;
}

static int read_largest(struct onnx_importer *importer, enum convoy_binary_kind kind,
                        enum onnx_int_operation operation)
{
    const struct onnx_value *a = importer->inputs[0], *b = importer->inputs[1];
    int result;
    if (importer->input_count == 2 && a != NULL && b != NULL && are_ints(a, b))
        return onnx_set_combined(importer, operation, a, b);
    if (importer->input_count == 1 && a != NULL && a->kind == ONNX_INTS)
        return onnx_set_value(importer, a);
    int status = fold_all(importer, kind, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int read_max(struct onnx_importer *importer)
{
    return read_largest(importer, CONVOY_MAX, ONNX_INT_MAX);
}

static int read_min(struct onnx_importer *importer)
{
    return read_largest(importer, CONVOY_MIN, ONNX_INT_MIN);
}

static int read_sum(struct onnx_importer *importer)
{
    int result;
    int status = fold_all(importer, CONVOY_ADD, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int read_mean(struct onnx_importer *importer)
{
    int result;
    int status = fold_all(importer, CONVOY_ADD, &result);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_DIV, result, importer->input_count, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* ---- Where ---- */

/* The element at index i of `out` of a constant that is broadcast to it. */
static int64_t place_in(const struct convoy_shape *shape, const struct convoy_shape *out, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int axis = out->rank - 1; axis >= 0; axis--) {
        int own = axis - (out->rank - shape->rank);
        int64_t index = i % out->dims[axis];
        i /= out->dims[axis];
        if (own < 0)
            break;
        at += shape->dims[own] > 1 ? index * step : 0;
        step *= shape->dims[own];
    }
    return at;
}

static int where_ints(struct onnx_importer *importer, const struct onnx_value *condition,
                      const struct onnx_value *a, const struct onnx_value *b)
{
    struct convoy_shape both, shape;
    void *data;
    int status = onnx_broadcast(importer, &a->shape, &b->shape, 0, &both);
    if (status == 0)
        status = onnx_broadcast(importer, &condition->shape, &both, 0, &shape);
    if (status == 0)
        status = onnx_allocate(importer, &shape, true, &data);
    if (status != 0)
        return status;
    int64_t elements = convoy_shape_elements(&shape);
    for (int64_t i = 0; i < elements; i++)
        ((struct onnx_int *)data)[i] = condition->ints[place_in(&condition->shape, &shape, i)].fixed != 0
                                           ? a->ints[place_in(&a->shape, &shape, i)]
                                           : b->ints[place_in(&b->shape, &shape, i)];
    return onnx_set_ints(importer, &shape, data);
}

static bool is_one_number(const struct convoy_tensor *tensor, float value)
{
    return tensor->data != NULL && convoy_shape_elements(&tensor->shape) == 1 && tensor->data[0] == value;
}

/* The opposite of a truth value; of one that is an opposite itself what it is made of. */
static int emit_opposite(struct onnx_importer *importer, int holds, int *opposite)
{
    const struct convoy_graph *graph = importer->graph;
    const struct convoy_node *node = fold_producer(importer->graph, holds);
    if (node != NULL && node->op == CONVOY_OP_BINARY && node->binary == CONVOY_SUB &&
        graph->tensors[node->inputs[0]].shape.rank == 0 &&
        is_one_number(&graph->tensors[node->inputs[0]], 1)) {
        *opposite = node->inputs[1];
        return 0;
    }
    return onnx_emit_scalar_with(importer, CONVOY_SUB, 1, holds, opposite);
}

/* *result is x where a truth value holds, and 0 elsewhere. Where the other choice is the number 0, that is
 * all: *done, unless the zero has more dimensions. */
static int emit_kept(struct onnx_importer *importer, int x, int holds, int other, int *result, bool *done)
{
    const struct convoy_tensor *zero = &importer->graph->tensors[other];
    bool is_zero = is_one_number(zero, 0);
    int rank = zero->shape.rank;
    int status = onnx_emit_binary(importer, CONVOY_KEEP, x, holds, result);
    *done = status == 0 && is_zero && rank <= importer->graph->tensors[*result].shape.rank;
    return status;
}

/* Where(IsNaN(s), 0, s), which the exporter writes behind each softmax lest all be masked, where nothing is.
 */
static bool is_idle_guard(struct onnx_importer *importer, int opposite, int x, int y)
{
    const struct convoy_node *node = fold_producer(importer->graph, opposite);
    return node != NULL && node->op == CONVOY_OP_BINARY && node->binary == CONVOY_EQUAL &&
           node->inputs[0] == y && node->inputs[1] == y && is_one_number(&importer->graph->tensors[x], 0) &&
           importer->graph->tensors[x].shape.rank == 0 && onnx_is_unmasked_softmax(importer, y);
}

/* Each side where its condition holds and 0 elsewhere, added up. */
static int read_where(struct onnx_importer *importer)
{
    const struct onnx_value *condition, *a, *b;
    int holds, opposite, x, y, result = -1;
    bool done = false;
    int status = onnx_need_input(importer, 0, &condition);
    if (status == 0)
        status = onnx_need_input(importer, 1, &a);
    if (status == 0)
        status = onnx_need_input(importer, 2, &b);
    if (status != 0)
        return status;
    if (condition->kind == ONNX_INTS && are_ints(a, b))
        return where_ints(importer, condition, a, b);
    status = onnx_need_tensor(importer, 0, &holds);
    if (status == 0)
        status = onnx_need_tensor(importer, 1, &x);
    if (status == 0)
        status = onnx_need_tensor(importer, 2, &y);
    if (status == 0)
        status = emit_opposite(importer, holds, &opposite);
    if (status == 0 && is_idle_guard(importer, opposite, x, y))
        return onnx_set_tensor(importer, y);
    if (status == 0)
        status = emit_kept(importer, y, opposite, x, &result, &done);
    if (status == 0 && !done) {
        int kept = result;
        status = emit_kept(importer, x, holds, y, &result, &done);
        if (status == 0 && !done)
            status = onnx_emit_binary(importer, CONVOY_ADD, result, kept, &result);
    }
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

const struct onnx_operator onnx_arithmetic_operators[] = {
    {"Add", 2, 2, read_add, ONNX_ANY_ORDER},
    {"Sub", 2, 2, read_sub, ONNX_ANY_ORDER},
    {"Mul", 2, 2, read_mul, ONNX_ANY_ORDER},
    {"Div", 2, 2, read_div, ONNX_ANY_ORDER},
    {"Pow", 2, 2, read_pow, ONNX_ANY_ORDER},
    {"Mod", 2, 2, read_mod, ONNX_ANY_ORDER},
    {"Equal", 2, 2, read_equal, ONNX_ANY_ORDER},
    {"Less", 2, 2, read_less, ONNX_ANY_ORDER},
    {"LessOrEqual", 2, 2, read_less_or_equal, ONNX_ANY_ORDER},
    {"Greater", 2, 2, read_greater, ONNX_ANY_ORDER},
    {"GreaterOrEqual", 2, 2, read_greater_or_equal, ONNX_ANY_ORDER},
    {"And", 2, 2, read_and, ONNX_ANY_ORDER},
    {"Or", 2, 2, read_or, ONNX_ANY_ORDER},
    {"Xor", 2, 2, read_xor, ONNX_ANY_ORDER},
    {"Max", 1, ONNX_MAX_INPUTS, read_max, ONNX_ANY_ORDER},
    {"Min", 1, ONNX_MAX_INPUTS, read_min, ONNX_ANY_ORDER},
    {"Sum", 1, ONNX_MAX_INPUTS, read_sum, ONNX_ANY_ORDER},
    {"Mean", 1, ONNX_MAX_INPUTS, read_mean, ONNX_ANY_ORDER},
    {"Where", 3, 3, read_where, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
