/* Each operator that computes: what it becomes in the graph, and with which shape. Shapes are checked against
 * the formulas of the ONNX operator specification, worked out by hand. */
#include "tests/unit/engine/onnx/onnx_builder.h"

#include <math.h>

Test(onnx_operators, conv_with_bias_pads_strides_and_dilations)
{
    struct builder *b;
    Onnx__NodeProto *node = one(&b, 11, "Conv", "x,w,c");
    builder_floats(b, "w", DIMS(5, 3, 3, 2), NULL);
    builder_floats(b, "c", DIMS(5), NULL);
    builder_list(b, node, "pads", DIMS(1, 0, 2, 3));
    builder_list(b, node, "strides", DIMS(2, 1));
    builder_list(b, node, "dilations", DIMS(1, 2));
    /* H: (8 + 3 - 3) / 2 + 1 = 5; W: (8 + 3 - 3) / 1 + 1 = 9 */
    const struct convoy_node *conv = single(b, CONVOY_OP_CONV, "[N,5,5,9]");
    cr_expect(conv->input_count == 3 && conv->conv.groups == 1);
    cr_expect(conv->conv.pad[0] == 1 && conv->conv.pad[1] == 0 && conv->conv.pad[2] == 2 &&
              conv->conv.pad[3] == 3);
    cr_expect(conv->conv.stride[0] == 2 && conv->conv.stride[1] == 1);
    cr_expect(conv->conv.dilation[0] == 1 && conv->conv.dilation[1] == 2);
    cr_expect(strcmp(conv->name, "the_Conv") == 0 && strcmp(conv->onnx_op, "Conv") == 0);
    cr_expect(b->loaded->weight_bytes == 4 * (5 * 3 * 3 * 2 + 5));
    builder_free(b);
}

Test(onnx_operators, conv_with_groups)
{
    struct builder *b;
    Onnx__NodeProto *node = one(&b, 11, "Conv", "x,w");
    builder_floats(b, "w", DIMS(6, 1, 3, 3), NULL);
    builder_int(b, node, "group", 3);
    cr_expect(single(b, CONVOY_OP_CONV, "[N,6,6,6]")->conv.groups == 3);
    builder_free(b);
}

static void auto_pad(const char *mode, const char *shape, int64_t top, int64_t left, int64_t bottom,
                     int64_t right)
{
    struct builder *b;
    Onnx__NodeProto *node = one(&b, 11, "Conv", "x,w");
    builder_floats(b, "w", DIMS(2, 3, 4, 3), NULL);
    builder_string(b, node, "auto_pad", mode);
    builder_list(b, node, "strides", DIMS(1, 2));
    const int64_t *pad = single(b, CONVOY_OP_CONV, shape)->conv.pad;
    cr_expect(pad[0] == top && pad[1] == left && pad[2] == bottom && pad[3] == right, "%s: %d %d %d %d", mode,
              (int)pad[0], (int)pad[1], (int)pad[2], (int)pad[3]);
    builder_free(b);
}

Test(onnx_operators, conv_with_auto_pad)
{
    /* H: total (8 - 1) * 1 + 4 - 8 = 3; W: total (4 - 1) * 2 + 3 - 8 = 1 */
    auto_pad("SAME_UPPER", "[N,2,8,4]", 1, 0, 2, 1);
    auto_pad("SAME_LOWER", "[N,2,8,4]", 2, 1, 1, 0);
    auto_pad("VALID", "[N,2,5,3]", 0, 0, 0, 0);
    auto_pad("NOTSET", "[N,2,5,3]", 0, 0, 0, 0);
}

