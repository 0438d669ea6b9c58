/* Operators that take some of the elements or put them into another order: Slice, Split, Gather. */
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

/* ---- Activations ---- */

static int emit_steps(struct onnx_importer *importer, int tensor, int axis, int64_t start, int64_t step,
                      int64_t count, int *result)
{
    int64_t *indices = malloc(((size_t)count + 1) * sizeof *indices);
    if (indices == NULL)
        return onnx_out_of_memory(importer);
    for (int64_t i = 0; i < count; i++)
        indices[i] = start + i * step;
    int status = onnx_emit_take(importer, tensor, axis, indices, count, result);
    free(indices);
    return status;
}

/* ---- Slice ---- */

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* One axis of a Slice, as the operator's specification clamps it. Returns how many elements are taken. */
static int64_t slice_axis(int64_t size, int64_t *start, int64_t end, int64_t step)
{
    *start = clamp(*start < 0 ? *start + size : *start, 0, step > 0 ? size : size - 1);
    end = clamp(end < 0 ? end + size : end, step > 0 ? 0 : -1, size);
    int64_t span = step > 0 ? end - *start : *start - end, stride = step > 0 ? step : -step;
    return span > 0 ? (span - 1) / stride + 1 : 0;
}

struct slices {
    int count;
    int axes[CONVOY_MAX_RANK];
    int64_t starts[CONVOY_MAX_RANK], ends[CONVOY_MAX_RANK], steps[CONVOY_MAX_RANK];
};

/* Input `index` or an attribute as numbers. Where one depends on the batch, whose number the file leaves
 * open, it must be all of a batch axis: INT64_MAX stands for it. */
static int slice_numbers(struct onnx_importer *importer, const struct onnx_value *x, int index,
                         const char *attribute, int64_t *values, int *count)
{
    if (importer->opset < 10)
        return onnx_attribute_ints(importer, attribute, values, CONVOY_MAX_RANK, count);
    const struct onnx_value *value = index < importer->input_count ? importer->inputs[index] : NULL;
    *count = -1;
    if (value == NULL)
        return 0;
    int64_t elements = convoy_shape_elements(&value->shape);
    if (value->kind != ONNX_INTS || value->shape.rank > 1 || elements > CONVOY_MAX_RANK)
        return onnx_refuse(importer, ONNX_CUT, "its %s are not constant integers, one for each axis",
                           attribute);
    *count = (int)elements;
    for (int i = 0; i < *count; i++) {
        struct onnx_int number = value->ints[i];
        values[i] = number.fixed;
        if (number.batch == 0)
            continue;
        if (x->shape.batch_axis < 0 || number.fixed != 0 ||
            number.batch != x->shape.dims[x->shape.batch_axis])
            return onnx_refuse(importer, ONNX_BATCH_OF_ONE, "its %s depend on the batch size", attribute);
        values[i] = INT64_MAX;
    }
    return 0;
}

static int read_slices(struct onnx_importer *importer, const struct onnx_value *x, struct slices *s)
{
    int64_t axes[CONVOY_MAX_RANK];
    int start_count = -1, end_count = -1, axis_count = -1, step_count = -1, rank = x->shape.rank;
    unsigned seen = 0;
    int status = slice_numbers(importer, x, 1, "starts", s->starts, &start_count);
    if (status == 0)
        status = slice_numbers(importer, x, 2, "ends", s->ends, &end_count);
    if (status == 0)
        status = onnx_ints_of_either_form(importer, 10, 3, "axes", axes, CONVOY_MAX_RANK, &axis_count);
    if (status == 0 && importer->opset >= 10)
        status = onnx_input_ints(importer, 4, s->steps, CONVOY_MAX_RANK, &step_count);
    if (status != 0)
        return status;
    if (start_count < 0 || start_count != end_count || (axis_count >= 0 && axis_count != start_count) ||
        (step_count >= 0 && step_count != start_count) || start_count > rank)
        return onnx_fail(importer, -EINVAL, "its starts, ends, axes and steps do not go together");
    s->count = start_count;
    for (int i = 0; i < s->count; i++) {
        if (step_count < 0)
            s->steps[i] = 1;
        status = onnx_settle_axis(importer, axis_count >= 0 ? axes[i] : i, rank, &s->axes[i]);
        if (status != 0)
            return status;
        int axis = s->axes[i];
        if (s->steps[i] == 0 || s->steps[i] < -INT32_MAX || s->steps[i] > INT32_MAX ||
            x->shape.dims[axis] == 0)
            return onnx_fail(importer, -EINVAL, "its step is 0 or out of range, or its input is empty");
        if ((seen & (1U << axis)) != 0)
            return onnx_fail(importer, -EINVAL, "its axes name %d twice", axis);
        seen |= 1U << axis;
    }
    return 0;
}

