/* Normalisations: Batch-, Layer-, Instance-, Group-, RMS- and LpNormalization, LRN, Softmax. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/reduce.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"
#include "engine/onnx/window.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Over axes of an image ---- */

static int emit_normalize(struct onnx_importer *importer, int x, struct convoy_normalize normalize, int scale,
                          int shift, int *result)
{
    const struct convoy_shape shape = importer->graph->tensors[x].shape;
    int inputs[3] = {x}, count = 1;
    struct convoy_node *node;
    if (shape.batch_axis >= normalize.axis && shape.batch_axis < normalize.axis_end)
        return onnx_refuse(importer, ONNX_IMAGES_APART,
                           "it normalises over the batch, which would mix images");
    normalize.has_scale = scale >= 0;
    normalize.has_shift = shift >= 0;
    if (scale >= 0)
        inputs[count++] = scale;
    if (shift >= 0)
        inputs[count++] = shift;
    int status = onnx_emit(importer, CONVOY_OP_NORMALIZE, inputs, count, &shape, &node);
    if (status != 0)
        return status;
    node->normalize = normalize;
    *result = node->output;
    return 0;
}

/* *tensor is input `index`, a constant that broadcasts to the dimensions from axis on, repeated to all of
 * them; -1 where it is left out. */
static int affine_input(struct onnx_importer *importer, int index, const struct convoy_shape *x, int axis,
                        int *tensor)
{
    struct convoy_shape shape = {.rank = x->rank - axis, .batch_axis = -1}, common;
    int64_t steps[CONVOY_MAX_RANK], step = 1, at = 0, place[CONVOY_MAX_RANK] = {0};
    const struct onnx_value *value;
    void *data;
    *tensor = -1;
    if (index >= importer->input_count || importer->inputs[index] == NULL)
        return 0;
    int status = onnx_need_floats(importer, index, index == 1 ? "scale" : "bias", &value);
    if (status != 0)
        return status;
    memcpy(shape.dims, &x->dims[axis], sizeof shape.dims[0] * (size_t)shape.rank);
    *tensor = value->tensor;
    int64_t elements = convoy_shape_elements(&shape);
    if (convoy_shape_elements(&value->shape) == elements && value->shape.rank <= shape.rank)
        return 0;
    status = onnx_broadcast(importer, &value->shape, &shape, 0, &common);
    if (status == 0 && (common.rank != shape.rank || convoy_shape_elements(&common) != elements))
        status = onnx_fail(importer, -EINVAL, "its scale or bias is larger than what it normalises");
    if (status == 0)
        status = onnx_allocate(importer, &shape, false, &data);
    if (status != 0)
        return status;
    for (int i = shape.rank - 1; i >= 0; i--) {
        int own = i - (shape.rank - value->shape.rank);
        steps[i] = own >= 0 && value->shape.dims[own] > 1 ? step : 0;
        step *= own >= 0 ? value->shape.dims[own] : 1;
    }
    for (int64_t i = 0; i < elements; i++) {
        ((float *)data)[i] = onnx_floats(importer, value)[at];
        for (int k = shape.rank - 1; k >= 0; k--) {
            at += steps[k];
            if (++place[k] < shape.dims[k])
                break;
            at -= steps[k] * shape.dims[k];
            place[k] = 0;
        }
    }
    return onnx_emit_constant(importer, value->name, &shape, data, tensor);
}

