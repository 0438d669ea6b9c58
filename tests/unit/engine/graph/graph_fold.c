/* Folding: the graph gets smaller, and computes what it computed. Every graph here is run by the plain
 * reference before and after, on random numbers. */
#include "tests/unit/engine/graph/graph_by_hand.h"

#include "engine/graph/fold.h"

static int add_conv(struct convoy_graph *graph, int x, int64_t groups, bool bias, int64_t out)
{
    int64_t channels = graph->tensors[x].shape.dims[1];
    int w = constant(graph, DIMS(6, channels / groups, 3, 3)), b = bias ? constant(graph, DIMS(6)) : -1;
    int y = activation(graph, DIMS(1, 6, out, out));
    struct convoy_node *conv = node(graph, CONVOY_OP_CONV, x, w, b, y);
    conv->conv =
        (struct convoy_conv){.groups = groups, .stride = {1, 1}, .dilation = {1, 1}, .pad = {1, 1, 1, 1}};
    return y;
}

Test(graph_fold, batch_norm_into_convolutions)
{
    for (int bias = 0; bias < 2; bias++) {
        struct convoy_graph *graph = start(DIMS(1, 4, 5, 5));
        int y = add_conv(graph, graph->input, 2, bias == 1, 5), z = activation(graph, DIMS(1, 6, 5, 5));
        node(graph, CONVOY_OP_SCALE_SHIFT, y, constant(graph, DIMS(6)), constant(graph, DIMS(6)), z);
        finish(graph, z);
        cr_expect(graph->node_count == 1 && graph->nodes[0].input_count == 3);
        cr_expect(graph->tensor_count == 4 && graph->weight_bytes == 4 * (6 * 2 * 9 + 6));
        convoy_graph_free(graph);
    }
}

static void constant_behind_conv(enum convoy_binary_kind kind, bool constant_first, int rank,
                                 const int64_t *dims, int nodes)
{
    struct convoy_graph *graph = start(DIMS(1, 4, 5, 5));
    int y = add_conv(graph, graph->input, 1, false, 5), z = activation(graph, DIMS(1, 6, 5, 5));
    int c = constant(graph, rank, dims);
    node(graph, CONVOY_OP_BINARY, constant_first ? c : y, constant_first ? y : c, -1, z)->binary = kind;
    finish(graph, z);
    cr_expect(graph->node_count == nodes, "%d nodes where %d were expected", graph->node_count, nodes);
    convoy_graph_free(graph);
}

Test(graph_fold, arithmetic_with_constants_into_convolutions)
{
    for (int first = 0; first < 2; first++) {
        for (int kind = CONVOY_ADD; kind <= CONVOY_DIV; kind++) {
            int nodes = kind == CONVOY_DIV && first ? 2 : 1; /* c / x is no scale of x */
            constant_behind_conv(kind, first, DIMS(1, 6, 1, 1), nodes);
            constant_behind_conv(kind, first, DIMS(6, 1, 1), nodes);
            constant_behind_conv(kind, first, DIMS(1), nodes);
            constant_behind_conv(kind, first, 0, NULL, nodes);
            constant_behind_conv(kind, first, DIMS(5), 2);       /* along W */
            constant_behind_conv(kind, first, DIMS(6, 5, 1), 2); /* along C and H */
        }
    }
}

Test(graph_fold, a_chain_behind_a_dense_layer)
{
    struct convoy_graph *graph = start(DIMS(1, 7));
    int y = activation(graph, DIMS(1, 6)), z = activation(graph, DIMS(1, 6)),
        u = activation(graph, DIMS(1, 6));
    node(graph, CONVOY_OP_DENSE, graph->input, constant(graph, DIMS(6, 7)), -1, y);
    node(graph, CONVOY_OP_SCALE_SHIFT, y, constant(graph, DIMS(6)), constant(graph, DIMS(6)), z);
    node(graph, CONVOY_OP_BINARY, constant(graph, DIMS(6)), z, -1, u)->binary = CONVOY_SUB;
    finish(graph, u);
    cr_expect(graph->node_count == 1 && graph->nodes[0].op == CONVOY_OP_DENSE);
    convoy_graph_free(graph);
}

