/* Reduce* over any axes: averages and maxima are pools, everything else is made of these. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/reduce.h"
#include "engine/onnx/results.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct reduction {
    unsigned mask; /* of the axes that are reduced */
    bool keep_dims;
    bool nothing; /* no axes, and that means none */
};

static int read_reduction(struct onnx_importer *importer, int rank, struct reduction *reduction)
{
    int64_t axes[CONVOY_MAX_RANK], noop, keep_dims;
    int count;
    int64_t since = strcmp(importer->op, "ReduceSum") == 0 ? 13 : 18;
    int status = onnx_ints_of_either_form(importer, since, 1, "axes", axes, CONVOY_MAX_RANK, &count);
    if (status == 0)
        status = onnx_attribute_int(importer, "noop_with_empty_axes", 0, &noop);
    if (status == 0)
        status = onnx_attribute_int(importer, "keepdims", 1, &keep_dims);
    if (status != 0)
        return status;
    *reduction = (struct reduction){.keep_dims = keep_dims != 0};
    for (int i = 0; i < count; i++) {
        int axis;
        status = onnx_settle_axis(importer, axes[i], rank, &axis);
        if (status != 0)
            return status;
        reduction->mask |= 1U << axis;
    }
    if (count <= 0 && noop == 0)
        reduction->mask = (1U << rank) - 1;
    reduction->nothing = reduction->mask == 0;
    return 0;
}

static int apply(struct onnx_importer *importer, enum convoy_activation_kind kind, int *tensor)
{
    return onnx_emit_activation(importer, (struct convoy_activation){.kind = kind}, *tensor, tensor);
}

/* The smallest is the largest of the negative. */
static int emit_min(struct onnx_importer *importer, int x, unsigned mask, int *result)
{
    int status = onnx_emit_with_scalar(importer, CONVOY_MUL, x, -1, result);
    if (status == 0)
        status = onnx_emit_reduced(importer, *result, CONVOY_POOL_MAX, mask, result);
    return status == 0 ? onnx_emit_with_scalar(importer, CONVOY_MUL, *result, -1, result) : status;
}

/* max + ln(sum exp(x - max)) */
static int emit_log_sum_exp(struct onnx_importer *importer, int x, unsigned mask, int *result)
{
    int most;
    int status = onnx_emit_reduced(importer, x, CONVOY_POOL_MAX, mask, &most);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_SUB, x, most, result);
    if (status == 0)
        status = apply(importer, CONVOY_EXP, result);
    if (status == 0)
        status = onnx_emit_sum(importer, *result, mask, result);
    if (status == 0)
        status = apply(importer, CONVOY_LOG, result);
    return status == 0 ? onnx_emit_binary(importer, CONVOY_ADD, *result, most, result) : status;
}

/* The product along one axis: halves by halves. */
static int multiply_axis(struct onnx_importer *importer, int axis, int *tensor)
{
    int64_t length = importer->graph->tensors[*tensor].shape.dims[axis];
    int status = 0, rest = -1;
    while (length > 1 && status == 0) {
        int left, right, odd;
        int64_t half = length / 2;
        status = onnx_emit_crop(importer, *tensor, axis, 0, half, &left);
        if (status == 0)
            status = onnx_emit_crop(importer, *tensor, axis, half, half, &right);
        if (status == 0 && length % 2 == 1) {
            status = onnx_emit_crop(importer, *tensor, axis, length - 1, 1, &odd);
            if (status == 0 && rest >= 0)
                status = onnx_emit_binary(importer, CONVOY_MUL, rest, odd, &rest);
            else
                rest = odd;
        }
        if (status == 0)
            status = onnx_emit_binary(importer, CONVOY_MUL, left, right, tensor);
        length = half;
    }
    return status == 0 && rest >= 0 ? onnx_emit_binary(importer, CONVOY_MUL, *tensor, rest, tensor) : status;
}

static int emit_product(struct onnx_importer *importer, int x, unsigned mask, int *result)
{
    int status = 0, rank = importer->graph->tensors[x].shape.rank;
    *result = x;
    for (int axis = 0; axis < rank && status == 0; axis++)
        if ((mask & (1U << axis)) != 0)
            status = multiply_axis(importer, axis, result);
    return status;
}

static int emit_reduction(struct onnx_importer *importer, int x, unsigned mask, int *result)
{
    const char *op = importer->op;
    int status = 0;
    *result = x;
    if (strcmp(op, "ReduceMean") == 0)
        return onnx_emit_reduced(importer, x, CONVOY_POOL_AVERAGE, mask, result);
    if (strcmp(op, "ReduceMax") == 0)
        return onnx_emit_reduced(importer, x, CONVOY_POOL_MAX, mask, result);
    if (strcmp(op, "ReduceMin") == 0)
        return emit_min(importer, x, mask, result);
    if (strcmp(op, "ReduceProd") == 0)
        return emit_product(importer, x, mask, result);
    if (strcmp(op, "ReduceLogSumExp") == 0)
        return emit_log_sum_exp(importer, x, mask, result);
    if (strcmp(op, "ReduceL1") == 0)
        status = apply(importer, CONVOY_ABS, result);
    else if (strcmp(op, "ReduceL2") == 0 || strcmp(op, "ReduceSumSquare") == 0)
        status = onnx_emit_binary(importer, CONVOY_MUL, x, x, result);
    if (status == 0)
        status = onnx_emit_sum(importer, *result, mask, result);
    if (status == 0 && strcmp(op, "ReduceL2") == 0)
        status = apply(importer, CONVOY_SQRT, result);
    if (status == 0 && strcmp(op, "ReduceLogSum") == 0)
        status = apply(importer, CONVOY_LOG, result);
    return status;
}

