/* Operators that rename dimensions: Reshape and its kin; and Transpose. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The end of everything that only reshapes. `outer` is what the new batch axis was merged from. */
static int set_shape(struct onnx_importer *importer, const struct onnx_value *x,
                     const struct convoy_shape *shape, int64_t outer)
{
    int tensor;
    if (x->kind != ONNX_ACTIVATION)
        return onnx_set_reshaped(importer, x, shape);
    int status = onnx_emit_rearranged(importer, x->tensor, x->outer, shape, outer, &tensor);
    importer->outer = outer;
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

static int read_reshape(struct onnx_importer *importer)
{
    const struct onnx_value *x, *targets = importer->inputs[1];
    struct convoy_shape shape;
    int64_t allow_zero, outer;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "allowzero", 0, &allow_zero);
    if (status != 0)
        return status;
    if (targets == NULL || targets->kind != ONNX_INTS || targets->shape.rank != 1 ||
        targets->shape.dims[0] > CONVOY_MAX_RANK)
        return onnx_refuse(importer, ONNX_CUT, "its shape is not a list of up to %d known integers",
                           CONVOY_MAX_RANK);
    int count = (int)targets->shape.dims[0];
    struct onnx_int wanted[CONVOY_MAX_RANK];
    for (int i = 0; i < count; i++) {
        wanted[i] = targets->ints[i];
        if (x->kind == ONNX_ACTIVATION || wanted[i].batch == 0)
            continue;
        if (importer->batch != 1)
            return onnx_refuse(importer, ONNX_BATCH_OF_ONE,
                               "it gives a constant a shape that depends on the batch size");
        wanted[i] = (struct onnx_int){.fixed = wanted[i].fixed + wanted[i].batch};
    }
    status =
        onnx_reshape_targets(importer, &x->shape, x->outer, wanted, count, allow_zero != 0, &shape, &outer);
    return status == 0 ? set_shape(importer, x, &shape, outer) : status;
}

static int read_flatten(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    int64_t given, outer;
    int axis = 0;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "axis", 1, &given);
    if (status == 0 && given != x->shape.rank)
        status = onnx_settle_axis(importer, given, x->shape.rank, &axis);
    else if (status == 0)
        axis = x->shape.rank;
    if (status != 0)
        return status;
    struct convoy_shape shape = {
        .rank = 2,
        .batch_axis = -1,
        .dims = {onnx_product(&x->shape, 0, axis), onnx_product(&x->shape, axis, x->shape.rank)}};
    status =
        onnx_place_batch(importer, &x->shape, x->outer, x->shape.batch_axis < axis ? 0 : 1, &shape, &outer);
    return status == 0 ? set_shape(importer, x, &shape, outer) : status;
}

static int read_axes(struct onnx_importer *importer, int rank, unsigned *mask, int *count)
{
    int64_t axes[CONVOY_MAX_RANK];
    int status = onnx_ints_of_either_form(importer, 13, 1, "axes", axes, CONVOY_MAX_RANK, count);
    *mask = 0;
    for (int i = 0; status == 0 && i < *count; i++) {
        int axis;
        status = onnx_settle_axis(importer, axes[i], rank, &axis);
        if (status == 0 && (*mask & (1U << axis)) != 0)
            status = onnx_fail(importer, -EINVAL, "its axes name %d twice", axis);
        if (status == 0)
            *mask |= 1U << axis;
    }
    return status;
}

/* The output is x with dimensions of 1 put in or taken away; its batch is the axis `batch`, -1 where that was
 * taken away. In a file whose batch is 1 an axis that is the batch alone stays it; one that something was
 * merged into may be what remained of a Squeeze. */
static int set_moved(struct onnx_importer *importer, const struct onnx_value *x, struct convoy_shape *shape,
                     int batch)
{
    int64_t outer = x->outer;
    if (batch >= 0 && x->shape.dims[x->shape.batch_axis] == 1) {
        shape->batch_axis = batch;
        return set_shape(importer, x, shape, outer);
    }
    int status = onnx_place_batch(importer, &x->shape, x->outer, batch, shape, &outer);
    return status == 0 ? set_shape(importer, x, shape, outer) : status;
}

