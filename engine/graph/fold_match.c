#include "engine/graph/fold_match.h"

#include <math.h>

struct convoy_node *fold_producer(struct convoy_graph *graph, int tensor)
{
    int producer = graph->tensors[tensor].producer;
    return producer < 0 ? NULL : &graph->nodes[producer];
}

bool fold_is_number(const struct convoy_graph *graph, int tensor, float value)
{
    const struct convoy_tensor *constant = &graph->tensors[tensor];
    return constant->data != NULL && convoy_shape_elements(&constant->shape) == 1 &&
           fabsf(constant->data[0] - value) <= 1e-6F * value;
}

int fold_other_operand(const struct convoy_graph *graph, const struct convoy_node *node,
                       enum convoy_binary_kind kind, float value)
{
    if (node == NULL || node->op != CONVOY_OP_BINARY || node->binary != kind)
        return -1;
    int found = -1;
    if (fold_is_number(graph, node->inputs[1], value))
        found = node->inputs[0];
    else if (kind != CONVOY_DIV && fold_is_number(graph, node->inputs[0], value))
        found = node->inputs[1];
    if (found >= 0 && graph->tensors[found].shape.rank != graph->tensors[node->output].shape.rank)
        return -1;
    return found;
}

int fold_product_input(struct convoy_graph *graph, const struct convoy_node *node,
                       int (*factor_of)(struct convoy_graph *, int))
{
    if (node == NULL || node->op != CONVOY_OP_BINARY || node->binary != CONVOY_MUL)
        return -1;
    for (int k = 0; k < 2; k++)
        if (graph->tensors[node->inputs[1 - k]].data == NULL &&
            factor_of(graph, node->inputs[1 - k]) == node->inputs[k])
            return node->inputs[k];
    return -1;
}

void fold_become_activation(struct convoy_node *node, int x, struct convoy_activation activation)
{
    node->op = CONVOY_OP_ACTIVATION;
    node->input_count = 1;
    node->inputs[0] = x;
    node->activation = activation;
}
