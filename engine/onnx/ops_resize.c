/* Resize and Upsample: a product with a matrix of interpolation weights for each dimension that changes. */
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
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct resizing {
    char mode[16], coordinates[32], nearest[32];
    float cubic_a;
    bool antialias, exclude_outside;
    double scale[CONVOY_MAX_RANK];
    int64_t size[CONVOY_MAX_RANK];
};

/* Where in the input element `at` of a dimension of the result lies, as the operator's specification has it.
 */
static double source_of(const struct resizing *r, int64_t in, int64_t out, double scale, int64_t at)
{
    const char *coordinates = r->coordinates;
    double place = (double)at;
    if (strcmp(coordinates, "align_corners") == 0)
        return out == 1 ? 0
                        : place * (double)(in - 1) / (scale * (double)in - 1); /* not out, which is whole */
    if (strcmp(coordinates, "asymmetric") == 0)
        return place / scale;
    if (strcmp(coordinates, "tf_half_pixel_for_nn") == 0)
        return (place + 0.5) / scale;
    if (strcmp(coordinates, "pytorch_half_pixel") == 0 && out == 1)
        return 0;
    double half = (place + 0.5) / scale - 0.5;
    if (strcmp(coordinates, "half_pixel_symmetric") == 0)
        return (double)in / 2 * (1 - (double)out / (scale * (double)in)) + half;
    return half;
}

static double nearest_to(const struct resizing *r, double source)
{
    if (strcmp(r->nearest, "floor") == 0)
        return floor(source);
    if (strcmp(r->nearest, "ceil") == 0)
        return ceil(source);
    if (strcmp(r->nearest, "round_prefer_ceil") == 0)
        return floor(source + 0.5);
    return ceil(source - 0.5); /* round_prefer_floor */
}

/* The weight of an input element that lies `distance` away (Keys, Cubic convolution interpolation, 1981). */
static double kernel(const struct resizing *r, double distance)
{
    double x = fabs(distance), a = r->cubic_a;
    if (strcmp(r->mode, "linear") == 0)
        return x < 1 ? 1 - x : 0;
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

static int64_t clamp(int64_t value, int64_t limit)
{
    return value < 0 ? 0 : value >= limit ? limit - 1 : value;
}

/* Adds the weights of one element of the result to row[in]. */
static void add_weights(const struct resizing *r, int64_t in, double source, double scale, double *row)
{
    if (strcmp(r->mode, "nearest") == 0) {
        row[clamp((int64_t)nearest_to(r, source), in)] = 1;
        return;
    }
    double reach = strcmp(r->mode, "linear") == 0 ? 1 : 2, sum = 0;
    double narrower = r->antialias && scale < 1 ? scale : 1;
    int64_t first = (int64_t)floor(source - reach / narrower),
            last = (int64_t)ceil(source + reach / narrower);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = first; i <= last; i++) {
            double weight = kernel(r, ((double)i - source) * narrower);
            if (r->exclude_outside && (i < 0 || i >= in))
                weight = 0;
            if (pass == 0)
                sum += weight;
            else
                row[clamp(i, in)] += weight / sum;
        }
}

/* The matrix of in x out weights, or turned, out x in. */
static int weights(struct onnx_importer *importer, const struct resizing *r, int64_t in, int64_t out,
                   double scale, bool turned, int *tensor)
{
    struct convoy_shape shape = {.rank = 2, .batch_axis = -1, .dims = {turned ? out : in, turned ? in : out}};
    void *data;
    double *row = calloc((size_t)in, sizeof *row);
    if (row == NULL)
        return onnx_out_of_memory(importer);
    int status = onnx_allocate(importer, &shape, false, &data);
    for (int64_t at = 0; at < out && status == 0; at++) {
        memset(row, 0, (size_t)in * sizeof *row);
        add_weights(r, in, source_of(r, in, out, scale, at), scale, row);
        for (int64_t i = 0; i < in; i++)
            ((float *)data)[turned ? at * in + i : i * out + at] = (float)row[i];
    }
    free(row);
    return status == 0 ? onnx_emit_constant(importer, "weights", &shape, data, tensor) : status;
}

