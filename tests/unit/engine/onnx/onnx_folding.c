/* Constants that are computed while a model is read, the order of nodes, and branches. */
#include "tests/unit/engine/onnx/onnx_builder.h"

static struct builder *begin(void)
{
    struct builder *b = builder_new(17);
    IMAGES(b);
    builder_output(b, "y");
    return b;
}

/* The model is read, and is one BINARY of x with this constant. */
static void expect_constant(struct builder *b, const char *shape, int count, const float *values)
{
    const struct convoy_graph *graph = builder_graph(b);
    expect_sound(graph);
    cr_assert(graph->node_count == 1 && graph->nodes[0].op == CONVOY_OP_BINARY, "%d nodes",
              graph->node_count);
    int constant = graph->nodes[0].inputs[1];
    expect_shape(graph, constant, shape);
    expect_floats(graph->tensors[constant].data, count, values);
    builder_free(b);
}

Test(onnx_folding, functions_products_and_reductions_of_constants)
{
    struct builder *b = begin();
    builder_floats(b, "c", DIMS(2, 2), FLOATS(1, 2, 3, 4));
    builder_node(b, "MatMul", "c,c", "p");                                     /* 7 10 15 22 */
    builder_list(b, builder_node(b, "ReduceMean", "p", "m"), "axes", DIMS(1)); /* 8.5 18.5, kept as [2,1] */
    builder_node(b, "Sub", "p,m", "d");                                        /* -1.5 1.5 -3.5 3.5 */
    builder_node(b, "Relu", "d", "r");
    builder_list(b, builder_node(b, "ReduceMax", "r", "k"), "axes", DIMS(0)); /* 0 3.5 */
    builder_list(b, builder_node(b, "Transpose", "k", "t"), "perm", DIMS(1, 0));
    builder_ints(b, "shape", DIMS(2, 1, 1, 1));
    builder_node(b, "Reshape", "t,shape", "s");
    builder_ints(b, "one", DIMS(1));
    builder_ints(b, "two", DIMS(2));
    builder_ints(b, "zero", DIMS(0));
    builder_node(b, "Slice", "s,one,two,zero", "last");
    builder_node(b, "Add", "x,last", "y");
    expect_constant(b, "[1,1,1,1]", 1, FLOATS(3.5F));
}

Test(onnx_folding, a_reduction_of_a_constant_over_axes_that_are_apart)
{
    struct builder *b = begin();
    builder_floats(b, "c", DIMS(2, 4, 2), FLOATS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16));
    builder_list(b, builder_node(b, "ReduceSum", "c,axes", "s"), "unused", DIMS(0));
    builder_ints(b, "axes", DIMS(0, 2));
    builder_ints(b, "shape", DIMS(4, 1));
    builder_node(b, "Reshape", "s,shape", "column");
    builder_floats(b, "row", DIMS(1, 8), NULL);
    builder_node(b, "MatMul", "column,row", "table");
    builder_ints(b, "first", DIMS(0));
    builder_ints(b, "last", DIMS(1));
    builder_ints(b, "columns", DIMS(1));
    builder_node(b, "Slice", "table,first,last,columns", "d"); /* [4,1] */
    builder_list(b, builder_node(b, "Transpose", "d", "e"), "perm", DIMS(1, 0));
    builder_ints(b, "pairs", DIMS(1, 2, 2, 1));
    builder_node(b, "Reshape", "e,pairs", "p");
    builder_list(b, builder_node(b, "ReduceMax", "p", "m"), "axes", DIMS(0, 1, 2, 3));
    builder_node(b, "Mul", "x,m", "y");
    expect_constant(b, "[1,1,1,1]", 1, FLOATS(0.46F)); /* 22 30 38 46, times 0.01 */
}

Test(onnx_folding, a_normalisation_and_a_convolution_of_constants)
{
    struct builder *b = begin();
    builder_floats(b, "c", DIMS(1, 1, 2, 2), FLOATS(1, 2, 3, 4));
    builder_floats(b, "w", DIMS(1, 1, 1, 2), FLOATS(1, 10));
    builder_node(b, "Conv", "c,w", "v"); /* 21 43 */
    builder_floats(b, "scale", DIMS(2, 1), FLOATS(2, 4));
    Onnx__NodeProto *node = builder_node(b, "LayerNormalization", "v,scale", "n");
    builder_int(b, node, "axis", 2);
    builder_float(b, node, "epsilon", 0);
    builder_node(b, "Mul", "x,n", "y"); /* [1,1,2,1] does not fit 8 rows, so: */
    b->graph.n_node--;
    builder_list(b, builder_node(b, "ReduceSum", "n,axes", "s"), "unused", DIMS(0));
    builder_ints(b, "axes", DIMS(2));
    builder_node(b, "Mul", "x,s", "y");
    expect_constant(b, "[1,1,1,1]", 1, FLOATS(2)); /* -1 * 2 + 1 * 4 */
}