/* Whether the slice takes all images, however many the batch has. */
static bool takes_all_images(const struct onnx_importer *importer, const struct onnx_value *x, int64_t start,
                             int64_t end, int64_t step)
{
    int64_t images = importer->batch > 0 ? importer->batch : 1;
    int64_t all = x->shape.dims[x->shape.batch_axis] * images;
    return start == 0 && step == 1 && (end >= INT32_MAX || (importer->batch > 0 && end >= all));
}

static int slice_tensor(struct onnx_importer *importer, const struct onnx_value *x, struct slices *s)
{
    int tensor = x->tensor, status = 0;
    struct convoy_shape shape = x->shape;
    for (int i = 0; i < s->count; i++) {
        int64_t start = s->starts[i];
        if (s->axes[i] != shape.batch_axis)
            shape.dims[s->axes[i]] = slice_axis(shape.dims[s->axes[i]], &start, s->ends[i], s->steps[i]);
    }
    if (convoy_shape_elements(&shape) == 0)
        return onnx_set_empty(importer, &shape);
    for (int i = 0; i < s->count && status == 0; i++) {
        int axis = s->axes[i];
        if (axis == x->shape.batch_axis) {
            if (!takes_all_images(importer, x, s->starts[i], s->ends[i], s->steps[i]))
                return onnx_refuse(importer, ONNX_IMAGES_APART, "it takes some of the images of a batch");
            continue;
        }
        int64_t start = s->starts[i];
        int64_t count = slice_axis(x->shape.dims[axis], &start, s->ends[i], s->steps[i]);
        status = emit_steps(importer, tensor, axis, start, s->steps[i], count, &tensor);
    }
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

static int read_slice(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    struct slices s = {0};
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = read_slices(importer, x, &s);
    if (status != 0)
        return status;
    if (x->kind == ONNX_ACTIVATION)
        return slice_tensor(importer, x, &s);
    struct convoy_shape shape = x->shape;
    int64_t moves[CONVOY_MAX_RANK], first = 0;
    for (int axis = 0; axis < shape.rank; axis++)
        moves[axis] = onnx_product(&x->shape, axis + 1, shape.rank);
    for (int i = 0; i < s.count; i++) {
        int axis = s.axes[i];
        int64_t start = s.starts[i];
        shape.dims[axis] = slice_axis(x->shape.dims[axis], &start, s.ends[i], s.steps[i]);
        first += start * moves[axis];
        moves[axis] *= s.steps[i];
    }
    if (x->kind == ONNX_FLOATS && convoy_shape_elements(&shape) == 0)
        return onnx_set_empty(importer, &shape);
    return onnx_set_strided(importer, x, &shape, first, moves);
}

/* ---- Split ---- */

static int split_lengths(struct onnx_importer *importer, int64_t size, int64_t *lengths, int outputs)
{
    int count = -1;
    int64_t parts = outputs, all = 0;
    int status = onnx_ints_of_either_form(importer, 13, 1, "split", lengths, ONNX_MAX_INPUTS, &count);
    if (status == 0)
        status = onnx_attribute_int(importer, "num_outputs", outputs, &parts);
    if (status != 0)
        return status;
    if (count < 0) { /* equal parts, of which the last may be smaller */
        if (parts != outputs || (importer->opset < 18 && size % outputs != 0))
            return onnx_fail(importer, -EINVAL, "its input is no whole number of %d parts", outputs);
        count = outputs;
        for (int i = 0; i < count; i++) {
            int64_t length = (size + outputs - 1) / outputs;
            lengths[i] = length < size - all ? length : size - all;
            all += lengths[i];
        }
    } else {
        for (int i = 0; i < count; i++)
            if (lengths[i] < 0 || __builtin_add_overflow(all, lengths[i], &all))
                return onnx_fail(importer, -EINVAL, "one of its parts has %" PRId64 " elements", lengths[i]);
    }
    if (count != outputs || all != size)
        return onnx_fail(importer, -EINVAL, "its %d parts are not those of its input", count);
    return 0;
}

static int set_part(struct onnx_importer *importer, const struct onnx_value *x, int axis, int64_t start,
                    int64_t length)
{
    struct convoy_shape shape = x->shape;
    int64_t steps[CONVOY_MAX_RANK];
    int tensor;
    if (x->kind == ONNX_ACTIVATION) {
        int status = onnx_emit_crop(importer, x->tensor, axis, start, length, &tensor);
        return status == 0 ? onnx_set_tensor(importer, tensor) : status;
    }
    shape.dims[axis] = length;
    for (int i = 0; i < shape.rank; i++)
        steps[i] = onnx_product(&x->shape, i + 1, shape.rank);
    return onnx_set_strided(importer, x, &shape, start * steps[axis], steps);
}

static int read_split(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    int64_t given, *lengths = NULL, start = 0;
    int axis;
    int outputs = (int)importer->node->n_output;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "axis", 0, &given);
    if (status == 0)
        status = onnx_settle_axis(importer, given, x->shape.rank, &axis);
    if (status == 0 && outputs > ONNX_MAX_INPUTS)
        status = onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "it has more than %d outputs", ONNX_MAX_INPUTS);
    if (status != 0)
        return status;
    lengths = calloc(ONNX_MAX_INPUTS, sizeof *lengths);
    if (lengths == NULL)
        return onnx_out_of_memory(importer);
    status = split_lengths(importer, x->shape.dims[axis], lengths, outputs);
    for (int i = 0; i < outputs && status == 0; i++) {
        importer->output = i;
        struct convoy_shape shape = x->shape;
        shape.dims[axis] = 0;
        if (importer->node->output[i][0] != '\0' && lengths[i] == 0)
            status = onnx_set_empty(importer, &shape);
        else if (importer->node->output[i][0] != '\0')
            status = set_part(importer, x, axis, start, lengths[i]);
        start += lengths[i];
    }
    free(lengths);
    return status;
}

