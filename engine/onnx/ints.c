#include "engine/onnx/ints.h"

#include "engine/onnx/constants.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <stdlib.h>

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
    *result = (struct onnx_int){.fixed = a.fixed / b.fixed, .batch = a.batch / b.fixed};
    return true;
}

/* a < b, or a <= b, if it is so for every N >= 1 or for none. */
static bool compare(struct onnx_int a, struct onnx_int b, bool or_equal, struct onnx_int *result)
{
    int64_t fixed, batch, at_one;
    if (__builtin_sub_overflow(a.fixed, b.fixed, &fixed) ||
        __builtin_sub_overflow(a.batch, b.batch, &batch) || __builtin_add_overflow(fixed, batch, &at_one))
        return false;
    bool holds = or_equal ? at_one <= 0 : at_one < 0; /* for N = 1; it stays so in one direction */
    *result = (struct onnx_int){.fixed = holds};
    return batch == 0 || (holds ? batch < 0 : batch > 0);
}

static bool equal(struct onnx_int a, struct onnx_int b, struct onnx_int *result)
{
    int64_t fixed, batch;
    if (__builtin_sub_overflow(a.fixed, b.fixed, &fixed) || __builtin_sub_overflow(a.batch, b.batch, &batch))
        return false;
    *result = (struct onnx_int){.fixed = fixed == 0 && batch == 0};
    if (batch == 0 || batch == -1)
        return batch == 0 || fixed < 1; /* N = fixed */
    return fixed % batch != 0 || fixed / batch > -1;
}

static bool power(int64_t base, int64_t exponent, int64_t *result)
{
    *result = 1;
    if (exponent < 0 || exponent > 64)
        return false;
    for (int64_t i = 0; i < exponent; i++)
        if (__builtin_mul_overflow(*result, base, result))
            return false;
    return true;
}

/* What is defined for numbers that do not depend on the batch. */
static bool combine_fixed(enum onnx_int_operation operation, int64_t a, int64_t b, int64_t *result)
{
    switch (operation) {
    case ONNX_INT_MOD:
    case ONNX_INT_FMOD:
        if (b == 0 || b == -1)
            return false;
        *result = a % b;
        if (operation == ONNX_INT_MOD && *result != 0 && (*result < 0) != (b < 0))
            *result += b;
        return true;
    case ONNX_INT_POW:
        return power(a, b, result);
    case ONNX_INT_AND:
        *result = a != 0 && b != 0;
        return true;
    case ONNX_INT_OR:
        *result = a != 0 || b != 0;
        return true;
    case ONNX_INT_XOR:
        *result = (a != 0) != (b != 0);
        return true;
    default:
        return false;
    }
}

bool onnx_combine_ints(const struct onnx_importer *importer, enum onnx_int_operation operation,
                       struct onnx_int a, struct onnx_int b, struct onnx_int *result)
{
    bool a_is_fixed = a.batch == 0 && a.image == 0, b_is_fixed = b.batch == 0 && b.image == 0;
    struct onnx_int factor = a_is_fixed ? a : b, other = a_is_fixed ? b : a, less;
    *result = (struct onnx_int){0};
    switch (operation) {
    case ONNX_INT_ADD:
        return !__builtin_add_overflow(a.fixed, b.fixed, &result->fixed) &&
               !__builtin_add_overflow(a.batch, b.batch, &result->batch) &&
               !__builtin_add_overflow(a.image, b.image, &result->image);
    case ONNX_INT_SUB:
        return !__builtin_sub_overflow(a.fixed, b.fixed, &result->fixed) &&
               !__builtin_sub_overflow(a.batch, b.batch, &result->batch) &&
               !__builtin_sub_overflow(a.image, b.image, &result->image);
    case ONNX_INT_MUL:
        return (a_is_fixed || b_is_fixed) &&
               !__builtin_mul_overflow(other.fixed, factor.fixed, &result->fixed) &&
               !__builtin_mul_overflow(other.batch, factor.fixed, &result->batch) &&
               !__builtin_mul_overflow(other.image, factor.fixed, &result->image);
    default:
        break;
    }
    if (a.image != 0 || b.image != 0)
        return false;
    if (operation == ONNX_INT_DIV && divide(a, b, result))
        return true;
    if (operation == ONNX_INT_EQUAL && equal(a, b, result))
        return true;
    if ((operation == ONNX_INT_LESS || operation == ONNX_INT_LESS_EQUAL) &&
        compare(a, b, operation == ONNX_INT_LESS_EQUAL, result))
        return true;
    if ((operation == ONNX_INT_MIN || operation == ONNX_INT_MAX) && compare(a, b, true, &less)) {
        *result = (less.fixed != 0) == (operation == ONNX_INT_MIN) ? a : b;
        return true;
    }
    if (a.batch == 0 && b.batch == 0)
        return combine_fixed(operation, a.fixed, b.fixed, &result->fixed);
    if (importer->batch != 1 || __builtin_add_overflow(a.fixed, a.batch, &a.fixed) ||
        __builtin_add_overflow(b.fixed, b.batch, &b.fixed))
        return false;
    a.batch = b.batch = 0;
    return onnx_combine_ints(importer, operation, a, b, result);
}

int onnx_set_combined(struct onnx_importer *importer, enum onnx_int_operation operation,
                      const struct onnx_value *a, const struct onnx_value *b)
{
    struct convoy_shape shape;
    void *data;
    int status = onnx_broadcast(importer, &a->shape, &b->shape, 0, &shape);
    if (status == 0)
        status = onnx_allocate(importer, &shape, true, &data);
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
        if (!onnx_combine_ints(importer, operation, a->ints[at_a], b->ints[at_b],
                               &((struct onnx_int *)data)[i])) {
            free(data);
            return onnx_refuse(
                importer, ONNX_BATCH_OF_ONE,
                "it computes a shape that overflows or depends on the batch in a way that cannot be "
                "followed");
        }
    }
    return onnx_set_ints(importer, &shape, data);
}