static int resize_axis(struct onnx_importer *importer, const struct resizing *r, int axis, int *tensor)
{
    const struct convoy_shape shape = importer->graph->tensors[*tensor].shape;
    int64_t in = shape.dims[axis], out = r->size[axis];
    int matrix;
    if (in == out && r->scale[axis] == 1)
        return 0;
    if (axis < shape.rank - 2 || axis == shape.batch_axis)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                           "it resizes dimension %d of %d; only the last two are supported", axis,
                           shape.rank);
    bool is_last = axis == shape.rank - 1;
    int status = weights(importer, r, in, out, r->scale[axis], !is_last, &matrix);
    if (status != 0)
        return status;
    return is_last ? onnx_emit_matmul(importer, *tensor, matrix, tensor)
                   : onnx_emit_matmul(importer, matrix, *tensor, tensor);
}

/* ---- What is asked for ---- */

/* Numbers from input `index`, floats or ints; *count is 0 where it is left out or empty. */
static int read_numbers(struct onnx_importer *importer, int index, const struct convoy_shape *x,
                        double *numbers, int *count)
{
    *count = 0;
    if (index >= importer->input_count || importer->inputs[index] == NULL)
        return 0;
    const struct onnx_value *value = importer->inputs[index];
    int64_t elements = convoy_shape_elements(&value->shape);
    if (value->kind == ONNX_ACTIVATION || elements > CONVOY_MAX_RANK)
        return onnx_refuse(importer, ONNX_CUT, "its scales or sizes are not constant");
    *count = (int)elements;
    for (int i = 0; i < *count; i++) {
        numbers[i] =
            value->kind == ONNX_INTS ? (double)value->ints[i].fixed : (double)onnx_floats(importer, value)[i];
        /* All images of a batch, as many as there are. */
        if (value->kind == ONNX_INTS && value->ints[i].batch != 0 && i == x->batch_axis)
            numbers[i] = (double)value->ints[i].batch;
        else if (value->kind == ONNX_INTS && value->ints[i].batch != 0)
            return onnx_refuse(importer, ONNX_BATCH_OF_ONE, "its sizes depend on the batch size");
        else if (index == 3 && i == x->batch_axis && importer->batch > 0)
            numbers[i] /= (double)importer->batch;
    }
    return 0;
}

static int set_sizes(struct onnx_importer *importer, const struct convoy_shape *x, const double *numbers,
                     int count, bool are_sizes, struct resizing *r)
{
    int64_t axes[CONVOY_MAX_RANK];
    int axis_count;
    int status = onnx_attribute_ints(importer, "axes", axes, CONVOY_MAX_RANK, &axis_count);
    if (status != 0)
        return status;
    if (count != (axis_count < 0 ? x->rank : axis_count))
        return onnx_fail(importer, -EINVAL, "it has %d scales or sizes for %d dimensions", count, x->rank);
    for (int axis = 0; axis < x->rank; axis++) {
        r->scale[axis] = 1;
        r->size[axis] = x->dims[axis];
    }
    for (int i = 0; i < count; i++) {
        int axis = i;
        if (axis_count >= 0)
            status = onnx_settle_axis(importer, axes[i], x->rank, &axis);
        if (status != 0)
            return status;
        double in = (double)x->dims[axis];
        double scale = are_sizes ? numbers[i] / in : numbers[i];
        double size = are_sizes ? numbers[i] : floor(in * (double)(float)numbers[i]);
        if (!(scale > 0) || !(size >= 1) || !(size < INT32_MAX))
            return onnx_fail(importer, -EINVAL, "it resizes dimension %d to %g", axis, size);
        r->scale[axis] = scale;
        r->size[axis] = (int64_t)size;
    }
    return 0;
}

static void set_word(char *word, size_t capacity, const char *text)
{
    snprintf(word, capacity, "%s", text);
}

