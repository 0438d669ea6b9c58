/* What is not supported or does not fit is refused with a sentence that names the file, the node and the
 * operator. */
#include "tests/unit/engine/onnx/onnx_builder.h"

Test(onnx_refusals, operators)
{
    struct builder *b;
    one(&b, 13, "LSTM", "x");
    builder_refused(
        b, -ENOTSUP,
        "node 'the_LSTM' (LSTM): convoyd does not have this operator; to serve the model, cut it");
    one(&b, 13, "If", "x");
    builder_refused(b, -ENOTSUP, "'x', is not one constant number");
    one(&b, 13, "Loop", "x");
    builder_refused(b, -ENOTSUP, "node 'the_Loop' (Loop): ");
    one(&b, 13, "LSTM", "x")->name = (char *)"";
    builder_refused(b, -ENOTSUP, "node 0 (LSTM, computes 'y'): convoyd does not have this operator");
    one(&b, 13, "Relu", "x")->domain = (char *)"ai.onnx.ml";
    builder_refused(b, -ENOTSUP, "(Relu): convoyd does not have the operators of domain 'ai.onnx.ml'");
    one(&b, 13, "Relu", "x")->domain = (char *)"ai.onnx";
    builder_graph(b);
    builder_free(b);
}

/* What helps depends on what is wrong. Each refusal's sentence is looked through for any advice by
 * builder_refused(). */
Test(onnx_refusals, say_what_to_do)
{
    static const float numbers[4] = {1, 2, 3, 4};
    struct builder *b;
    one(&b, 13, "GRU", "x");
    builder_refused(b, -ENOTSUP, "cut it before this node if the scores are known there");
    one(&b, 13, "MaxRoiPool", "x,c");
    builder_floats(b, "c", DIMS(4), numbers);
    builder_refused(b, -ENOTSUP, "cut it before this node");
    one(&b, 13, "Add", "x,d");
    builder_floats(b, "c", DIMS(4), numbers);
    builder_node(b, "Det", "c", "d");
    builder_refused(b, -ENOTSUP, "fold its constants");
    one(&b, 13, "Add", "x,d");
    builder_node(b, "RandomNormal", "", "d")->n_input = 0;
    builder_refused(b, -ENOTSUP, "cut it before this node");
    one(&b, 13, "FusedConv", "x")->domain = (char *)"com.microsoft";
    builder_refused(b, -ENOTSUP, "before another tool optimised it");
    one(&b, 15, "Block", "x")->domain = (char *)"mine";
    Onnx__FunctionProto function, *functions = &function;
    onnx__function_proto__init(&function);
    b->model.n_functions = 1;
    b->model.functions = &functions;
    builder_refused(b, -ENOTSUP, "inline its functions");
    one(&b, 13, "Resize", "x,r,c");
    builder_string(b, b->nodes[0], "mode", "area");
    builder_floats(b, "c", DIMS(4), numbers);
    builder_floats(b, "r", DIMS(4), numbers);
    builder_refused(b, -ENOTSUP, "export it with another opset or exporter");
    one(&b, 13, "Dropout", "x,r,t");
    builder_floats(b, "r", 0, NULL, numbers);
    builder_ints(b, "t", DIMS(1));
    builder_refused(b, -ENOTSUP, "export it for inference");
    one(&b, 13, "Transpose", "x");
    builder_list(b, b->nodes[0], "perm", DIMS(1, 0, 2, 3));
    builder_refused(b, -ENOTSUP, "to serve the model, transpose it there");
    one(&b, 13, "Concat", "x,x");
    builder_int(b, b->nodes[0], "axis", 0);
    builder_refused(b, -ENOTSUP, "each image is computed by itself");
}

/* A batch of one that is there already is no advice. */
Test(onnx_refusals, advise_a_batch_of_one_where_there_is_none)
{
    for (int64_t batch = -1; batch <= 1; batch += 2) {
        struct builder *b = builder_new(13);
        builder_input(b, "x", DIMS(batch, 3, 8, 8));
        builder_output(b, "y");
        builder_node(b, "Shape", "x", "s");
        builder_node(b, "ReduceSum", "s", "t");
        builder_node(b, "Reshape", "x,t", "y");
        builder_refused(b, -ENOTSUP,
                        batch == 1 ? "export it with another opset" : "export it with a fixed batch of 1");
    }
}

