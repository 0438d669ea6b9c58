/* Conv, the pools and what becomes one (GlobalAveragePool, ReduceMean), BatchNormalization. */
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
#include <stdlib.h>
#include <string.h>

/* A window that slides over H and W. */
struct window {
    int64_t size[2], stride[2], dilation[2], pad[4];
    bool ceil_mode;
};

/* Larger numbers than any tensor is long; keeps the arithmetic below far from overflowing. */
#define LARGEST INT32_MAX

static int two_numbers(struct onnx_importer *importer, const char *name, int64_t least, int64_t values[2])
{
    int count;
    int64_t read[2];
    int status = onnx_attribute_ints(importer, name, read, 2, &count);
    if (status != 0 || count < 0)
        return status;
    if (count != 2)
        return onnx_fail(importer, -EINVAL, "attribute '%s' has %d numbers where height and width ask for 2",
                         name, count);
    for (int i = 0; i < 2; i++) {
        if (read[i] < least || read[i] > LARGEST)
            return onnx_fail(importer, -EINVAL, "attribute '%s' is %" PRId64 ", out of range", name, read[i]);
        values[i] = read[i];
    }
    return 0;
}

/* Written as ONNX does: top, left, bottom, right. */
static int read_pads(struct onnx_importer *importer, struct window *window)
{
    int count;
    int status = onnx_attribute_ints(importer, "pads", window->pad, 4, &count);
    if (status != 0 || count < 0)
        return status;
    if (count != 4)
        return onnx_fail(importer, -EINVAL,
                         "attribute 'pads' has %d numbers where height and width ask for 4", count);
    for (int i = 0; i < 4; i++)
        if (window->pad[i] < 0 || window->pad[i] > LARGEST)
            return onnx_fail(importer, -EINVAL, "attribute 'pads' has %" PRId64 ", out of range",
                             window->pad[i]);
    return 0;
}

/* auto_pad as the operator's specification gives it: SAME makes ceil(input / stride) outputs. */
static void pad_for_same(struct window *window, int dim, int64_t input, bool more_at_end)
{
    int64_t outputs = (input + window->stride[dim] - 1) / window->stride[dim];
    int64_t reach = (window->size[dim] - 1) * window->dilation[dim] + 1;
    int64_t total = (outputs - 1) * window->stride[dim] + reach - input;
    if (total < 0)
        total = 0;
    window->pad[dim] = more_at_end ? total / 2 : total - total / 2;
    window->pad[2 + dim] = total - window->pad[dim];
}

/* Reads strides, dilations and pads for windows of window->size over x, and the H and W that come out. */
static int slide(struct onnx_importer *importer, const struct convoy_shape *x, struct window *window,
                 int64_t out[2])
{
    const char *auto_pad;
    for (int i = 0; i < 2; i++)
        window->stride[i] = window->dilation[i] = 1;
    memset(window->pad, 0, sizeof window->pad);
    int status = two_numbers(importer, "strides", 1, window->stride);
    if (status == 0)
        status = two_numbers(importer, "dilations", 1, window->dilation);
    if (status == 0)
        status = onnx_attribute_string(importer, "auto_pad", "NOTSET", &auto_pad);
    if (status == 0 && strcmp(auto_pad, "NOTSET") == 0)
        status = read_pads(importer, window);
    if (status != 0)
        return status;
    for (int i = 0; i < 2; i++) {
        int64_t input = x->dims[2 + i];
        int64_t reach = (window->size[i] - 1) * window->dilation[i] + 1;
        if (strncmp(auto_pad, "SAME", 4) == 0)
            pad_for_same(window, i, input, strcmp(auto_pad, "SAME_UPPER") == 0);
        int64_t span = input + window->pad[i] + window->pad[2 + i] - reach;
        if (span < 0)
            return onnx_fail(importer, -EINVAL,
                             "its window reaches over %" PRId64 " pixels, the padded input has only %" PRId64,
                             reach, span + reach);
        out[i] = span / window->stride[i] + 1;
        if (window->ceil_mode) {
            out[i] = (span + window->stride[i] - 1) / window->stride[i] + 1;
            /* The last window must begin in the input or its leading padding. */
            if ((out[i] - 1) * window->stride[i] >= input + window->pad[i])
                out[i]--;
        }
    }
    return 0;
}

