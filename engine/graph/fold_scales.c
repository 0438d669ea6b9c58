/* Batch norm, and what else multiplies and shifts channels, into the weights before it:
 * scale (W x + b) + shift = (scale W) x + (scale b + shift). One factor behind an activation, into the
 * weights behind it: W (scale x) + b = (scale W) x + b. Computed in double and rounded once. */
#include "engine/graph/build.h"
#include "engine/graph/fold.h"
#include "engine/graph/fold_match.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Weights that several layers share are copied before a scale is folded into them: up to so many floats in
 * all (64 MiB), so that a small file of many layers over one weight does not become large. Further scales are
 * not folded. */
#define MOST_ADDED (INT64_C(1) << 24)

/* A channel-wise y = scale x + shift; a stride of 0 repeats one value for every channel. */
struct affine {
    const float *scale, *shift; /* NULL for 1 and 0 */
    int scale_stride, shift_stride;
    double scale_sign, shift_sign;
    bool invert_scale;
    int x;    /* tensor index */
    int axis; /* of x, along which the channels are; -1: all alike */
};

static double affine_scale(const struct affine *affine, int64_t channel)
{
    if (affine->scale == NULL)
        return affine->scale_sign;
    double value = affine->scale[channel * affine->scale_stride];
    return affine->invert_scale ? affine->scale_sign / value : affine->scale_sign * value;
}

static double affine_shift(const struct affine *affine, int64_t channel)
{
    return affine->shift == NULL ? 0 : affine->shift_sign * affine->shift[channel * affine->shift_stride];
}

/* Whether a constant varies along one axis of `shape` at most: *axis, with *stride 1; or -1, with 0. */
static bool channelwise(const struct convoy_shape *constant, const struct convoy_shape *shape, int *axis,
                        int *stride)
{
    if (constant->rank > shape->rank)
        return false;
    *stride = 0;
    *axis = -1;
    for (int i = 0; i < constant->rank; i++) {
        int aligned = i + shape->rank - constant->rank;
        if (constant->dims[i] == 1)
            continue;
        if (*axis >= 0 || constant->dims[i] != shape->dims[aligned] || aligned == shape->batch_axis)
            return false;
        *axis = aligned;
        *stride = 1;
    }
    return true;
}

/* The layer whose result the tensor is, through transpositions and reshapes that keep its channels and that
 * nothing else reads, where *axis (-1: any) becomes the axis of the layer's channels. NULL: there is none. */
static struct convoy_node *layer_before(struct convoy_graph *graph, int tensor, int axis, const int *readers)
{
    for (;;) {
        int producer = graph->tensors[tensor].producer;
        if (producer < 0 || readers[tensor] != 1)
            return NULL;
        struct convoy_node *node = &graph->nodes[producer];
        const struct convoy_shape *y = &graph->tensors[tensor].shape;
        const struct convoy_shape *x = &graph->tensors[node->inputs[0]].shape;
        if (node->op == CONVOY_OP_CONV || node->op == CONVOY_OP_DENSE)
            return axis < 0 || axis == 1 ? node : NULL;
        if (node->op == CONVOY_OP_TRANSPOSE && axis >= 0)
            axis = node->perm[axis];
        else if (node->op == CONVOY_OP_RESHAPE && axis == y->rank - 1 && x->rank > 0 &&
                 x->dims[x->rank - 1] == y->dims[axis] && x->batch_axis != x->rank - 1)
            axis = x->rank - 1;
        else
            return NULL;
        tensor = node->inputs[0];
    }
}

