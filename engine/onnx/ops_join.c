/* Operators that join or repeat: Concat, Tile, Expand. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/names.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

/* Whether two shapes may be joined along axis. A constant may lack the batch. */
static int check_part(struct onnx_importer *importer, const struct onnx_value *first,
                      const struct onnx_value *part, int axis)
{
    const struct convoy_shape *a = &first->shape, *b = &part->shape;
    bool fits =
        a->rank == b->rank && (a->batch_axis == b->batch_axis || a->batch_axis < 0 || b->batch_axis < 0);
    for (int i = 0; fits && i < b->rank; i++)
        fits = i == axis || a->dims[i] == b->dims[i];
    char one[160], other[160];
    return fits ? 0
                : onnx_fail(importer, -EINVAL, "shapes %s and %s cannot be joined along axis %d",
                            convoy_shape_text(a, one, sizeof one), convoy_shape_text(b, other, sizeof other),
                            axis);
}

static int concat_ints(struct onnx_importer *importer, int axis)
{
    struct convoy_shape shape = importer->inputs[0]->shape;
    shape.dims[axis] = 0;
    for (int i = 0; i < importer->input_count; i++)
        if (importer->inputs[i]->shape.batch_axis >= 0)
            shape.batch_axis = importer->inputs[i]->shape.batch_axis;
    if (axis == shape.batch_axis)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it joins along the batch, which would mix images");
    for (int i = 0; i < importer->input_count; i++)
        if (__builtin_add_overflow(shape.dims[axis], importer->inputs[i]->shape.dims[axis],
                                   &shape.dims[axis]))
            return onnx_fail(importer, -EINVAL, "the dimension that it makes overflows");
    return concat_constants(importer, &shape, axis);
}

/* Takes inputs without elements away; returns the first that remains. */
static const struct onnx_value *drop_empty(struct onnx_importer *importer)
{
    int kept = 0;
    for (int i = 0; i < importer->input_count; i++)
        if (importer->inputs[i]->kind != ONNX_INTS || convoy_shape_elements(&importer->inputs[i]->shape) > 0)
            importer->inputs[kept++] = importer->inputs[i];
    importer->input_count = kept;
    return importer->inputs[0];
}

