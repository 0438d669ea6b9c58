/* Operators that move elements, do nothing, or are evaluated while the model is read. */
#include "tests/unit/engine/onnx/onnx_builder.h"

Test(onnx_layout, pad_in_every_form)
{
    struct builder *b;
    Onnx__NodeProto *node = one(&b, 7, "Pad", "x");
    builder_list(b, node, "pads", DIMS(0, 0, 1, 2, 0, 0, 3, -1));
    const struct convoy_node *pad = single(b, CONVOY_OP_PAD, "[N,3,12,9]");
    cr_expect(pad->pad.before[2] == 1 && pad->pad.before[3] == 2 && pad->pad.after[2] == 3 &&
              pad->pad.after[3] == -1);
    builder_free(b);

    one(&b, 13, "Pad", "x,pads,value");
    builder_ints(b, "pads", DIMS(0, 1, 0, 0, 0, 0, 0, 0));
    builder_floats(b, "value", 0, NULL, FLOATS(0));
    single(b, CONVOY_OP_PAD, "[N,4,8,8]");
    builder_free(b);

    one(&b, 18, "Pad", "x,pads,,axes");
    builder_ints(b, "pads", DIMS(1, 2, 3, 4));
    builder_ints(b, "axes", DIMS(-1, 2));
    pad = single(b, CONVOY_OP_PAD, "[N,3,14,12]"); /* W: 1 + 3, H: 2 + 4 */
    cr_expect(pad->pad.before[3] == 1 && pad->pad.after[3] == 3 && pad->pad.before[2] == 2 &&
              pad->pad.after[2] == 4);
    builder_free(b);
}

Test(onnx_layout, pad_folds_into_the_conv_behind_it)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_ints(b, "pads", DIMS(0, 0, 0, 1, 0, 0, 2, 3));
    builder_floats(b, "w", DIMS(2, 3, 3, 3), NULL);
    builder_node(b, "Pad", "x,pads", "t");
    builder_list(b, builder_node(b, "Conv", "t,w", "y"), "pads", DIMS(1, 1, 1, 1));
    const int64_t *pad = single(b, CONVOY_OP_CONV, "[N,2,10,12]")->conv.pad;
    cr_expect(pad[0] == 1 && pad[1] == 2 && pad[2] == 3 && pad[3] == 4);
    builder_free(b);
}

Test(onnx_layout, layout)
{
    struct builder *b;
    Onnx__NodeProto *node = one(&b, 7, "Flatten", "x");
    single(b, CONVOY_OP_RESHAPE, "[N,192]");
    builder_free(b);
    node = one(&b, 11, "Flatten", "x");
    builder_int(b, node, "axis", -1);
    single(b, CONVOY_OP_RESHAPE, "[24N,8]"); /* image after image, 24 rows each */
    builder_free(b);

    node = one(&b, 11, "Unsqueeze", "x");
    builder_list(b, node, "axes", DIMS(-1, 1));
    single(b, CONVOY_OP_RESHAPE, "[N,1,3,8,8,1]");
    builder_free(b);
    one(&b, 13, "Unsqueeze", "x,axes");
    builder_ints(b, "axes", DIMS(0));
    expect_output(b, "[1,N,3,8,8]");
    builder_free(b);

    b = builder_new(13);
    builder_input(b, "x", DIMS(-1, 5, 1, 1));
    builder_output(b, "y");
    builder_node(b, "Squeeze", "x", "y");
    single(b, CONVOY_OP_RESHAPE, "[N,5]");
    b->nodes[0]->n_input = builder_split(b, "x,axes", &b->nodes[0]->input);
    builder_ints(b, "axes", DIMS(-1));
    single(b, CONVOY_OP_RESHAPE, "[N,5,1]");
    builder_free(b);

    node = one(&b, 7, "Transpose", "x");
    builder_list(b, node, "perm", DIMS(0, 2, 3, 1));
    const struct convoy_node *made = single(b, CONVOY_OP_TRANSPOSE, "[N,8,8,3]");
    cr_expect(made->perm[1] == 2 && made->perm[3] == 1);
    builder_free(b);
}

