/* Operators that move elements or rename dimensions: Reshape and its kin, Transpose, Concat, Pad; and
 * Softmax, whose old form is half a Reshape. */
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

static int need_input(struct onnx_importer *importer, const struct onnx_value **x)
{
    *x = importer->inputs[0];
    return *x != NULL ? 0 : onnx_fail(importer, -EINVAL, "its input is missing");
}

/* The end of everything that only reshapes. */
static int set_shape(struct onnx_importer *importer, const struct onnx_value *x,
                     const struct convoy_shape *shape)
{
    int tensor;
    if (x->kind != ONNX_ACTIVATION)
        return onnx_set_reshaped(importer, x, shape);
    int status = onnx_emit_reshape(importer, x->tensor, shape, &tensor);
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

static int read_reshape(struct onnx_importer *importer)
{
    const struct onnx_value *x, *targets = importer->inputs[1];
    struct convoy_shape shape;
    int64_t allow_zero;
    int status = need_input(importer, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "allowzero", 0, &allow_zero);
    if (status != 0)
        return status;
    if (targets == NULL || targets->kind != ONNX_INTS || targets->shape.rank != 1 ||
        targets->shape.dims[0] > CONVOY_MAX_RANK)
        return onnx_fail(importer, -ENOTSUP, "its shape is not a list of up to %d known integers",
                         CONVOY_MAX_RANK);
    int count = (int)targets->shape.dims[0];
    for (int i = 0; x->kind != ONNX_ACTIVATION && i < count; i++)
        if (targets->ints[i].batch != 0)
            return onnx_fail(importer, -ENOTSUP,
                             "it gives a constant a shape that depends on the batch size");
    status = onnx_reshape_targets(importer, &x->shape, targets->ints, count, allow_zero != 0, &shape);
    return status == 0 ? set_shape(importer, x, &shape) : status;
}

static int read_flatten(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    int64_t given;
    int axis = 0;
    int status = need_input(importer, &x);
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
    status = onnx_place_batch(importer, &x->shape, x->shape.batch_axis < axis ? 0 : 1, &shape);
    return status == 0 ? set_shape(importer, x, &shape) : status;
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

static int read_squeeze(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    unsigned mask = 0;
    int count, batch = -1;
    int status = need_input(importer, &x);
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
    status = onnx_place_batch(importer, in, batch, &shape);
    return status == 0 ? set_shape(importer, x, &shape) : status;
}

static int read_unsqueeze(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    unsigned mask = 0;
    int64_t axes[CONVOY_MAX_RANK];
    int count, batch = -1;
    int status = need_input(importer, &x);
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
    status = onnx_place_batch(importer, &x->shape, batch, &shape);
    return status == 0 ? set_shape(importer, x, &shape) : status;
}

static int read_transpose(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    int64_t given[CONVOY_MAX_RANK];
    int perm[CONVOY_MAX_RANK], count, tensor;
    unsigned seen = 0;
    int status = need_input(importer, &x);
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

/* Copies the parts one behind the other: each is `outer` blocks. */
static int concat_constants(struct onnx_importer *importer, const struct convoy_shape *shape, int axis)
{
    bool ints = importer->inputs[0]->kind == ONNX_INTS;
    size_t size = ints ? sizeof(struct onnx_int) : sizeof(float);
    void *data;
    int status = onnx_allocate(importer, shape, ints, &data);
    if (status != 0)
        return status;
    uint8_t *to = data;
    int64_t outer = onnx_product(shape, 0, axis);
    for (int64_t block = 0; block < outer; block++) {
        for (int i = 0; i < importer->input_count; i++) {
            const struct onnx_value *part = importer->inputs[i];
            const uint8_t *from = ints ? (const void *)part->ints : (const void *)onnx_floats(importer, part);
            size_t bytes = (size_t)onnx_product(&part->shape, axis, part->shape.rank) * size;
            if (bytes > 0)
                memcpy(to, from + (size_t)block * bytes, bytes);
            to += bytes;
        }
    }
    return ints ? onnx_set_ints(importer, shape, data) : onnx_set_floats(importer, shape, data);
}

/* Whether two shapes may be joined along axis. */
static int check_part(struct onnx_importer *importer, const struct onnx_value *first,
                      const struct onnx_value *part, int axis)
{
    bool fits = part->shape.rank == first->shape.rank && part->shape.batch_axis == first->shape.batch_axis;
    for (int i = 0; fits && i < part->shape.rank; i++)
        fits = i == axis || part->shape.dims[i] == first->shape.dims[i];
    char a[160], b[160];
    return fits ? 0
                : onnx_fail(importer, -EINVAL, "shapes %s and %s cannot be joined along axis %d",
                            convoy_shape_text(&first->shape, a, sizeof a),
                            convoy_shape_text(&part->shape, b, sizeof b), axis);
}

static int read_concat(struct onnx_importer *importer)
{
    int64_t given;
    int axis, tensors[CONVOY_MAX_NODE_INPUTS];
    bool any_activation = false, any_ints = false, any_floats = false;
    const struct onnx_value *first = importer->inputs[0];
    if (onnx_attribute(importer, "axis") == NULL)
        return onnx_fail(importer, -EINVAL, "its axis is missing");
    int status = onnx_attribute_int(importer, "axis", 0, &given);
    for (int i = 0; status == 0 && i < importer->input_count; i++) {
        const struct onnx_value *part = importer->inputs[i];
        if (part == NULL)
            return onnx_fail(importer, -EINVAL, "its input %d is missing", i);
        any_activation |= part->kind == ONNX_ACTIVATION;
        any_ints |= part->kind == ONNX_INTS;
        any_floats |= part->kind == ONNX_FLOATS;
        tensors[i] = part->tensor;
    }
    if (status == 0)
        status = onnx_settle_axis(importer, given, first->shape.rank, &axis);
    if (status != 0)
        return status;
    if (any_ints && (any_activation || any_floats))
        return onnx_fail(importer, -EINVAL, "it joins integers with floating-point numbers");
    if (any_activation && any_floats && importer->batch != ONNX_NO_BATCH)
        return onnx_fail(importer, -ENOTSUP, "it joins a constant to every image, which is not supported");
    struct convoy_shape shape = first->shape;
    shape.dims[axis] = 0;
    for (int i = 0; i < importer->input_count; i++) {
        status = check_part(importer, first, importer->inputs[i], axis);
        if (status != 0)
            return status;
        if (__builtin_add_overflow(shape.dims[axis], importer->inputs[i]->shape.dims[axis],
                                   &shape.dims[axis]))
            return onnx_fail(importer, -EINVAL, "the dimension that it makes overflows");
    }
    if (!any_activation)
        return concat_constants(importer, &shape, axis);
    if (axis == shape.batch_axis)
        return onnx_fail(importer, -ENOTSUP, "it joins along the batch, which would mix images");
    struct convoy_node *node;
    status = onnx_emit(importer, CONVOY_OP_CONCAT, tensors, importer->input_count, &shape, &node);
    if (status != 0)
        return status;
    node->axis = axis;
    return onnx_set_tensor(importer, node->output);
}

/* The pads of every dimension: first all that come before, then all that come after. */
static int read_pads(struct onnx_importer *importer, int rank, int64_t before[], int64_t after[])
{
    int64_t pads[2 * CONVOY_MAX_RANK], axes[CONVOY_MAX_RANK];
    int count, axis_count = -1;
    int status = onnx_ints_of_either_form(importer, 11, 1, "pads", pads, 2 * CONVOY_MAX_RANK, &count);
    if (status == 0)
        status = onnx_input_ints(importer, 3, axes, CONVOY_MAX_RANK, &axis_count);
    if (status != 0)
        return status;
    bool axes_given = axis_count >= 0;
    if (!axes_given)
        axis_count = rank;
    if (count != 2 * axis_count)
        return onnx_fail(importer, -EINVAL, "it has %d pads for %d dimensions", count, axis_count);
    for (int i = 0; i < axis_count; i++) {
        int axis = i;
        if (axes_given)
            status = onnx_settle_axis(importer, axes[i], rank, &axis);
        if (status != 0)
            return status;
        before[axis] = pads[i];
        after[axis] = pads[axis_count + i];
    }
    return 0;
}

static int read_pad(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    const char *mode;
    double value;
    float value_attribute = 0;
    int64_t before[CONVOY_MAX_RANK] = {0}, after[CONVOY_MAX_RANK] = {0};
    int status = onnx_need_activation(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_string(importer, "mode", "constant", &mode);
    if (status == 0)
        status = onnx_input_scalar(importer, 2, 0, &value);
    if (status == 0 && importer->opset < 11)
        status = onnx_attribute_float(importer, "value", 0, &value_attribute);
    if (status == 0)
        status = read_pads(importer, x->shape.rank, before, after);
    if (status != 0)
        return status;
    if (strcmp(mode, "constant") != 0 || value != 0 || value_attribute != 0)
        return onnx_fail(importer, -ENOTSUP, "it pads with something other than zeros (mode '%s')", mode);
    struct convoy_shape shape = x->shape;
    bool changes = false;
    for (int axis = 0; axis < shape.rank; axis++) {
        changes |= before[axis] != 0 || after[axis] != 0;
        if (axis == shape.batch_axis && (before[axis] != 0 || after[axis] != 0))
            return onnx_fail(importer, -ENOTSUP, "it pads the batch");
        if (before[axis] < -shape.dims[axis] || after[axis] < -shape.dims[axis] || before[axis] > INT32_MAX ||
            after[axis] > INT32_MAX)
            return onnx_fail(importer, -EINVAL, "its pads are out of range");
        shape.dims[axis] += before[axis] + after[axis];
    }
    if (!changes)
        return onnx_set_value(importer, x);
    struct convoy_node *node;
    status = onnx_emit(importer, CONVOY_OP_PAD, &x->tensor, 1, &shape, &node);
    if (status != 0)
        return status;
    memcpy(node->pad.before, before, sizeof before);
    memcpy(node->pad.after, after, sizeof after);
    return onnx_set_tensor(importer, node->output);
}

/* Before opset 13 everything from axis on counts as one dimension, and the default axis is 1. */
static int read_softmax(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    int64_t given;
    int axis;
    bool flattens = importer->opset < 13;
    int status = onnx_need_activation(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "axis", flattens ? 1 : -1, &given);
    if (status == 0)
        status = onnx_settle_axis(importer, given, x->shape.rank, &axis);
    if (status != 0)
        return status;
    int end = flattens ? x->shape.rank : axis + 1;
    if (x->shape.batch_axis >= axis && x->shape.batch_axis < end)
        return onnx_fail(importer, -ENOTSUP, "it normalises over the batch, which would mix images");
    struct convoy_node *node;
    status = onnx_emit(importer, CONVOY_OP_SOFTMAX, &x->tensor, 1, &x->shape, &node);
    if (status != 0)
        return status;
    node->softmax.axis = axis;
    node->softmax.axis_end = end;
    return onnx_set_tensor(importer, node->output);
}

const struct onnx_operator onnx_layout_operators[] = {
    {"Reshape", 2, 2, read_reshape},
    {"Flatten", 1, 1, read_flatten},
    {"Squeeze", 1, 2, read_squeeze},
    {"Unsqueeze", 1, 2, read_unsqueeze},
    {"Transpose", 1, 1, read_transpose},
    {"Concat", 1, CONVOY_MAX_NODE_INPUTS, read_concat},
    {"Pad", 1, 4, read_pad},
    {"Softmax", 1, 1, read_softmax},
    {NULL, 0, 0, NULL},
};