static int read_concat(struct onnx_importer *importer)
{
    int64_t given;
    int axis, tensors[ONNX_MAX_INPUTS], result;
    bool all_ints = true;
    const struct onnx_value *first = importer->inputs[0];
    if (onnx_attribute(importer, "axis") == NULL)
        return onnx_fail(importer, -EINVAL, "its axis is missing");
    int status = onnx_attribute_int(importer, "axis", 0, &given);
    for (int i = 0; status == 0 && i < importer->input_count; i++) {
        const struct onnx_value *part = importer->inputs[i];
        if (part == NULL)
            return onnx_fail(importer, -EINVAL, "its input %d is missing", i);
        all_ints &= part->kind == ONNX_INTS;
    }
    if (!all_ints)
        first = drop_empty(importer);
    if (status == 0)
        status = onnx_settle_axis(importer, given, first->shape.rank, &axis);
    for (int i = 0; status == 0 && i < importer->input_count; i++)
        status = check_part(importer, first, importer->inputs[i], axis);
    if (status != 0)
        return status;
    if (all_ints)
        return concat_ints(importer, axis);
    for (int i = 0; status == 0 && i < importer->input_count; i++)
        status = onnx_need_tensor(importer, i, &tensors[i]);
    if (status == 0)
        status = onnx_emit_concat(importer, tensors, importer->input_count, axis, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int expand_ints(struct onnx_importer *importer, const struct onnx_value *x,
                       const struct convoy_shape *shape)
{
    int64_t steps[CONVOY_MAX_RANK];
    for (int axis = 0; axis < shape->rank; axis++) {
        int from = axis - (shape->rank - x->shape.rank);
        steps[axis] =
            from >= 0 && x->shape.dims[from] > 1 ? onnx_product(&x->shape, from + 1, x->shape.rank) : 0;
    }
    return onnx_set_strided(importer, x, shape, 0, steps);
}

static int read_expand(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    struct convoy_shape wanted, shape;
    int result;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_input_shape(importer, 1, &wanted);
    if (status != 0)
        return status;
    /* The file may write out the number that its batch has. */
    int place = x->shape.batch_axis + wanted.rank - x->shape.rank;
    if (x->shape.batch_axis >= 0 && wanted.batch_axis < 0 && place >= 0 && importer->batch > 0 &&
        wanted.dims[place] == x->shape.dims[x->shape.batch_axis] * importer->batch)
        wanted.dims[place] = 1;
    /* A constant for each image: the batch is put in last. */
    int batch_axis = x->shape.batch_axis < 0 ? wanted.batch_axis : -1;
    if (batch_axis >= 0)
        wanted.batch_axis = -1;
    status = onnx_broadcast(importer, &x->shape, &wanted, 0, &shape);
    if (status == 0)
        status = onnx_check_shape(importer, &shape);
    if (status != 0)
        return status;
    if (x->kind == ONNX_INTS) {
        shape.batch_axis = batch_axis < 0 ? shape.batch_axis : batch_axis + shape.rank - wanted.rank;
        return expand_ints(importer, x, &shape);
    }
    status = onnx_need_tensor(importer, 0, &result);
    if (status == 0 && batch_axis >= 0) {
        shape.batch_axis = batch_axis + shape.rank - wanted.rank;
        status = onnx_emit_for_each_image(importer, result, &shape, &result);
    }
    if (status == 0)
        status = onnx_emit_expanded(importer, result, &shape, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* A constant, once for each image; other dimensions stay as they are. */
static int tile_for_each_image(struct onnx_importer *importer, const struct onnx_value *x,
                               const struct convoy_shape *repeats)
{
    struct convoy_shape shape = x->shape;
    int tensor;
    for (int axis = 0; axis < shape.rank; axis++)
        if (x->kind == ONNX_ACTIVATION || repeats->dims[axis] != 1)
            return onnx_refuse(importer, ONNX_IMAGES_APART, "it repeats the images of a batch");
    shape.batch_axis = repeats->batch_axis;
    int status = onnx_need_tensor(importer, 0, &tensor);
    if (status == 0)
        status = onnx_emit_for_each_image(importer, tensor, &shape, &tensor);
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

/* Many copies of few elements cost memory: the result is checked like any other. */
static int read_tile(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    struct convoy_shape wanted;
    const int64_t *repeats = wanted.dims;
    int result;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_input_shape(importer, 1, &wanted);
    if (status != 0)
        return status;
    struct convoy_shape in = x->shape;
    if (wanted.rank != in.rank)
        return onnx_fail(importer, -EINVAL, "it repeats %d dimensions of %d", wanted.rank, in.rank);
    if (wanted.batch_axis >= 0)
        return tile_for_each_image(importer, x, &wanted);
    /* [a, b] becomes [1, a, 1, b], is repeated along the ones, and taken together. */
    struct convoy_shape apart = {.batch_axis = -1}, repeated = {.batch_axis = -1}, out = in;
    for (int axis = 0; axis < in.rank; axis++) {
        if (repeats[axis] < 1 || __builtin_mul_overflow(in.dims[axis], repeats[axis], &out.dims[axis]))
            return onnx_fail(importer, -EINVAL, "it repeats a dimension %" PRId64 " times", repeats[axis]);
        if (axis == in.batch_axis && repeats[axis] != 1)
            return onnx_refuse(importer, ONNX_IMAGES_APART, "it repeats the images of a batch");
        if (repeats[axis] > 1) {
            if (apart.rank == CONVOY_MAX_RANK)
                return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                                   "it repeats more dimensions than are supported");
            repeated.dims[apart.rank] = repeats[axis];
            apart.dims[apart.rank++] = 1;
        }
        if (apart.rank == CONVOY_MAX_RANK)
            return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                               "it repeats more dimensions than are supported");
        if (axis == in.batch_axis)
            apart.batch_axis = apart.rank;
        repeated.dims[apart.rank] = in.dims[axis];
        apart.dims[apart.rank++] = in.dims[axis];
    }
    repeated.rank = apart.rank;
    repeated.batch_axis = apart.batch_axis;
    status = onnx_check_shape(importer, &out);
    if (status != 0)
        return status;
    if (x->kind == ONNX_INTS) {
        int64_t steps[CONVOY_MAX_RANK];
        for (int axis = 0; axis < apart.rank; axis++)
            steps[axis] = apart.dims[axis] == 1 ? 0 : onnx_product(&apart, axis + 1, apart.rank);
        status = onnx_set_strided(importer, x, &repeated, 0, steps);
        struct onnx_value *made = onnx_find(importer, importer->node->output[0]);
        if (status == 0 && made != NULL)
            made->shape = out;
        return status;
    }
    status = onnx_emit_reshape(importer, x->tensor, &apart, &result);
    if (status == 0)
        status = onnx_emit_expanded(importer, result, &repeated, &result);
    if (status == 0)
        status = onnx_emit_reshape(importer, result, &out, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

const struct onnx_operator onnx_join_operators[] = {
    {"Concat", 1, ONNX_MAX_INPUTS, read_concat, ONNX_ANY_ORDER},
    {"Expand", 2, 2, read_expand, ONNX_ANY_ORDER},
    {"Tile", 2, 2, read_tile, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