/* tanh(x) times c, or divided by it, before a convolution. */
static int factor_before_conv(int constant_rank, const int64_t *dims, enum convoy_binary_kind kind, bool read)
{
    struct convoy_graph *graph = start(DIMS(1, 4, 5, 5));
    int x = function(graph, CONVOY_TANH, graph->input);
    int y = add_conv(graph, binary(graph, kind, x, constant(graph, constant_rank, dims)), 1, true, 5);
    finish(graph, read ? binary(graph, CONVOY_ADD, y, add_conv(graph, x, 1, false, 5)) : y);
    int nodes = graph->node_count;
    convoy_graph_free(graph);
    return nodes;
}

Test(graph_fold, one_factor_behind_an_activation_into_the_convolution_behind_it)
{
    cr_expect_eq(factor_before_conv(DIMS(1), CONVOY_MUL, false), 2);
    cr_expect_eq(factor_before_conv(0, NULL, CONVOY_DIV, false), 2);
    cr_expect_eq(factor_before_conv(DIMS(1), CONVOY_ADD, false), 3); /* the padding is zeros still */
    cr_expect_eq(factor_before_conv(DIMS(4, 1, 1), CONVOY_MUL, false), 3);
    cr_expect_eq(factor_before_conv(DIMS(1), CONVOY_MUL, true), 5); /* something else reads the activation */
}

Test(graph_fold, a_factor_that_fp16_weights_do_not_stand_stays)
{
    struct convoy_graph *graph = start(DIMS(1, 4, 5, 5));
    int x = function(graph, CONVOY_TANH, graph->input);
    finish(graph, add_conv(graph, binary(graph, CONVOY_MUL, x, number(graph, 1e-3F)), 1, true, 5));
    cr_expect_eq(graph->node_count, 3);
    convoy_graph_free(graph);
}

Test(graph_fold, not_where_something_else_reads_the_convolution)
{
    struct convoy_graph *graph = start(DIMS(1, 4, 5, 5));
    int y = add_conv(graph, graph->input, 1, true, 5), z = activation(graph, DIMS(1, 6, 5, 5));
    int sum = activation(graph, DIMS(1, 6, 5, 5));
    node(graph, CONVOY_OP_SCALE_SHIFT, y, constant(graph, DIMS(6)), constant(graph, DIMS(6)), z);
    node(graph, CONVOY_OP_BINARY, y, z, -1, sum)->binary = CONVOY_ADD;
    finish(graph, sum);
    cr_expect(graph->node_count == 3);
    convoy_graph_free(graph);

    graph = start(DIMS(1, 4, 5, 5)); /* an output reads it, too */
    y = add_conv(graph, graph->input, 1, true, 5);
    z = activation(graph, DIMS(1, 6, 5, 5));
    node(graph, CONVOY_OP_SCALE_SHIFT, y, constant(graph, DIMS(6)), constant(graph, DIMS(6)), z);
    graph->outputs[graph->output_count++] = y;
    finish(graph, z);
    cr_expect(graph->node_count == 2);
    convoy_graph_free(graph);
}

Test(graph_fold, weights_that_two_convolutions_share_stay_apart)
{
    struct convoy_graph *graph = start(DIMS(1, 6, 5, 5));
    int w = constant(graph, DIMS(6, 6, 3, 3)), b = constant(graph, DIMS(6));
    int y = activation(graph, DIMS(1, 6, 5, 5)), z = activation(graph, DIMS(1, 6, 5, 5)),
        u = activation(graph, DIMS(1, 6, 5, 5));
    struct convoy_conv conv = {.groups = 1, .stride = {1, 1}, .dilation = {1, 1}, .pad = {1, 1, 1, 1}};
    node(graph, CONVOY_OP_CONV, graph->input, w, b, y)->conv = conv;
    node(graph, CONVOY_OP_SCALE_SHIFT, y, constant(graph, DIMS(6)), constant(graph, DIMS(6)), z);
    node(graph, CONVOY_OP_CONV, z, w, b, u)->conv = conv;
    finish(graph, u);
    cr_expect(graph->node_count == 2);
    cr_expect(graph->nodes[0].inputs[1] != graph->nodes[1].inputs[1]);
    convoy_graph_free(graph);
}