Test(onnx_operators, batch_norm_folds_into_the_conv_before_it)
{
    struct builder *b = builder_new(15);
    IMAGES(b);
    builder_output(b, "y");
    builder_floats(b, "w", DIMS(2, 3, 1, 1), FLOATS(1, 2, 3, 4, 5, 6));
    builder_floats(b, "scale", DIMS(2), FLOATS(2, 3));
    builder_floats(b, "shift", DIMS(2), FLOATS(0.5, -1));
    builder_floats(b, "mean", DIMS(2), FLOATS(1, 2));
    builder_floats(b, "var", DIMS(2), FLOATS(3, 15));
    builder_node(b, "Conv", "x,w", "t");
    Onnx__NodeProto *node = builder_node(b, "BatchNormalization", "t,scale,shift,mean,var", "y");
    builder_float(b, node, "epsilon", 1);
    /* factors 2 / sqrt(3 + 1) = 1 and 3 / sqrt(15 + 1) = 0.75 */
    const struct convoy_node *conv = single(b, CONVOY_OP_CONV, "[N,2,8,8]");
    cr_assert(conv->input_count == 3);
    expect_floats(b->loaded->tensors[conv->inputs[1]].data, 6, FLOATS(1, 2, 3, 3, 3.75, 4.5));
    expect_floats(b->loaded->tensors[conv->inputs[2]].data, 2, FLOATS(-0.5, -2.5));
    builder_free(b);
}

Test(onnx_operators, batch_norm_alone_is_a_scale_and_a_shift)
{
    struct builder *b;
    Onnx__NodeProto *node = one(&b, 9, "BatchNormalization", "x,s,b,m,v");
    builder_floats(b, "s", DIMS(3), FLOATS(1, 1, 2));
    builder_floats(b, "b", DIMS(3), FLOATS(0, 1, 0));
    builder_floats(b, "m", DIMS(3), FLOATS(0, 0, 4));
    builder_floats(b, "v", DIMS(3), FLOATS(3, 3, 3));
    builder_float(b, node, "epsilon", 1);
    const struct convoy_node *norm = single(b, CONVOY_OP_SCALE_SHIFT, "[N,3,8,8]");
    expect_floats(b->loaded->tensors[norm->inputs[1]].data, 3, FLOATS(0.5, 0.5, 1));
    expect_floats(b->loaded->tensors[norm->inputs[2]].data, 3, FLOATS(0, 1, -4));
    builder_free(b);
}

static struct convoy_activation activation(const char *op, int opset, const char *first, float first_value,
                                           const char *second, float second_value)
{
    struct builder *b;
    Onnx__NodeProto *node = one(&b, opset, op, "x");
    if (first != NULL)
        builder_float(b, node, first, first_value);
    if (second != NULL)
        builder_float(b, node, second, second_value);
    struct convoy_activation result = single(b, CONVOY_OP_ACTIVATION, "[N,3,8,8]")->activation;
    builder_free(b);
    return result;
}

Test(onnx_operators, activations)
{
    cr_expect(activation("Relu", 7, NULL, 0, NULL, 0).kind == CONVOY_RELU);
    cr_expect(activation("Sigmoid", 13, NULL, 0, NULL, 0).kind == CONVOY_SIGMOID);
    cr_expect(activation("Tanh", 13, NULL, 0, NULL, 0).kind == CONVOY_TANH);
    cr_expect(activation("HardSwish", 14, NULL, 0, NULL, 0).kind == CONVOY_HARD_SWISH);
    struct convoy_activation a = activation("LeakyRelu", 7, NULL, 0, NULL, 0);
    cr_expect(a.kind == CONVOY_LEAKY_RELU && a.alpha == 0.01F);
    cr_expect(activation("LeakyRelu", 16, "alpha", 0.3F, NULL, 0).alpha == 0.3F);
    a = activation("HardSigmoid", 7, NULL, 0, NULL, 0);
    cr_expect(a.kind == CONVOY_HARD_SIGMOID && a.alpha == 0.2F && a.beta == 0.5F);
    a = activation("HardSigmoid", 7, "alpha", 0.25F, "beta", 0.75F);
    cr_expect(a.alpha == 0.25F && a.beta == 0.75F);
    a = activation("Clip", 7, "max", 6, NULL, 0);
    cr_expect(a.kind == CONVOY_CLIP && a.alpha == -INFINITY && a.beta == 6);
    a = activation("Clip", 13, "max", 6, NULL, 0); /* an attribute means nothing since opset 11 */
    cr_expect(a.alpha == -INFINITY && a.beta == INFINITY);
}

