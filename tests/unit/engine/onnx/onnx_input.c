/* The model's input: its type, which of its axes are channels, height and width, and open ones. */
#include "tests/unit/engine/onnx/onnx_builder.h"

#define UINT8_TYPE   ONNX__TENSOR_PROTO__DATA_TYPE__UINT8
#define FLOAT16_TYPE ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16

/* A model with an input x of this type and shape and an output y. */
static struct builder *begin(int type, int rank, const int64_t *dims)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", rank, dims);
    b->inputs[0]->type->tensor_type->elem_type = type;
    builder_output(b, "y");
    return b;
}

static void transpose(struct builder *b, const char *from, const char *to, int64_t p0, int64_t p1, int64_t p2,
                      int64_t p3)
{
    builder_list(b, builder_node(b, "Transpose", from, to), "perm", DIMS(p0, p1, p2, p3));
}

static void conv(struct builder *b, const char *from)
{
    char inputs[16];
    snprintf(inputs, sizeof inputs, "%s,w", from);
    builder_floats(b, "w", DIMS(2, 3, 3, 3), NULL);
    builder_node(b, "Conv", inputs, "y");
}

static const struct convoy_graph *load(struct builder *b, const struct convoy_onnx_options *options)
{
    cr_assert_eq(builder_load(b, options), 0, "%s", b->error.message);
    expect_sound(b->loaded);
    return b->loaded;
}

static void expect_refusal(struct builder *b, const struct convoy_onnx_options *options, const char *words)
{
    cr_assert_neq(builder_load(b, options), 0, "loaded where '%s' was expected", words);
    cr_expect(strstr(b->error.message, words) != NULL, "no '%s' in: %s", words, b->error.message);
    builder_free(b);
}

Test(onnx_input, a_network_of_channels_last_runs_in_planes_without_a_transpose)
{
    struct builder *b = begin(FLOAT_TYPE, DIMS(-1, 12, 10, 3));
    transpose(b, "x", "t", 0, 3, 1, 2);
    conv(b, "t");
    const struct convoy_graph *graph = load(b, NULL);
    cr_expect(graph->input_nhwc && graph->input_type == CONVOY_INPUT_FP32);
    expect_shape(graph, graph->input, "[N,3,12,10]");
    single(b, CONVOY_OP_CONV, "[N,2,10,8]");
    builder_free(b);
}

Test(onnx_input, what_lies_before_the_transpose_is_done_in_planes)
{
    struct builder *b = begin(FLOAT_TYPE, DIMS(-1, 12, 10, 3));
    builder_ints(b, "pads", DIMS(0, 1, 2, 0, 0, 3, 4, 0));
    builder_floats(b, "mean", DIMS(3), FLOATS(1, 2, 3));
    builder_floats(b, "map", DIMS(1, 12, 1, 1), NULL);
    builder_floats(b, "scale", 0, NULL, FLOATS(2));
    builder_node(b, "Sub", "x,mean", "a");
    builder_node(b, "Mul", "scale,a", "c");
    builder_node(b, "Add", "map,c", "d");
    builder_node(b, "Tanh", "d", "e");
    builder_node(b, "Pad", "e,pads", "f");
    transpose(b, "f", "t", 0, 3, 1, 2);
    conv(b, "t");
    const struct convoy_graph *graph = load(b, NULL);
    cr_assert_eq(graph->node_count, 5);
    for (int i = 0; i < graph->node_count; i++)
        cr_expect_neq(graph->nodes[i].op, CONVOY_OP_TRANSPOSE);
    expect_shape(graph, graph->nodes[0].inputs[1], "[1,3,1,1]");
    expect_floats(graph->tensors[graph->nodes[0].inputs[1]].data, 3, FLOATS(1, 2, 3));
    expect_shape(graph, graph->nodes[0].output, "[N,3,12,10]");
    expect_shape(graph, graph->nodes[2].inputs[0], "[1,1,12,1]");
    cr_expect_eq(graph->nodes[3].op, CONVOY_OP_ACTIVATION);
    const int64_t *pads = graph->nodes[4].conv.pad;
    cr_expect(pads[0] == 1 && pads[1] == 2 && pads[2] == 3 && pads[3] == 4);
    builder_free(b);
}

