/* Constants that are repeated for each image, and softmax without masked rows. */
#include "engine/onnx/emit.h"

#include "engine/graph/fold_match.h"
#include "engine/onnx/shapes.h"

#include <math.h>
#include <string.h>

#define MOST_STEPS 16 /* between a product and its softmax */

/* What does not depend on the images has no batch axis, be it computed already or not. */
static bool is_constant(const struct onnx_importer *importer, int tensor)
{
    const struct convoy_tensor *t = &importer->graph->tensors[tensor];
    return t->data != NULL || t->shape.batch_axis < 0;
}

/* Zeros as onnx_emit_for_each_image() makes them: all of a tensor is cut away, and padded again. */
static bool is_nothing_padded(const struct onnx_importer *importer, int tensor)
{
    const struct convoy_node *node = fold_producer(importer->graph, tensor);
    if (node != NULL && node->op == CONVOY_OP_RESHAPE)
        node = fold_producer(importer->graph, node->inputs[0]);
    if (node == NULL || node->op != CONVOY_OP_PAD)
        return false;
    const struct convoy_shape *in = &importer->graph->tensors[node->inputs[0]].shape;
    return in->rank == 2 && node->pad.before[1] == -in->dims[1];
}

/* The constant that onnx_emit_for_each_image() made the tensor of, -1 where it did not. It may have fewer
 * dimensions and elements than the tensor, and be computed only when the file's node has been read. */
static int repeated_constant(const struct onnx_importer *importer, int tensor)
{
    const struct convoy_node *node = fold_producer(importer->graph, tensor);
    bool found = !importer->options->no_batch && node != NULL && node->op == CONVOY_OP_BINARY &&
                 node->binary == CONVOY_ADD && is_constant(importer, node->inputs[1]) &&
                 is_nothing_padded(importer, node->inputs[0]);
    return found ? node->inputs[1] : -1;
}

static bool is_zero(float number)
{
    return number == 0;
}

static bool is_finite(float number)
{
    return isfinite(number);
}

/* Is each number of a constant like that? A hostile file would have constants looked through without end, so
 * that costs what folding them costs; where nothing is left of that the answer is no. */
static bool all_are(struct onnx_importer *importer, int tensor, bool (*is)(float number))
{
    const struct convoy_tensor *constant = &importer->graph->tensors[tensor];
    int64_t elements = convoy_shape_elements(&constant->shape);
    if (constant->data == NULL || elements > importer->work_left)
        return false;
    importer->work_left -= elements;
    for (int64_t i = 0; i < elements; i++)
        if (!is(constant->data[i]))
            return false;
    return true;
}

/* Does the axis hold windows of the images that the batch is on, and may they have an axis of their own? */
static bool has_windows(const struct convoy_shape *shape)
{
    return shape->batch_axis >= 0 && shape->dims[shape->batch_axis] > 1 && shape->rank < CONVOY_MAX_RANK;
}

/* The shape with what lies along the axis, but for the batch, on an axis of its own behind it. */
static struct convoy_shape divided(const struct convoy_shape *shape, int axis)
{
    struct convoy_shape result = *shape;
    result.rank++;
    result.dims[axis] = 1;
    memcpy(&result.dims[axis + 1], &shape->dims[axis], (size_t)(shape->rank - axis) * sizeof(shape->dims[0]));
    return result;
}

/* And back, where the batch has the axis before. */
static struct convoy_shape with_windows_joined(const struct convoy_shape *shape)
{
    struct convoy_shape result = *shape;
    int axis = shape->batch_axis;
    result.rank--;
    memcpy(&result.dims[axis], &shape->dims[axis + 1], (size_t)(result.rank - axis) * sizeof(shape->dims[0]));
    return result;
}

/* The tensor that onnx_emit_for_each_image() made and whose windows were then taken together with the batch;
 * -1: none was. */
static int before_windows_joined(const struct onnx_importer *importer, int tensor)
{
    const struct convoy_tensor *tensors = importer->graph->tensors;
    const struct convoy_shape *shape = &tensors[tensor].shape;
    const struct convoy_node *node = fold_producer(importer->graph, tensor);
    if (node == NULL || node->op != CONVOY_OP_RESHAPE || !has_windows(shape) ||
        repeated_constant(importer, node->inputs[0]) < 0)
        return -1;
    struct convoy_shape apart = divided(shape, shape->batch_axis);
    return convoy_same_shape(&tensors[node->inputs[0]].shape, &apart) ? node->inputs[0] : -1;
}

/* Can another operand of a result of `shape` be one of a result whose windows are apart? `own` is its shape
 * then. A constant is the same for each window. */
static bool fits_apart(const struct onnx_importer *importer, int tensor, const struct convoy_shape *shape,
                       struct convoy_shape *own)
{
    const struct convoy_shape *given = &importer->graph->tensors[tensor].shape;
    int axis = shape->batch_axis - (shape->rank - given->rank); /* where the result has its batch */
    *own = axis >= 0 ? divided(given, axis) : *given;
    return is_constant(importer, tensor) || convoy_same_shape(given, shape);
}