static int read_over_last_axes(struct onnx_importer *importer, bool rms)
{
    struct convoy_normalize normalize = {.rms = rms};
    int64_t given;
    int x = -1, scale = -1, shift = -1, result = -1;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "axis", -1, &given);
    if (status == 0)
        status = onnx_attribute_float(importer, "epsilon", 1e-5F, &normalize.epsilon);
    if (status != 0)
        return status;
    const struct convoy_shape shape = importer->graph->tensors[x].shape;
    status = onnx_settle_axis(importer, given, shape.rank, &normalize.axis);
    normalize.axis_end = shape.rank;
    if (status == 0)
        status = affine_input(importer, 1, &shape, normalize.axis, &scale);
    if (status == 0)
        status = affine_input(importer, 2, &shape, normalize.axis, &shift);
    if (status == 0)
        status = emit_normalize(importer, x, normalize, scale, shift, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int read_layer_normalization(struct onnx_importer *importer)
{
    return read_over_last_axes(importer, false);
}

static int read_rms_normalization(struct onnx_importer *importer)
{
    return read_over_last_axes(importer, true);
}

/* Each of `groups` of channels by itself, then a scale and a shift for each channel, or for each group. */
static int set_grouped(struct onnx_importer *importer, int x, int64_t groups, float epsilon)
{
    const struct convoy_shape in = importer->graph->tensors[x].shape;
    const struct onnx_value *constants[2];
    if (in.rank < 2 || in.batch_axis > 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its input is not N x C x ...");
    int64_t channels = in.dims[1];
    if (groups < 1 || channels % groups != 0)
        return onnx_fail(importer, -EINVAL, "%" PRId64 " groups do not divide its %" PRId64 " channels",
                         groups, channels);
    struct convoy_shape grouped = {.rank = 3,
                                   .batch_axis = in.batch_axis,
                                   .dims = {in.dims[0], groups, onnx_product(&in, 1, in.rank) / groups}};
    struct convoy_normalize normalize = {.axis = 2, .axis_end = 3, .epsilon = epsilon};
    struct convoy_shape per_channel = {.rank = 1, .batch_axis = -1, .dims = {channels}};
    struct convoy_node *node;
    int inputs[3];
    int status = onnx_emit_reshape(importer, x, &grouped, &x);
    if (status == 0)
        status = emit_normalize(importer, x, normalize, -1, -1, &x);
    if (status == 0)
        status = onnx_emit_reshape(importer, x, &in, &inputs[0]);
    for (int i = 0; i < 2 && status == 0; i++) {
        void *data;
        status = onnx_need_floats(importer, 1 + i, i == 0 ? "scale" : "bias", &constants[i]);
        if (status != 0)
            return status;
        int64_t numbers = convoy_shape_elements(&constants[i]->shape);
        if (numbers != channels && numbers != groups)
            return onnx_fail(importer, -EINVAL,
                             "its %s does not have one number for each of %" PRId64 " channels",
                             i == 0 ? "scale" : "bias", channels);
        status = onnx_allocate(importer, &per_channel, false, &data);
        if (status != 0)
            return status;
        for (int64_t c = 0; c < channels; c++)
            ((float *)data)[c] = onnx_floats(importer, constants[i])[c / (channels / numbers)];
        status = onnx_emit_constant(importer, constants[i]->name, &per_channel, data, &inputs[1 + i]);
    }
    if (status == 0)
        status = onnx_emit(importer, CONVOY_OP_SCALE_SHIFT, inputs, 3, &in, &node);
    return status == 0 ? onnx_set_tensor(importer, node->output) : status;
}

/* y = scale (x - mean) / sqrt(variance + epsilon) + shift, as one scale and one shift (Ioffe and Szegedy,
 * Batch Normalization, 2015, algorithm 2), in double. */
static int read_batch_normalization(struct onnx_importer *importer)
{
    static const char *const names[] = {"scale", "shift", "mean", "variance"};
    const struct onnx_value *constants[4];
    const float *values[4];
    int64_t spatial, training, is_test;
    float epsilon;
    int x;
    int status = onnx_need_tensor(importer, 0, &x);
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
    /* Of a constant, one image of it: weights that are standardised (Brock et al., Characterizing signal
     * propagation, 2021). */
    const struct convoy_shape *given = &importer->graph->tensors[x].shape;
    if (training != 0 && importer->inputs[0]->kind == ONNX_FLOATS && given->rank >= 2 && given->dims[0] == 1)
        return set_grouped(importer, x, given->dims[1], epsilon);
    if (spatial != 1 || training != 0 || is_test == 0)
        return onnx_refuse(importer, ONNX_EXPORT_FOR_INFERENCE, "it is in training mode, or not per channel");
    const struct convoy_shape in = importer->graph->tensors[x].shape;
    if (in.rank < 2 || in.batch_axis > 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its input is not N x C x ...");
    int64_t channels = in.dims[1];
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
    int inputs[3] = {x};
    status = onnx_emit_constant(importer, "scale", &per_channel, scale, &inputs[1]);
    if (status != 0) {
        free(shift);
        return status;
    }
    status = onnx_emit_constant(importer, "shift", &per_channel, shift, &inputs[2]);
    struct convoy_node *node;
    if (status == 0)
        status = onnx_emit(importer, CONVOY_OP_SCALE_SHIFT, inputs, 3, &in, &node);
    return status == 0 ? onnx_set_tensor(importer, node->output) : status;
}

static int read_instance_normalization(struct onnx_importer *importer)
{
    float epsilon;
    int x;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_float(importer, "epsilon", 1e-5F, &epsilon);
    if (status != 0)
        return status;
    const struct convoy_shape *shape = &importer->graph->tensors[x].shape;
    return set_grouped(importer, x, shape->rank > 1 ? shape->dims[1] : 1, epsilon);
}

static int read_group_normalization(struct onnx_importer *importer)
{
    int64_t groups;
    float epsilon;
    int x;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "num_groups", 0, &groups);
    if (status == 0)
        status = onnx_attribute_float(importer, "epsilon", 1e-5F, &epsilon);
    return status == 0 ? set_grouped(importer, x, groups, epsilon) : status;
}

/* x / (|x|_p), 0 where the norm is 0: the divisor is then the smallest number instead. */
static int read_lp_normalization(struct onnx_importer *importer)
{
    int64_t given, p;
    int axis, x, norm;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "axis", -1, &given);
    if (status == 0)
        status = onnx_attribute_int(importer, "p", 2, &p);
    if (status == 0)
        status = onnx_settle_axis(importer, given, importer->graph->tensors[x].shape.rank, &axis);
    if (status != 0)
        return status;
    if (p != 1 && p != 2)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its p is %" PRId64, p);
    if (p == 2)
        status = onnx_emit_binary(importer, CONVOY_MUL, x, x, &norm);
    else
        status = onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_ABS}, x, &norm);
    if (status == 0)
        status = onnx_emit_sum(importer, norm, 1U << axis, &norm);
    if (status == 0 && p == 2)
        status = onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_SQRT}, norm, &norm);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_MAX, norm, 0x1p-126, &norm);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_DIV, x, norm, &x);
    return status == 0 ? onnx_set_tensor(importer, x) : status;
}

