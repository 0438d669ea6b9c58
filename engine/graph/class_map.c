#include "engine/graph/class_map.h"

#include "engine/graph/build.h"
#include "engine/graph/prune.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The same elements in the same order: a reshape, or a transpose that moves axes of length 1 alone. */
static bool is_view(const struct convoy_graph *graph, const struct convoy_node *node)
{
    if (node->op != CONVOY_OP_TRANSPOSE)
        return node->op == CONVOY_OP_RESHAPE;
    const struct convoy_shape *in = &graph->tensors[node->inputs[0]].shape;
    int last = -1;
    for (int axis = 0; axis < in->rank; axis++) {
        if (in->dims[node->perm[axis]] == 1 && node->perm[axis] != in->batch_axis)
            continue;
        if (node->perm[axis] < last)
            return false;
        last = node->perm[axis];
    }
    return true;
}

/* The node that computes the tensor, views aside; NULL for an input and constants. */
static const struct convoy_node *source_of(const struct convoy_graph *graph, int tensor)
{
    int producer = graph->tensors[tensor].producer;
    while (producer >= 0 && is_view(graph, &graph->nodes[producer]))
        producer = graph->tensors[graph->nodes[producer].inputs[0]].producer;
    return producer >= 0 ? &graph->nodes[producer] : NULL;
}

static bool is_probability(const struct convoy_node *node)
{
    return node->op == CONVOY_OP_SOFTMAX ||
           (node->op == CONVOY_OP_ACTIVATION && node->activation.kind == CONVOY_SIGMOID);
}

static bool is_image(const struct convoy_shape *shape)
{
    return shape->rank == 4 && shape->dims[0] == 1 && shape->batch_axis <= 0;
}

/* The mean over all positions of each channel: of [1,C,H,W], or, as a mean over the first axes of an image
 * with its channels last is read, of [1,1,HW,C]. */
static bool is_global_average(const struct convoy_graph *graph, const struct convoy_node *node)
{
    static const int64_t none[4] = {0};
    if (node->op != CONVOY_OP_POOL || node->pool.kind != CONVOY_POOL_AVERAGE)
        return false;
    const struct convoy_shape *in = &graph->tensors[node->inputs[0]].shape;
    const struct convoy_shape *out = &graph->tensors[node->output].shape;
    bool channels_last = in->dims[1] == 1 && node->pool.window[1] == 1 && out->dims[3] == in->dims[3];
    bool whole_width = in->dims[3] == node->pool.window[1] && out->dims[3] == 1;
    return is_image(in) && in->dims[2] == node->pool.window[0] && out->dims[2] == 1 &&
           (whole_width || channels_last) && memcmp(node->pool.pad, none, sizeof none) == 0;
}

/* A dense layer, or a convolution that is one: of 1 x 1, over one position. */
static bool is_dense(const struct convoy_graph *graph, const struct convoy_node *node)
{
    if (node->op == CONVOY_OP_DENSE)
        return true;
    if (node->op != CONVOY_OP_CONV || node->conv.groups != 1)
        return false;
    const struct convoy_shape *in = &graph->tensors[node->inputs[0]].shape;
    const struct convoy_shape *weight = &graph->tensors[node->inputs[1]].shape;
    return is_image(in) && in->dims[2] == 1 && in->dims[3] == 1 && weight->dims[2] == 1 &&
           weight->dims[3] == 1;
}

/* The node if it computes the tensor with this operator. */
static const struct convoy_node *producer_of(const struct convoy_graph *graph, int tensor, enum convoy_op op)
{
    int producer = graph->tensors[tensor].producer;
    return producer >= 0 && graph->nodes[producer].op == op ? &graph->nodes[producer] : NULL;
}

/* The features as an image of this many channels: what is averaged may have been flattened to C x HW before,
 * or turned round and flattened to HW x C. -1: they never were one. */
static int features_of(const struct convoy_graph *graph, const struct convoy_node *average)
{
    static const int channels_last[4] = {0, 2, 3, 1};
    int averaged = average->inputs[0];
    const struct convoy_shape *in = &graph->tensors[averaged].shape;
    int64_t channels = convoy_shape_elements(&graph->tensors[average->output].shape);
    const struct convoy_node *flattened = producer_of(graph, averaged, CONVOY_OP_RESHAPE);
    int before = flattened != NULL ? flattened->inputs[0] : averaged;
    if (in->dims[1] != channels) {
        const struct convoy_node *turned = producer_of(graph, before, CONVOY_OP_TRANSPOSE);
        if (turned == NULL || graph->tensors[before].shape.rank != 4 ||
            memcmp(turned->perm, channels_last, sizeof channels_last) != 0)
            return -1;
        before = turned->inputs[0];
    }
    const struct convoy_shape *image = &graph->tensors[before].shape;
    bool same = is_image(image) && image->dims[1] == channels && image->batch_axis == in->batch_axis;
    return same ? before : in->dims[1] == channels ? averaged : -1;
}