Test(onnx_refusals, opsets)
{
    for (int opset = 7; opset <= 21; opset++) {
        struct builder *b;
        one(&b, opset, "Relu", "x");
        builder_graph(b);
        builder_free(b);
    }
    struct builder *b;
    one(&b, 6, "Relu", "x");
    builder_refused(b, -ENOTSUP, "opset 6");
    one(&b, 27, "Relu", "x");
    builder_refused(b, -ENOTSUP, "opset 27");
    one(&b, 13, "Relu", "x");
    b->model.n_opset_import = 0;
    builder_refused(b, -EINVAL, "names no opset");
    one(&b, 13, "Relu", "x");
    b->model.graph = NULL;
    builder_refused(b, -EINVAL, "no graph");
}

Test(onnx_refusals, inputs)
{
    struct builder *b;
    one(&b, 13, "Add", "x,z");
    builder_input(b, "z", DIMS(-1, 3, 8, 8));
    builder_refused(b, -ENOTSUP, "several inputs ('x', 'z')");
    one(&b, 13, "Relu", "x");
    b->graph.n_input = 0;
    builder_refused(b, -ENOTSUP, "no input");
    one(&b, 13, "Relu", "x");
    b->inputs[0]->type->tensor_type->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT8;
    builder_refused(b, -ENOTSUP, "is of type int8, convoyd takes float32, float16 and uint8");
    one(&b, 13, "Relu", "x");
    b->inputs[0]->type->tensor_type->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
    builder_refused(b, -ENOTSUP, "is of type double");
    one(&b, 13, "Relu", "x");
    b->inputs[0] = builder_info(b, "x", FLOAT_TYPE, DIMS(-1, 3, -1, 8));
    builder_refused(b, -ENOTSUP,
                    "leaves the height of input 'x' open; to serve the model, give input.height in its");
    one(&b, 13, "Relu", "x");
    b->inputs[0] = builder_info(b, "x", FLOAT_TYPE, DIMS(-1, 3, 0, 8));
    builder_refused(b, -EINVAL, "dimension below 1");
    one(&b, 13, "Relu", "x");
    b->inputs[0] = builder_info(b, "x", FLOAT_TYPE, DIMS(-1, 3, -7, 8));
    builder_refused(b, -EINVAL, "dimension below 1");
    one(&b, 13, "Relu", "x");
    b->inputs[0] = builder_info(b, "x", FLOAT_TYPE, DIMS(-1, 65536, 65536, 8));
    builder_refused(b, -EINVAL, "more than 2^31-1 elements");
    one(&b, 13, "Relu", "x");
    b->inputs[0] = builder_info(b, "x", FLOAT_TYPE, DIMS(-1, INT64_MAX, INT64_MAX, 8));
    builder_refused(b, -EINVAL, "more than 2^31-1 elements");
    one(&b, 13, "Relu", "x");
    b->inputs[0] = builder_info(b, "x", FLOAT_TYPE, DIMS(0, 3, 8, 8));
    builder_refused(b, -EINVAL, "batch of 0");
    one(&b, 13, "Relu", "x");
    b->inputs[0] = builder_info(b, "x", FLOAT_TYPE, -1, NULL);
    builder_refused(b, -ENOTSUP, "no shape");
    one(&b, 13, "Relu", "x");
    b->inputs[0]->type = NULL;
    builder_refused(b, -ENOTSUP, "not a tensor");
}

Test(onnx_refusals, names)
{
    struct builder *b;
    one(&b, 13, "Relu", "nothing");
    builder_refused(b, -EINVAL, "node 'the_Relu' (Relu): its input 'nothing' is computed nowhere");
    one(&b, 13, "Add", "x,z");
    builder_node(b, "Relu", "y", "z");
    builder_refused(b, -EINVAL, "cycle");
    one(&b, 13, "Relu", "x");
    builder_node(b, "Relu", "x", "y");
    builder_refused(b, -EINVAL, "its output 'y' is there already");
    one(&b, 13, "Relu", "x");
    builder_node(b, "Relu", "y", "x");
    builder_refused(b, -EINVAL, "its output 'x' is there already");
    one(&b, 13, "Relu", "x");
    b->graph.n_output = 0;
    builder_refused(b, -EINVAL, "no output");
    one(&b, 13, "Relu", "x");
    builder_output(b, "z");
    builder_refused(b, -EINVAL, "output 'z' of the model is computed by no node");
    one(&b, 13, "Relu", "x");
    builder_floats(b, "z", DIMS(1), NULL);
    builder_output(b, "z");
    builder_refused(b, -ENOTSUP, "output 'z' does not depend on the model's input");
    one(&b, 13, "Relu", "x");
    b->outputs[0] = builder_info(b, "y", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, -1, NULL);
    builder_refused(b, -ENOTSUP, "output 'y' is of type int64");
    one(&b, 13, "Relu", "x");
    for (int i = 0; i < 16; i++)
        builder_output(b, "y");
    builder_refused(b, -ENOTSUP, "17 outputs");
    one(&b, 13, "Relu", "x");
    b->nodes[0]->n_input = builder_split(b, "x,x", &b->nodes[0]->input);
    builder_refused(b, -EINVAL, "it has 2 inputs");
}

