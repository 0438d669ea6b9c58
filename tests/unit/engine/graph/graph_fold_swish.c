/* x * Sigmoid(a x), as the quick GELU of CLIP is written, between two layers. */
#include "tests/unit/engine/graph/graph_by_hand.h"

enum around {
    LAYERS,
    RESHAPED,       /* rows behind the first layer, and before the second */
    SWAPPED,        /* the product's inputs */
    NUMBER_FIRST,   /* a x */
    DIVIDED,        /* by 1 / a */
    OF_ANOTHER,     /* Sigmoid(a z) */
    GATE_READ,      /* by the output, too */
    PRODUCT_READ,   /* in the same way: the second layer's weights are no longer the only ones behind it */
    SHARED_WEIGHTS, /* of the second layer and a third one */
    LARGE,          /* a */
    SMALL,          /* a */
    NO_LAYER        /* behind it */
};

static int dense(struct convoy_graph *graph, int x, int w, int rows, int channels)
{
    int y = activation(graph, DIMS(rows, channels));
    node(graph, CONVOY_OP_DENSE, x, w, -1, y);
    return y;
}

static int reshaped(struct convoy_graph *graph, int x, int rank, const int64_t *dims)
{
    int y = activation(graph, rank, dims);
    node(graph, CONVOY_OP_RESHAPE, x, -1, -1, y);
    return y;
}

/* Returns how many nodes are left, reshapes apart, of which one is a swish. -1: none is. */
static int left(enum around around)
{
    struct convoy_graph *graph = start(DIMS(4, 6));
    float a = around == LARGE ? 1702 : around == SMALL ? 0.01F : 1.702F;
    int weights = constant(graph, DIMS(3, 5));
    int x = dense(graph, graph->input, constant(graph, DIMS(5, 6)), 4, 5), z = x, y;
    if (around == RESHAPED)
        x = reshaped(graph, x, DIMS(1, 4, 5));
    if (around == OF_ANOTHER)
        z = function(graph, CONVOY_TANH, x);
    if (around == DIVIDED)
        z = binary(graph, CONVOY_DIV, x, number(graph, 1 / a));
    else if (around == NUMBER_FIRST || around == OF_ANOTHER)
        z = binary(graph, CONVOY_MUL, number(graph, a), around == OF_ANOTHER ? z : x);
    else
        z = binary(graph, CONVOY_MUL, x, number(graph, a));
    int gate = function(graph, CONVOY_SIGMOID, z);
    int gated = around == SWAPPED ? binary(graph, CONVOY_MUL, gate, x) : binary(graph, CONVOY_MUL, x, gate);
    if (around == NO_LAYER)
        y = function(graph, CONVOY_TANH, gated);
    else
        y = dense(graph, around == RESHAPED ? reshaped(graph, gated, DIMS(4, 5)) : gated, weights, 4, 3);
    if (around == GATE_READ || around == PRODUCT_READ)
        y = binary(graph, CONVOY_ADD, y,
                   dense(graph, around == GATE_READ ? gate : gated, constant(graph, DIMS(3, 5)), 4, 3));
    if (around == SHARED_WEIGHTS)
        y = binary(graph, CONVOY_ADD, y, dense(graph, x, weights, 4, 3));
    finish(graph, y);
    int nodes = 0, swishes = 0;
    for (int i = 0; i < graph->node_count; i++) {
        nodes += graph->nodes[i].op != CONVOY_OP_RESHAPE;
        swishes +=
            graph->nodes[i].op == CONVOY_OP_ACTIVATION && graph->nodes[i].activation.kind == CONVOY_SWISH;
    }
    convoy_graph_free(graph);
    return swishes == 1 ? nodes : -1;
}

Test(graph_fold_swish, a_scaled_one_is_a_swish_between_layers)
{
    cr_expect_eq(left(LAYERS), 3);
    cr_expect_eq(left(RESHAPED), 3);
    cr_expect_eq(left(SWAPPED), 3);
    cr_expect_eq(left(NUMBER_FIRST), 3);
}

Test(graph_fold_swish, factors_stay_where_no_layer_takes_them)
{
    cr_expect_eq(left(PRODUCT_READ), 6); /* the factor behind it, two layers and their sum */
    cr_expect_eq(left(NO_LAYER), 4);
    cr_expect_eq(left(SHARED_WEIGHTS),
                 6); /* the first layer is read by two, so that the factor behind it stays */
}

Test(graph_fold_swish, other_products_stay)
{
    cr_expect_eq(left(DIVIDED), -1);
    cr_expect_eq(left(OF_ANOTHER), -1);
    cr_expect_eq(left(GATE_READ), -1);
    cr_expect_eq(left(LARGE), -1);
    cr_expect_eq(left(SMALL), -1);
}