static void padded_pool(enum convoy_pool_kind kind, int64_t pad, bool include, int nodes)
{
    struct convoy_graph *graph = start(DIMS(1, 2, 6, 6));
    int y = activation(graph, DIMS(1, 2, 9, 8)), z = activation(graph, DIMS(1, 2, 4 + pad, 4 + pad));
    struct convoy_node *outer = node(graph, CONVOY_OP_PAD, graph->input, -1, -1, y);
    outer->pad.before[2] = 1;
    outer->pad.after[2] = 2;
    outer->pad.before[3] = outer->pad.after[3] = 1;
    /* (9 + 2 pad - 3) / 2 + 1, and with the overhang of ceil_mode ceil((8 + 2 pad - 3) / 2) + 1 */
    node(graph, CONVOY_OP_POOL, y, -1, -1, z)->pool = (struct convoy_pool){.kind = kind,
                                                                           .window = {3, 3},
                                                                           .stride = {2, 2},
                                                                           .dilation = {1, 1},
                                                                           .pad = {pad, pad, pad, pad},
                                                                           .count_include_pad = include};
    finish(graph, z);
    cr_expect(graph->node_count == nodes, "%d nodes where %d were expected", graph->node_count, nodes);
    convoy_graph_free(graph);
}

Test(graph_fold, pads_into_average_pools_where_that_is_right)
{
    padded_pool(CONVOY_POOL_AVERAGE, 0, false, 1);
    padded_pool(CONVOY_POOL_AVERAGE, 0, true, 1);
    padded_pool(CONVOY_POOL_AVERAGE, 1, true, 1);
    padded_pool(CONVOY_POOL_AVERAGE, 1, false, 2); /* its own padding does not count, those zeros do */
    padded_pool(CONVOY_POOL_MAX, 0, false, 2);     /* a zero may be the maximum */
}

Test(graph_fold, pads_into_convolutions)
{
    for (int crops = 0; crops < 3; crops++) {
        struct convoy_graph *graph = start(DIMS(1, 4, 5, 5));
        struct convoy_shape padded = shape_of(0, DIMS(1, crops == 2 ? 6 : 4, 6, 6));
        int y = convoy_graph_add_tensor(graph, "t", &padded, NULL);
        struct convoy_node *pad = node(graph, CONVOY_OP_PAD, graph->input, -1, -1, y);
        pad->pad.before[2] = crops == 1 ? -1 : 1;
        pad->pad.after[2] = crops == 1 ? 2 : 0;
        pad->pad.after[3] = 1;
        pad->pad.before[1] = crops == 2 ? 2 : 0; /* channels of zeros are no padding of a convolution */
        finish(graph, add_conv(graph, y, 1, true, 6));
        cr_expect(graph->node_count == (crops == 0 ? 1 : 2), "%d", graph->node_count);
        convoy_graph_free(graph);
    }
}

/* x * clip(x + add, 0, 6) / 6 and its relatives; the importer's tests see the other orders. */
Test(graph_fold, hard_swish_only_where_it_is_one)
{
    for (int i = 0; i < 6; i++) {
        struct convoy_graph *graph = start(DIMS(1, 2, 6, 6));
        int t[5];
        for (int k = 0; k < 5; k++)
            t[k] = activation(graph, DIMS(1, 2, 6, 6));
        int three = constant(graph, 0, NULL), six = constant(graph, 0, NULL);
        graph->tensors[three].data[0] = i == 1 ? 3.5F : 3;
        graph->tensors[six].data[0] = i == 2 ? 5 : 6;
        node(graph, CONVOY_OP_BINARY, three, graph->input, -1, t[0])->binary = CONVOY_ADD;
        node(graph, CONVOY_OP_ACTIVATION, t[0], -1, -1, t[1])->activation =
            (struct convoy_activation){CONVOY_CLIP, i == 4 ? 1 : 0, i == 5 ? 7 : 6};
        node(graph, CONVOY_OP_ACTIVATION, graph->input, -1, -1, t[2])->activation.kind = CONVOY_TANH;
        node(graph, CONVOY_OP_BINARY, t[1], i == 3 ? t[2] : graph->input, -1, t[3])->binary = CONVOY_MUL;
        node(graph, CONVOY_OP_BINARY, t[3], six, -1, t[4])->binary = CONVOY_DIV;
        finish(graph, t[4]);
        int expected = i == 0 ? 1 : i == 3 ? 5 : 4;
        cr_expect(graph->node_count == expected, "case %d: %d nodes", i, graph->node_count);
        convoy_graph_free(graph);
    }
}