Test(onnx_refusals, names_that_are_no_text_do_not_reach_the_sentence)
{
    struct builder *b;
    one(&b, 13, "Relu", "x");
    b->nodes[0]->name = (char *)"a\n\xFF\xC3\xA4\xED\xA0\x80\x1B[31m";
    b->nodes[0]->op_type = (char *)"Nope";
    builder_refused(b, -ENOTSUP, "node 'a??\xC3\xA4????[31m' (Nope): ");
}

static Onnx__NodeProto *conv(struct builder **b, int rank, const int64_t *weight)
{
    Onnx__NodeProto *node = one(b, 11, "Conv", "x,w");
    builder_floats(*b, "w", rank, weight, NULL);
    return node;
}

Test(onnx_refusals, convolutions)
{
    struct builder *b;
    Onnx__NodeProto *node;
    conv(&b, DIMS(2, 4, 3, 3));
    builder_refused(b, -EINVAL,
                    "node 'the_Conv' (Conv): its weight is for 1 groups of 4 channels, its input has 3");
    conv(&b, DIMS(2, 3, 9, 3));
    builder_refused(b, -EINVAL, "its window reaches over 9 pixels, the padded input has only 8");
    conv(&b, DIMS(2, 3, 3));
    builder_refused(b, -EINVAL, "its weight has 3 dimensions");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_list(b, node, "strides", DIMS(0, 1));
    builder_refused(b, -EINVAL, "'strides' is 0");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_list(b, node, "strides", DIMS(1, 1, 1));
    builder_refused(b, -EINVAL, "'strides' has 3 numbers");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_list(b, node, "strides", DIMS(1));
    builder_refused(b, -EINVAL, "'strides' has 1 numbers");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_list(b, node, "dilations", DIMS(1, INT64_MAX));
    builder_refused(b, -EINVAL, "'dilations' is 9223372036854775807, out of range");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_list(b, node, "dilations", DIMS(INT32_MAX, INT32_MAX));
    builder_refused(b, -EINVAL, "its window reaches over");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_list(b, node, "pads", DIMS(INT64_MAX, 0, INT64_MAX, 0));
    builder_refused(b, -EINVAL, "'pads' has");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_list(b, node, "pads", DIMS(INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX));
    builder_refused(b, -EINVAL, "more than 2^31-1 elements");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_list(b, node, "pads", DIMS(-1, 0, 0, 0));
    builder_refused(b, -EINVAL, "'pads' has -1");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_int(b, node, "group", 0);
    builder_refused(b, -EINVAL, "0 groups");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_int(b, node, "group", INT64_MIN);
    builder_refused(b, -EINVAL, "groups do not divide");
    node = conv(&b, DIMS(2, 1, 3, 3));
    builder_int(b, node, "group", 3);
    builder_refused(b, -EINVAL, "3 groups do not divide its 2 output channels");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_list(b, node, "kernel_shape", DIMS(3, 2));
    builder_refused(b, -EINVAL, "kernel_shape is not that of its weight");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_string(b, node, "auto_pad", "SOMEHOW");
    builder_refused(b, -EINVAL, "'auto_pad' has a value");
    node = conv(&b, DIMS(2, 3, 3, 3));
    builder_int(b, node, "strides", 2);
    builder_refused(b, -EINVAL, "'strides' is not of the type");
    node = conv(&b, DIMS(2, 3, 3, 3));
    node->n_input = builder_split(b, "x,w,c", &node->input);
    builder_floats(b, "c", DIMS(3), NULL);
    builder_refused(b, -EINVAL, "one number for each of 2 channels");
    one(&b, 11, "Conv", "x,x");
    builder_refused(b, -ENOTSUP, "its weight, 'x', is not a constant");
    b = builder_new(11);
    builder_input(b, "x", DIMS(-1, 3, 8, 8, 8));
    builder_output(b, "y");
    builder_floats(b, "w", DIMS(2, 3, 3, 3, 3), NULL);
    builder_node(b, "Conv", "x,w", "y");
    builder_refused(b, -ENOTSUP,
                    "filters whose size is 1 along a dimension); to serve the model, cut it before");
}