static int read_modes(struct onnx_importer *importer, struct resizing *r)
{
    int64_t antialias, exclude_outside;
    char policy[32];
    bool old = importer->opset < 11; /* and Upsample, which ended before */
    int status = onnx_attribute_text(importer, "mode", r->mode, sizeof r->mode);
    if (status == 0)
        status = onnx_attribute_text(importer, "coordinate_transformation_mode", r->coordinates,
                                     sizeof r->coordinates);
    if (status == 0)
        status = onnx_attribute_text(importer, "nearest_mode", r->nearest, sizeof r->nearest);
    if (status == 0)
        status = onnx_attribute_text(importer, "keep_aspect_ratio_policy", policy, sizeof policy);
    if (status == 0)
        status = onnx_attribute_float(importer, "cubic_coeff_a", -0.75F, &r->cubic_a);
    if (status == 0)
        status = onnx_attribute_int(importer, "antialias", 0, &antialias);
    if (status == 0)
        status = onnx_attribute_int(importer, "exclude_outside", 0, &exclude_outside);
    if (status != 0)
        return status;
    r->antialias = antialias != 0;
    r->exclude_outside = exclude_outside != 0;
    if (r->mode[0] == '\0')
        set_word(r->mode, sizeof r->mode, "nearest");
    if (strcmp(r->mode, "bilinear") == 0) /* before opset 9 */
        set_word(r->mode, sizeof r->mode, "linear");
    if (r->coordinates[0] == '\0')
        set_word(r->coordinates, sizeof r->coordinates, old ? "asymmetric" : "half_pixel");
    if (r->nearest[0] == '\0')
        set_word(r->nearest, sizeof r->nearest, old ? "floor" : "round_prefer_floor");
    if (policy[0] != '\0' && strcmp(policy, "stretch") != 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                           "its keep_aspect_ratio_policy '%s' is not supported", policy);
    if (strcmp(r->mode, "nearest") != 0 && strcmp(r->mode, "linear") != 0 && strcmp(r->mode, "cubic") != 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "it has no mode '%s'", r->mode);
    static const char *const known[] = {"align_corners",      "asymmetric", "tf_half_pixel_for_nn",
                                        "pytorch_half_pixel", "half_pixel", "half_pixel_symmetric"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(r->coordinates, known[i]) == 0)
            return 0;
    return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its coordinates '%s' are not supported",
                       r->coordinates);
}

static int resize(struct onnx_importer *importer, int scales, int sizes)
{
    struct resizing r = {.cubic_a = -0.75F};
    double numbers[CONVOY_MAX_RANK];
    int x, count = 0;
    bool are_sizes = false;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = read_modes(importer, &r);
    if (status != 0)
        return status;
    const struct convoy_shape shape = importer->graph->tensors[x].shape;
    status = read_numbers(importer, scales, &shape, numbers, &count);
    if (status == 0 && count == 0 && sizes >= 0) {
        status = read_numbers(importer, sizes, &shape, numbers, &count);
        are_sizes = true;
    }
    if (status == 0)
        status = set_sizes(importer, &shape, numbers, count, are_sizes, &r);
    for (int axis = 0; axis < shape.rank && status == 0; axis++)
        status = resize_axis(importer, &r, axis, &x);
    return status == 0 ? onnx_set_tensor(importer, x) : status;
}

static int read_resize(struct onnx_importer *importer)
{
    return importer->opset < 11 ? resize(importer, 1, -1) : resize(importer, 2, 3);
}

/* Of opset 7 the scales are an attribute. */
static int read_upsample(struct onnx_importer *importer)
{
    const Onnx__AttributeProto *scales = onnx_attribute(importer, "scales");
    struct resizing r = {.cubic_a = -0.75F};
    double numbers[CONVOY_MAX_RANK];
    int x;
    if (scales == NULL)
        return resize(importer, 1, -1);
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = read_modes(importer, &r);
    if (status != 0)
        return status;
    if (scales->n_floats > CONVOY_MAX_RANK)
        return onnx_fail(importer, -EINVAL, "it has more scales than dimensions");
    for (size_t i = 0; i < scales->n_floats; i++)
        numbers[i] = (double)scales->floats[i];
    const struct convoy_shape shape = importer->graph->tensors[x].shape;
    status = set_sizes(importer, &shape, numbers, (int)scales->n_floats, false, &r);
    for (int axis = 0; axis < shape.rank && status == 0; axis++)
        status = resize_axis(importer, &r, axis, &x);
    return status == 0 ? onnx_set_tensor(importer, x) : status;
}

const struct onnx_operator onnx_resize_operators[] = {
    {"Resize", 1, 4, read_resize, ONNX_ANY_ORDER},
    {"Upsample", 1, 2, read_upsample, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