/* onnx_emit_unrepeated() for images that are cut into windows, as Swin's masks are: what is computed is so
 * with the windows on an axis of their own, where masks are constants. */
static int unrepeat_windows(struct onnx_importer *importer, enum convoy_binary_kind kind, const int given[2],
                            const struct convoy_shape *shape, int *result)
{
    int inputs[2], status = 0;
    struct convoy_shape own[2];
    if (!has_windows(shape))
        return 0;
    const struct convoy_shape apart = divided(shape, shape->batch_axis);
    for (int i = 0; i < 2; i++) {
        inputs[i] = before_windows_joined(importer, given[i]);
        if (inputs[i] < 0 && !fits_apart(importer, given[i], shape, &own[i]))
            return 0;
    }
    if (inputs[0] < 0 && inputs[1] < 0)
        return 0;
    for (int i = 0; i < 2 && status == 0; i++)
        if (inputs[i] < 0)
            status = onnx_emit_reshape(importer, given[i], &own[i], &inputs[i]);
    if (status == 0)
        status = onnx_emit_unrepeated(importer, kind, inputs[0], inputs[1], &apart, result);
    return status == 0 && *result >= 0 ? onnx_emit_reshape(importer, *result, shape, result) : status;
}

int onnx_emit_unrepeated(struct onnx_importer *importer, enum convoy_binary_kind kind, int a, int b,
                         const struct convoy_shape *shape, int *result)
{
    const struct convoy_tensor *tensors = importer->graph->tensors;
    int bare[2] = {repeated_constant(importer, a), repeated_constant(importer, b)};
    int inputs[2] = {bare[0] >= 0 ? bare[0] : a, bare[1] >= 0 ? bare[1] : b};
    struct convoy_shape small;
    *result = -1;
    if (bare[0] < 0 && bare[1] < 0)
        return unrepeat_windows(importer, kind, (int[]){a, b}, shape, result);
    const struct convoy_shape a_shape = tensors[inputs[0]].shape, b_shape = tensors[inputs[1]].shape;
    int status = onnx_broadcast(importer, &a_shape, &b_shape, 0, &small);
    if (status != 0)
        return status;
    if (is_constant(importer, inputs[0]) && is_constant(importer, inputs[1])) {
        if (onnx_product(shape, 0, shape->batch_axis) != 1 || shape->dims[shape->batch_axis] != 1)
            return 0;
        status = onnx_emit_binary_of(importer, kind, inputs, &small, result);
        return status == 0 ? onnx_emit_for_each_image(importer, *result, shape, result) : status;
    }
    if (!convoy_same_shape(&small, shape))
        return 0;
    for (int i = 0; i < 2 && kind == CONVOY_ADD; i++)
        if (bare[i] >= 0 && convoy_same_shape(&tensors[inputs[1 - i]].shape, shape) &&
            all_are(importer, bare[i], is_zero)) {
            *result = inputs[1 - i];
            return 0;
        }
    return onnx_emit_binary_of(importer, kind, inputs, shape, result);
}

int onnx_emit_windows_of_one(struct onnx_importer *importer, enum convoy_binary_kind kind, int a, int b,
                             int *result)
{
    const int given[2] = {a, b};
    *result = -1;
    for (int i = 0; i < 2 && importer->batch == 1; i++) {
        const struct convoy_shape x = importer->graph->tensors[given[i]].shape;
        const struct convoy_shape constant = importer->graph->tensors[given[1 - i]].shape;
        int inputs[2], axis = x.batch_axis - (x.rank - constant.rank);
        if (!has_windows(&x) || !is_constant(importer, given[1 - i]) || axis < 0 ||
            constant.rank >= CONVOY_MAX_RANK || constant.dims[axis] != x.dims[x.batch_axis])
            continue;
        const struct convoy_shape apart = divided(&x, x.batch_axis), own = divided(&constant, axis);
        int status = onnx_emit_reshape(importer, given[i], &apart, &inputs[i]);
        if (status == 0)
            status = onnx_emit_reshape(importer, given[1 - i], &own, &inputs[1 - i]);
        if (status == 0)
            status = onnx_emit_binary(importer, kind, inputs[0], inputs[1], result);
        if (status != 0)
            return status;
        const struct convoy_shape joined = with_windows_joined(&importer->graph->tensors[*result].shape);
        return onnx_emit_reshape(importer, *result, &joined, result);
    }
    return 0;
}

bool onnx_is_unmasked_softmax(struct onnx_importer *importer, int tensor)
{
    const struct convoy_node *node = fold_producer(importer->graph, tensor);
    if (node == NULL || node->op != CONVOY_OP_SOFTMAX || node->softmax.log)
        return false;
    for (int step = 0; step < MOST_STEPS; step++) {
        node = fold_producer(importer->graph, node->inputs[0]);
        if (node == NULL || node->op == CONVOY_OP_MATMUL)
            return node != NULL;
        bool masks = node->op == CONVOY_OP_BINARY &&
                     (node->binary == CONVOY_ADD || node->binary == CONVOY_MUL) &&
                     all_are(importer, node->inputs[1], is_finite);
        if (!masks && node->op != CONVOY_OP_RESHAPE)
            return false;
    }
    return false;
}