Test(onnx_layout, transposing_the_batch_away_and_back)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_node(b, "Transpose", "x", "t");
    builder_node(b, "Relu", "t", "u");
    builder_node(b, "Transpose", "u", "y");
    const struct convoy_graph *graph = builder_graph(b);
    expect_shape(graph, graph->nodes[1].output, "[8,8,3,N]");
    expect_shape(graph, graph->outputs[0], "[N,3,8,8]");
    builder_free(b);
}

Test(onnx_layout, concat)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_node(b, "Relu", "x", "t");
    builder_int(b, builder_node(b, "Concat", "x,t,x", "y"), "axis", -3);
    const struct convoy_graph *graph = builder_graph(b);
    expect_sound(graph);
    expect_shape(graph, graph->outputs[0], "[N,9,8,8]");
    cr_expect(graph->nodes[1].axis == 1 && graph->nodes[1].input_count == 3);
    builder_free(b);
}

Test(onnx_layout, softmax_before_and_since_opset_13)
{
    struct builder *b;
    one(&b, 11, "Softmax", "x");
    const struct convoy_node *made = single(b, CONVOY_OP_SOFTMAX, "[N,3,8,8]");
    cr_expect(made->softmax.axis == 1 && made->softmax.axis_end == 4 && b->loaded->ends_in_softmax);
    builder_free(b);
    one(&b, 13, "Softmax", "x");
    made = single(b, CONVOY_OP_SOFTMAX, "[N,3,8,8]");
    cr_expect(made->softmax.axis == 3 && made->softmax.axis_end == 4);
    builder_free(b);
}

Test(onnx_layout, softmax_is_seen_through_a_reshape_but_not_through_arithmetic)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_node(b, "Softmax", "x", "t");
    builder_node(b, "Flatten", "t", "y");
    cr_expect(builder_graph(b)->ends_in_softmax);
    b->nodes[1]->op_type = builder_text(b, "Relu");
    cr_expect(!builder_graph(b)->ends_in_softmax && !builder_graph(b)->ends_in_sigmoid);
    b->nodes[0]->op_type = builder_text(b, "Sigmoid");
    b->nodes[1]->op_type = builder_text(b, "Flatten");
    cr_expect(!builder_graph(b)->ends_in_softmax && builder_graph(b)->ends_in_sigmoid);
    builder_free(b);
}

Test(onnx_layout, what_does_nothing_leaves_nothing)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_floats(b, "ratio", 0, NULL, FLOATS(0.5));
    builder_node(b, "Identity", "x", "t");
    builder_node(b, "Dropout", "t,ratio", "u,mask");
    builder_int(b, builder_node(b, "Cast", "u", "v"), "to", FLOAT_TYPE);
    builder_node(b, "Relu", "v", "y");
    single(b, CONVOY_OP_ACTIVATION, "[N,3,8,8]");
    builder_free(b);

    one(&b, 13, "Identity", "x"); /* an output is never the input itself */
    single(b, CONVOY_OP_RESHAPE, "[N,3,8,8]");
    builder_free(b);
}

Test(onnx_layout, dead_nodes_are_not_even_read)
{
    struct builder *b;
    one(&b, 13, "Relu", "x");
    builder_node(b, "NoSuchOperator", "x", "unused");
    builder_node(b, "Sigmoid", "x", "unused_too");
    single(b, CONVOY_OP_ACTIVATION, "[N,3,8,8]");
    builder_free(b);
}

