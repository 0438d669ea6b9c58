/* Small files that ask for a lot: of memory, of time, of an answer. Each is refused before anything large is
 * allocated. */
#include "tests/unit/engine/onnx/onnx_builder.h"

static struct builder *begin(void)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    return b;
}

Test(onnx_growth, constants_out_of_nothing)
{
    struct builder *b = begin();
    builder_ints(b, "shape", DIMS(1 << 29)); /* 2 GiB of zeros */
    builder_node(b, "ConstantOfShape", "shape", "c");
    builder_node(b, "Add", "x,c", "y");
    builder_refused(b, -EINVAL, "grow beyond");

    b = begin();
    builder_ints(b, "shape", DIMS(1 << 23, 8, 8));
    builder_floats(b, "one", DIMS(1), NULL);
    builder_node(b, "Expand", "one,shape", "c");
    builder_node(b, "Add", "x,c", "y");
    builder_refused(b, -EINVAL, "grow beyond");

    b = begin(); /* sixtyfold at each node */
    builder_floats(b, "c0", DIMS(1), NULL);
    for (int i = 0; i < 5; i++) {
        char parts[256] = "", whole[8];
        for (int k = 0; k < 60; k++)
            snprintf(parts + strlen(parts), sizeof parts - strlen(parts), "%sc%d", k > 0 ? "," : "", i);
        snprintf(whole, sizeof whole, "c%d", i + 1);
        builder_int(b, builder_node(b, "Concat", parts, whole), "axis", 0);
    }
    builder_node(b, "Add", "x,c5", "y");
    builder_refused(b, -EINVAL, "grow beyond");
}

Test(onnx_growth, what_a_real_weight_needs_is_granted)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(-1, 5000));
    builder_output(b, "y");
    builder_floats(b, "w", DIMS(5000, 5000), NULL); /* more than what may come out of nothing */
    builder_node(b, "Identity", "w", "same");
    builder_node(b, "MatMul", "x,same", "y"); /* makes a transposed copy */
    builder_graph(b);
    builder_free(b);
}

/* A file with a hole for 4 GiB of weights: a few bytes on the disk. */
static Onnx__TensorProto *external_hole(struct builder *b)
{
    Onnx__TensorProto *tensor = builder_tensor(b, "w", FLOAT_TYPE, DIMS(1 << 30));
    tensor->has_data_location = 1;
    tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    Onnx__StringStringEntryProto *pair = builder_memory(b, sizeof *pair);
    onnx__string_string_entry_proto__init(pair);
    pair->key = builder_text(b, "location");
    pair->value = builder_text(b, "hole.bin");
    tensor->external_data = builder_memory(b, sizeof(void *));
    tensor->external_data[tensor->n_external_data++] = pair;
    const char *path = builder_path(b, "hole.bin");
    builder_write(path, "", 0);
    cr_assert(truncate(path, 4LL << 30) == 0);
    return tensor;
}

Test(onnx_growth, stored_constants_are_counted_before_they_are_read)
{
    struct builder *b = begin();
    builder_add_initializer(b, external_hole(b));
    builder_node(b, "Add", "x,w", "y");
    builder_refused(b, -EINVAL, "more than convoyd takes (2 GiB)");

    b = begin();
    builder_tensor_attribute(b, builder_node(b, "Constant", "", "w"), "value", external_hole(b));
    builder_node(b, "Add", "x,w", "y");
    builder_refused(b, -EINVAL, "more than convoyd takes (2 GiB)");
}

Test(onnx_growth, a_dimension_of_zero_hides_no_overflow)
{
    struct builder *b = begin();
    Onnx__TensorProto *tensor =
        builder_tensor(b, "c", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, DIMS(0, 1 << 15, 1 << 15, 1 << 15));
    builder_raw(b, tensor, NULL, 0);
    builder_add_initializer(b, tensor);
    builder_ints(b, "none", DIMS(0));
    builder_node(b, "Gather", "c,none", "g");
    builder_node(b, "Reshape", "x,g", "y");
    builder_refused(b, -EINVAL, "2^31-1 elements");
}

Test(onnx_growth, slices_name_an_axis_once)
{
    struct builder *b = begin();
    builder_ints(b, "c", DIMS(-1));
    builder_ints(b, "starts", DIMS(0, 0, 0));
    builder_ints(b, "ends", DIMS(9, 9, 9));
    builder_ints(b, "axes", DIMS(0, 0, 0));
    builder_ints(b, "steps", DIMS(INT32_MAX, INT32_MAX, INT32_MAX));
    builder_ints(b, "shape", DIMS(1, 1, 1));
    builder_node(b, "Reshape", "c,shape", "cube");
    builder_node(b, "Slice", "cube,starts,ends,axes,steps", "s");
    builder_node(b, "Reshape", "x,s", "y");
    builder_refused(b, -EINVAL, "axes name 0 twice");
}

Test(onnx_growth, answers_that_32_bits_cannot_count)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(-1, 1));
    builder_ints(b, "pads", DIMS(0, 0, 0, (1 << 28) - 1));
    builder_node(b, "Pad", "x,pads", "y");
    for (int i = 0; i < 8; i++) /* 2^28 numbers, eight times */
        builder_output(b, "y");
    builder_refused(b, -EINVAL, "up to output 'y' the outputs have more than 2^31-1 elements");
}
