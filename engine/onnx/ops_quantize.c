/* Quantised networks, computed in floats that hold whole numbers: exact up to 2^24, which sums of products
 * may exceed by as much as float32 then rounds. DynamicQuantizeLinear takes each image's own range, which is
 * what the file means for a batch of 1. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/reduce.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"
#include "engine/onnx/tensor.h"
#include "engine/onnx/window.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* The numbers of an integer type. */
struct range {
    float low, high;
};

static int range_of(struct onnx_importer *importer, int64_t type, struct range *range)
{
    static const struct {
        int64_t type;
        struct range range;
    } ranges[] = {{ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, {0, 255}},
                  {ONNX__TENSOR_PROTO__DATA_TYPE__INT8, {-128, 127}},
                  {ONNX__TENSOR_PROTO__DATA_TYPE__UINT16, {0, 65535}},
                  {ONNX__TENSOR_PROTO__DATA_TYPE__INT16, {-32768, 32767}}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (ranges[i].type == type) {
            *range = ranges[i].range;
            return 0;
        }
    return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "it quantises to %s, which is not supported",
                       type == 0 ? "a type that its zero point does not tell"
                                 : onnx_type_name((int32_t)type));
}

/* Input `index`, a list of numbers for the elements along an axis of a tensor of this rank (or one number),
 * in a shape that broadcasts. */
static int along_axis(struct onnx_importer *importer, int index, int rank, int axis, int *tensor)
{
    int status = onnx_need_tensor(importer, index, tensor);
    if (status != 0)
        return status;
    const struct convoy_shape in = importer->graph->tensors[*tensor].shape;
    if (in.batch_axis >= 0 || in.rank == 0)
        return 0; /* of each image, as DynamicQuantizeLinear gives it; or one number */
    if (in.rank != 1)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                           "its input %d has %d dimensions: blocks are not supported", index, in.rank);
    struct convoy_shape shape = {.rank = rank - axis, .batch_axis = -1};
    for (int i = 0; i < shape.rank; i++)
        shape.dims[i] = i == 0 ? in.dims[0] : 1;
    if (in.dims[0] == 1)
        shape.rank = 0;
    return onnx_emit_reshape(importer, *tensor, &shape, tensor);
}

/* clip(round(x) + zero point) */
static int emit_quantized(struct onnx_importer *importer, int x, int zero_point, struct range range,
                          int *result)
{
    const struct convoy_activation clip = {.kind = CONVOY_CLIP, .alpha = range.low, .beta = range.high};
    int status = onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_ROUND}, x, result);
    if (status == 0 && zero_point >= 0)
        status = onnx_emit_binary(importer, CONVOY_ADD, *result, zero_point, result);
    return status == 0 ? onnx_emit_activation(importer, clip, *result, result) : status;
}

static int settle_given_axis(struct onnx_importer *importer, int rank, int *axis)
{
    int64_t given;
    *axis = 0;
    int status = onnx_attribute_int(importer, "axis", 1, &given);
    if (status != 0 || rank == 0 || (rank == 1 && given == 1))
        return status;
    return onnx_settle_axis(importer, given, rank, axis);
}

static int read_quantize_linear(struct onnx_importer *importer)
{
    int64_t type;
    struct range range = {0, 0};
    int x, scale, zero_point = -1, axis;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "output_dtype", 0, &type);
    if (status == 0 && type == 0)
        type = onnx_is_given(importer, 2) ? importer->inputs[2]->type : ONNX__TENSOR_PROTO__DATA_TYPE__UINT8;
    if (status == 0)
        status = range_of(importer, type, &range);
    if (status != 0)
        return status;
    int rank = importer->graph->tensors[x].shape.rank;
    status = settle_given_axis(importer, rank, &axis);
    if (status == 0)
        status = along_axis(importer, 1, rank, axis, &scale);
    if (status == 0 && onnx_is_given(importer, 2))
        status = along_axis(importer, 2, rank, axis, &zero_point);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_DIV, x, scale, &x);
    if (status == 0)
        status = emit_quantized(importer, x, zero_point, range, &x);
    return status == 0 ? onnx_set_tensor(importer, x) : status;
}

static int read_dequantize_linear(struct onnx_importer *importer)
{
    int x, scale, zero_point, axis;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status != 0)
        return status;
    int rank = importer->graph->tensors[x].shape.rank;
    status = settle_given_axis(importer, rank, &axis);
    if (status == 0)
        status = along_axis(importer, 1, rank, axis, &scale);
    if (status == 0 && onnx_is_given(importer, 2)) {
        status = along_axis(importer, 2, rank, axis, &zero_point);
        if (status == 0)
            status = onnx_emit_binary(importer, CONVOY_SUB, x, zero_point, &x);
    }
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_MUL, x, scale, &x);
    return status == 0 ? onnx_set_tensor(importer, x) : status;
}

/* Of x, whose batch axis has one row for each image: y, its scale (the range, which includes 0, over 255) and
 * its zero point. */
