/* GELU as exporters write it where the file has no operator for it, in every order of the products (Hendrycks
 * and Gimpel, Gaussian Error Linear Units, 2016):
 *   exact: x / 2 * (1 + erf(x / sqrt 2))
 *   tanh:  x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
#include "engine/graph/fold.h"
#include "engine/graph/fold_match.h"

#include <math.h>

#define SQRT2       1.41421356F
#define SQRT_2_PI   0.79788456F
#define CUBE_FACTOR 0.044715F

static int input_of(struct convoy_graph *graph, int tensor, enum convoy_activation_kind kind)
{
    const struct convoy_node *node = fold_producer(graph, tensor);
    return node != NULL && node->op == CONVOY_OP_ACTIVATION && node->activation.kind == kind ? node->inputs[0]
                                                                                             : -1;
}

/* u of u + 1; -1 where the tensor is no such sum. */
static int less_one(struct convoy_graph *graph, int tensor)
{
    return fold_other_operand(graph, fold_producer(graph, tensor), CONVOY_ADD, 1);
}

/* u of u / 2. */
static int doubled(struct convoy_graph *graph, const struct convoy_node *node)
{
    int found = fold_other_operand(graph, node, CONVOY_MUL, 0.5F);
    return found >= 0 ? found : fold_other_operand(graph, node, CONVOY_DIV, 2);
}

/* x of 1 + erf(x / sqrt 2). */
static int erf_factor(struct convoy_graph *graph, int tensor)
{
    int erf = less_one(graph, tensor);
    int scaled = erf >= 0 ? input_of(graph, erf, CONVOY_ERF) : -1;
    if (scaled < 0)
        return -1;
    const struct convoy_node *scale = fold_producer(graph, scaled);
    int x = fold_other_operand(graph, scale, CONVOY_DIV, SQRT2);
    return x >= 0 ? x : fold_other_operand(graph, scale, CONVOY_MUL, 1 / SQRT2);
}

static int square_root_of(struct convoy_graph *graph, int tensor)
{
    const struct convoy_node *node = fold_producer(graph, tensor);
    return node != NULL && node->op == CONVOY_OP_BINARY && node->binary == CONVOY_MUL &&
                   node->inputs[0] == node->inputs[1]
               ? node->inputs[0]
               : -1;
}

/* x of x^3: a power, or x times its square. */
static int cube_root_of(struct convoy_graph *graph, int tensor)
{
    const struct convoy_node *node = fold_producer(graph, tensor);
    if (node != NULL && node->op == CONVOY_OP_ACTIVATION && node->activation.kind == CONVOY_POW &&
        node->activation.alpha == 3)
        return node->inputs[0];
    return fold_product_input(graph, node, square_root_of);
}

/* x of 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)). */
static int tanh_factor(struct convoy_graph *graph, int tensor)
{
    int tanh = less_one(graph, tensor);
    int scaled = tanh >= 0 ? input_of(graph, tanh, CONVOY_TANH) : -1;
    int inner =
        scaled >= 0 ? fold_other_operand(graph, fold_producer(graph, scaled), CONVOY_MUL, SQRT_2_PI) : -1;
    const struct convoy_node *sum = inner >= 0 ? fold_producer(graph, inner) : NULL;
    if (sum == NULL || sum->op != CONVOY_OP_BINARY || sum->binary != CONVOY_ADD)
        return -1;
    for (int k = 0; k < 2; k++) {
        int cube =
            fold_other_operand(graph, fold_producer(graph, sum->inputs[1 - k]), CONVOY_MUL, CUBE_FACTOR);
        if (cube >= 0 && cube_root_of(graph, cube) == sum->inputs[k])
            return sum->inputs[k];
    }
    return -1;
}

static int half_erf_factor(struct convoy_graph *graph, int tensor)
{
    int factor = doubled(graph, fold_producer(graph, tensor));
    return factor >= 0 ? erf_factor(graph, factor) : -1;
}

static int half_tanh_factor(struct convoy_graph *graph, int tensor)
{
    int factor = doubled(graph, fold_producer(graph, tensor));
    return factor >= 0 ? tanh_factor(graph, factor) : -1;
}

/* x of x / 2 * factor(x), with the half at either factor or behind the product. */
static int gelu_input(struct convoy_graph *graph, const struct convoy_node *node,
                      int (*factor)(struct convoy_graph *, int),
                      int (*half_factor)(struct convoy_graph *, int))
{
    int product = doubled(graph, node);
    if (product >= 0)
        return fold_product_input(graph, fold_producer(graph, product), factor);
    int x = fold_product_input(graph, node, half_factor);
    for (int k = 0; k < 2 && x < 0 && node->binary == CONVOY_MUL; k++) {
        int whole = doubled(graph, fold_producer(graph, node->inputs[k]));
        if (whole >= 0 && factor(graph, node->inputs[1 - k]) == whole)
            x = whole;
    }
    return x;
}

void convoy_fold_gelu(struct convoy_graph *graph)
{
    for (int i = 0; i < graph->node_count; i++) {
        struct convoy_node *node = &graph->nodes[i];
        if (node->op != CONVOY_OP_BINARY || node->output < 0)
            continue;
        int x = gelu_input(graph, node, erf_factor, half_erf_factor);
        if (x >= 0) {
            fold_become_activation(node, x, (struct convoy_activation){.kind = CONVOY_GELU});
            continue;
        }
        x = gelu_input(graph, node, tanh_factor, half_tanh_factor);
        if (x >= 0)
            fold_become_activation(node, x, (struct convoy_activation){.kind = CONVOY_GELU_TANH});
    }
}
