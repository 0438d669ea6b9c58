#include "engine/graph/build.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct convoy_graph *convoy_graph_new(void)
{
    struct convoy_graph *graph = calloc(1, sizeof *graph);
    if (graph != NULL)
        graph->input = -1;
    return graph;
}

/* The arrays double whenever their count reaches a power of two, so that no capacity has to be kept. */
static void *room_for_one_more(void *items, int count, size_t size)
{
    if (count != 0 && (count < 16 || (count & (count - 1)) != 0))
        return items;
    size_t capacity = count == 0 ? 16 : (size_t)count * 2;
    return reallocarray(items, capacity, size);
}

int convoy_graph_add_tensor(struct convoy_graph *graph, const char *name, const struct convoy_shape *shape,
                            float *data)
{
    char *copy = strdup(name);
    struct convoy_tensor *tensors = room_for_one_more(graph->tensors, graph->tensor_count, sizeof *tensors);
    if (tensors != NULL)
        graph->tensors = tensors;
    if (copy == NULL || tensors == NULL) {
        free(copy);
        free(data);
        return -ENOMEM;
    }
    tensors[graph->tensor_count] =
        (struct convoy_tensor){.name = copy, .shape = *shape, .data = data, .producer = -1};
    return graph->tensor_count++;
}

struct convoy_node *convoy_graph_add_node(struct convoy_graph *graph, enum convoy_op op, const char *name,
                                          const char *onnx_op, const int *inputs, int input_count, int output)
{
    struct convoy_node *nodes = room_for_one_more(graph->nodes, graph->node_count, sizeof *nodes);
    if (nodes == NULL)
        return NULL;
    graph->nodes = nodes;
    char made[64];
    if (name == NULL || name[0] == '\0') {
        snprintf(made, sizeof made, "%s_%d", onnx_op != NULL ? onnx_op : convoy_op_name(op),
                 graph->node_count);
        name = made;
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return NULL;
    struct convoy_node *node = &nodes[graph->node_count];
    memset(node, 0, sizeof *node);
    node->op = op;
    node->name = copy;
    node->onnx_op = onnx_op != NULL ? onnx_op : convoy_op_name(op);
    node->input_count = input_count;
    memcpy(node->inputs, inputs, sizeof *inputs * (size_t)input_count);
    node->output = output;
    graph->tensors[output].producer = graph->node_count++;
    return node;
}