static int emit_dynamically_quantized(struct onnx_importer *importer, int x, int results[3])
{
    const struct range range = {0, 255};
    const struct convoy_activation relu = {.kind = CONVOY_RELU};
    const struct convoy_activation clip = {.kind = CONVOY_CLIP, .beta = 255};
    const struct convoy_activation round = {.kind = CONVOY_ROUND};
    int high, low, scale = -1, zero_point = -1, y = -1;
    const struct convoy_shape shape = importer->graph->tensors[x].shape;
    unsigned mask = (1U << shape.rank) - 1;
    if (shape.batch_axis >= 0)
        mask &= ~(1U << shape.batch_axis);
    int status = onnx_emit_reduced(importer, x, CONVOY_POOL_MAX, mask, &high);
    if (status == 0)
        status = onnx_emit_activation(importer, relu, high, &high);
    if (status == 0) /* low is the range below 0 */
        status = onnx_emit_with_scalar(importer, CONVOY_MUL, x, -1, &low);
    if (status == 0)
        status = onnx_emit_reduced(importer, low, CONVOY_POOL_MAX, mask, &low);
    if (status == 0)
        status = onnx_emit_activation(importer, relu, low, &low);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_ADD, high, low, &scale);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_DIV, scale, 255, &scale);
    if (status == 0) /* of nothing but zeros */
        status = onnx_emit_with_scalar(importer, CONVOY_MAX, scale, 0x1p-126, &scale);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_DIV, low, scale, &zero_point);
    if (status == 0)
        status = onnx_emit_activation(importer, clip, zero_point, &zero_point);
    if (status == 0)
        status = onnx_emit_activation(importer, round, zero_point, &zero_point);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_DIV, x, scale, &y);
    if (status == 0)
        status = emit_quantized(importer, y, zero_point, range, &y);
    results[0] = y;
    results[1] = scale;
    results[2] = zero_point;
    return status;
}

/* Shapes of an image's rows (windows) along the batch: `apart` has the rows on an axis of their own. */
static struct convoy_shape rows_apart(const struct convoy_shape *shape)
{
    struct convoy_shape apart = *shape;
    int axis = shape->batch_axis;
    for (int i = apart.rank++; i > axis; i--)
        apart.dims[i] = shape->dims[i - 1];
    apart.dims[axis] = 1;
    return apart;
}

/* One number for each image, as one for each of its rows, which are `shape`. */
static int emit_for_each_row(struct onnx_importer *importer, const struct convoy_shape *shape, int *tensor)
{
    struct convoy_shape rows = *shape;
    for (int i = 0; i < rows.rank; i++)
        if (i != rows.batch_axis)
            rows.dims[i] = 1;
    struct convoy_shape apart = rows_apart(&rows);
    int status = onnx_emit_expanded(importer, *tensor, &apart, tensor);
    return status == 0 ? onnx_emit_reshape(importer, *tensor, &rows, tensor) : status;
}

static int read_dynamic_quantize_linear(struct onnx_importer *importer)
{
    const struct convoy_shape number = {.rank = 0, .batch_axis = -1};
    int x, results[3];
    int status = onnx_need_tensor(importer, 0, &x);
    if (status != 0)
        return status;
    const struct convoy_shape shape = importer->graph->tensors[x].shape;
    bool has_rows = shape.batch_axis >= 0 && shape.dims[shape.batch_axis] != 1;
    if (has_rows && (shape.rank == CONVOY_MAX_RANK || onnx_product(&shape, 0, shape.batch_axis) != 1))
        return onnx_refuse(importer, ONNX_IMAGES_APART,
                           "its range would be that of several rows of an image");
    if (has_rows) {
        struct convoy_shape apart = rows_apart(&shape);
        status = onnx_emit_reshape(importer, x, &apart, &x);
    }
    if (status == 0)
        status = emit_dynamically_quantized(importer, x, results);
    if (status == 0 && has_rows)
        status = onnx_emit_reshape(importer, results[0], &shape, &results[0]);
    for (int i = 1; i < 3 && status == 0; i++)
        if (has_rows)
            status = emit_for_each_row(importer, &shape, &results[i]);
        else if (shape.batch_axis < 0)
            status = onnx_emit_reshape(importer, results[i], &number, &results[i]);
    for (size_t i = 0; i < importer->node->n_output && i < 3 && status == 0; i++) {
        importer->output = (int)i;
        status = onnx_set_tensor(importer, results[i]);
    }
    return status;
}

/* Input `index` less its zero point, input `zero`. */
static int centred(struct onnx_importer *importer, int index, int zero, int axis, int *tensor)
{
    int zero_point;
    int status = onnx_need_tensor(importer, index, tensor);
    if (status != 0 || !onnx_is_given(importer, zero))
        return status;
    status = along_axis(importer, zero, importer->graph->tensors[*tensor].shape.rank, axis, &zero_point);
    return status == 0 ? onnx_emit_binary(importer, CONVOY_SUB, *tensor, zero_point, tensor) : status;
}