Test(onnx_folding, integers_that_steer_shapes)
{
    /* The product of the dimensions from 1 on, as numbers that are compared, chosen and counted. */
    struct builder *b = begin();
    builder_node(b, "Shape", "x", "shape"); /* N 3 8 8 */
    builder_ints(b, "one", DIMS(1));
    builder_ints(b, "end", DIMS(9));
    builder_node(b, "Slice", "shape,one,end", "rest");
    builder_int(b, builder_node(b, "ReduceProd", "rest", "all"), "keepdims", 1);
    builder_ints(b, "seven", DIMS(7));
    builder_node(b, "Greater", "all,seven", "large");
    builder_ints(b, "minus", DIMS(-1));
    builder_node(b, "Where", "large,minus,seven", "chosen");
    builder_ints(b, "zero", DIMS(0));
    builder_node(b, "Slice", "shape,zero,one", "n");
    builder_node(b, "Max", "n,zero", "batch");            /* N is never below 0 */
    builder_node(b, "Mod", "all,seven", "rest_of_seven"); /* 192 % 7 = 3 */
    builder_int(b, builder_node(b, "Concat", "batch,rest_of_seven,chosen", "wanted"), "axis", 0);
    builder_node(b, "Reshape", "x,wanted", "y");
    expect_output(b, "[N,3,64]");
    builder_free(b);
    b = begin(); /* whether N is 2 cannot be said */
    builder_node(b, "Shape", "x", "shape");
    builder_ints(b, "two", DIMS(2));
    builder_node(b, "Equal", "shape,two", "equal");
    builder_node(b, "Where", "equal,two,shape", "wanted");
    builder_node(b, "Reshape", "x,wanted", "y");
    builder_refused(b, -ENOTSUP, "depends on the batch in a way that cannot be followed");
    static const char *const undecided[] = {"Equal", "Less", "GreaterOrEqual", "Min", "Max", "Mod"};
    for (size_t i = 0; i < sizeof undecided / sizeof undecided[0]; i++) {
        b = begin();
        builder_node(b, "Shape", "x", "shape");
        builder_ints(b, "two", DIMS(2));
        builder_node(b, undecided[i], "two,shape", "wanted");
        builder_node(b, "Reshape", "x,wanted", "y");
        builder_refused(b, -ENOTSUP, "depends on the batch in a way that cannot be followed");
    }
}

Test(onnx_folding, work_on_constants_is_bounded)
{
    struct builder *b = begin(); /* 2^22 outputs of 2^12 products each, 17 times */
    builder_floats(b, "c0", DIMS(2048, 4096), NULL);
    builder_floats(b, "w", DIMS(4096, 4096), NULL);
    for (int i = 0; i < 17; i++) {
        char from[8], to[8], inputs[16];
        snprintf(from, sizeof from, "c%d", i);
        snprintf(to, sizeof to, "c%d", i + 1);
        snprintf(inputs, sizeof inputs, "%s,w", from);
        builder_node(b, "MatMul", inputs, to);
    }
    builder_list(b, builder_node(b, "ReduceMean", "c17", "m"), "axes", DIMS(0, 1));
    builder_node(b, "Add", "x,m", "y");
    builder_refused(b, -EINVAL, "more work than convoyd puts into it");
}

Test(onnx_folding, nodes_out_of_order_are_sorted)
{
    struct builder *b = begin();
    builder_node(b, "Relu", "c", "y");
    builder_node(b, "Tanh", "b", "c");
    builder_node(b, "Sigmoid", "x", "b");
    const struct convoy_graph *graph = builder_graph(b);
    expect_sound(graph);
    cr_assert_eq(graph->node_count, 3);
    cr_expect(graph->nodes[0].activation.kind == CONVOY_SIGMOID &&
              graph->nodes[2].activation.kind == CONVOY_RELU);
    builder_free(b);
}

