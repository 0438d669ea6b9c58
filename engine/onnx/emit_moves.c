/* Moving elements, with nodes that the graph has: PAD with negative amounts crops, CONCAT joins. */
#include "engine/onnx/emit.h"

#include "engine/onnx/constants.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/shapes.h"

#include <stdlib.h>
#include <string.h>

int onnx_emit_crop(struct onnx_importer *importer, int tensor, int axis, int64_t start, int64_t length,
                   int *result)
{
    struct convoy_shape shape = importer->graph->tensors[tensor].shape;
    int64_t size = shape.dims[axis];
    *result = tensor;
    if (length == size)
        return 0;
    if (axis == shape.batch_axis)
        return onnx_refuse(importer, ONNX_IMAGES_APART, "it takes some of the images of a batch");
    struct convoy_node *node;
    shape.dims[axis] = length;
    int status = onnx_emit(importer, CONVOY_OP_PAD, &tensor, 1, &shape, &node);
    if (status != 0)
        return status;
    node->pad.before[axis] = -start;
    node->pad.after[axis] = start + length - size;
    *result = node->output;
    return 0;
}

/* A tensor whose images lie one after the other: what was computed last, so that the network's first layer
 * may stay alone in reading the input. */
static int some_activation(const struct onnx_importer *importer)
{
    const struct convoy_graph *graph = importer->graph;
    for (int i = graph->node_count - 1; i >= 0 && i >= graph->node_count - 64; i--) {
        const struct convoy_shape *shape = &graph->tensors[graph->nodes[i].output].shape;
        if (shape->batch_axis >= 0 && onnx_product(shape, 0, shape->batch_axis) == 1)
            return graph->nodes[i].output;
    }
    return graph->input;
}

int onnx_emit_for_each_image(struct onnx_importer *importer, int constant, const struct convoy_shape *shape,
                             int *result)
{
    /* Zeros, made of another activation: cropped away wholly and padded again. */
    int source = some_activation(importer);
    int64_t input = convoy_shape_elements(&importer->graph->tensors[source].shape);
    int64_t elements = convoy_shape_elements(shape);
    struct convoy_shape rows = {.rank = 2, .batch_axis = 0, .dims = {1, input}};
    struct convoy_node *node;
    if (onnx_product(shape, 0, shape->batch_axis) != 1 || shape->dims[shape->batch_axis] != 1)
        return onnx_refuse(importer, ONNX_BATCH_OF_ONE,
                           "it repeats a constant for each image along a dimension that is not the first");
    int status = onnx_emit_reshape(importer, source, &rows, result);
    rows.dims[1] = elements;
    if (status == 0)
        status = onnx_emit(importer, CONVOY_OP_PAD, result, 1, &rows, &node);
    if (status != 0)
        return status;
    node->pad.before[1] = -input;
    node->pad.after[1] = elements;
    status = onnx_emit_reshape(importer, node->output, shape, result);
    return status == 0 ? onnx_emit_binary(importer, CONVOY_ADD, *result, constant, result) : status;
}

/* Parts that all have the batch, or all have none. */
static int give_batch(struct onnx_importer *importer, int *tensors, int64_t count)
{
    struct convoy_graph *graph = importer->graph;
    int batch_axis = -1;
    for (int64_t i = 0; i < count; i++)
        if (graph->tensors[tensors[i]].shape.batch_axis >= 0)
            batch_axis = graph->tensors[tensors[i]].shape.batch_axis;
    for (int64_t i = 0; batch_axis >= 0 && i < count; i++) {
        struct convoy_shape shape = graph->tensors[tensors[i]].shape;
        if (shape.batch_axis >= 0)
            continue;
        if (batch_axis >= shape.rank || shape.dims[batch_axis] != 1)
            return onnx_refuse(importer, ONNX_IMAGES_APART,
                               "it joins images of a batch with a constant that has several rows for them");
        shape.batch_axis = batch_axis;
        int status = onnx_emit_for_each_image(importer, tensors[i], &shape, &tensors[i]);
        if (status != 0)
            return status;
    }
    return 0;
}

static int join(struct onnx_importer *importer, const int *tensors, int count, int axis, int *result)
{
    struct convoy_shape shape = importer->graph->tensors[tensors[0]].shape;
    struct convoy_node *node;
    *result = tensors[0];
    if (count == 1)
        return 0;
    for (int i = 1; i < count; i++)
        if (__builtin_add_overflow(shape.dims[axis], importer->graph->tensors[tensors[i]].shape.dims[axis],
                                   &shape.dims[axis]))
            return onnx_fail(importer, -EINVAL, "the dimension that it makes overflows");
    int status = onnx_emit(importer, CONVOY_OP_CONCAT, tensors, count, &shape, &node);
    if (status != 0)
        return status;
    node->axis = axis;
    *result = node->output;
    return 0;
}

int onnx_emit_concat(struct onnx_importer *importer, const int *tensors, int64_t count, int axis, int *result)
{
    int *parts = malloc((size_t)count * sizeof *parts);
    if (parts == NULL)
        return onnx_out_of_memory(importer);
    memcpy(parts, tensors, (size_t)count * sizeof *parts);
    int status = give_batch(importer, parts, count);
    if (status == 0 && axis == importer->graph->tensors[parts[0]].shape.batch_axis && count > 1)
        status = onnx_refuse(importer, ONNX_IMAGES_APART, "it joins along the batch, which would mix images");
    while (status == 0 && count > 1) { /* as many as a node takes, and then what these make */
        int64_t made = 0;
        for (int64_t first = 0; first < count && status == 0; first += CONVOY_MAX_NODE_INPUTS) {
            int64_t some = count - first < CONVOY_MAX_NODE_INPUTS ? count - first : CONVOY_MAX_NODE_INPUTS;
            status = join(importer, parts + first, (int)some, axis, &parts[made++]);
        }
        count = made;
    }
    *result = parts[0];
    free(parts);
    return status;
}

/* A constant of ones. */
static int ones(struct onnx_importer *importer, const struct convoy_shape *shape, int *tensor)
{
    void *data;
    int status = onnx_allocate(importer, shape, false, &data);
    if (status != 0)
        return status;
    int64_t elements = convoy_shape_elements(shape);
    for (int64_t i = 0; i < elements; i++)
        ((float *)data)[i] = 1;
    return onnx_emit_constant(importer, "ones", shape, data, tensor);
}

int onnx_emit_expanded(struct onnx_importer *importer, int tensor, const struct convoy_shape *shape,
                       int *result)
{
    const struct convoy_shape in = importer->graph->tensors[tensor].shape;
    struct convoy_shape factor = {.rank = shape->rank, .batch_axis = -1};
    bool changes = shape->rank != in.rank;
    int factors;
    *result = tensor;
    for (int axis = 0; axis < shape->rank; axis++) {
        int own = axis - (shape->rank - in.rank);
        bool repeated = (own < 0 || in.dims[own] == 1) && shape->dims[axis] != 1;
        factor.dims[axis] = repeated ? shape->dims[axis] : 1;
        changes |= repeated;
        if (repeated && axis == shape->batch_axis)
            return onnx_refuse(importer, ONNX_IMAGES_APART, "it repeats the images of a batch");
    }
    if (!changes)
        return 0;
    int status = ones(importer, &factor, &factors);
    return status == 0 ? onnx_emit_binary(importer, CONVOY_MUL, tensor, factors, result) : status;
}
