/* ArgMax, ArgMin and TopK: what they become, and what may be done with the places that they find. The numbers
 * are compared by the backends' tests and by the conformance cases. */
#include "tests/unit/engine/onnx/onnx_builder.h"

#define INT64_TYPE ONNX__TENSOR_PROTO__DATA_TYPE__INT64

/* y = op(x of [N,3,8,8]) along an axis, an output of int64. */
static Onnx__NodeProto *arg(struct builder **b, int opset, const char *op, int64_t axis)
{
    Onnx__NodeProto *node = one(b, opset, op, "x");
    (*b)->outputs[0]->type->tensor_type->elem_type = INT64_TYPE;
    builder_int(*b, node, "axis", axis);
    return node;
}

Test(onnx_top, places_of_the_largest_and_smallest)
{
    for (int opset = 7; opset <= 21; opset++) {
        struct builder *b;
        arg(&b, opset, "ArgMax", 1);
        const struct convoy_node *node = single(b, CONVOY_OP_TOP, "[N,1,8,8]");
        cr_expect(node->top.axis == 1 && node->top.places && !node->top.smallest && !node->top.last);
        builder_free(b);
        builder_int(b, arg(&b, opset, "ArgMin", -1), "select_last_index", 1);
        node = single(b, CONVOY_OP_TOP, "[N,3,8,1]");
        cr_expect(node->top.axis == 3 && node->top.places && node->top.smallest && node->top.last);
        builder_free(b);
    }
    struct builder *b;
    builder_int(b, arg(&b, 13, "ArgMax", 1), "keepdims", 0);
    expect_output(b, "[N,8,8]");
    builder_free(b);
    arg(&b, 13, "ArgMax", 4);
    builder_refused(b, -EINVAL, "axis 4 is outside");
    one(&b, 13, "ArgMax", "x");
    builder_refused(b, -ENOTSUP, "compares the images of a batch");
}

Test(onnx_top, the_first_numbers_and_their_places)
{
    for (int opset = 9; opset <= 11; opset++)
        for (int output = 0; output < 2; output++) {
            struct builder *b = builder_new(opset);
            IMAGES(b);
            builder_output(b, "y");
            builder_ints(b, "k", DIMS(5));
            Onnx__NodeProto *node =
                builder_node(b, "TopK", opset == 9 ? "x" : "x,k", output == 1 ? "v,y" : "y,i");
            if (opset == 9)
                builder_int(b, node, "k", 5);
            if (opset == 11)
                builder_int(b, node, "largest", 0);
            builder_int(b, node, "sorted", 0);
            const struct convoy_node *top = single(b, CONVOY_OP_TOP, "[N,3,8,5]");
            cr_expect(top->top.axis == 3 && top->top.smallest == (opset == 11) && !top->top.last);
            cr_expect(top->top.places == (output == 1));
            builder_free(b);
        }
}

static void top_k_refused(int64_t axis, int64_t k, int code, const char *words)
{
    struct builder *b;
    builder_int(b, one(&b, 13, "TopK", "x,k"), "axis", axis);
    builder_ints(b, "k", DIMS(k));
    b->nodes[0]->n_output = builder_split(b, "y,i", &b->nodes[0]->output);
    builder_refused(b, code, words);
}

Test(onnx_top, counts_that_do_not_fit)
{
    top_k_refused(1, 0, -EINVAL, "its k is not 1 to 3");
    top_k_refused(1, 4, -EINVAL, "its k is not 1 to 3");
    top_k_refused(1, -1, -EINVAL, "its k is not 1 to 3");
    top_k_refused(0, 1, -ENOTSUP, "compares the images of a batch");
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(-1, 100000));
    builder_output(b, "y");
    builder_ints(b, "k", DIMS(90000));
    builder_node(b, "TopK", "x,k", "y,i");
    builder_refused(b, -ENOTSUP, "it sorts 90000 of 100000 numbers, which takes too long");
}

/* Of constants they are integers as others are. */
Test(onnx_top, constants_steer)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_floats(b, "c", DIMS(3), FLOATS(1, 5, 5));
    builder_ints(b, "one", DIMS(1));
    Onnx__NodeProto *node = builder_node(b, "ArgMax", "c", "place");
    builder_int(b, node, "axis", 0);
    builder_int(b, node, "select_last_index", 1);
    builder_node(b, "Add", "place,one", "three");
    builder_node(b, "TopK", "c,three", "sorted,order");
    builder_node(b, "Gather", "x,order", "z");
    builder_int(b, b->nodes[3], "axis", 1);
    builder_ints(b, "shape", DIMS(3, 1, 1));
    builder_node(b, "Reshape", "sorted,shape", "weights");
    builder_node(b, "Mul", "z,weights", "y");
    expect_output(b, "[N,3,8,8]");
    expect_sound(b->loaded);
    for (int i = 0; i < b->loaded->tensor_count; i++)
        if (b->loaded->tensors[i].data != NULL && convoy_shape_elements(&b->loaded->tensors[i].shape) == 3)
            expect_floats(b->loaded->tensors[i].data, 3, FLOATS(5, 5, 1));
    builder_free(b);
}

/* y = the last of these nodes, which read `a`, the places along the channels. */
static struct builder *with_places(const char *op, const char *inputs, int64_t to)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_ints(b, "one", DIMS(1));
    builder_int(b, builder_node(b, "ArgMax", "x", "a"), "axis", 1);
    if (to != 0)
        builder_int(b, builder_node(b, "Cast", "a", "b"), "to", to);
    builder_node(b, op, inputs, "y");
    return b;
}