static int refuse(const struct convoy_node *node, const struct convoy_node *reads, struct convoy_error *error)
{
    if (node == NULL)
        return convoy_fail(error, -ENOTSUP, "no node computes its classes");
    if (reads == NULL)
        return convoy_fail(error, -ENOTSUP,
                           "its classes come from node '%s' (%s), not from a dense layer behind a global "
                           "average pooling",
                           node->name, node->onnx_op);
    return convoy_fail(error, -ENOTSUP,
                       "its classes come from node '%s' (%s), which reads node '%s' (%s), not a global "
                       "average pooling",
                       node->name, node->onnx_op, reads->name, reads->onnx_op);
}

static int check_size(const struct convoy_graph *graph, const struct convoy_class_map *map,
                      struct convoy_error *error)
{
    const struct convoy_tensor *features = &graph->tensors[map->features];
    if (features->producer < 0)
        return convoy_fail(error, -ENOTSUP, "its classes are averages of the picture itself");
    if (map->height * map->width > CONVOY_MAX_CLASS_MAP ||
        map->height * map->width * map->classes > CONVOY_MAX_CLASS_MAPS)
        return convoy_fail(error, -ENOTSUP,
                           "its maps of %lld x %lld for %lld classes are too large: %d values a map and %d "
                           "together are possible",
                           (long long)map->height, (long long)map->width, (long long)map->classes,
                           CONVOY_MAX_CLASS_MAP, CONVOY_MAX_CLASS_MAPS);
    return 0;
}

int convoy_class_map_find(const struct convoy_graph *graph, struct convoy_class_map *map,
                          struct convoy_error *error)
{
    const struct convoy_node *last = source_of(graph, graph->outputs[0]);
    while (last != NULL && is_probability(last))
        last = source_of(graph, last->inputs[0]);
    if (last == NULL)
        return refuse(NULL, NULL, error);
    const struct convoy_node *average = last;
    *map = (struct convoy_class_map){
        .weight = -1, .classes = convoy_shape_elements(&graph->tensors[graph->outputs[0]].shape)};
    if (is_dense(graph, last)) {
        average = source_of(graph, last->inputs[0]);
        map->weight = last->inputs[1];
    }
    if (average == NULL || !is_global_average(graph, average))
        return refuse(last, average == last ? NULL : average, error);
    map->features = features_of(graph, average);
    if (map->features < 0)
        return convoy_fail(error, -ENOTSUP, "what node '%s' (%s) averages is no image", average->name,
                           average->onnx_op);
    const struct convoy_shape *features = &graph->tensors[map->features].shape;
    map->height = features->dims[2];
    map->width = features->dims[3];
    /* Otherwise a dense layer runs over several rows, or reads channels in groups. */
    int64_t expected = map->weight < 0 ? features->dims[1] : features->dims[1] * map->classes;
    int64_t found =
        map->weight < 0 ? map->classes : convoy_shape_elements(&graph->tensors[map->weight].shape);
    return expected != found ? refuse(last, NULL, error) : check_size(graph, map, error);
}

/* The convolution that computes the maps. Returns its output's index or -ENOMEM. */
static int add_maps(struct convoy_graph *graph, const struct convoy_class_map *map)
{
    struct convoy_shape filters = {.rank = 4, .batch_axis = -1, .dims = {map->classes, 0, 1, 1}};
    struct convoy_shape maps = graph->tensors[map->features].shape;
    filters.dims[1] = maps.dims[1];
    maps.dims[1] = map->classes;
    size_t bytes = (size_t)convoy_shape_elements(&filters) * sizeof(float);
    float *copy = malloc(bytes);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, graph->tensors[map->weight].data, bytes);
    int weight = convoy_graph_add_tensor(graph, "class_map_weight", &filters, copy);
    int output = weight < 0 ? weight : convoy_graph_add_tensor(graph, "class_maps", &maps, NULL);
    if (output < 0)
        return output;
    const int inputs[] = {map->features, weight};
    struct convoy_node *node =
        convoy_graph_add_node(graph, CONVOY_OP_CONV, "class_maps", "Conv", inputs, 2, output);
    if (node == NULL)
        return -ENOMEM;
    node->conv = (struct convoy_conv){.groups = 1, .stride = {1, 1}, .dilation = {1, 1}};
    graph->weight_bytes += (int64_t)bytes;
    return output;
}

int convoy_class_map_outputs(struct convoy_graph *graph, struct convoy_error *error)
{
    struct convoy_class_map map;
    int status = convoy_class_map_find(graph, &map, error);
    if (status != 0)
        return status;
    int maps = map.weight < 0 ? map.features : add_maps(graph, &map);
    if (maps >= 0) {
        graph->outputs[1] = maps;
        graph->output_count = 2;
        status = convoy_graph_prune(graph);
    }
    return maps < 0 || status != 0 ? convoy_fail(error, -ENOMEM, "out of memory for class maps") : 0;
}