static int check_weight(struct onnx_importer *importer, int index)
{
    if (!onnx_is_given(importer, index) || importer->inputs[index]->kind == ONNX_ACTIVATION)
        return onnx_refuse(importer, ONNX_CUT, "its weight is not a constant");
    return 0;
}

static int read_conv_integer(struct onnx_importer *importer)
{
    int x, weight, result;
    int status = check_weight(importer, 1);
    if (status == 0)
        status = centred(importer, 0, 2, 1, &x);
    if (status == 0)
        status = centred(importer, 1, 3, 0, &weight);
    if (status == 0)
        status = onnx_emit_conv(importer, x, weight, -1, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

static int last_axis(const struct onnx_importer *importer, int index, int from_end)
{
    int rank = onnx_is_given(importer, index) ? importer->inputs[index]->shape.rank : 0;
    return rank >= from_end ? rank - from_end : 0;
}

static int read_matmul_integer(struct onnx_importer *importer)
{
    int a, b, result;
    int status = centred(importer, 0, 2, last_axis(importer, 0, 2), &a);
    if (status == 0)
        status = centred(importer, 1, 3, last_axis(importer, 1, 1), &b);
    if (status == 0)
        status = onnx_emit_matmul(importer, a, b, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

/* *result scaled by scale a * scale b / scale y, quantised to y's type. */
static int requantize(struct onnx_importer *importer, int tensor, int scales[2], int axis, int y_scale,
                      int y_zero)
{
    struct range range = {0, 0};
    int scale, other, zero_point;
    int rank = importer->graph->tensors[tensor].shape.rank;
    if (!onnx_is_given(importer, y_zero))
        return onnx_fail(importer, -EINVAL, "its zero point is missing");
    int status = range_of(importer, importer->inputs[y_zero]->type, &range);
    if (status == 0)
        status = along_axis(importer, scales[0], rank, axis, &scale);
    if (status == 0)
        status = along_axis(importer, scales[1], rank, axis, &other);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_MUL, scale, other, &scale);
    if (status == 0)
        status = along_axis(importer, y_scale, rank, axis, &other);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_DIV, scale, other, &scale);
    if (status == 0)
        status = along_axis(importer, y_zero, rank, axis, &zero_point);
    if (status == 0)
        status = onnx_emit_binary(importer, CONVOY_MUL, tensor, scale, &tensor);
    if (status == 0)
        status = emit_quantized(importer, tensor, zero_point, range, &tensor);
    return status == 0 ? onnx_set_tensor(importer, tensor) : status;
}

static int read_qlinear_conv(struct onnx_importer *importer)
{
    int x, weight, bias = -1, result, scales[2] = {1, 4};
    int status = check_weight(importer, 3);
    if (status == 0)
        status = centred(importer, 0, 2, 1, &x);
    if (status == 0)
        status = centred(importer, 3, 5, 0, &weight);
    if (status == 0 && onnx_is_given(importer, 8)) {
        status = check_weight(importer, 8);
        if (status == 0)
            status = onnx_need_tensor(importer, 8, &bias);
        if (status == 0 && (importer->inputs[8]->shape.rank != 1 || importer->inputs[3]->shape.rank < 1 ||
                            importer->inputs[8]->shape.dims[0] != importer->inputs[3]->shape.dims[0]))
            status = onnx_fail(importer, -EINVAL, "its bias does not have one number for each channel");
    }
    if (status == 0)
        status = onnx_emit_conv(importer, x, weight, bias, &result);
    return status == 0 ? requantize(importer, result, scales, 1, 6, 7) : status;
}

static int read_qlinear_matmul(struct onnx_importer *importer)
{
    int a, b, result, scales[2] = {1, 4};
    int status = centred(importer, 0, 2, last_axis(importer, 0, 2), &a);
    if (status == 0)
        status = centred(importer, 3, 5, last_axis(importer, 3, 1), &b);
    if (status == 0)
        status = onnx_emit_matmul(importer, a, b, &result);
    if (status != 0)
        return status;
    int rank = importer->graph->tensors[result].shape.rank;
    return requantize(importer, result, scales, rank > 0 ? rank - 1 : 0, 6, 7);
}

const struct onnx_operator onnx_quantize_operators[] = {
    {"QuantizeLinear", 2, 3, read_quantize_linear, ONNX_ANY_ORDER},
    {"DequantizeLinear", 2, 3, read_dequantize_linear, ONNX_ANY_ORDER},
    {"DynamicQuantizeLinear", 1, 1, read_dynamic_quantize_linear, ONNX_FILE_ORDER},
    {"ConvInteger", 2, 4, read_conv_integer, ONNX_ANY_ORDER},
    {"MatMulInteger", 2, 4, read_matmul_integer, ONNX_ANY_ORDER},
    {"QLinearConv", 8, 9, read_qlinear_conv, ONNX_ANY_ORDER},
    {"QLinearMatMul", 8, 8, read_qlinear_matmul, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