/* Elements along all axes, so that each must be found again. */
Test(onnx_input, constants_of_every_shape_are_turned)
{
    struct builder *b = begin(FLOAT_TYPE, DIMS(-1, 2, 2, 3));
    float values[12], expected[12];
    for (int h = 0; h < 2; h++)
        for (int w = 0; w < 2; w++)
            for (int c = 0; c < 3; c++) {
                values[(h * 2 + w) * 3 + c] = (float)(100 * h + 10 * w + c);
                expected[(c * 2 + h) * 2 + w] = (float)(100 * h + 10 * w + c);
            }
    builder_floats(b, "map", DIMS(2, 2, 3), values);
    builder_node(b, "Sub", "map,x", "a");
    transpose(b, "a", "y", 0, 3, 1, 2);
    builder_node(b, "Relu", "y", "z");
    b->outputs[0] = builder_info(b, "z", FLOAT_TYPE, -1, NULL);
    const struct convoy_graph *graph = load(b, NULL);
    cr_assert(graph->input_nhwc && graph->node_count == 2);
    expect_floats(graph->tensors[graph->nodes[0].inputs[0]].data, 12, expected);
    expect_shape(graph, graph->outputs[0], "[N,3,2,2]");
    builder_free(b);
}

/* Taking these out would change what the network computes. */
Test(onnx_input, a_transpose_stays_where_something_else_reads_what_lies_before_it)
{
    struct builder *b = begin(FLOAT_TYPE, DIMS(-1, 12, 10, 3));
    builder_node(b, "Relu", "x", "a");
    builder_node(b, "Exp", "a", "z");
    transpose(b, "a", "t", 0, 3, 1, 2);
    builder_node(b, "Tanh", "t", "y");
    builder_output(b, "z");
    const struct convoy_graph *graph = load(b, NULL);
    cr_expect_eq(graph->node_count, 5);
    expect_shape(graph, graph->outputs[0], "[N,3,12,10]");
    expect_shape(graph, graph->outputs[1], "[N,12,10,3]");
    builder_free(b);

    b = begin(FLOAT_TYPE, DIMS(-1, 12, 10, 3)); /* it is no way back */
    transpose(b, "x", "t", 0, 3, 2, 1);
    builder_node(b, "Relu", "t", "y");
    graph = load(b, NULL);
    cr_expect_eq(graph->node_count, 3);
    expect_shape(graph, graph->outputs[0], "[N,3,10,12]");
    builder_free(b);

    b = begin(FLOAT_TYPE, DIMS(-1, 12, 10, 3)); /* the output is the input itself */
    transpose(b, "x", "y", 0, 3, 1, 2);
    graph = load(b, NULL);
    expect_shape(graph, graph->outputs[0], "[N,3,12,10]");
    builder_free(b);
}

/* op: what reads the input; "Transpose0312" with this perm. */
static bool is_nhwc(int rank, const int64_t *dims, const char *op, enum convoy_image_axes axes)
{
    const struct convoy_onnx_options options = {.axes = axes, .height = 0};
    struct builder *b = begin(FLOAT_TYPE, rank, dims);
    builder_node(b, "Cast", "x", "f");
    builder_int(b, b->nodes[0], "to", FLOAT_TYPE);
    if (strncmp(op, "Transpose", 9) == 0)
        transpose(b, "f", "y", op[9] - '0', op[10] - '0', op[11] - '0', op[12] - '0');
    else
        builder_node(b, op, "f", "y");
    bool nhwc = load(b, &options)->input_nhwc;
    builder_free(b);
    return nhwc;
}