static int read_squeeze(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    unsigned mask = 0;
    int count, batch = -1;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = read_axes(importer, x->shape.rank, &mask, &count);
    if (status != 0)
        return status;
    const struct convoy_shape *in = &x->shape;
    struct convoy_shape shape = {.batch_axis = -1};
    for (int axis = 0; axis < in->rank; axis++) {
        bool is_batch = axis == in->batch_axis, named = (mask & (1U << axis)) != 0;
        bool is_one = in->dims[axis] == 1 && (!is_batch || importer->batch == 1);
        if (named && !is_one)
            return onnx_fail(importer, -EINVAL, "it takes away dimension %d, which is not 1", axis);
        if (named || (count < 0 && is_one))
            continue;
        if (is_batch)
            batch = shape.rank;
        shape.dims[shape.rank++] = in->dims[axis];
    }
    return set_moved(importer, x, &shape, batch);
}

static int read_unsqueeze(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    unsigned mask = 0;
    int64_t axes[CONVOY_MAX_RANK];
    int count, batch = -1;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_ints_of_either_form(importer, 13, 1, "axes", axes, CONVOY_MAX_RANK, &count);
    if (status == 0 && (count < 0 || x->shape.rank + count > CONVOY_MAX_RANK))
        status = onnx_fail(importer, -EINVAL, "its axes are missing, or make more than %d dimensions",
                           CONVOY_MAX_RANK);
    if (status == 0)
        status = read_axes(importer, x->shape.rank + count, &mask, &count);
    if (status != 0)
        return status;
    struct convoy_shape shape = {.rank = x->shape.rank + count, .batch_axis = -1};
    for (int axis = 0, from = 0; axis < shape.rank; axis++) {
        bool added = (mask & (1U << axis)) != 0;
        if (!added && from == x->shape.batch_axis)
            batch = axis;
        shape.dims[axis] = added ? 1 : x->shape.dims[from++];
    }
    return set_moved(importer, x, &shape, batch);
}

static int read_transpose(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    int64_t given[CONVOY_MAX_RANK];
    int perm[CONVOY_MAX_RANK], count, tensor;
    unsigned seen = 0;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_ints(importer, "perm", given, CONVOY_MAX_RANK, &count);
    if (status != 0)
        return status;
    int rank = x->shape.rank;
    for (int axis = 0; axis < rank; axis++) {
        int64_t from = count < 0 ? rank - 1 - axis : axis < count ? given[axis] : -1;
        if (from < 0 || from >= rank || (seen & (1U << from)) != 0)
            return onnx_fail(importer, -EINVAL, "its perm is not a permutation of %d dimensions", rank);
        seen |= 1U << from;
        perm[axis] = (int)from;
    }
    if (count > rank)
        return onnx_fail(importer, -EINVAL, "its perm is not a permutation of %d dimensions", rank);
    if (x->kind == ONNX_ACTIVATION) {
        status = onnx_emit_transpose(importer, x->tensor, perm, &tensor);
        return status == 0 ? onnx_set_tensor(importer, tensor) : status;
    }
    struct convoy_shape shape = {.rank = rank, .batch_axis = -1};
    int64_t steps[CONVOY_MAX_RANK];
    for (int axis = 0; axis < rank; axis++) {
        shape.dims[axis] = x->shape.dims[perm[axis]];
        steps[axis] = onnx_product(&x->shape, perm[axis] + 1, rank);
    }
    return onnx_set_strided(importer, x, &shape, 0, steps);
}

const struct onnx_operator onnx_reshape_operators[] = {
    {"Reshape", 2, 2, read_reshape, ONNX_REORDERS},      {"Flatten", 1, 1, read_flatten, ONNX_REORDERS},
    {"Squeeze", 1, 2, read_squeeze, ONNX_REORDERS},      {"Unsqueeze", 1, 2, read_unsqueeze, ONNX_REORDERS},
    {"Transpose", 1, 1, read_transpose, ONNX_ANY_ORDER}, {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
