/* What exporters write where there is no operator. Swish has one from opset 24 on (Ramachandran et al.,
 * Searching for Activation Functions):
 *   swish        = x * Sigmoid(x)
 * What they wrote before HardSwish was one, in opset 14 (Howard et al., Searching for MobileNetV3, section
 * 5.2), in every order of the product and the quotient:
 *   hard sigmoid = clip(x + 3, 0, 6) / 6        = HardSigmoid(x; 1/6, 0.5)
 *   hard swish   = x * clip(x + 3, 0, 6) / 6    = x * HardSigmoid(x; 1/6, 0.5) */
#include "engine/graph/fold.h"

#include <math.h>

static struct convoy_node *producer_of(struct convoy_graph *graph, int tensor)
{
    int producer = graph->tensors[tensor].producer;
    return producer < 0 ? NULL : &graph->nodes[producer];
}

static bool is_constant(const struct convoy_graph *graph, int tensor, float value)
{
    const struct convoy_tensor *constant = &graph->tensors[tensor];
    return constant->data != NULL && convoy_shape_elements(&constant->shape) == 1 &&
           fabsf(constant->data[0] - value) <= 1e-6F * value;
}

/* For a BINARY of `kind` with the constant `value` on either side (Div: on the right) the other input; else
 * -1. A constant of higher rank than the other input would change the shape, which a fused node cannot. */
static int other_operand(const struct convoy_graph *graph, const struct convoy_node *node,
                         enum convoy_binary_kind kind, float value)
{
    if (node == NULL || node->op != CONVOY_OP_BINARY || node->binary != kind)
        return -1;
    int found = -1;
    if (is_constant(graph, node->inputs[1], value))
        found = node->inputs[0];
    else if (kind != CONVOY_DIV && is_constant(graph, node->inputs[0], value))
        found = node->inputs[1];
    if (found >= 0 && graph->tensors[found].shape.rank != graph->tensors[node->output].shape.rank)
        return -1;
    return found;
}

/* The x of clip(x + 3, 0, 6), or -1. */
static int clipped_input(struct convoy_graph *graph, int tensor)
{
    const struct convoy_node *clip = producer_of(graph, tensor);
    if (clip == NULL || clip->op != CONVOY_OP_ACTIVATION || clip->activation.kind != CONVOY_CLIP ||
        clip->activation.alpha != 0 || clip->activation.beta != 6)
        return -1;
    return other_operand(graph, producer_of(graph, clip->inputs[0]), CONVOY_ADD, 3);
}

/* For a product of x with something of x: the one factor that `factor_of` recognises as made from the other.
 */
static int product_input(struct convoy_graph *graph, const struct convoy_node *node,
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

static int hard_sigmoid_input(struct convoy_graph *graph, int tensor)
{
    const struct convoy_node *node = producer_of(graph, tensor);
    if (node == NULL || node->op != CONVOY_OP_ACTIVATION || node->activation.kind != CONVOY_HARD_SIGMOID ||
        fabsf(node->activation.alpha - 1.0F / 6) > 1e-6F || node->activation.beta != 0.5F)
        return -1;
    return node->inputs[0];
}

static int sigmoid_input(struct convoy_graph *graph, int tensor)
{
    const struct convoy_node *node = producer_of(graph, tensor);
    return node != NULL && node->op == CONVOY_OP_ACTIVATION && node->activation.kind == CONVOY_SIGMOID
               ? node->inputs[0]
               : -1;
}

static int sixth_of(const struct convoy_graph *graph, const struct convoy_node *node)
{
    int x = other_operand(graph, node, CONVOY_DIV, 6);
    return x >= 0 ? x : other_operand(graph, node, CONVOY_MUL, 1.0F / 6);
}

/* What the node read before stays for others, or is left to convoy_graph_prune(). */
static void become_activation(struct convoy_node *node, int x, struct convoy_activation activation)
{
    node->op = CONVOY_OP_ACTIVATION;
    node->input_count = 1;
    node->inputs[0] = x;
    node->activation = activation;
}

void convoy_fold_swish(struct convoy_graph *graph)
{
    const struct convoy_activation sigmoid = {CONVOY_HARD_SIGMOID, 1.0F / 6, 0.5F};
    const struct convoy_activation swish = {.kind = CONVOY_HARD_SWISH};
    for (int i = 0; i < graph->node_count; i++) {
        struct convoy_node *node = &graph->nodes[i];
        if (node->op != CONVOY_OP_BINARY)
            continue;
        int x = product_input(graph, node, hard_sigmoid_input);
        if (x >= 0) {
            become_activation(node, x, swish);
            continue;
        }
        x = product_input(graph, node, sigmoid_input);
        if (x >= 0) {
            become_activation(node, x, (struct convoy_activation){.kind = CONVOY_SWISH});
            continue;
        }
        int sixfold = sixth_of(graph, node);
        if (sixfold < 0)
            continue;
        x = clipped_input(graph, sixfold);
        if (x >= 0) {
            become_activation(node, x, sigmoid);
            continue;
        }
        x = product_input(graph, producer_of(graph, sixfold), clipped_input);
        if (x >= 0)
            become_activation(node, x, swish);
    }
}