Test(onnx_operators, clip_with_inputs)
{
    struct builder *b;
    one(&b, 11, "Clip", "x,,high");
    builder_floats(b, "high", 0, NULL, FLOATS(6));
    struct convoy_activation a = single(b, CONVOY_OP_ACTIVATION, "[N,3,8,8]")->activation;
    cr_expect(a.alpha == -INFINITY && a.beta == 6);
    builder_free(b);
}

static void pool(const char *op, int ceil_mode, int64_t size, int64_t stride, int64_t pad, const char *shape)
{
    struct builder *b;
    Onnx__NodeProto *node = one(&b, 12, op, "x");
    builder_list(b, node, "kernel_shape", DIMS(size, size));
    builder_list(b, node, "strides", DIMS(stride, stride));
    builder_list(b, node, "pads", DIMS(pad, pad, pad, pad));
    builder_int(b, node, "ceil_mode", ceil_mode);
    const struct convoy_node *made = single(b, CONVOY_OP_POOL, shape);
    cr_expect(made->pool.kind == (strcmp(op, "MaxPool") == 0 ? CONVOY_POOL_MAX : CONVOY_POOL_AVERAGE));
    cr_expect(made->pool.window[0] == (size < 8 ? size : 8) && made->pool.stride[1] == stride &&
              made->pool.pad[3] == pad);
    cr_expect(made->pool.dilation[0] == 1 && !made->pool.count_include_pad);
    builder_free(b);
}

Test(onnx_operators, pools)
{
    pool("MaxPool", 0, 3, 2, 1, "[N,3,4,4]");     /* (8 + 2 - 3) / 2 + 1 */
    pool("MaxPool", 1, 3, 2, 0, "[N,3,4,4]");     /* ceil(5 / 2) + 1 */
    pool("MaxPool", 1, 20, 13, 0, "[N,3,1,1]");   /* ceil(-12 / 13) + 1 */
    pool("AveragePool", 0, 3, 2, 0, "[N,3,3,3]"); /* floor(5 / 2) + 1 */
    /* ceil((8 + 2 - 2) / 3) + 1 = 4, but the fourth window would begin at 9 = 8 + 1, in the padding behind */
    pool("AveragePool", 1, 2, 3, 1, "[N,3,3,3]");
}

Test(onnx_operators, average_pool_that_counts_its_padding)
{
    struct builder *b;
    Onnx__NodeProto *node = one(&b, 12, "AveragePool", "x");
    builder_list(b, node, "kernel_shape", DIMS(3, 3));
    builder_string(b, node, "auto_pad", "SAME_UPPER");
    builder_int(b, node, "count_include_pad", 1);
    const struct convoy_node *made = single(b, CONVOY_OP_POOL, "[N,3,8,8]");
    cr_expect(made->pool.count_include_pad && made->pool.pad[0] == 1 && made->pool.pad[2] == 1);
    builder_free(b);
}

Test(onnx_operators, global_average_pool)
{
    struct builder *b;
    one(&b, 7, "GlobalAveragePool", "x");
    const struct convoy_node *made = single(b, CONVOY_OP_POOL, "[N,3,1,1]");
    cr_expect(made->pool.window[0] == 8 && made->pool.window[1] == 8 &&
              made->pool.kind == CONVOY_POOL_AVERAGE);
    builder_free(b);
}

