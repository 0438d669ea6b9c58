#include "engine/onnx/shapes.h"

#include "engine/onnx/fail.h"

#include <errno.h>
#include <inttypes.h>

int onnx_check_shape(const struct onnx_importer *importer, const struct convoy_shape *shape)
{
    int64_t elements = 1;
    for (int axis = 0; axis < shape->rank; axis++) {
        if (shape->dims[axis] < 1)
            return onnx_fail(importer, -EINVAL,
                             "dimension %d of its result would be %" PRId64 ", less than 1", axis,
                             shape->dims[axis]);
        if (__builtin_mul_overflow(elements, shape->dims[axis], &elements) || elements > INT32_MAX)
            return onnx_fail(importer, -EINVAL, "its result would have more than 2^31-1 elements");
    }
    return 0;
}

int64_t onnx_product(const struct convoy_shape *shape, int from, int to)
{
    int64_t product = 1;
    for (int axis = from; axis < to; axis++)
        product *= shape->dims[axis];
    return product;
}

/* Texts for messages. */
struct shape_text {
    char text[160];
};

static struct shape_text text_of(const struct convoy_shape *shape)
{
    struct shape_text result;
    convoy_shape_text(shape, result.text, sizeof result.text);
    return result;
}

int onnx_broadcast(const struct onnx_importer *importer, const struct convoy_shape *a,
                   const struct convoy_shape *b, int keep, struct convoy_shape *out)
{
    int a_rank = a->rank - keep, b_rank = b->rank - keep;
    *out = (struct convoy_shape){.rank = a_rank > b_rank ? a_rank : b_rank, .batch_axis = -1};
    for (int axis = 0; axis < out->rank; axis++) {
        int in_a = axis - (out->rank - a_rank), in_b = axis - (out->rank - b_rank);
        int64_t a_size = in_a >= 0 ? a->dims[in_a] : 1, b_size = in_b >= 0 ? b->dims[in_b] : 1;
        bool a_batch = in_a >= 0 && in_a == a->batch_axis, b_batch = in_b >= 0 && in_b == b->batch_axis;
        bool fits = a_size == b_size || a_size == 1 || b_size == 1;
        /* N * d elements match N * d elements, or one; never a fixed number of them. */
        if (a_batch && b_batch)
            fits = a_size == b_size;
        else if (a_batch)
            fits = b_size == 1;
        else if (b_batch)
            fits = a_size == 1;
        if ((a_batch || b_batch) && out->batch_axis >= 0)
            fits = false;
        if (!fits)
            return onnx_fail(importer, -EINVAL, "shapes %s and %s cannot be combined", text_of(a).text,
                             text_of(b).text);
        out->dims[axis] = a_size == 1 ? b_size : a_size;
        if (a_batch || b_batch)
            out->batch_axis = axis;
    }
    return 0;
}

/* For a file whose batch is 1, where every axis with `before` elements before it could be the batch: the one
 * that is meant. -1: none. */
static int likely_axis(const struct convoy_shape *in, int64_t in_outer, int64_t before,
                       const struct convoy_shape *out)
{
    int64_t product = 1;
    for (int axis = 0; axis < out->rank; axis++) {
        if (product == before) {
            /* [L,1,D] to [L,D]: the batch went into the first dimension, the last is as it was. [L,1 x h,d]
             * to [L,hd]: behind the batch something remains. */
            bool behind = axis > 0 && out->dims[axis] != 1 && in->batch_axis + 1 < in->rank;
            bool kept = behind && in->dims[in->batch_axis] == in_outer &&
                        in->dims[in->batch_axis + 1] == out->dims[axis];
            return kept || (behind && axis == out->rank - 1) ? axis - 1 : axis;
        }
        product *= out->dims[axis];
    }
    product = 1;
    for (int axis = 0; axis < out->rank; axis++) {
        if (before % product == 0 && out->dims[axis] % (before / product) == 0)
            return axis;
        product *= out->dims[axis];
    }
    return -1;
}

int onnx_place_batch(const struct onnx_importer *importer, const struct convoy_shape *in, int64_t in_outer,
                     int axis, struct convoy_shape *out, int64_t *outer)
{
    out->batch_axis = -1;
    *outer = 1;
    if (in->batch_axis < 0)
        return 0;
    /* Elements keep their order, so the axis must have as many elements before it as the batch had. */
    int64_t before = onnx_product(in, 0, in->batch_axis) * in_outer;
    if (importer->batch == 1)
        axis = likely_axis(in, in_outer, before, out);
    int64_t there = axis >= 0 ? onnx_product(out, 0, axis) : 1;
    if (axis < 0 || before % there != 0 || out->dims[axis] % (before / there) != 0)
        return onnx_refuse(importer, ONNX_IMAGES_APART,
                           "it turns the shape %s into one in which images of a batch would be mixed",
                           text_of(in).text);
    out->batch_axis = axis;
    *outer = before / there;
    return 0;
}