Test(onnx_layout, hard_swish_as_old_exporters_write_it)
{
    struct builder *b = builder_new(11);
    IMAGES(b);
    builder_output(b, "y");
    builder_floats(b, "three", 0, NULL, FLOATS(3));
    builder_floats(b, "zero", 0, NULL, FLOATS(0));
    builder_floats(b, "six", DIMS(1), FLOATS(6));
    builder_node(b, "Add", "x,three", "t");
    builder_node(b, "Clip", "t,zero,six", "u");
    builder_node(b, "Mul", "x,u", "v");
    builder_node(b, "Div", "v,six", "y");
    cr_expect(single(b, CONVOY_OP_ACTIVATION, "[N,3,8,8]")->activation.kind == CONVOY_HARD_SWISH);

    b->nodes[2]->op_type = builder_text(b, "Div"); /* x * (clip / 6) */
    b->nodes[2]->input[0] = builder_text(b, "u");
    b->nodes[2]->input[1] = builder_text(b, "six");
    b->nodes[3]->op_type = builder_text(b, "Mul");
    b->nodes[3]->input[1] = builder_text(b, "x");
    cr_expect(single(b, CONVOY_OP_ACTIVATION, "[N,3,8,8]")->activation.kind == CONVOY_HARD_SWISH);

    b->nodes[3]->input[1] = builder_text(b, "zero"); /* not a product with x: the hard sigmoid remains */
    const struct convoy_graph *graph = builder_graph(b);
    cr_assert(graph->node_count == 2);
    cr_expect(graph->nodes[0].activation.kind == CONVOY_HARD_SIGMOID);

    b->initializers[0]->raw_data.data[3] = 0x41; /* 3 becomes 12: another function */
    graph = builder_graph(b);
    cr_expect(graph->node_count == 4);
    builder_free(b);
}

Test(onnx_layout, constants_in_every_form)
{
    static const char *const names[] = {"value", "value_float", "value_floats", "value_int", "value_ints"};
    for (size_t i = 0; i < 5; i++) {
        struct builder *b = builder_new(13);
        IMAGES(b);
        builder_output(b, "y");
        Onnx__NodeProto *constant = builder_node(b, "Constant", "", "c");
        if (i == 0)
            builder_tensor_attribute(b, constant, names[i], builder_float_tensor(b, "t", 0, NULL, FLOATS(2)));
        else if (i == 1)
            builder_float(b, constant, names[i], 2);
        else if (i == 3)
            builder_int(b, constant, names[i], 2);
        else if (i == 4)
            builder_list(b, constant, names[i], DIMS(2));
        if (i == 2) {
            Onnx__AttributeProto *list =
                builder_attribute(b, constant, names[i], ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS);
            list->n_floats = 1;
            list->floats = builder_memory(b, sizeof(float));
            list->floats[0] = 2;
        }
        builder_int(b, builder_node(b, "Cast", "c", "d"), "to", FLOAT_TYPE);
        builder_node(b, "Mul", "x,d", "y");
        const struct convoy_node *mul = single(b, CONVOY_OP_BINARY, "[N,3,8,8]");
        expect_floats(b->loaded->tensors[mul->inputs[1]].data, 1, FLOATS(2));
        builder_free(b);
    }
}

Test(onnx_layout, constants_are_folded)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_floats(b, "a", DIMS(2, 3), FLOATS(1, 2, 3, 4, 5, 6));
    builder_floats(b, "row", DIMS(2), FLOATS(10, 100));
    builder_ints(b, "shape", DIMS(3, 2, 1));
    builder_ints(b, "first", DIMS(0));
    builder_ints(b, "last", DIMS(2));
    builder_node(b, "Transpose", "a", "at");      /* 1 4 / 2 5 / 3 6 */
    builder_node(b, "Mul", "at,row", "am");       /* 10 400 / 20 500 / 30 600 */
    builder_node(b, "Reshape", "am,shape", "ar"); /* [3,2,1] */
    builder_ints(b, "one", DIMS(1));
    builder_node(b, "Slice", "ar,first,one,one", "as"); /* along axis 1 the first: 10, 20, 30 */
    builder_node(b, "Identity", "as", "ai");
    builder_node(b, "Sub", "x,ai", "y");
    const struct convoy_node *sub = single(b, CONVOY_OP_BINARY, "[N,3,8,8]");
    expect_shape(b->loaded, sub->inputs[1], "[3,1,1]");
    expect_floats(b->loaded->tensors[sub->inputs[1]].data, 3, FLOATS(10, 20, 30));
    builder_free(b);
}