Test(onnx_operators, reduce_mean_by_attribute_and_by_input)
{
    struct builder *b;
    Onnx__NodeProto *node = one(&b, 13, "ReduceMean", "x");
    builder_list(b, node, "axes", DIMS(-1, -2));
    cr_expect(single(b, CONVOY_OP_POOL, "[N,3,1,1]")->pool.window[0] == 8);
    builder_free(b);

    node = one(&b, 18, "ReduceMean", "x,axes");
    builder_ints(b, "axes", DIMS(2, 3));
    builder_int(b, node, "keepdims", 0);
    const struct convoy_graph *graph = builder_graph(b);
    expect_sound(graph);
    cr_assert(graph->node_count == 2);
    cr_expect(graph->nodes[0].op == CONVOY_OP_POOL && graph->nodes[1].op == CONVOY_OP_RESHAPE);
    expect_shape(graph, graph->outputs[0], "[N,3]");
    builder_free(b);

    node = one(&b, 18, "ReduceMean", "x,axes");
    builder_ints(b, "axes", DIMS(3));
    const struct convoy_node *made = single(b, CONVOY_OP_POOL, "[N,3,8,1]");
    cr_expect(made->pool.window[0] == 1 && made->pool.window[1] == 8);
    builder_free(b);

    node = one(&b, 18, "ReduceMean", "x,axes");
    builder_ints(b, "axes", DIMS(1));
    builder_int(b, node, "keepdims", 0);
    graph = builder_graph(b);
    expect_sound(graph);
    expect_shape(graph, graph->outputs[0], "[N,8,8]");
    builder_free(b);
}

/* Clients ask for outputs by the file's names, whatever computes them; a tensor of two names is two outputs.
 */
Test(onnx_operators, outputs_keep_their_names_behind_what_changes_nothing)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_node(b, "Relu", "x", "a");
    builder_node(b, "Identity", "a", "y");
    builder_int(b, builder_node(b, "Cast", "a", "z"), "to", FLOAT_TYPE);
    builder_node(b, "Dropout", "x", "w");
    builder_output(b, "y");
    builder_output(b, "z");
    builder_output(b, "w");
    const struct convoy_graph *graph = builder_graph(b);
    expect_sound(graph);
    cr_assert_eq(graph->output_count, 3);
    for (int i = 0; i < 3; i++) {
        cr_expect_str_eq(graph->tensors[graph->outputs[i]].name, b->outputs[i]->name);
        expect_shape(graph, graph->outputs[i], "[N,3,8,8]");
    }
    cr_expect_neq(graph->outputs[0], graph->outputs[1]);
    builder_free(b);
}

Test(onnx_operators, gemm)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(-1, 3));
    builder_output(b, "y");
    builder_floats(b, "w", DIMS(3, 2), FLOATS(1, 2, 3, 4, 5, 6));
    builder_floats(b, "c", DIMS(1, 2), FLOATS(10, 20));
    Onnx__NodeProto *node = builder_node(b, "Gemm", "x,w,c", "y");
    builder_float(b, node, "alpha", 2);
    builder_float(b, node, "beta", 0.5F);
    const struct convoy_node *dense = single(b, CONVOY_OP_DENSE, "[N,2]");
    expect_shape(b->loaded, dense->inputs[1], "[2,3]");
    expect_floats(b->loaded->tensors[dense->inputs[1]].data, 6, FLOATS(2, 6, 10, 4, 8, 12));
    expect_floats(b->loaded->tensors[dense->inputs[2]].data, 2, FLOATS(5, 10));
    builder_int(b, node, "transB", 1);
    b->initializers[0]->dims[0] = 2;
    b->initializers[0]->dims[1] = 3;
    dense = single(b, CONVOY_OP_DENSE, "[N,2]");
    expect_floats(b->loaded->tensors[dense->inputs[1]].data, 6, FLOATS(2, 4, 6, 8, 10, 12));
    builder_free(b);
}

