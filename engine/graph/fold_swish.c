/* What exporters write where there is no operator. Swish has one from opset 24 on (Ramachandran et al.,
 * Searching for Activation Functions):
 *   swish        = x * Sigmoid(x)
 *   quick GELU   = x * Sigmoid(1.702 x) = swish(1.702 x) / 1.702 (Hendrycks and Gimpel, Gaussian Error Linear
 *                  Units; the networks of CLIP have it), and so with other numbers
 * What they wrote before HardSwish was one, in opset 14 (Howard et al., Searching for MobileNetV3, section
 * 5.2), in every order of the product and the quotient:
 *   hard sigmoid = clip(x + 3, 0, 6) / 6        = HardSigmoid(x; 1/6, 0.5)
 *   hard swish   = x * clip(x + 3, 0, 6) / 6    = x * HardSigmoid(x; 1/6, 0.5) */
#include "engine/graph/build.h"
#include "engine/graph/fold.h"
#include "engine/graph/fold_match.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* The x of clip(x + 3, 0, 6), or -1. */
static int clipped_input(struct convoy_graph *graph, int tensor)
{
    const struct convoy_node *clip = fold_producer(graph, tensor);
    if (clip == NULL || clip->op != CONVOY_OP_ACTIVATION || clip->activation.kind != CONVOY_CLIP ||
        clip->activation.alpha != 0 || clip->activation.beta != 6)
        return -1;
    return fold_other_operand(graph, fold_producer(graph, clip->inputs[0]), CONVOY_ADD, 3);
}

static int hard_sigmoid_input(struct convoy_graph *graph, int tensor)
{
    const struct convoy_node *node = fold_producer(graph, tensor);
    if (node == NULL || node->op != CONVOY_OP_ACTIVATION || node->activation.kind != CONVOY_HARD_SIGMOID ||
        fabsf(node->activation.alpha - 1.0F / 6) > 1e-6F || node->activation.beta != 0.5F)
        return -1;
    return node->inputs[0];
}

static int sigmoid_input(struct convoy_graph *graph, int tensor)
{
    const struct convoy_node *node = fold_producer(graph, tensor);
    return node != NULL && node->op == CONVOY_OP_ACTIVATION && node->activation.kind == CONVOY_SIGMOID
               ? node->inputs[0]
               : -1;
}

static int sixth_of(const struct convoy_graph *graph, const struct convoy_node *node)
{
    int x = fold_other_operand(graph, node, CONVOY_DIV, 6);
    return x >= 0 ? x : fold_other_operand(graph, node, CONVOY_MUL, 1.0F / 6);
}

void convoy_fold_swish(struct convoy_graph *graph)
{
    const struct convoy_activation sigmoid = {CONVOY_HARD_SIGMOID, 1.0F / 6, 0.5F};
    const struct convoy_activation swish = {.kind = CONVOY_HARD_SWISH};
    for (int i = 0; i < graph->node_count; i++) {
        struct convoy_node *node = &graph->nodes[i];
        if (node->op != CONVOY_OP_BINARY)
            continue;
        int x = fold_product_input(graph, node, hard_sigmoid_input);
        if (x >= 0) {
            fold_become_activation(node, x, swish);
            continue;
        }
        x = fold_product_input(graph, node, sigmoid_input);
        if (x >= 0) {
            fold_become_activation(node, x, (struct convoy_activation){.kind = CONVOY_SWISH});
            continue;
        }
        int sixfold = sixth_of(graph, node);
        if (sixfold < 0)
            continue;
        x = clipped_input(graph, sixfold);
        if (x >= 0) {
            fold_become_activation(node, x, sigmoid);
            continue;
        }
        x = fold_product_input(graph, fold_producer(graph, sixfold), clipped_input);
        if (x >= 0)
            fold_become_activation(node, x, swish);
    }
}

/* Is the tensor x times one number, and nothing else? */
static bool is_multiple(struct convoy_graph *graph, int tensor, int x, float *factor)
{
    const struct convoy_node *node = fold_producer(graph, tensor);
    if (node == NULL || node->op != CONVOY_OP_BINARY || node->binary != CONVOY_MUL)
        return false;
    const struct convoy_tensor *number = &graph->tensors[node->inputs[node->inputs[0] == x ? 1 : 0]];
    if ((node->inputs[0] != x && node->inputs[1] != x) || number->data == NULL ||
        convoy_shape_elements(&number->shape) != 1 ||
        !convoy_same_shape(&graph->tensors[x].shape, &graph->tensors[tensor].shape))
        return false;
    *factor = number->data[0];
    return fold_keeps_range(*factor);
}

/* The product of x with Sigmoid(a x), which it alone reads: which of its inputs is x, and a. -1: it is none.
 */
static int scaled_swish(struct convoy_graph *graph, const struct convoy_node *node, const int *readers,
                        float *factor)
{
    for (int k = 0; k < 2 && node->op == CONVOY_OP_BINARY && node->binary == CONVOY_MUL; k++) {
        int gate = node->inputs[1 - k], multiple = sigmoid_input(graph, gate);
        if (multiple >= 0 && readers[gate] == 1 && is_multiple(graph, multiple, node->inputs[k], factor))
            return k;
    }
    return -1;
}

int convoy_fold_scaled_swish(struct convoy_graph *graph, int *readers)
{
    for (int i = 0; i < graph->node_count; i++) {
        struct convoy_node *node = &graph->nodes[i];
        const struct convoy_shape scalar = {.rank = 0, .batch_axis = -1};
        float factor, *data;
        int k = scaled_swish(graph, node, readers, &factor);
        if (k < 0)
            continue;
        data = malloc(sizeof *data);
        if (data == NULL)
            return -ENOMEM;
        *data = 1 / factor;
        int number = convoy_graph_add_tensor(graph, node->name, &scalar, data);
        if (number < 0)
            return number;
        fold_producer(graph, node->inputs[1 - k])->activation.kind = CONVOY_SWISH;
        readers[node->inputs[k]]--;
        readers[number] = 1;
        node->inputs[k] = number;
    }
    return 0;
}