Test(onnx_refusals, pools)
{
    struct builder *b;
    one(&b, 11, "MaxPool", "x");
    builder_refused(b, -EINVAL, "kernel_shape is missing");
    Onnx__NodeProto *node = one(&b, 11, "MaxPool", "x");
    builder_list(b, node, "kernel_shape", DIMS(2, 2));
    builder_int(b, node, "storage_order", 1);
    builder_refused(b, -ENOTSUP, "storage_order");
    node = one(&b, 11, "MaxPool", "x");
    builder_list(b, node, "kernel_shape", DIMS(2, 2));
    builder_list(b, node, "pads", DIMS(2, 0, 0, 0));
    builder_refused(b, -EINVAL, "pool over nothing");
    node = one(&b, 11, "MaxPool", "x");
    builder_list(b, node, "kernel_shape", DIMS(9, 9));
    builder_refused(b, -EINVAL, "reaches over 9");
    node = one(&b, 11, "MaxPool", "x");
    builder_list(b, node, "kernel_shape", DIMS(2, 2));
    node->n_output = builder_split(b, "t,indices", &node->output);
    builder_node(b, "Add", "t,indices", "y");
    builder_refused(b, -ENOTSUP, "'indices' is an additional output");
    node = one(&b, 13, "ReduceMean", "x");
    builder_list(b, node, "axes", DIMS(0, 3));
    builder_refused(b, -ENOTSUP, "combines the images of a batch");
    node = one(&b, 13, "ReduceMean", "x");
    builder_list(b, node, "axes", DIMS(4));
    builder_refused(b, -EINVAL, "axis 4 is outside");
}

Test(onnx_refusals, training_mode)
{
    struct builder *b;
    one(&b, 13, "Dropout", "x,,training");
    builder_add_initializer(b, builder_tensor(b, "training", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 0, NULL));
    builder_raw(b, b->initializers[0], "\x01", 1);
    builder_refused(b, -ENOTSUP, "training mode");
    Onnx__NodeProto *node = one(&b, 14, "BatchNormalization", "x,s,s,s,s");
    builder_floats(b, "s", DIMS(3), NULL);
    builder_int(b, node, "training_mode", 1);
    builder_refused(b, -ENOTSUP, "training mode");
    one(&b, 14, "BatchNormalization", "x,s,s,s,s");
    builder_floats(b, "s", DIMS(4), NULL);
    builder_refused(b, -EINVAL, "one number for each of 3 channels");
}

Test(onnx_refusals, layout)
{
    struct builder *b;
    Onnx__NodeProto *node = one(&b, 13, "Transpose", "x");
    builder_list(b, node, "perm", DIMS(0, 1, 1, 2));
    builder_refused(b, -EINVAL, "not a permutation");
    node = one(&b, 13, "Transpose", "x");
    builder_list(b, node, "perm", DIMS(0, 1, 2));
    builder_refused(b, -EINVAL, "not a permutation");
    node = one(&b, 13, "Concat", "x,x");
    builder_refused(b, -EINVAL, "axis is missing");
    node = one(&b, 13, "Pad", "x,pads");
    builder_ints(b, "pads", DIMS(0, 0, 1));
    builder_refused(b, -EINVAL, "3 pads");
    node = one(&b, 13, "Pad", "x,pads");
    builder_ints(b, "pads", DIMS(0, 0, INT64_MAX, 0, 0, 0, INT64_MAX, 0));
    builder_refused(b, -EINVAL, "out of range");
    node = one(&b, 13, "Pad", "x,pads");
    builder_ints(b, "pads", DIMS(0, 0, -4, 0, 0, 0, -4, 0));
    builder_refused(b, -EINVAL, "less than 1");
    node = one(&b, 13, "Pad", "x,pads");
    builder_ints(b, "pads", DIMS(0, 0, 1, 0, 0, 0, 0, 0));
    builder_string(b, node, "mode", "linear");
    builder_refused(b, -EINVAL, "no mode 'linear'");
    node = one(&b, 13, "Pad", "x,pads");
    builder_ints(b, "pads", DIMS(0, 0, 600, 0, 0, 0, 0, 0));
    builder_string(b, node, "mode", "edge");
    builder_refused(b, -ENOTSUP, "repeats more than 512 elements");
    one(&b, 13, "Squeeze", "x,axes");
    builder_ints(b, "axes", DIMS(1));
    builder_refused(b, -EINVAL, "takes away dimension 1, which is not 1");
    one(&b, 13, "Squeeze", "x,axes");
    builder_ints(b, "axes", DIMS(0));
    builder_refused(b, -EINVAL, "takes away dimension 0");
    one(&b, 13, "Unsqueeze", "x,axes");
    builder_ints(b, "axes", DIMS(1, 1));
    builder_refused(b, -EINVAL, "twice");
    one(&b, 13, "Reshape", "x,x");
    builder_refused(b, -ENOTSUP, "not a list of up to 8 known integers");
    one(&b, 13, "Add", "x,c");
    builder_floats(b, "c", DIMS(5), NULL);
    builder_refused(b, -EINVAL, "shapes [N,3,8,8] and [5] cannot be combined");
}