static bool read_binary(const struct convoy_graph *graph, const struct convoy_node *node,
                        struct affine *affine)
{
    bool constant_first = graph->tensors[node->inputs[0]].data != NULL;
    const struct convoy_tensor *constant = &graph->tensors[node->inputs[constant_first ? 0 : 1]];
    affine->x = node->inputs[constant_first ? 1 : 0];
    int stride;
    if (constant->data == NULL ||
        !channelwise(&constant->shape, &graph->tensors[affine->x].shape, &affine->axis, &stride))
        return false;
    int64_t values = convoy_shape_elements(&constant->shape);
    switch (node->binary) {
    case CONVOY_ADD:
    case CONVOY_SUB:
        affine->shift = constant->data;
        affine->shift_stride = stride;
        if (node->binary == CONVOY_SUB && constant_first)
            affine->scale_sign = -1;
        else if (node->binary == CONVOY_SUB)
            affine->shift_sign = -1;
        return true;
    case CONVOY_DIV:
        affine->invert_scale = true;
        for (int64_t i = 0; i < values; i++)
            if (constant_first || constant->data[i] == 0)
                return false;
        /* fall through */
    case CONVOY_MUL:
        affine->scale = constant->data;
        affine->scale_stride = stride;
        return true;
    default:
        return false;
    }
}

static bool read_affine(const struct convoy_graph *graph, const struct convoy_node *node,
                        struct affine *affine)
{
    *affine = (struct affine){.scale_sign = 1, .shift_sign = 1, .x = -1};
    if (node->op == CONVOY_OP_BINARY)
        return read_binary(graph, node, affine);
    if (node->op != CONVOY_OP_SCALE_SHIFT)
        return false;
    affine->x = node->inputs[0];
    affine->scale = graph->tensors[node->inputs[1]].data;
    affine->shift = graph->tensors[node->inputs[2]].data;
    affine->scale_stride = affine->shift_stride = 1;
    affine->axis = 1;
    return true;
}

/* A constant that this node alone reads, as input k: the one it has, or a copy where others read it too. */
static float *own_constant(struct convoy_graph *graph, struct convoy_node *node, int k, int *readers)
{
    int index = node->inputs[k];
    if (readers[index] == 1)
        return graph->tensors[index].data;
    int64_t elements = convoy_shape_elements(&graph->tensors[index].shape);
    float *data = malloc((size_t)elements * sizeof *data);
    if (data == NULL)
        return NULL;
    memcpy(data, graph->tensors[index].data, (size_t)elements * sizeof *data);
    struct convoy_shape shape = graph->tensors[index].shape;
    int copy = convoy_graph_add_tensor(graph, graph->tensors[index].name, &shape, data);
    if (copy < 0)
        return NULL;
    readers[index]--;
    readers[copy] = 1;
    node->inputs[k] = copy;
    return data;
}

static int give_bias(struct convoy_graph *graph, struct convoy_node *node, int64_t channels, int *readers)
{
    if (node->input_count == 3)
        return 0;
    float *zeros = calloc((size_t)channels, sizeof *zeros);
    if (zeros == NULL)
        return -ENOMEM;
    struct convoy_shape shape = {.rank = 1, .batch_axis = -1, .dims = {channels}};
    int bias = convoy_graph_add_tensor(graph, node->name, &shape, zeros);
    if (bias < 0)
        return bias;
    readers[bias] = 1;
    node->inputs[node->input_count++] = bias;
    return 0;
}

static int apply(struct convoy_graph *graph, struct convoy_node *target, const struct affine *affine,
                 int *readers)
{
    int64_t channels = graph->tensors[target->inputs[1]].shape.dims[0];
    int64_t row = convoy_shape_elements(&graph->tensors[target->inputs[1]].shape) / channels;
    if (give_bias(graph, target, channels, readers) != 0)
        return -ENOMEM;
    float *weight = own_constant(graph, target, 1, readers);
    float *bias = own_constant(graph, target, 2, readers);
    if (weight == NULL || bias == NULL)
        return -ENOMEM;
    for (int64_t k = 0; k < channels; k++) {
        double scale = affine_scale(affine, k);
        if (scale != 1)
            for (int64_t i = 0; i < row; i++)
                weight[k * row + i] = (float)(weight[k * row + i] * scale);
        bias[k] = (float)(bias[k] * scale + affine_shift(affine, k));
    }
    return 0;
}