static Onnx__GraphProto *branch(struct builder *b, const char *op, const char *input, const char *name)
{
    Onnx__GraphProto *graph = builder_memory(b, sizeof *graph);
    onnx__graph_proto__init(graph);
    builder_node(b, op, input, name);
    graph->node = builder_memory(b, sizeof(void *));
    graph->node[graph->n_node++] = b->nodes[--b->graph.n_node];
    graph->output = builder_memory(b, sizeof(void *));
    graph->output[graph->n_output++] = builder_info(b, name, FLOAT_TYPE, -1, NULL);
    return graph;
}

static void add_if(struct builder *b, const char *condition, const char *output)
{
    Onnx__GraphProto *then_branch = branch(b, "Relu", "t", "inner");
    Onnx__GraphProto *else_branch = branch(b, "Tanh", "t", "inner");
    Onnx__NodeProto *node = builder_node(b, "If", condition, output);
    builder_attribute(b, node, "then_branch", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g = then_branch;
    builder_attribute(b, node, "else_branch", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g = else_branch;
}

Test(onnx_folding, the_branch_that_is_taken_is_read_in_place)
{
    /* Both Ifs have a value of the same name inside, and need what a later node of the file computes. */
    struct builder *b = begin();
    builder_add_initializer(b, builder_tensor(b, "yes", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 0, NULL));
    builder_raw(b, b->initializers[0], "\x01", 1);
    builder_node(b, "Not", "yes", "no");
    add_if(b, "yes", "first");
    add_if(b, "no", "second");
    builder_node(b, "Sigmoid", "x", "t");
    builder_node(b, "Add", "first,second", "y");
    const struct convoy_graph *graph = builder_graph(b);
    expect_sound(graph);
    cr_assert_eq(graph->node_count, 4);
    bool relu = false, tanh = false;
    for (int i = 0; i < 4; i++) {
        bool activates = graph->nodes[i].op == CONVOY_OP_ACTIVATION;
        relu |= activates && graph->nodes[i].activation.kind == CONVOY_RELU;
        tanh |= activates && graph->nodes[i].activation.kind == CONVOY_TANH;
    }
    cr_expect(relu && tanh);
    builder_free(b);

    for (int holds = 0; holds < 2; holds++) {
        b = begin();
        builder_ints(b, "condition", DIMS(holds));
        builder_node(b, "Sigmoid", "x", "t");
        add_if(b, "condition", "y");
        cr_expect_eq(builder_graph(b)->nodes[1].activation.kind, holds ? CONVOY_RELU : CONVOY_TANH);
        builder_free(b);
    }
    b = begin();
    builder_node(b, "Relu", "x", "t");
    add_if(b, "t", "y");
    builder_refused(b, -ENOTSUP, "is not one constant number");
}

Test(onnx_folding, outputs_of_one_node)
{
    struct builder *b = begin();
    builder_output(b, "z");
    Onnx__NodeProto *node = builder_node(b, "Split", "x", "a,,z");
    builder_int(b, node, "axis", 1);
    builder_node(b, "Relu", "a", "y");
    expect_output(b, "[N,1,8,8]");
    expect_shape(b->loaded, b->loaded->outputs[1], "[N,1,8,8]");
    expect_sound(b->loaded);
    builder_free(b);
    b = begin();
    node = builder_node(b, "Split", "x", "y,z");
    builder_int(b, node, "axis", 0);
    builder_refused(b, -EINVAL, "no whole number of 2 parts");
    b = begin();
    builder_ints(b, "parts", DIMS(3, 5));
    node = builder_node(b, "Split", "x,parts", "y,z");
    builder_int(b, node, "axis", 1);
    builder_refused(b, -EINVAL, "not those of its input");
}

Test(onnx_folding, what_takes_too_many_pieces_is_refused)
{
    struct builder *b = builder_new(17);
    builder_input(b, "x", DIMS(-1, 5000));
    builder_output(b, "y");
    int64_t indices[4200];
    for (int i = 0; i < 4200; i++)
        indices[i] = i * 7919 % 5000;
    builder_ints(b, "indices", 4200, indices);
    builder_int(b, builder_node(b, "Gather", "x,indices", "y"), "axis", 1);
    builder_refused(b, -ENOTSUP, "into more than 4096 pieces");
}

Test(onnx_folding, the_newest_opset)
{
    struct builder *b = builder_new(26);
    IMAGES(b);
    builder_output(b, "y");
    builder_float(b, builder_node(b, "Swish", "x", "y"), "alpha", 1);
    cr_expect(builder_graph(b)->nodes[0].activation.kind == CONVOY_SWISH);
    builder_free(b);
}