Test(onnx_refusals, constants_that_grow_beyond_bounds)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_floats(b, "column", DIMS(65536, 1), NULL);
    builder_floats(b, "row", DIMS(65536), NULL);
    builder_node(b, "Mul", "column,row", "c"); /* 2^32 numbers out of 2^17 */
    builder_node(b, "Add", "x,c", "y");
    builder_refused(b, -EINVAL, "more than 2^31-1 elements");

    b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_ints(b, "shape", DIMS(1LL << 40, 1LL << 40));
    builder_node(b, "ConstantOfShape", "shape", "c");
    builder_node(b, "Add", "x,c", "y");
    builder_refused(b, -EINVAL, "more than 2^31-1 elements");
}

Test(onnx_refusals, integers_that_overflow)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_ints(b, "big", DIMS(INT64_MAX));
    builder_node(b, "Mul", "big,big", "c");
    builder_node(b, "Reshape", "x,c", "y");
    builder_refused(b, -ENOTSUP, "overflows");
    b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_ints(b, "least", DIMS(INT64_MIN));
    builder_ints(b, "minus", DIMS(-1));
    builder_node(b, "Div", "least,minus", "c");
    builder_node(b, "Reshape", "x,c", "y");
    builder_refused(b, -ENOTSUP, "overflows");
}

static struct builder *windows(const int64_t *image, const int64_t *block)
{
    struct builder *b = builder_new(18);
    builder_input(b, "x", DIMS(-1, 8, 4));
    builder_output(b, "y");
    builder_ints(b, "image", 2, image);
    builder_ints(b, "block", 2, block);
    builder_node(b, "Col2Im", "x,image,block", "y");
    return b;
}

Test(onnx_refusals, windows_that_do_not_fit_their_image)
{
    builder_refused(windows((int64_t[]){3, 4}, (int64_t[]){2, 2}), -EINVAL,
                    "is not 2 x 3 windows of 4 pixels");
    builder_refused(windows((int64_t[]){3, 3}, (int64_t[]){3, 3}), -EINVAL,
                    "is not 1 x 1 windows of 9 pixels");
    builder_refused(windows((int64_t[]){3, 3}, (int64_t[]){4, 1}), -EINVAL,
                    "its blocks are larger than its image");
    builder_refused(windows((int64_t[]){0, 3}, (int64_t[]){1, 1}), -EINVAL,
                    "its input 1 has 0, out of range");
    struct builder *b = windows((int64_t[]){3, 3}, (int64_t[]){2, 2});
    builder_ints(b, "long", DIMS(3, 3, 3));
    b->nodes[0]->input[1] = builder_text(b, "long");
    builder_refused(b, -EINVAL, "more numbers");
    b = windows((int64_t[]){3, 3}, (int64_t[]){2, 2});
    builder_list(b, b->nodes[0], "pads", DIMS(0, 0, -1, 0));
    builder_refused(b, -EINVAL, "attribute 'pads' has -1");
    b = windows((int64_t[]){INT32_MAX, INT32_MAX}, (int64_t[]){1, 1});
    builder_list(b, b->nodes[0], "pads", DIMS(INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX));
    builder_refused(b, -EINVAL, "is not 6442450941 x 6442450941 windows of 1 pixels");
}