Test(onnx_input, the_axes_are_told_by_the_configuration_by_the_nodes_and_by_the_shape)
{
    cr_expect(is_nhwc(DIMS(-1, 32, 32, 3), "Flatten", CONVOY_AXES_AUTO));
    cr_expect(is_nhwc(DIMS(1, 28, 28, 1), "Flatten", CONVOY_AXES_AUTO));
    cr_expect(is_nhwc(DIMS(-1, 32, 32, 4), "Relu", CONVOY_AXES_AUTO));
    cr_expect(!is_nhwc(DIMS(-1, 3, 32, 32), "Flatten", CONVOY_AXES_AUTO));
    cr_expect(!is_nhwc(DIMS(-1, 32, 32, 2), "Flatten", CONVOY_AXES_AUTO));
    cr_expect(!is_nhwc(DIMS(-1, 3, 32, 3), "Flatten", CONVOY_AXES_AUTO));
    cr_expect(!is_nhwc(DIMS(-1, 5, 4, 4), "Flatten", CONVOY_AXES_AUTO));

    cr_expect(!is_nhwc(DIMS(-1, 32, 32, 3), "GlobalAveragePool", CONVOY_AXES_AUTO));
    cr_expect(!is_nhwc(DIMS(-1, 32, 32, 3), "Transpose0231", CONVOY_AXES_AUTO));
    cr_expect(is_nhwc(DIMS(-1, 3, 32, 32), "Transpose0312", CONVOY_AXES_AUTO));
    cr_expect(is_nhwc(DIMS(-1, 3, 3, 3), "Transpose0312", CONVOY_AXES_AUTO));
    cr_expect(is_nhwc(DIMS(-1, 32, 32, 3), "Transpose0321", CONVOY_AXES_AUTO));

    cr_expect(!is_nhwc(DIMS(-1, 32, 32, 3), "Transpose0312", CONVOY_AXES_NCHW));
    cr_expect(is_nhwc(DIMS(-1, 3, 32, 32), "GlobalAveragePool", CONVOY_AXES_NHWC));
}

Test(onnx_input, open_sides_are_those_of_the_configuration)
{
    const struct convoy_onnx_options both = {.height = 12, .width = 10}, width = {.width = 10};
    struct builder *b = begin(FLOAT_TYPE, DIMS(-1, 3, -1, -1));
    conv(b, "x");
    const struct convoy_graph *graph = load(b, &both);
    expect_shape(graph, graph->input, "[N,3,12,10]");
    expect_shape(graph, graph->outputs[0], "[N,2,10,8]");
    builder_free(b);

    b = begin(FLOAT_TYPE, DIMS(1, -1, -1, 3));
    transpose(b, "x", "t", 0, 3, 1, 2);
    conv(b, "t");
    graph = load(b, &both);
    expect_shape(graph, graph->input, "[N,3,12,10]");
    builder_free(b);

    /* -1 as a number is open, too; a batch of -1 as well. */
    b = begin(FLOAT_TYPE, DIMS(-1, 3, 12, -1));
    for (int axis = 0; axis < 4; axis += 3) {
        Onnx__TensorShapeProto__Dimension *dim = b->inputs[0]->type->tensor_type->shape->dim[axis];
        dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dim->dim_value = -1;
    }
    conv(b, "x");
    graph = load(b, &width);
    expect_shape(graph, graph->input, "[N,3,12,10]");
    graph = load(b, &both); /* the height that the file has */
    expect_shape(graph, graph->input, "[N,3,12,10]");
    builder_free(b);
}

/* As exporters of transformers leave them. */
Test(onnx_input, open_channels_are_those_of_the_first_convolution_or_three)
{
    const struct convoy_onnx_options both = {.height = 12, .width = 10};
    struct builder *b = begin(FLOAT_TYPE, DIMS(-1, -1, -1, -1));
    builder_floats(b, "w", DIMS(2, 1, 3, 3), NULL);
    builder_node(b, "Relu", "x", "other"); /* that another node reads the input, too, says nothing */
    builder_node(b, "Cast", "x", "f");
    builder_int(b, b->nodes[1], "to", FLOAT_TYPE);
    builder_node(b, "Conv", "f,w", "y");
    const struct convoy_graph *graph = load(b, &both);
    expect_shape(graph, graph->input, "[N,1,12,10]");
    builder_int(b, b->nodes[2], "group", 2);
    graph = load(b, &both);
    expect_shape(graph, graph->input, "[N,2,12,10]");
    builder_free(b);

    b = begin(FLOAT_TYPE, DIMS(-1, -1, -1, -1));
    transpose(b, "x", "t", 0, 3, 1, 2);
    builder_node(b, "Relu", "t", "y");
    graph = load(b, &both);
    expect_shape(graph, graph->input, "[N,3,12,10]");
    cr_expect(graph->input_nhwc);
    builder_free(b);

    b = begin(FLOAT_TYPE, DIMS(-1, -1, 12, 10)); /* more than a number of elements holds */
    builder_floats(b, "w", DIMS(2, 1, 3, 3), NULL);
    builder_node(b, "Conv", "x,w", "y");
    builder_int(b, b->nodes[0], "group", INT64_MAX / 2);
    expect_refusal(b, NULL, "input 'x' has more than 2^31-1 elements");
}