/* ---- Gather ---- */

static int gather_constants(struct onnx_importer *importer, const struct onnx_value *x,
                            const struct onnx_value *indices, int axis)
{
    void *data;
    struct convoy_shape shape = {.batch_axis = -1};
    for (int i = 0; i < axis; i++)
        shape.dims[shape.rank++] = x->shape.dims[i];
    for (int i = 0; i < indices->shape.rank; i++)
        shape.dims[shape.rank++] = indices->shape.dims[i];
    for (int i = axis + 1; i < x->shape.rank; i++)
        shape.dims[shape.rank++] = x->shape.dims[i];

    int64_t count = convoy_shape_elements(&indices->shape), limit = x->shape.dims[axis];
    int64_t outer = onnx_product(&x->shape, 0, axis),
            inner = onnx_product(&x->shape, axis + 1, x->shape.rank);
    bool ints = x->kind == ONNX_INTS;
    for (int64_t i = 0; i < count; i++)
        if (indices->ints[i].batch != 0 || indices->ints[i].fixed < -limit || indices->ints[i].fixed >= limit)
            return onnx_fail(importer, -EINVAL, "one of its indices is outside its input");
    if (!ints && count == 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "it gathers nothing");
    int status = onnx_allocate(importer, &shape, ints, &data);
    if (status != 0)
        return status;
    size_t size = ints ? sizeof(struct onnx_int) : sizeof(float);
    const uint8_t *from = ints ? (const void *)x->ints : (const void *)onnx_floats(importer, x);
    uint8_t *to = data;
    for (int64_t block = 0; block < outer; block++) {
        for (int64_t i = 0; i < count; i++) {
            int64_t index = indices->ints[i].fixed;
            index += index < 0 ? limit : 0;
            memcpy(to, from + (size_t)((block * limit + index) * inner) * size, (size_t)inner * size);
            to += (size_t)inner * size;
        }
    }
    return ints ? onnx_set_ints(importer, &shape, data) : onnx_set_floats(importer, &shape, data);
}

/* Of an activation: the axis, cut into runs of neighbours, joined again and given the shape of the indices.
 */
static int gather_activation(struct onnx_importer *importer, const struct onnx_value *x,
                             const struct onnx_value *indices, int axis)
{
    struct convoy_shape shape = {.batch_axis = -1};
    int64_t limit = x->shape.dims[axis], count = convoy_shape_elements(&indices->shape);
    int tensor = x->tensor, status = 0;
    if (count < 1)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "it gathers nothing");
    bool the_one = axis == x->shape.batch_axis && importer->batch == 1 && limit == 1 && count == 1;
    if (axis == x->shape.batch_axis && !the_one)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it takes some of the images of a batch");
    int64_t *places = malloc((size_t)count * sizeof *places);
    if (places == NULL)
        return onnx_out_of_memory(importer);
    for (int64_t i = 0; i < count && status == 0; i++) {
        places[i] = indices->ints[i].fixed + (indices->ints[i].fixed < 0 ? limit : 0);
        if (indices->ints[i].batch != 0 || places[i] < 0 || places[i] >= limit)
            status = onnx_fail(importer, -EINVAL, "one of its indices is outside its input");
    }
    if (status == 0 && !the_one)
        status = onnx_emit_take(importer, tensor, axis, places, count, &tensor);
    free(places);
    if (status != 0)
        return status;
    for (int i = 0; i < x->shape.rank; i++) {
        if (i == x->shape.batch_axis && i != axis)
            shape.batch_axis = shape.rank;
        for (int k = 0; i == axis && k < indices->shape.rank; k++)
            shape.dims[shape.rank++] = indices->shape.dims[k];
        if (i != axis)
            shape.dims[shape.rank++] = x->shape.dims[i];
    }
    if (the_one) {
        int64_t outer;
        status = onnx_place_batch(importer, &x->shape, x->outer, -1, &shape, &outer);
        if (status == 0)
            status = onnx_emit_rearranged(importer, tensor, x->outer, &shape, outer, &tensor);
        importer->outer = outer;
    } else {
        status = onnx_emit_reshape(importer, tensor, &shape, &tensor);
    }
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