/* x / (bias + alpha / size * sum of squares of the channels from floor((size - 1) / 2) before to
 * ceil((size - 1) / 2) behind)^beta. The sum is an average over a window of channels that counts its padding.
 */
static int read_lrn(struct onnx_importer *importer)
{
    float alpha, beta, bias;
    int64_t size, height;
    int x, sum;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_float(importer, "alpha", 0.0001F, &alpha);
    if (status == 0)
        status = onnx_attribute_float(importer, "beta", 0.75F, &beta);
    if (status == 0)
        status = onnx_attribute_float(importer, "bias", 1, &bias);
    if (status == 0)
        status = onnx_attribute_int(importer, "size", 0, &size);
    if (status != 0)
        return status;
    const struct convoy_shape in = importer->graph->tensors[x].shape;
    if (in.rank < 3 || in.batch_axis > 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its input is not N x C x ...");
    height = in.dims[1];
    if (size < 1 || size > height * 2)
        return onnx_fail(importer, -EINVAL, "its size is %" PRId64 " of %" PRId64 " channels", size, height);
    struct convoy_shape planes = {.rank = 4,
                                  .batch_axis = in.batch_axis,
                                  .dims = {in.dims[0], 1, height, onnx_product(&in, 2, in.rank)}};
    struct onnx_window window = {.size = {size, 1},
                                 .stride = {1, 1},
                                 .dilation = {1, 1},
                                 .pad = {(size - 1) / 2, 0, size - 1 - (size - 1) / 2, 0}};
    status = onnx_emit_binary(importer, CONVOY_MUL, x, x, &sum);
    if (status == 0)
        status = onnx_emit_reshape(importer, sum, &planes, &sum);
    if (status == 0)
        status = onnx_emit_pool(importer, sum, CONVOY_POOL_AVERAGE, &window, &planes.dims[2], true, &sum);
    if (status == 0)
        status = onnx_emit_reshape(importer, sum, &in, &sum);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_MUL, sum, (double)alpha, &sum);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_ADD, sum, (double)bias, &sum);
    if (status == 0)
        status = onnx_emit_activation(
            importer, (struct convoy_activation){.kind = CONVOY_POW, .alpha = -beta}, sum, &sum);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_MUL, x, sum, &sum);
    return status == 0 ? onnx_set_tensor(importer, sum) : status;
}