/* x * sigmoid(x) in both orders; not of another tensor, not of tanh, not a sum. */
Test(graph_fold, swish_only_where_it_is_one)
{
    for (int i = 0; i < 5; i++) {
        struct convoy_graph *graph = start(DIMS(1, 2, 6, 6));
        int other = activation(graph, DIMS(1, 2, 6, 6)), gate = activation(graph, DIMS(1, 2, 6, 6));
        int y = activation(graph, DIMS(1, 2, 6, 6)), x = i == 2 ? other : graph->input;
        node(graph, CONVOY_OP_ACTIVATION, graph->input, -1, -1, other)->activation.kind = CONVOY_RELU;
        node(graph, CONVOY_OP_ACTIVATION, graph->input, -1, -1, gate)->activation.kind =
            i == 3 ? CONVOY_TANH : CONVOY_SIGMOID;
        node(graph, CONVOY_OP_BINARY, i == 1 ? gate : x, i == 1 ? x : gate, -1, y)->binary =
            i == 4 ? CONVOY_ADD : CONVOY_MUL;
        finish(graph, y);
        int expected = i < 2 ? 1 : i == 2 ? 3 : 2;
        cr_expect(graph->node_count == expected, "case %d: %d nodes", i, graph->node_count);
        cr_expect(i >= 2 || graph->nodes[0].activation.kind == CONVOY_SWISH);
        convoy_graph_free(graph);
    }
}

Test(graph_fold, nothing_is_left_that_no_output_needs)
{
    struct convoy_graph *graph = start(DIMS(1, 2, 6, 6));
    int y = activation(graph, DIMS(1, 2, 6, 6)), dead = activation(graph, DIMS(1, 2, 6, 6));
    constant(graph, DIMS(1000));
    node(graph, CONVOY_OP_ACTIVATION, graph->input, -1, -1, dead);
    node(graph, CONVOY_OP_ACTIVATION, graph->input, -1, -1, y)->activation.kind = CONVOY_TANH;
    finish(graph, y);
    cr_expect(graph->node_count == 1 && graph->tensor_count == 2 && graph->weight_bytes == 0);
    cr_expect(graph->nodes[0].activation.kind == CONVOY_TANH);
    convoy_graph_free(graph);
}

Test(graph_fold, shapes_as_text)
{
    char text[160];
    struct convoy_shape shape = shape_of(0, DIMS(1, 3, 32, 32));
    cr_expect_str_eq(convoy_shape_text(&shape, text, sizeof text), "[N,3,32,32]");
    shape.dims[0] = 2;
    cr_expect_str_eq(convoy_shape_text(&shape, text, sizeof text), "[2N,3,32,32]");
    cr_expect(convoy_shape_elements(&shape) == 2 * 3 * 32 * 32);
    shape = shape_of(-1, 0, NULL);
    cr_expect_str_eq(convoy_shape_text(&shape, text, sizeof text), "[]");
    cr_expect(convoy_shape_elements(&shape) == 1);
    shape = shape_of(-1, DIMS(1, 3, 32, 32));
    cr_expect_str_eq(convoy_shape_text(&shape, text, 6), "[1,3,"); /* cut, and ended */
}

/* Every layer would need its own copy of the weight: 64 MiB are granted, and no more. */
Test(graph_fold, weights_that_many_layers_share_are_not_copied_without_end)
{
    struct convoy_graph *graph = start(DIMS(1, 2048));
    struct convoy_shape square = shape_of(-1, 2, (const int64_t[]){2048, 2048});
    int w = convoy_graph_add_tensor(graph, "w", &square, calloc(2048 * 2048, sizeof(float)));
    int scale = constant(graph, DIMS(2048)), shift = constant(graph, DIMS(2048)), x = graph->input;
    for (int layer = 0; layer < 6; layer++) {
        int y = activation(graph, DIMS(1, 2048)), z = activation(graph, DIMS(1, 2048));
        node(graph, CONVOY_OP_DENSE, x, w, -1, y);
        node(graph, CONVOY_OP_SCALE_SHIFT, y, scale, shift, z);
        x = z;
    }
    graph->outputs[graph->output_count++] = x;
    cr_assert(convoy_graph_finish(graph, NULL) == 0);
    int left = 0;
    for (int i = 0; i < graph->node_count; i++)
        left += graph->nodes[i].op == CONVOY_OP_SCALE_SHIFT;
    cr_expect(left == 3, "%d layers are left with their scale", left);
    convoy_graph_free(graph);
}