/* Along the batch axis, at places that lie in each image's own part of it: those are taken from each image.
 * In a file whose batch is 1 they may be constants. */
static int gather_own(struct onnx_importer *importer, const struct onnx_value *x,
                      const struct onnx_value *indices, int axis)
{
    bool of_one = indices->shape.batch_axis < 0;
    int batch_axis = of_one ? 0 : indices->shape.batch_axis;
    int64_t limit = x->shape.dims[axis], count = convoy_shape_elements(&indices->shape);
    struct convoy_shape apart = {.batch_axis = axis}, shape = {.batch_axis = axis + batch_axis};
    int tensor = -1, status = 0;
    if (axis != x->shape.batch_axis || x->outer != 1 || x->shape.rank == CONVOY_MAX_RANK ||
        onnx_product(&indices->shape, 0, batch_axis) != 1)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it takes some of the images of a batch");
    int64_t *places = malloc(((size_t)count + 1) * sizeof *places);
    if (places == NULL)
        return onnx_out_of_memory(importer);
    for (int64_t i = 0; i < count && status == 0; i++) {
        struct onnx_int index = indices->ints[i];
        places[i] = index.fixed + (of_one && index.fixed < 0 ? limit : 0);
        bool inside = index.batch == 0 && places[i] >= 0 && places[i] < limit;
        if (of_one && !inside)
            status = onnx_fail(importer, -EINVAL, "one of its indices is outside its input");
        else if (!inside || (!of_one && index.image != limit))
            status = onnx_refuse(importer, ONNX_IMAGES_APART, "it takes elements of other images of a batch");
    }
    for (int i = 0; i < x->shape.rank; i++) {
        if (i == axis)
            apart.dims[apart.rank++] = 1;
        apart.dims[apart.rank++] = x->shape.dims[i];
        for (int k = 0; i == axis && k < indices->shape.rank; k++)
            shape.dims[shape.rank++] = indices->shape.dims[k];
        if (i != axis)
            shape.dims[shape.rank++] = x->shape.dims[i];
    }
    if (status == 0)
        status = onnx_emit_reshape(importer, x->tensor, &apart, &tensor);
    if (status == 0)
        status = onnx_emit_take(importer, tensor, axis + 1, places, count, &tensor);
    free(places);
    if (status == 0)
        status = onnx_emit_reshape(importer, tensor, &shape, &tensor);
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

static int read_gather(struct onnx_importer *importer)
{
    const struct onnx_value *x, *indices = importer->inputs[1];
    int64_t given;
    int axis = 0;
    int status = onnx_need_input(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "axis", 0, &given);
    if (status == 0)
        status = onnx_settle_axis(importer, given, x->shape.rank, &axis);
    if (status != 0)
        return status;
    if (indices == NULL || indices->kind != ONNX_INTS ||
        x->shape.rank - 1 + indices->shape.rank > CONVOY_MAX_RANK)
        return onnx_refuse(importer, ONNX_CUT, "its indices are not constant integers");
    /* Behind a batch of 1 that was merged with what follows: its elements are one image's. */
    bool of_one = importer->batch == 1 && axis == x->shape.batch_axis && x->shape.dims[axis] > 1 &&
                  indices->shape.rank > 0 && convoy_shape_elements(&indices->shape) > 0;
    if ((indices->shape.batch_axis >= 0 || of_one) && x->kind == ONNX_ACTIVATION)
        return gather_own(importer, x, indices, axis);
    if (indices->shape.batch_axis >= 0)
        return onnx_refuse(importer, ONNX_BATCH_OF_ONE, "its indices differ from image to image");
    return x->kind == ONNX_ACTIVATION ? gather_activation(importer, x, indices, axis)
                                      : gather_constants(importer, x, indices, axis);
}

const struct onnx_operator onnx_take_operators[] = {
    {"Slice", 1, 5, read_slice, ONNX_ANY_ORDER},
    {"Split", 1, 2, read_split, ONNX_ANY_ORDER},
    {"Gather", 2, 2, read_gather, ONNX_REORDERS},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