/* Images: four dimensions, of which the first may be the batch and no other. */
static int need_images(struct onnx_importer *importer, const struct onnx_value **x)
{
    int status = onnx_need_activation(importer, 0, x);
    if (status != 0)
        return status;
    if ((*x)->shape.rank != 4)
        return onnx_fail(importer, -ENOTSUP, "its input has %d dimensions, only N x C x H x W is supported",
                         (*x)->shape.rank);
    if ((*x)->shape.batch_axis > 0)
        return onnx_fail(importer, -ENOTSUP, "the batch is not the first dimension of its input");
    return 0;
}

/* The bias of a Conv: absent, or a constant of K numbers. */
static int read_bias(struct onnx_importer *importer, int64_t channels, const struct onnx_value **bias)
{
    *bias = NULL;
    if (importer->inputs[2] == NULL)
        return 0;
    int status = onnx_need_floats(importer, 2, "bias", bias);
    if (status == 0 && ((*bias)->shape.rank != 1 || (*bias)->shape.dims[0] != channels))
        status = onnx_fail(importer, -EINVAL,
                           "its bias does not have one number for each of %" PRId64 " channels", channels);
    return status;
}

static int read_conv(struct onnx_importer *importer)
{
    const struct onnx_value *x, *weight, *bias;
    struct window window = {0};
    int64_t groups, out[2] = {0, 0};
    int status = need_images(importer, &x);
    if (status == 0)
        status = onnx_need_floats(importer, 1, "weight", &weight);
    if (status == 0)
        status = onnx_attribute_int(importer, "group", 1, &groups);
    if (status != 0)
        return status;
    const int64_t *filter = weight->shape.dims;
    if (weight->shape.rank != 4)
        return onnx_fail(importer, -EINVAL, "its weight has %d dimensions, 4 are needed", weight->shape.rank);
    if (groups < 1 || groups > filter[0] || filter[0] % groups != 0)
        return onnx_fail(importer, -EINVAL,
                         "%" PRId64 " groups do not divide its %" PRId64 " output channels", groups,
                         filter[0]);
    if (filter[1] > INT64_MAX / groups || filter[1] * groups != x->shape.dims[1])
        return onnx_fail(importer, -EINVAL,
                         "its weight is for %" PRId64 " groups of %" PRId64
                         " channels, its input has %" PRId64 " channels",
                         groups, filter[1], x->shape.dims[1]);
    status = read_bias(importer, filter[0], &bias);
    window.size[0] = filter[2];
    window.size[1] = filter[3];
    if (status == 0)
        status = two_numbers(importer, "kernel_shape", 1, window.size);
    if (status == 0 && (window.size[0] != filter[2] || window.size[1] != filter[3]))
        status = onnx_fail(importer, -EINVAL, "its kernel_shape is not that of its weight");
    if (status == 0)
        status = slide(importer, &x->shape, &window, out);
    if (status != 0)
        return status;
    struct convoy_shape shape = x->shape;
    shape.dims[1] = filter[0];
    shape.dims[2] = out[0];
    shape.dims[3] = out[1];
    int inputs[3] = {x->tensor, weight->tensor, bias != NULL ? bias->tensor : -1};
    struct convoy_node *node;
    status = onnx_emit(importer, CONVOY_OP_CONV, inputs, bias != NULL ? 3 : 2, &shape, &node);
    if (status != 0)
        return status;
    node->conv.groups = groups;
    memcpy(node->conv.stride, window.stride, sizeof window.stride);
    memcpy(node->conv.dilation, window.dilation, sizeof window.dilation);
    memcpy(node->conv.pad, window.pad, sizeof window.pad);
    return onnx_set_tensor(importer, node->output);
}

static int emit_pool(struct onnx_importer *importer, int x, enum convoy_pool_kind kind,
                     const struct window *window, const int64_t out[2], bool count_include_pad, int *result)
{
    struct convoy_shape shape = importer->graph->tensors[x].shape;
    shape.dims[2] = out[0];
    shape.dims[3] = out[1];
    struct convoy_node *node;
    int status = onnx_emit(importer, CONVOY_OP_POOL, &x, 1, &shape, &node);
    if (status != 0)
        return status;
    node->pool.kind = kind;
    node->pool.count_include_pad = count_include_pad;
    memcpy(node->pool.window, window->size, sizeof window->size);
    memcpy(node->pool.stride, window->stride, sizeof window->stride);
    memcpy(node->pool.dilation, window->dilation, sizeof window->dilation);
    memcpy(node->pool.pad, window->pad, sizeof window->pad);
    *result = node->output;
    return 0;
}