Test(onnx_operators, gemm_with_a_transposed_first_matrix_and_a_scalar_c)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(3, 4));
    builder_output(b, "y");
    builder_floats(b, "w", DIMS(3, 2), NULL);
    builder_floats(b, "c", 0, NULL, FLOATS(7));
    builder_int(b, builder_node(b, "Gemm", "x,w,c", "y"), "transA", 1);
    struct convoy_onnx_options options = {.no_batch = true};
    cr_assert(builder_load(b, &options) == 0, "%s", b->error.message);
    cr_assert(b->loaded->node_count == 2 && b->loaded->nodes[0].op == CONVOY_OP_TRANSPOSE);
    const struct convoy_node *dense = &b->loaded->nodes[1];
    expect_floats(b->loaded->tensors[dense->inputs[2]].data, 2, FLOATS(7, 7));
    expect_shape(b->loaded, b->loaded->outputs[0], "[4,2]");
    builder_free(b);
}

Test(onnx_operators, matmul_by_a_matrix_and_an_addition_are_one_dense)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(-1, 3));
    builder_output(b, "y");
    builder_floats(b, "w", DIMS(3, 2), FLOATS(1, 2, 3, 4, 5, 6));
    builder_floats(b, "c", DIMS(2), FLOATS(10, 20));
    builder_node(b, "MatMul", "x,w", "t");
    builder_node(b, "Add", "c,t", "y");
    const struct convoy_node *dense = single(b, CONVOY_OP_DENSE, "[N,2]");
    expect_floats(b->loaded->tensors[dense->inputs[1]].data, 6, FLOATS(1, 3, 5, 2, 4, 6));
    expect_floats(b->loaded->tensors[dense->inputs[2]].data, 2, FLOATS(10, 20));
    builder_free(b);
}

Test(onnx_operators, matmul_of_more_dimensions)
{
    struct builder *b;
    one(&b, 13, "MatMul", "x,w");
    builder_floats(b, "w", DIMS(3, 8, 5), NULL);
    single(b, CONVOY_OP_MATMUL, "[N,3,8,5]");
    builder_free(b);

    b = builder_new(13); /* attention: x x^T, image by image */
    builder_input(b, "x", DIMS(-1, 4, 6));
    builder_output(b, "y");
    builder_list(b, builder_node(b, "Transpose", "x", "t"), "perm", DIMS(0, 2, 1));
    builder_node(b, "MatMul", "x,t", "y");
    expect_output(b, "[N,4,4]");
    cr_expect(b->loaded->nodes[1].op == CONVOY_OP_MATMUL);
    builder_free(b);

    one(&b, 13, "MatMul", "w,x"); /* a constant on the left */
    builder_floats(b, "w", DIMS(5, 8), NULL);
    expect_output(b, "[N,3,5,8]");
    builder_free(b);
}

Test(onnx_operators, arithmetic_with_constants_on_either_side)
{
    static const struct {
        const char *op;
        enum convoy_binary_kind kind;
    } cases[] = {{"Add", CONVOY_ADD}, {"Sub", CONVOY_SUB}, {"Mul", CONVOY_MUL}, {"Div", CONVOY_DIV}};
    for (size_t i = 0; i < 4; i++) {
        struct builder *b;
        one(&b, 7, cases[i].op, "x,c");
        builder_floats(b, "c", DIMS(3, 1, 1), NULL);
        const struct convoy_node *made = single(b, CONVOY_OP_BINARY, "[N,3,8,8]");
        cr_expect(made->binary == cases[i].kind && made->inputs[0] == b->loaded->input);
        builder_free(b);
        one(&b, 14, cases[i].op, "c,x");
        builder_floats(b, "c", 0, NULL, FLOATS(2));
        made = single(b, CONVOY_OP_BINARY, "[N,3,8,8]");
        cr_expect(made->binary == cases[i].kind && made->inputs[1] == b->loaded->input);
        builder_free(b);
    }
}

Test(onnx_operators, arithmetic_of_two_activations_broadcasts)
{
    struct builder *b = builder_new(14);
    IMAGES(b);
    builder_output(b, "y");
    builder_node(b, "GlobalAveragePool", "x", "t");
    builder_node(b, "Mul", "t,x", "y");
    expect_output(b, "[N,3,8,8]");
    expect_sound(b->loaded);
    builder_free(b);
}
