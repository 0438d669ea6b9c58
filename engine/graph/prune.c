#include "engine/graph/prune.h"

#include <errno.h>
#include <stdlib.h>

/* Walks backwards: the nodes are in topological order, so one pass sees every reader before its producer. */
static void mark_needed(const struct convoy_graph *graph, bool *tensor_needed, bool *node_needed)
{
    tensor_needed[graph->input] = true;
    for (int i = 0; i < graph->output_count; i++)
        tensor_needed[graph->outputs[i]] = true;
    for (int i = graph->node_count - 1; i >= 0; i--) {
        const struct convoy_node *node = &graph->nodes[i];
        node_needed[i] = node->output >= 0 && tensor_needed[node->output];
        for (int k = 0; node_needed[i] && k < node->input_count; k++)
            tensor_needed[node->inputs[k]] = true;
    }
}

int convoy_graph_prune(struct convoy_graph *graph)
{
    bool *tensor_needed = calloc((size_t)graph->tensor_count + 1, sizeof *tensor_needed);
    bool *node_needed = calloc((size_t)graph->node_count + 1, sizeof *node_needed);
    int *moved_to = calloc((size_t)graph->tensor_count + 1, sizeof *moved_to);
    int status = -ENOMEM;
    if (tensor_needed == NULL || node_needed == NULL || moved_to == NULL)
        goto out;
    mark_needed(graph, tensor_needed, node_needed);

    int tensors = 0;
    for (int i = 0; i < graph->tensor_count; i++) {
        if (tensor_needed[i]) {
            graph->tensors[i].producer = -1;
            graph->tensors[tensors] = graph->tensors[i];
            moved_to[i] = tensors++;
        } else {
            free(graph->tensors[i].name);
            free(graph->tensors[i].data);
        }
    }
    graph->tensor_count = tensors;

    int nodes = 0;
    for (int i = 0; i < graph->node_count; i++) {
        struct convoy_node *node = &graph->nodes[i];
        if (!node_needed[i]) {
            free(node->name);
            continue;
        }
        for (int k = 0; k < node->input_count; k++)
            node->inputs[k] = moved_to[node->inputs[k]];
        node->output = moved_to[node->output];
        graph->tensors[node->output].producer = nodes;
        if (nodes != i)
            graph->nodes[nodes] = *node;
        nodes++;
    }
    graph->node_count = nodes;

    graph->input = moved_to[graph->input];
    for (int i = 0; i < graph->output_count; i++)
        graph->outputs[i] = moved_to[graph->outputs[i]];
    status = 0;
out:
    free(tensor_needed);
    free(node_needed);
    free(moved_to);
    return status;
}