static int read_pool(struct onnx_importer *importer, enum convoy_pool_kind kind)
{
    const struct onnx_value *x;
    struct window window = {0};
    int64_t out[2] = {0, 0}, ceil_mode, include_pad, storage_order;
    int result;
    int status = need_images(importer, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "ceil_mode", 0, &ceil_mode);
    if (status == 0)
        status = onnx_attribute_int(importer, "count_include_pad", 0, &include_pad);
    if (status == 0)
        status = onnx_attribute_int(importer, "storage_order", 0, &storage_order);
    if (status == 0)
        status = two_numbers(importer, "kernel_shape", 1, window.size);
    if (status != 0)
        return status;
    if (storage_order != 0)
        return onnx_fail(importer, -ENOTSUP, "its storage_order is %" PRId64 ", only 0 is supported",
                         storage_order);
    if (window.size[0] == 0)
        return onnx_fail(importer, -EINVAL, "its kernel_shape is missing");
    window.ceil_mode = ceil_mode != 0;
    status = slide(importer, &x->shape, &window, out);
    for (int i = 0; status == 0 && i < 4; i++)
        if (window.pad[i] > (window.size[i % 2] - 1) * window.dilation[i % 2])
            status = onnx_fail(importer, -EINVAL,
                               "its padding of %" PRId64
                               " is as large as its window, which would pool over nothing",
                               window.pad[i]);
    if (status == 0)
        status = emit_pool(importer, x->tensor, kind, &window, out, include_pad != 0, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int read_max_pool(struct onnx_importer *importer)
{
    return read_pool(importer, CONVOY_POOL_MAX);
}

static int read_average_pool(struct onnx_importer *importer)
{
    return read_pool(importer, CONVOY_POOL_AVERAGE);
}

/* The mean over `height` x `width` windows that fill H and W. */
static int emit_mean(struct onnx_importer *importer, int x, int64_t height, int64_t width, int *result)
{
    const int64_t *dims = importer->graph->tensors[x].shape.dims;
    struct window window = {.size = {height, width}, .stride = {height, width}, .dilation = {1, 1}};
    int64_t out[2] = {dims[2] / height, dims[3] / width};
    return emit_pool(importer, x, CONVOY_POOL_AVERAGE, &window, out, false, result);
}

static int read_global_average_pool(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    int result;
    int status = need_images(importer, &x);
    if (status == 0)
        status = emit_mean(importer, x->tensor, x->shape.dims[2], x->shape.dims[3], &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* The axes to reduce as a run [*first, *last] of neighbours, which is all that a pool can do. */
static int reduced_run(struct onnx_importer *importer, int rank, int *first, int *last)
{
    int64_t axes[CONVOY_MAX_RANK], noop;
    int count;
    int status = onnx_ints_of_either_form(importer, 18, 1, "axes", axes, CONVOY_MAX_RANK, &count);
    if (status == 0)
        status = onnx_attribute_int(importer, "noop_with_empty_axes", 0, &noop);
    if (status != 0)
        return status;
    unsigned reduced = 0;
    for (int i = 0; i < count; i++) {
        int axis;
        status = onnx_settle_axis(importer, axes[i], rank, &axis);
        if (status != 0)
            return status;
        reduced |= 1U << axis;
    }
    if (count <= 0 && noop == 0)
        reduced = (1U << rank) - 1;
    *first = 0;
    *last = -1;
    if (reduced == 0)
        return 0;
    *first = __builtin_ctz(reduced);
    *last = 31 - __builtin_clz(reduced);
    if (reduced != ((2U << *last) - (1U << *first)))
        return onnx_fail(importer, -ENOTSUP, "it averages over axes that are not neighbours");
    return 0;
}

static int read_reduce_mean(struct onnx_importer *importer)
{
    const struct onnx_value *x;
    int first = 0, last = -1;
    int64_t keep_dims;
    int status = onnx_need_activation(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "keepdims", 1, &keep_dims);
    if (status == 0)
        status = reduced_run(importer, x->shape.rank, &first, &last);
    if (status != 0)
        return status;
    if (last < first)
        return onnx_set_value(importer, x);
    const struct convoy_shape in = x->shape;
    if (in.batch_axis > 0 || (in.batch_axis == 0 && first == 0))
        return onnx_fail(importer, -ENOTSUP,
                         "it averages over the batch, or the batch is not its first dimension");

    struct convoy_shape out = {.batch_axis = in.batch_axis};
    for (int axis = 0; axis < in.rank; axis++)
        if (axis < first || axis > last)
            out.dims[out.rank++] = in.dims[axis];
        else if (keep_dims != 0)
            out.dims[out.rank++] = 1;

    int tensor = x->tensor;
    if (in.rank == 4 && first >= 2) {
        status = emit_mean(importer, tensor, in.dims[2] / (first == 2 ? 1 : in.dims[2]),
                           last == 3 ? in.dims[3] : 1, &tensor);
    } else {
        int from = in.batch_axis == 0 ? 1 : 0;
        struct convoy_shape images = {.rank = 4,
                                      .batch_axis = in.batch_axis,
                                      .dims = {from == 1 ? in.dims[0] : 1, onnx_product(&in, from, first),
                                               onnx_product(&in, first, last + 1),
                                               onnx_product(&in, last + 1, in.rank)}};
        status = onnx_emit_reshape(importer, tensor, &images, &tensor);
        if (status == 0)
            status = emit_mean(importer, tensor, images.dims[2], 1, &tensor);
    }
    if (status == 0)
        status = onnx_emit_reshape(importer, tensor, &out, &tensor);
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

/* y = scale (x - mean) / sqrt(variance + epsilon) + shift, as one scale and one shift (Ioffe and Szegedy,
 * Batch Normalization, 2015, algorithm 2), in double. */
static int read_batch_normalization(struct onnx_importer *importer)
{
    static const char *const names[] = {"scale", "shift", "mean", "variance"};
    const struct onnx_value *x, *constants[4];
    const float *values[4];
    int64_t spatial, training, is_test;
    float epsilon;
    int status = onnx_need_activation(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_float(importer, "epsilon", 1e-5F, &epsilon);
    if (status == 0)
        status = onnx_attribute_int(importer, "spatial", 1, &spatial);
    if (status == 0)
        status = onnx_attribute_int(importer, "training_mode", 0, &training);
    if (status == 0)
        status = onnx_attribute_int(importer, "is_test", importer->opset >= 7, &is_test);
    if (status != 0)
        return status;
    if (spatial != 1 || training != 0 || is_test == 0)
        return onnx_fail(importer, -ENOTSUP,
                         "it is in training mode, or not per channel: export the model for inference");
    if (x->shape.rank < 2 || x->shape.batch_axis > 0)
        return onnx_fail(importer, -ENOTSUP, "its input is not N x C x ...");
    int64_t channels = x->shape.dims[1];
    for (int i = 0; i < 4; i++) {
        status = onnx_need_floats(importer, 1 + i, names[i], &constants[i]);
        if (status != 0)
            return status;
        if (constants[i]->shape.rank != 1 || constants[i]->shape.dims[0] != channels)
            return onnx_fail(importer, -EINVAL,
                             "its %s does not have one number for each of %" PRId64 " channels", names[i],
                             channels);
        values[i] = onnx_floats(importer, constants[i]);
    }
    struct convoy_shape per_channel = {.rank = 1, .batch_axis = -1, .dims = {channels}};
    void *scale_data, *shift_data;
    status = onnx_allocate(importer, &per_channel, false, &scale_data);
    if (status != 0)
        return status;
    status = onnx_allocate(importer, &per_channel, false, &shift_data);
    if (status != 0) {
        free(scale_data);
        return status;
    }
    float *scale = scale_data, *shift = shift_data;
    for (int64_t c = 0; c < channels; c++) {
        double factor = values[0][c] / sqrt((double)values[3][c] + epsilon);
        scale[c] = (float)factor;
        shift[c] = (float)(values[1][c] - factor * values[2][c]);
    }
    int inputs[3] = {x->tensor};
    status = onnx_emit_constant(importer, "scale", &per_channel, scale, &inputs[1]);
    if (status != 0) {
        free(shift);
        return status;
    }
    status = onnx_emit_constant(importer, "shift", &per_channel, shift, &inputs[2]);
    struct convoy_node *node;
    if (status == 0)
        status = onnx_emit(importer, CONVOY_OP_SCALE_SHIFT, inputs, 3, &x->shape, &node);
    return status == 0 ? onnx_set_tensor(importer, node->output) : status;
}

const struct onnx_operator onnx_image_operators[] = {
    {"Conv", 2, 3, read_conv},
    {"MaxPool", 1, 1, read_max_pool},
    {"AveragePool", 1, 1, read_average_pool},
    {"GlobalAveragePool", 1, 1, read_global_average_pool},
    {"ReduceMean", 1, 2, read_reduce_mean},
    {"BatchNormalization", 5, 5, read_batch_normalization},
    {NULL, 0, 0, NULL},
};