Test(onnx_top, places_are_moved_cast_and_compared_but_not_computed_on)
{
    struct builder *b = with_places("Add", "a,one", 0);
    builder_refused(b, -ENOTSUP, "it computes on 'a', which is int64");
    b = with_places("Div", "b,one", ONNX__TENSOR_PROTO__DATA_TYPE__INT32);
    builder_refused(b, -ENOTSUP, "it computes on 'b', which is int32");
    b = with_places("Identity", "b", ONNX__TENSOR_PROTO__DATA_TYPE__INT8);
    builder_refused(b, -ENOTSUP, "it makes integers of what depends on the model's input");
    b = with_places("Div", "b,one", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    expect_output(b, "[N,1,8,8]");
    builder_free(b);
    b = with_places("CastLike", "x,a", 0);
    builder_refused(b, -ENOTSUP, "it makes integers of what depends on the model's input");
    b = with_places("Concat", "a,a", 0);
    builder_int(b, b->nodes[1], "axis", 1);
    b->outputs[0]->type->tensor_type->elem_type = INT64_TYPE;
    expect_output(b, "[N,2,8,8]");
    builder_free(b);
    b = with_places("Equal", "a,one", 0);
    expect_output(b, "[N,1,8,8]");
    builder_free(b);
    b = with_places("Gather", "x,a", 0);
    builder_refused(b, -ENOTSUP, "its indices are not constant integers");
}

Test(onnx_top, places_become_truth_of_classes)
{
    for (int ints = 0; ints < 2; ints++) {
        struct builder *b = builder_new(13);
        IMAGES(b);
        builder_output(b, "y");
        Onnx__NodeProto *node = builder_node(b, "ArgMax", "x", "a");
        builder_int(b, node, "axis", 1);
        builder_int(b, node, "keepdims", 0);
        builder_ints(b, "depth", DIMS(3));
        builder_ints(b, "whole", DIMS(7, 9));
        builder_floats(b, "parts", DIMS(2), FLOATS(0.5F, 1.5F));
        builder_int(b, builder_node(b, "OneHot", ints ? "a,depth,whole" : "a,depth,parts", "h"), "axis", 1);
        builder_node(b, ints ? "Add" : "Mul", "h,x", "y");
        if (ints)
            builder_refused(b, -ENOTSUP, "it computes on 'h', which is int64");
        if (ints)
            continue;
        expect_output(b, "[N,3,8,8]");
        expect_sound(b->loaded);
        builder_free(b);
    }
    struct builder *b = with_places("OneHot", "a,one,pair", 0); /* before the images */
    builder_floats(b, "pair", DIMS(2), FLOATS(0, 1));
    builder_int(b, b->nodes[1], "axis", 0);
    b->nodes[1]->output[0] = (char *)"h";
    builder_list(b, builder_node(b, "Transpose", "h", "y"), "perm", DIMS(1, 0, 2, 3, 4));
    expect_output(b, "[N,1,1,8,8]");
    builder_free(b);
    b = with_places("OneHot", "x,one,pair", 0);
    builder_ints(b, "pair", DIMS(0, 1));
    builder_refused(b, -ENOTSUP, "works on what depends on the model's input");
}

/* What a OneHot of places cannot be made of. */
Test(onnx_top, places_become_no_infinity_and_no_batch_size)
{
    struct builder *b = with_places("OneHot", "a,one,pair", 0);
    builder_floats(b, "pair", DIMS(2), FLOATS(-INFINITY, 0));
    builder_refused(b, -ENOTSUP, "its values are not finite");
    b = with_places("OneHot", "a,one,pair", 0);
    builder_floats(b, "pair", DIMS(2), FLOATS(0, NAN));
    builder_refused(b, -ENOTSUP, "its values are not finite");
    b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_ints(b, "none", DIMS(0));
    builder_ints(b, "two", DIMS(2));
    builder_node(b, "Shape", "x", "shape");
    builder_node(b, "Slice", "shape,none,two", "pair");
    builder_int(b, builder_node(b, "ArgMax", "x", "a"), "axis", 1);
    builder_node(b, "OneHot", "a,two,pair", "y");
    builder_refused(b, -ENOTSUP, "its values depend on the batch size");
}

/* An If whose branch gives places does not make floats of them. */
Test(onnx_top, places_of_a_branch)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_ints(b, "one", DIMS(1));
    builder_node(b, "If", "true", "a");
    Onnx__GraphProto branch;
    onnx__graph_proto__init(&branch);
    Onnx__NodeProto *inside = builder_node(b, "ArgMax", "x", "found");
    builder_int(b, inside, "axis", 1);
    b->graph.n_node--; /* it is the branch's */
    Onnx__ValueInfoProto *outputs = builder_info(b, "found", INT64_TYPE, -1, NULL);
    branch.n_node = branch.n_output = 1;
    branch.node = &inside;
    branch.output = &outputs;
    builder_attribute(b, b->nodes[0], "then_branch", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g =
        &branch;
    builder_attribute(b, b->nodes[0], "else_branch", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH)->g =
        &branch;
    bool yes = true;
    Onnx__TensorProto *truth = builder_tensor(b, "true", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 0, NULL);
    builder_raw(b, truth, &yes, 1);
    builder_add_initializer(b, truth);
    builder_node(b, "Add", "a,one", "y");
    builder_refused(b, -ENOTSUP, "it computes on 'a', which is int64");
}
