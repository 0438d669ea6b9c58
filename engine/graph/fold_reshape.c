/* Reshapes out of the way: a chain of them becomes one, and what is done to each element behind one is done
 * before it, so that it follows the layer that computes the elements (a matrix product of [N,L,M] is a dense
 * layer of its rows between two reshapes, and its bias an addition behind the second). */
#include "engine/graph/fold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_output(const struct convoy_graph *graph, int tensor)
{
    for (int i = 0; i < graph->output_count; i++)
        if (graph->outputs[i] == tensor)
            return true;
    return false;
}

int convoy_fold_reshape_chains(struct convoy_graph *graph)
{
    int *alias = malloc(((size_t)graph->tensor_count + 1) * sizeof *alias);
    if (alias == NULL)
        return -ENOMEM;
    for (int t = 0; t < graph->tensor_count; t++)
        alias[t] = t;
    for (int i = 0; i < graph->node_count; i++) {
        struct convoy_node *node = &graph->nodes[i];
        for (int k = 0; k < node->input_count; k++)
            node->inputs[k] = alias[node->inputs[k]];
        if (node->op != CONVOY_OP_RESHAPE || node->output < 0)
            continue;
        int producer = graph->tensors[node->inputs[0]].producer;
        if (producer >= 0 && graph->nodes[producer].op == CONVOY_OP_RESHAPE)
            node->inputs[0] = graph->nodes[producer].inputs[0];
        if (node->inputs[0] != graph->input && !is_output(graph, node->output) &&
            convoy_same_shape(&graph->tensors[node->inputs[0]].shape, &graph->tensors[node->output].shape)) {
            alias[node->output] = node->inputs[0];
            node->output = -1;
        }
    }
    free(alias);
    return 0;
}

/* Whether the constant may meet `shape` and `other`, which hold the same elements in the same order, alike:
 * one number, or one for each element of a last dimension that both have. */
static bool fits_both(const struct convoy_shape *constant, const struct convoy_shape *shape,
                      const struct convoy_shape *other)
{
    if (constant->rank > shape->rank || constant->rank > other->rank)
        return false;
    if (convoy_shape_elements(constant) == 1)
        return true;
    int64_t last = constant->dims[constant->rank - 1];
    return convoy_shape_elements(constant) == last && last == shape->dims[shape->rank - 1] &&
           last == other->dims[other->rank - 1] && shape->batch_axis != shape->rank - 1 &&
           other->batch_axis != other->rank - 1;
}

/* The input that an elementwise node changes element by element; -1 for other nodes. *constant: the other
 * one, or -1. */
static int changed_input(const struct convoy_graph *graph, const struct convoy_node *node, int *constant)
{
    *constant = -1;
    if (node->op == CONVOY_OP_ACTIVATION)
        return node->inputs[0];
    if (node->op != CONVOY_OP_BINARY)
        return -1;
    int side = graph->tensors[node->inputs[0]].data != NULL ? 0 : 1;
    *constant = node->inputs[side];
    return graph->tensors[*constant].data != NULL ? node->inputs[1 - side] : -1;
}

static bool takes_more(const struct convoy_graph *graph, int tensor)
{
    int producer = graph->tensors[tensor].producer;
    if (producer < 0)
        return false;
    const struct convoy_node *node = &graph->nodes[producer];
    int constant;
    return node->op == CONVOY_OP_DENSE || node->op == CONVOY_OP_CONV ||
           changed_input(graph, node, &constant) >= 0;
}

void convoy_fold_reshapes(struct convoy_graph *graph, const int *readers)
{
    for (int i = 0; i < graph->node_count; i++) {
        struct convoy_node *node = &graph->nodes[i];
        int constant, x = changed_input(graph, node, &constant);
        int producer = x >= 0 && readers[x] == 1 ? graph->tensors[x].producer : -1;
        if (producer < 0 || graph->nodes[producer].op != CONVOY_OP_RESHAPE)
            continue;
        struct convoy_node *reshape = &graph->nodes[producer];
        const struct convoy_shape before = graph->tensors[reshape->inputs[0]].shape;
        const struct convoy_shape behind = graph->tensors[x].shape;
        if (!convoy_same_shape(&behind, &graph->tensors[node->output].shape) ||
            !takes_more(graph, reshape->inputs[0]) ||
            (constant >= 0 && !fits_both(&graph->tensors[constant].shape, &behind, &before)))
            continue;
        /* The two nodes change places; x is now what the elementwise one computes. */
        struct convoy_node earlier = *node, later = *reshape;
        int result = node->output;
        for (int k = 0; k < earlier.input_count; k++)
            if (earlier.inputs[k] == x)
                earlier.inputs[k] = reshape->inputs[0];
        earlier.output = x;
        later.inputs[0] = x;
        later.output = result;
        graph->tensors[x].shape = before;
        *reshape = earlier;
        *node = later;
    }
}
