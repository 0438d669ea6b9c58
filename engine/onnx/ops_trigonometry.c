/* Functions of angles and of hyperbolas, made of those that the graph has. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"

#include <string.h>

/* Emits a chain of nodes; after a failure nothing more, and the last status stays. */
struct chain {
    struct onnx_importer *importer;
    int status;
};

static int apply(struct chain *c, enum convoy_activation_kind kind, int x)
{
    int y = x;
    if (c->status == 0)
        c->status = onnx_emit_activation(c->importer, (struct convoy_activation){.kind = kind}, x, &y);
    return y;
}

static int combine(struct chain *c, enum convoy_binary_kind kind, int a, int b)
{
    int y = a;
    if (c->status == 0)
        c->status = onnx_emit_binary(c->importer, kind, a, b, &y);
    return y;
}

static int with(struct chain *c, enum convoy_binary_kind kind, int a, double b)
{
    int y = a;
    if (c->status == 0)
        c->status = onnx_emit_with_scalar(c->importer, kind, a, b, &y);
    return y;
}

static int from(struct chain *c, double a, int b)
{
    int y = b;
    if (c->status == 0)
        c->status = onnx_emit_scalar_with(c->importer, CONVOY_SUB, a, b, &y);
    return y;
}

/* sqrt(square + added) */
static int root(struct chain *c, int square, double added)
{
    return apply(c, CONVOY_SQRT, with(c, CONVOY_ADD, square, added));
}

static int asin_of(struct chain *c, int x, int square)
{
    return apply(c, CONVOY_ATAN, combine(c, CONVOY_DIV, x, apply(c, CONVOY_SQRT, from(c, 1, square))));
}

static int cosh_of(struct chain *c, int x)
{
    int grows = apply(c, CONVOY_EXP, x), falls = apply(c, CONVOY_EXP, with(c, CONVOY_MUL, x, -1));
    return with(c, CONVOY_MUL, combine(c, CONVOY_ADD, grows, falls), 0.5);
}

static int compute(struct chain *c, const char *op, int x)
{
    if (strcmp(op, "Tan") == 0)
        return combine(c, CONVOY_DIV, apply(c, CONVOY_SIN, x), apply(c, CONVOY_COS, x));
    if (strcmp(op, "Cosh") == 0)
        return cosh_of(c, x);
    if (strcmp(op, "Sinh") == 0) /* without a difference of what is nearly equal */
        return combine(c, CONVOY_MUL, apply(c, CONVOY_TANH, x), cosh_of(c, x));
    if (strcmp(op, "Atanh") == 0) { /* ln((1 + x) / (1 - x)) / 2 */
        int quotient = combine(c, CONVOY_DIV, with(c, CONVOY_ADD, x, 1), from(c, 1, x));
        return with(c, CONVOY_MUL, apply(c, CONVOY_LOG, quotient), 0.5);
    }
    int square = combine(c, CONVOY_MUL, x, x);
    if (strcmp(op, "Asin") == 0)
        return asin_of(c, x, square);
    if (strcmp(op, "Acos") == 0)
        return from(c, M_PI_2, asin_of(c, x, square));
    if (strcmp(op, "Acosh") == 0) /* ln(x + sqrt(x^2 - 1)) */
        return apply(c, CONVOY_LOG, combine(c, CONVOY_ADD, x, root(c, square, -1)));
    /* Asinh: sign(x) ln(|x| + sqrt(x^2 + 1)) */
    int sum = combine(c, CONVOY_ADD, apply(c, CONVOY_ABS, x), root(c, square, 1));
    return combine(c, CONVOY_MUL, apply(c, CONVOY_SIGN, x), apply(c, CONVOY_LOG, sum));
}

static int read_composed(struct onnx_importer *importer)
{
    struct chain c = {importer, 0};
    int x;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status != 0)
        return status;
    int y = compute(&c, importer->op, x);
    return c.status == 0 ? onnx_set_tensor(importer, y) : c.status;
}

const struct onnx_operator onnx_trigonometry_operators[] = {
    {"Tan", 1, 1, read_composed, ONNX_ANY_ORDER},
    {"Asin", 1, 1, read_composed, ONNX_ANY_ORDER},
    {"Acos", 1, 1, read_composed, ONNX_ANY_ORDER},
    {"Sinh", 1, 1, read_composed, ONNX_ANY_ORDER},
    {"Cosh", 1, 1, read_composed, ONNX_ANY_ORDER},
    {"Asinh", 1, 1, read_composed, ONNX_ANY_ORDER},
    {"Acosh", 1, 1, read_composed, ONNX_ANY_ORDER},
    {"Atanh", 1, 1, read_composed, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
