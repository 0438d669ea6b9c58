/* Constants that are repeated for each image, and softmax without masked rows. */
#include "engine/onnx/emit.h"

#include "engine/onnx/shapes.h"

#include <math.h>
#include <string.h>

#define MOST_STEPS 16 /* between a product and its softmax */

static const struct convoy_node *producer_of(const struct onnx_importer *importer, int tensor)
{
    int producer = importer->graph->tensors[tensor].producer;
    return producer >= 0 ? &importer->graph->nodes[producer] : NULL;
}

/* What does not depend on the images has no batch axis, be it computed already or not. */
static bool is_constant(const struct onnx_importer *importer, int tensor)
{
    const struct convoy_tensor *t = &importer->graph->tensors[tensor];
    return t->data != NULL || t->shape.batch_axis < 0;
}

/* Zeros as onnx_emit_for_each_image() makes them: all of a tensor is cut away, and padded again. */
static bool is_nothing_padded(const struct onnx_importer *importer, int tensor)
{
    const struct convoy_node *node = producer_of(importer, tensor);
    if (node != NULL && node->op == CONVOY_OP_RESHAPE)
        node = producer_of(importer, node->inputs[0]);
    if (node == NULL || node->op != CONVOY_OP_PAD)
        return false;
    const struct convoy_shape *in = &importer->graph->tensors[node->inputs[0]].shape;
    return in->rank == 2 && node->pad.before[1] == -in->dims[1];
}

/* The constant that onnx_emit_for_each_image() made the tensor of, -1 where it did not. It may have fewer
 * dimensions and elements than the tensor, and be computed only when the file's node has been read. */
static int repeated_constant(const struct onnx_importer *importer, int tensor)
{
    const struct convoy_node *node = producer_of(importer, tensor);
    bool found = !importer->options->no_batch && node != NULL && node->op == CONVOY_OP_BINARY &&
                 node->binary == CONVOY_ADD && is_constant(importer, node->inputs[1]) &&
                 is_nothing_padded(importer, node->inputs[0]);
    return found ? node->inputs[1] : -1;
}

/* May the model's constants be looked through once more? A hostile file would have it done without end. */
static bool may_look(struct onnx_importer *importer, int tensor, int64_t *elements)
{
    const struct convoy_tensor *constant = &importer->graph->tensors[tensor];
    *elements = convoy_shape_elements(&constant->shape);
    if (constant->data == NULL || *elements > importer->work_left)
        return false;
    importer->work_left -= *elements;
    return true;
}

static bool are_zeros(struct onnx_importer *importer, int tensor)
{
    int64_t elements;
    if (!may_look(importer, tensor, &elements))
        return false;
    const float *data = importer->graph->tensors[tensor].data;
    for (int64_t i = 0; i < elements; i++)
        if (data[i] != 0)
            return false;
    return true;
}

static bool are_finite(struct onnx_importer *importer, int tensor)
{
    int64_t elements;
    if (!may_look(importer, tensor, &elements))
        return false;
    const float *data = importer->graph->tensors[tensor].data;
    for (int64_t i = 0; i < elements; i++)
        if (!isfinite(data[i]))
            return false;
    return true;
}

static bool same_shape(const struct convoy_shape *a, const struct convoy_shape *b)
{
    return a->rank == b->rank && a->batch_axis == b->batch_axis &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

static int emit_plain(struct onnx_importer *importer, enum convoy_binary_kind kind, const int *inputs,
                      const struct convoy_shape *shape, int *result)
{
    struct convoy_node *node;
    int status = onnx_emit(importer, CONVOY_OP_BINARY, inputs, 2, shape, &node);
    if (status == 0) {
        node->binary = kind;
        *result = node->output;
    }
    return status;
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
        return 0;
    const struct convoy_shape a_shape = tensors[inputs[0]].shape, b_shape = tensors[inputs[1]].shape;
    int status = onnx_broadcast(importer, &a_shape, &b_shape, 0, &small);
    if (status != 0)
        return status;
    if (is_constant(importer, inputs[0]) && is_constant(importer, inputs[1])) {
        if (onnx_product(shape, 0, shape->batch_axis) != 1 || shape->dims[shape->batch_axis] != 1)
            return 0;
        status = emit_plain(importer, kind, inputs, &small, result);
        return status == 0 ? onnx_emit_for_each_image(importer, *result, shape, result) : status;
    }
    if (!same_shape(&small, shape))
        return 0;
    for (int i = 0; i < 2 && kind == CONVOY_ADD; i++)
        if (bare[i] >= 0 && same_shape(&tensors[inputs[1 - i]].shape, shape) &&
            are_zeros(importer, bare[i])) {
            *result = inputs[1 - i];
            return 0;
        }
    return emit_plain(importer, kind, inputs, shape, result);
}

bool onnx_is_unmasked_softmax(struct onnx_importer *importer, int tensor)
{
    const struct convoy_node *node = producer_of(importer, tensor);
    if (node == NULL || node->op != CONVOY_OP_SOFTMAX || node->softmax.log)
        return false;
    for (int step = 0; step < MOST_STEPS; step++) {
        node = producer_of(importer, node->inputs[0]);
        if (node == NULL || node->op == CONVOY_OP_MATMUL)
            return node != NULL;
        bool masks = node->op == CONVOY_OP_BINARY &&
                     (node->binary == CONVOY_ADD || node->binary == CONVOY_MUL) &&
                     are_finite(importer, node->inputs[1]);
        if (!masks && node->op != CONVOY_OP_RESHAPE)
            return false;
    }
    return false;
}