static int scale_weights(struct convoy_graph *graph, struct convoy_node *target, double scale, int *readers)
{
    float *weight = own_constant(graph, target, 1, readers);
    if (weight == NULL)
        return -ENOMEM;
    int64_t elements = convoy_shape_elements(&graph->tensors[target->inputs[1]].shape);
    for (int64_t i = 0; i < elements; i++)
        weight[i] = (float)(weight[i] * scale);
    return 0;
}

/* The node that reads a tensor which one node reads; -1 for others. NULL: no memory. The caller frees it. */
static int *find_readers(const struct convoy_graph *graph, const int *readers)
{
    int *reader_of = malloc(((size_t)graph->tensor_count + 1) * sizeof *reader_of);
    for (int t = 0; reader_of != NULL && t < graph->tensor_count; t++)
        reader_of[t] = -1;
    for (int i = 0; reader_of != NULL && i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count && graph->nodes[i].output >= 0; k++)
            if (readers[graph->nodes[i].inputs[k]] == 1)
                reader_of[graph->nodes[i].inputs[k]] = i;
    return reader_of;
}

/* The layer that alone reads an activation times one number, through reshapes at most. NULL: there is none,
 * or the node is something else. */
static struct convoy_node *layer_behind(struct convoy_graph *graph, const struct convoy_node *node,
                                        const struct affine *affine, const int *readers, const int *reader_of)
{
    int producer = graph->tensors[affine->x].producer, reader = reader_of[node->output];
    if (affine->axis >= 0 || affine->shift != NULL || producer < 0 || readers[affine->x] != 1 ||
        graph->nodes[producer].op != CONVOY_OP_ACTIVATION || !fold_keeps_range(affine_scale(affine, 0)))
        return NULL;
    while (reader >= 0 && graph->nodes[reader].op == CONVOY_OP_RESHAPE)
        reader = reader_of[graph->nodes[reader].output];
    struct convoy_node *layer = reader >= 0 ? &graph->nodes[reader] : NULL;
    return layer != NULL && (layer->op == CONVOY_OP_CONV || layer->op == CONVOY_OP_DENSE) ? layer : NULL;
}

/* Floats that would have to be copied or made because others read the same weights or, where it takes one,
 * there is no bias. */
static int64_t floats_to_add(const struct convoy_graph *graph, const struct convoy_node *target,
                             bool takes_bias, const int *readers)
{
    const struct convoy_shape *weight = &graph->tensors[target->inputs[1]].shape;
    bool own_bias = target->input_count == 3 && readers[target->inputs[2]] == 1;
    return (readers[target->inputs[1]] == 1 ? 0 : convoy_shape_elements(weight)) +
           (own_bias || !takes_bias ? 0 : weight->dims[0]);
}

/* What made the node's input makes its output. */
static void drop_behind(struct convoy_graph *graph, struct convoy_node *node, int x)
{
    int producer = graph->tensors[x].producer;
    graph->nodes[producer].output = node->output;
    graph->tensors[node->output].producer = producer;
}

int convoy_fold_scales(struct convoy_graph *graph, int *readers)
{
    int64_t floats_left = MOST_ADDED;
    int status = 0, *reader_of = find_readers(graph, readers);
    if (reader_of == NULL)
        return -ENOMEM;
    for (int i = 0; i < graph->node_count && status == 0; i++) {
        struct convoy_node *node = &graph->nodes[i];
        struct affine affine;
        if (node->output < 0 || !read_affine(graph, node, &affine))
            continue;
        struct convoy_node *before = layer_before(graph, affine.x, affine.axis, readers);
        struct convoy_node *target =
            before != NULL ? before : layer_behind(graph, node, &affine, readers, reader_of);
        if (target == NULL)
            continue;
        int64_t added = floats_to_add(graph, target, before != NULL, readers);
        if (added > floats_left)
            continue;
        floats_left -= added;
        status = before != NULL ? apply(graph, target, &affine, readers)
                                : scale_weights(graph, target, affine_scale(&affine, 0), readers);
        drop_behind(graph, node, affine.x);
        for (int k = 0; k < node->input_count; k++)
            readers[node->inputs[k]]--;
        node->output = -1;
    }
    free(reader_of);
    return status;
}