/* The half at x, at the factor, or behind; the factor on either side. */
static void fold_gelu(enum convoy_activation_kind kind, int half, bool factor_first, float root)
{
    struct convoy_graph *graph = start(DIMS(1, 5));
    int x = function(graph, CONVOY_TANH, graph->input), factor;
    if (kind == CONVOY_GELU) {
        factor = function(graph, CONVOY_ERF,
                          factor_first ? binary(graph, CONVOY_DIV, x, number(graph, root))
                                       : binary(graph, CONVOY_MUL, number(graph, 1 / root), x));
    } else {
        int cube = binary(graph, CONVOY_MUL, x, binary(graph, CONVOY_MUL, x, x));
        int sum = binary(graph, CONVOY_ADD, x, binary(graph, CONVOY_MUL, number(graph, 0.044715F), cube));
        factor = function(graph, CONVOY_TANH, binary(graph, CONVOY_MUL, sum, number(graph, root)));
    }
    factor = binary(graph, CONVOY_ADD, number(graph, 1), factor);
    int own = x;
    if (half == 0)
        own = binary(graph, CONVOY_MUL, x, number(graph, 0.5F));
    else if (half == 1)
        factor = binary(graph, CONVOY_DIV, factor, number(graph, 2));
    int y = factor_first ? binary(graph, CONVOY_MUL, factor, own) : binary(graph, CONVOY_MUL, own, factor);
    if (half == 2)
        y = binary(graph, CONVOY_MUL, number(graph, 0.5F), y);
    finish(graph, y);
    bool right = fabsf(root - 1.41421356F) < 1e-5F || fabsf(root - 0.79788456F) < 1e-5F;
    if (right)
        cr_expect(graph->node_count == 2 && graph->nodes[1].activation.kind == kind, "%d nodes, half %d",
                  graph->node_count, half);
    else
        cr_expect_gt(graph->node_count, 2);
    convoy_graph_free(graph);
}

Test(graph_fold, gelu_in_every_order)
{
    for (int half = 0; half < 3; half++)
        for (int side = 0; side < 2; side++) {
            fold_gelu(CONVOY_GELU, half, side == 1, 1.41421356F);
            fold_gelu(CONVOY_GELU, half, side == 1, 1.5F); /* something else */
            fold_gelu(CONVOY_GELU_TANH, half, side == 1, 0.79788456F);
            fold_gelu(CONVOY_GELU_TANH, half, side == 1, 0.75F);
        }
}

Test(graph_fold, what_follows_a_product_of_rows_goes_before_the_reshape_behind_it)
{
    /* [1,3,4] as rows, by a matrix, and back; a bias, a function, and the same once more. */
    struct convoy_graph *graph = start(DIMS(1, 3, 4));
    int x = graph->input;
    for (int layer = 0; layer < 2; layer++) {
        int rows = activation(graph, DIMS(3, 4)), product = activation(graph, DIMS(3, 4));
        int back = activation(graph, DIMS(1, 3, 4));
        node(graph, CONVOY_OP_RESHAPE, x, -1, -1, rows);
        node(graph, CONVOY_OP_DENSE, rows, constant(graph, DIMS(4, 4)), -1, product);
        node(graph, CONVOY_OP_RESHAPE, product, -1, -1, back);
        x = function(graph, CONVOY_TANH, binary(graph, CONVOY_ADD, constant(graph, DIMS(4)), back));
    }
    finish(graph, x);
    static const enum convoy_op expected[] = {CONVOY_OP_RESHAPE, CONVOY_OP_DENSE,      CONVOY_OP_ACTIVATION,
                                              CONVOY_OP_DENSE,   CONVOY_OP_ACTIVATION, CONVOY_OP_RESHAPE};
    cr_assert_eq(graph->node_count, 6, "%d nodes", graph->node_count);
    for (int i = 0; i < 6; i++)
        cr_expect_eq(graph->nodes[i].op, expected[i], "node %d", i);
    cr_expect_eq(graph->nodes[1].input_count, 3, "the bias is not the layer's");
    convoy_graph_free(graph);
}

Test(graph_fold, what_differs_from_row_to_row_stays_behind_the_reshape)
{
    struct convoy_graph *graph = start(DIMS(1, 12));
    int product = activation(graph, DIMS(1, 12)), back = activation(graph, DIMS(1, 3, 4));
    node(graph, CONVOY_OP_DENSE, graph->input, constant(graph, DIMS(12, 12)), -1, product);
    node(graph, CONVOY_OP_RESHAPE, product, -1, -1, back);
    finish(graph, binary(graph, CONVOY_MUL, back, constant(graph, DIMS(4))));
    cr_assert_eq(graph->node_count, 3);
    cr_expect_eq(graph->nodes[2].op, CONVOY_OP_BINARY);
    convoy_graph_free(graph);
}