/* x - mean over the axes, divided by the standard deviation. */
static int read_mean_variance_normalization(struct onnx_importer *importer)
{
    int64_t axes[CONVOY_MAX_RANK] = {0, 2, 3};
    int x, mean, deviation, count, axis;
    unsigned mask = 0;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_ints(importer, "axes", axes, CONVOY_MAX_RANK, &count);
    for (int i = 0; status == 0 && i < (count < 0 ? 3 : count); i++) {
        status = onnx_settle_axis(importer, axes[i], importer->graph->tensors[x].shape.rank, &axis);
        mask |= status == 0 ? 1U << axis : 0;
    }
    if (status == 0)
        status = onnx_emit_reduced(importer, x, CONVOY_POOL_AVERAGE, mask, &mean);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_SUB, x, mean, &x);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_MUL, x, x, &deviation);
    if (status == 0)
        status = onnx_emit_reduced(importer, deviation, CONVOY_POOL_AVERAGE, mask, &deviation);
    if (status == 0)
        status = onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_SQRT}, deviation,
                                      &deviation);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_ADD, deviation, 1e-9, &deviation);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_DIV, x, deviation, &x);
    return status == 0 ? onnx_set_tensor(importer, x) : status;
}

/* ---- Softmax ---- */

/* Before opset 13 everything from axis on counts as one dimension, and the default axis is 1. */
static int read_softmax(struct onnx_importer *importer)
{
    int64_t given;
    int x, axis, result;
    bool flattens = importer->opset < 13, log = strcmp(importer->op, "LogSoftmax") == 0;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "axis", flattens ? 1 : -1, &given);
    if (status == 0)
        status = onnx_settle_axis(importer, given, importer->graph->tensors[x].shape.rank, &axis);
    if (status != 0)
        return status;
    int end = flattens ? importer->graph->tensors[x].shape.rank : axis + 1;
    status = onnx_emit_softmax(importer, x, axis, end, log, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

const struct onnx_operator onnx_normalize_operators[] = {
    {"BatchNormalization", 5, 5, read_batch_normalization, ONNX_ANY_ORDER},
    {"LayerNormalization", 2, 3, read_layer_normalization, ONNX_ANY_ORDER},
    {"RMSNormalization", 2, 2, read_rms_normalization, ONNX_ANY_ORDER},
    {"InstanceNormalization", 3, 3, read_instance_normalization, ONNX_ANY_ORDER},
    {"GroupNormalization", 3, 3, read_group_normalization, ONNX_ANY_ORDER},
    {"LpNormalization", 1, 1, read_lp_normalization, ONNX_ANY_ORDER},
    {"LRN", 1, 1, read_lrn, ONNX_ANY_ORDER},
    {"MeanVarianceNormalization", 1, 1, read_mean_variance_normalization, ONNX_ANY_ORDER},
    {"Softmax", 1, 1, read_softmax, ONNX_ANY_ORDER},
    {"LogSoftmax", 1, 1, read_softmax, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