Test(onnx_input, open_sides_without_a_configuration_and_contradictions_are_refused)
{
    const struct convoy_onnx_options height = {.height = 12}, other = {.height = 13, .width = 10},
                                     nhwc = {.axes = CONVOY_AXES_NHWC};
    struct builder *b = begin(FLOAT_TYPE, DIMS(-1, 3, -1, -1));
    conv(b, "x");
    expect_refusal(b, NULL,
                   "leaves the height and width of input 'x' open; to serve the model, give input.height and "
                   "input.width in");
    b = begin(FLOAT_TYPE, DIMS(-1, 3, -1, -1));
    conv(b, "x");
    expect_refusal(b, &height, "leaves the width of input 'x' open; to serve the model, give input.width in");
    b = begin(FLOAT_TYPE, DIMS(-1, 3, 12, 10));
    conv(b, "x");
    expect_refusal(b, &other, "has an input.height of 13, but the file fixes the height of input 'x' to 12");
    b = begin(FLOAT_TYPE, DIMS(-1, -1));
    builder_node(b, "Relu", "x", "y");
    expect_refusal(b, NULL, "dimension 1 of input 'x' is open");
    b = begin(FLOAT_TYPE, DIMS(-1, 30));
    builder_node(b, "Relu", "x", "y");
    expect_refusal(b, &height, "has input.height, but input 'x' has 2 dimensions");
    b = begin(FLOAT_TYPE, DIMS(-1, 30));
    builder_node(b, "Relu", "x", "y");
    expect_refusal(b, &nhwc, "has input.layout, but input 'x' has 2 dimensions");
}

Test(onnx_input, half_precision_is_read_as_float32_in_and_out)
{
    struct builder *b = begin(FLOAT16_TYPE, DIMS(-1, 3, 8, 8));
    b->outputs[0]->type->tensor_type->elem_type = FLOAT16_TYPE;
    builder_node(b, "Relu", "x", "y");
    cr_expect_eq(load(b, NULL)->input_type, CONVOY_INPUT_FP16);
    builder_free(b);
}

static void of_bytes(struct builder **b, const char *op, const char *inputs)
{
    *b = begin(UINT8_TYPE, DIMS(-1, 3, 8, 8));
    builder_floats(*b, "two", 0, NULL, FLOATS(2));
    builder_node(*b, op, inputs, "t");
    builder_int(*b, builder_node(*b, "Cast", "t", "y"), "to", FLOAT_TYPE);
}

Test(onnx_input, bytes_are_moved_and_cast_but_not_computed_on)
{
    struct builder *b;
    of_bytes(&b, "Identity", "x");
    cr_expect_eq(load(b, NULL)->input_type, CONVOY_INPUT_UINT8);
    builder_free(b);
    of_bytes(&b, "Flatten", "x");
    load(b, NULL);
    builder_free(b);
    of_bytes(&b, "Div", "x,two");
    builder_refused(b, -ENOTSUP, "the_Div' (Div): it computes on 'x', which is uint8");
    of_bytes(&b, "Add", "x,x");
    builder_refused(b, -ENOTSUP, "it computes on 'x'");

    /* Moved first, and still bytes. */
    b = begin(UINT8_TYPE, DIMS(-1, 3, 8, 8));
    builder_node(b, "Flatten", "x", "t");
    builder_node(b, "Relu", "t", "y");
    builder_refused(b, -ENOTSUP, "it computes on 't'");

    /* A float again behind a cast. */
    b = begin(UINT8_TYPE, DIMS(-1, 3, 8, 8));
    builder_int(b, builder_node(b, "Cast", "x", "t"), "to", FLOAT_TYPE);
    builder_node(b, "Relu", "t", "y");
    load(b, NULL);
    builder_free(b);

    /* An output of bytes that does not say so. */
    b = begin(UINT8_TYPE, DIMS(-1, 3, 8, 8));
    builder_node(b, "Flatten", "x", "y");
    builder_refused(b, -ENOTSUP, "output 'y' is of type uint8");
}