/* The elements of one image that remain for Reshape's -1. */
static int infer(const struct onnx_importer *importer, const struct convoy_shape *in, int64_t elements,
                 int axis, struct convoy_shape *out)
{
    int64_t others = 1;
    for (int i = 0; i < out->rank; i++)
        if (i != axis && (out->dims[i] < 1 || __builtin_mul_overflow(others, out->dims[i], &others)))
            return onnx_fail(importer, -EINVAL,
                             "the shape that it asks for has a dimension of zero or overflows");
    if (axis >= 0 && elements % others == 0) {
        out->dims[axis] = elements / others;
        others = elements;
    }
    if (others != elements)
        return onnx_fail(importer, -EINVAL,
                         "the shape %s has %" PRId64
                         " elements, which do not fill the shape that it asks for",
                         text_of(in).text, elements);
    return 0;
}

/* The file has a number for the batch and writes it out: find the axis that it went into. */
static int place_fixed_batch(const struct onnx_importer *importer, const struct convoy_shape *in,
                             int64_t in_outer, int inferred, struct convoy_shape *out, int64_t *outer)
{
    int64_t all;
    if (__builtin_mul_overflow(convoy_shape_elements(in), importer->batch, &all))
        return onnx_fail(importer, -EINVAL, "the number of its elements overflows");
    int status = infer(importer, in, all, inferred, out);
    if (status != 0)
        return status;
    int64_t before = onnx_product(in, 0, in->batch_axis) * in_outer, product = 1;
    for (int axis = 0; axis < out->rank; axis++) {
        int64_t here = before % product == 0 ? before / product : 0;
        if (here > 0 && out->dims[axis] % here == 0 && out->dims[axis] / here % importer->batch == 0) {
            out->dims[axis] /= importer->batch;
            return onnx_place_batch(importer, in, in_outer, axis, out, outer);
        }
        product *= out->dims[axis];
    }
    return onnx_place_batch(importer, in, in_outer, -1, out, outer);
}

int onnx_reshape_targets(const struct onnx_importer *importer, const struct convoy_shape *in,
                         int64_t in_outer, const struct onnx_int *targets, int count, bool allow_zero,
                         struct convoy_shape *out, int64_t *outer)
{
    *out = (struct convoy_shape){.rank = count, .batch_axis = -1};
    int batch = -1, inferred = -1;
    for (int axis = 0; axis < count; axis++) {
        struct onnx_int target = targets[axis];
        bool copied = target.fixed == 0 && target.batch == 0 && !allow_zero;
        if (copied && axis >= in->rank)
            return onnx_fail(importer, -EINVAL, "it copies dimension %d of the shape %s, which has none",
                             axis, text_of(in).text);
        out->dims[axis] = copied ? in->dims[axis] : target.batch != 0 ? target.batch : target.fixed;
        if (target.batch != 0 || (copied && axis == in->batch_axis)) {
            if (batch >= 0 || target.fixed != 0 || target.batch < 0)
                return onnx_refuse(importer, ONNX_BATCH_OF_ONE,
                                   "the batch size enters the shape that it asks for in a way that "
                                   "cannot be followed");
            batch = axis;
        } else if (!copied && target.fixed == -1) {
            if (inferred >= 0)
                return onnx_fail(importer, -EINVAL,
                                 "more than one dimension of the shape that it asks for is -1");
            inferred = axis;
        } else if (out->dims[axis] < 1) {
            return onnx_fail(importer, -EINVAL, "it asks for a dimension of %" PRId64, out->dims[axis]);
        }
    }
    int64_t elements = convoy_shape_elements(in);
    if (in->batch_axis < 0 || batch >= 0) {
        int status = infer(importer, in, elements, inferred, out);
        return status != 0 ? status : onnx_place_batch(importer, in, in_outer, batch, out, outer);
    }
    if (importer->batch > 0)
        return place_fixed_batch(importer, in, in_outer, inferred, out, outer);
    if (inferred < 0)
        return onnx_refuse(importer, ONNX_OPEN_SHAPE,
                           "it reshapes %s, of an open batch, into a shape of fixed size", text_of(in).text);
    int status = infer(importer, in, elements, inferred, out);
    return status != 0 ? status : onnx_place_batch(importer, in, in_outer, inferred, out, outer);
}
