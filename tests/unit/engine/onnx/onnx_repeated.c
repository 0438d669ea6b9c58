/* Masks that exporters repeat for each image, choices between constants, and what stands behind attention's
 * softmax. */
#include "tests/unit/engine/onnx/onnx_builder.h"

#include <math.h>

static struct builder *begin(void)
{
    struct builder *b = builder_new(20);
    builder_input(b, "x", DIMS(-1, 4, 6));
    builder_output(b, "y");
    builder_floats(b, "zero", 0, NULL, FLOATS(0));
    builder_floats(b, "low", 0, NULL, FLOATS(-3e38F));
    builder_node(b, "Shape", "x", "s");
    return b;
}

/* A mask of the input's shape: `low` where `kept` is 0. */
static void add_mask(struct builder *b, const float *kept)
{
    builder_floats(b, "kept", DIMS(6), kept);
    builder_node(b, "Expand", "kept,s", "repeated");
    builder_node(b, "Where", "repeated,zero,low", "mask");
}

static int count(const struct convoy_graph *graph, enum convoy_op op)
{
    int found = 0;
    for (int i = 0; i < graph->node_count; i++)
        found += graph->nodes[i].op == op;
    return found;
}

Test(onnx_repeated, a_mask_that_is_chosen_for_each_image_is_a_constant)
{
    struct builder *b = begin();
    add_mask(b, FLOATS(1, 0, 1, 1, 0, 1));
    builder_node(b, "Add", "x,mask", "y");
    const struct convoy_node *add = single(b, CONVOY_OP_BINARY, "[N,4,6]");
    const struct convoy_tensor *mask = &b->loaded->tensors[add->inputs[1]];
    cr_assert(add->binary == CONVOY_ADD && mask->data != NULL && convoy_shape_elements(&mask->shape) == 6);
    expect_floats(mask->data, 6, FLOATS(0, -3e38F, 0, 0, -3e38F, 0));
    builder_free(b);
}

Test(onnx_repeated, a_mask_of_nothing_is_left_out)
{
    struct builder *b = begin();
    add_mask(b, FLOATS(1, 1, 1, 1, 1, 1));
    builder_node(b, "Relu", "x", "r");
    builder_node(b, "Add", "mask,r", "y");
    single(b, CONVOY_OP_ACTIVATION, "[N,4,6]");
    builder_free(b);
}

/* What is repeated along other dimensions, too, has its shape still, be it a number or nothing. */
Test(onnx_repeated, the_shape_stays)
{
    static const char *const numbers[] = {"zero", "low", "zeros"};
    for (int i = 0; i < 3; i++) {
        struct builder *b = begin();
        builder_floats(b, "zeros", DIMS(4, 6), (const float[24]){0});
        char inputs[16];
        snprintf(inputs, sizeof inputs, "%s,s", numbers[i]);
        builder_node(b, "Expand", inputs, "numbers"); /* [N,4,6] */
        builder_ints(b, "last", DIMS(2));
        builder_node(b, "ReduceMean", "x,last", "m"); /* [N,4,1] */
        builder_node(b, "Add", "m,numbers", "y");
        const struct convoy_graph *graph = builder_graph(b);
        expect_sound(graph);
        expect_shape(graph, graph->outputs[0], "[N,4,6]");
        if (i < 2)
            expect_shape(graph, graph->nodes[graph->node_count - 1].inputs[1], "[N,4,6]");
        builder_free(b);
    }
}

Test(onnx_repeated, zero_is_no_choice)
{
    struct builder *b = begin();
    builder_node(b, "Greater", "x,zero", "above");
    builder_node(b, "Not", "above", "below");
    builder_node(b, "Where", "below,zero,x", "y");
    const struct convoy_graph *graph = builder_graph(b);
    cr_assert(graph->node_count == 2 && count(graph, CONVOY_OP_BINARY) == 2, "%d nodes", graph->node_count);
    cr_expect(graph->nodes[0].binary == CONVOY_LESS && graph->nodes[1].binary == CONVOY_KEEP);
    builder_free(b);
}

Test(onnx_repeated, is_nan_is_what_does_not_equal_itself)
{
    struct builder *b = begin();
    builder_node(b, "IsNaN", "x", "y");
    const struct convoy_graph *graph = builder_graph(b);
    cr_assert(graph->node_count == 2);
    cr_expect(graph->nodes[0].binary == CONVOY_EQUAL && graph->nodes[0].inputs[0] == graph->input &&
              graph->nodes[0].inputs[1] == graph->input);
    cr_expect(graph->nodes[1].binary == CONVOY_SUB && graph->tensors[graph->nodes[1].inputs[0]].data[0] == 1);
    builder_free(b);
}

/* Attention of x to itself: softmax(scores + mask), 0 where that is NaN, times x. Returns how many BINARY
 * nodes there are. */