/* ---- Of integers ---- */

static bool combine(const char *op, int64_t a, int64_t b, int64_t *result)
{
    if (strcmp(op, "ReduceProd") == 0)
        return !__builtin_mul_overflow(a, b, result);
    if (strcmp(op, "ReduceMax") == 0 || strcmp(op, "ReduceMin") == 0) {
        *result = (a > b) == (strcmp(op, "ReduceMax") == 0) ? a : b;
        return true;
    }
    return !__builtin_add_overflow(a, b, result);
}

static int reduce_ints(struct onnx_importer *importer, const struct onnx_value *x,
                       const struct reduction *reduction)
{
    const struct convoy_shape out = onnx_reduced_shape(&x->shape, reduction->mask, reduction->keep_dims);
    int64_t elements = convoy_shape_elements(&x->shape), index[CONVOY_MAX_RANK] = {0};
    void *data;
    if (strcmp(importer->op, "ReduceSum") != 0 && strcmp(importer->op, "ReduceProd") != 0 &&
        strcmp(importer->op, "ReduceMax") != 0 && strcmp(importer->op, "ReduceMin") != 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "it works on integers, which is not supported");
    int status = onnx_allocate(importer, &out, true, &data);
    if (status != 0)
        return status;
    struct onnx_int *to = data;
    for (int64_t i = 0; i < elements; i++) {
        int64_t at = 0;
        bool first = true;
        for (int axis = 0; axis < x->shape.rank; axis++) {
            bool reduced = (reduction->mask & (1U << axis)) != 0;
            first &= !reduced || index[axis] == 0;
            at = reduced ? at : at * x->shape.dims[axis] + index[axis];
        }
        struct onnx_int from = x->ints[i];
        bool takes_batch = from.batch != 0 && to[at].batch == 0 && to[at].fixed == 1 &&
                           strcmp(importer->op, "ReduceProd") == 0;
        if (first || takes_batch) {
            to[at] = from;
        } else if (from.batch != 0 || (to[at].batch != 0 && strcmp(importer->op, "ReduceProd") != 0) ||
                   !combine(importer->op, to[at].fixed, from.fixed, &to[at].fixed) ||
                   (to[at].batch != 0 && __builtin_mul_overflow(to[at].batch, from.fixed, &to[at].batch))) {
            free(data);
            return onnx_refuse(importer, ONNX_BATCH_OF_ONE,
                               "it computes a shape that overflows or depends on the batch in a way that "
                               "cannot be followed");
        }
        for (int axis = x->shape.rank - 1; axis >= 0 && ++index[axis] == x->shape.dims[axis]; axis--)
            index[axis] = 0;
    }
    return onnx_set_ints(importer, &out, data);
}

static int read_reduce(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    struct reduction reduction;
    int tensor, result;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = read_reduction(importer, x->shape.rank, &reduction);
    if (status != 0)
        return status;
    if (x->kind == ONNX_INTS && !reduction.nothing)
        return reduce_ints(importer, x, &reduction);
    if (reduction.nothing && (x->kind == ONNX_INTS || strncmp(importer->op, "ReduceM", 7) == 0))
        return onnx_set_value(importer, x);
    const struct convoy_shape out = onnx_reduced_shape(&x->shape, reduction.mask, reduction.keep_dims);
    status = onnx_need_tensor(importer, 0, &tensor);
    if (status == 0)
        status = emit_reduction(importer, tensor, reduction.mask, &result);
    if (status == 0)
        status = onnx_emit_reshape(importer, result, &out, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

const struct onnx_operator onnx_reduce_operators[] = {
    {"ReduceMean", 1, 2, read_reduce, ONNX_ANY_ORDER},
    {"ReduceSum", 1, 2, read_reduce, ONNX_ANY_ORDER},
    {"ReduceMax", 1, 2, read_reduce, ONNX_ANY_ORDER},
    {"ReduceMin", 1, 2, read_reduce, ONNX_ANY_ORDER},
    {"ReduceProd", 1, 2, read_reduce, ONNX_ANY_ORDER},
    {"ReduceL1", 1, 2, read_reduce, ONNX_ANY_ORDER},
    {"ReduceL2", 1, 2, read_reduce, ONNX_ANY_ORDER},
    {"ReduceSumSquare", 1, 2, read_reduce, ONNX_ANY_ORDER},
    {"ReduceLogSum", 1, 2, read_reduce, ONNX_ANY_ORDER},
    {"ReduceLogSumExp", 1, 2, read_reduce, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