static int guarded(const float *mask, const char *other)
{
    struct builder *b = begin();
    builder_list(b, builder_node(b, "Transpose", "x", "t"), "perm", DIMS(0, 2, 1));
    builder_node(b, "MatMul", "x,t", "scores"); /* [N,4,4] */
    if (mask != NULL)
        builder_floats(b, "mask", DIMS(4, 4), mask);
    if (mask != NULL)
        builder_node(b, "Add", "scores,mask", "masked");
    builder_node(b, "Softmax", mask != NULL ? "masked" : "scores", "p");
    builder_node(b, "Softmax", "scores", "another");
    builder_node(b, "IsNaN", "p", "none");
    builder_node(b, "Where", other, "guarded");
    builder_node(b, "MatMul", "guarded,x", "y");
    const struct convoy_graph *graph = builder_graph(b);
    expect_sound(graph);
    cr_assert(count(graph, CONVOY_OP_MATMUL) == 2 && count(graph, CONVOY_OP_SOFTMAX) >= 1);
    int found = count(graph, CONVOY_OP_BINARY);
    builder_free(b);
    return found;
}

Test(onnx_repeated, a_guard_is_left_out_where_not_all_can_be_masked)
{
    float mask[16] = {0, -3e38F, 1};
    cr_expect_eq(guarded(NULL, "none,zero,p"), 0);
    cr_expect_eq(guarded(mask, "none,zero,p"), 1); /* the mask */
    for (int i = 8; i < 12; i++)
        mask[i] = -INFINITY;
    cr_expect_eq(guarded(mask, "none,zero,p"), 3); /* the mask, and 0 where it is not what it is */
    cr_expect_geq(guarded(NULL, "none,low,p"), 3); /* another number than 0 */
    cr_expect_geq(guarded(mask, "none,zero,another"), 3);
}

/* Swin's masks as PyTorch's older exporter writes them: those of four windows, repeated for each image and
 * taken together with the batch, plus what is the same for each window, which may have fewer dimensions. */
static int masked_windows(const struct convoy_shape *bias, bool swapped)
{
    struct builder *b = begin();
    builder_ints(b, "together", DIMS(-1, 1, 6));
    builder_ints(b, "images", DIMS(-1, 4, 1, 6));
    builder_ints(b, "back", DIMS(-1, 4, 6));
    builder_floats(b, "kept", DIMS(1, 4, 1, 6), NULL);
    builder_floats(b, "bias", bias->rank, bias->dims, NULL);
    builder_node(b, "Reshape", "x,together", "w"); /* [4N,1,6] */
    builder_node(b, "Reshape", "x,images", "for");
    builder_node(b, "Shape", "for", "all");
    builder_node(b, "Expand", "kept,all", "repeated");
    builder_node(b, "Reshape", "repeated,together", "mask");
    builder_node(b, "Add", swapped ? "bias,mask" : "mask,bias", "sum");
    builder_node(b, "Add", swapped ? "sum,w" : "w,sum", "masked");
    builder_node(b, "Softmax", "masked", "p");
    builder_node(b, "Reshape", "p,back", "y");
    const struct convoy_graph *graph = builder_graph(b);
    expect_sound(graph);
    expect_shape(graph, graph->outputs[0], "[N,4,6]");
    int found = count(graph, CONVOY_OP_BINARY);
    for (int i = 0; i < graph->node_count && found == 1; i++) {
        const struct convoy_node *node = &graph->nodes[i];
        const struct convoy_tensor *added = &graph->tensors[node->inputs[swapped ? 0 : 1]];
        if (node->op != CONVOY_OP_BINARY)
            continue;
        expect_shape(graph, node->output, "[N,4,1,6]");
        cr_assert(added->data != NULL && convoy_shape_elements(&added->shape) == 24);
        /* Of the third window the last number: of the masks, and of what is added. */
        cr_expect_float_eq(added->data[17], 0.18 + 0.06, 1e-6);
    }
    builder_free(b);
    return found;
}

Test(onnx_repeated, masks_of_windows_are_a_constant)
{
    for (int swapped = 0; swapped < 2; swapped++) {
        cr_expect_eq(masked_windows(&(struct convoy_shape){.rank = 1, .dims = {6}}, swapped), 1);
        cr_expect_eq(masked_windows(&(struct convoy_shape){.rank = 3, .dims = {1, 1, 6}}, swapped), 1);
    }
}

/* Not where something else than windows was taken together with the batch, or images are not the first axis.
 */
Test(onnx_repeated, other_reshapes_of_what_is_repeated_stay)
{
    struct builder *b = begin();
    builder_ints(b, "other", DIMS(-1, 2, 6));
    builder_floats(b, "kept", DIMS(4, 6), NULL);
    builder_node(b, "Reshape", "x,other", "w"); /* [2N,2,6] */
    builder_node(b, "Expand", "kept,s", "repeated");
    builder_node(b, "Reshape", "repeated,other", "mask");
    builder_node(b, "Add", "w,mask", "y");
    const struct convoy_graph *graph = builder_graph(b);
    expect_sound(graph);
    cr_expect_eq(count(graph, CONVOY_OP_BINARY), 2); /* the repetition, and the sum */
    builder_free(b);
}
