/* Where the batch goes: open and fixed batches through reshapes, and the arithmetic on shapes that exporters
 * write. */
#include "tests/unit/engine/onnx/onnx_builder.h"

/* x of [first,512,1,1] reshaped to `targets`. */
static struct builder *reshape(int64_t first, int count, const int64_t *targets)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(first, 512, 1, 1));
    builder_output(b, "y");
    builder_ints(b, "shape", count, targets);
    builder_node(b, "Reshape", "x,shape", "y");
    return b;
}

static void reshapes_to(int64_t first, int count, const int64_t *targets, const char *shape)
{
    struct builder *b = reshape(first, count, targets);
    expect_output(b, shape);
    expect_sound(b->loaded);
    builder_free(b);
}

static void reshape_refused(int64_t first, int count, const int64_t *targets, int code, const char *words)
{
    builder_refused(reshape(first, count, targets), code, words);
}

Test(onnx_batch, reshape_with_an_open_batch)
{
    reshapes_to(-1, DIMS(-1, 512), "[N,512]");
    reshapes_to(-1, DIMS(0, -1), "[N,512]");
    reshapes_to(-1, DIMS(0, 512), "[N,512]");
    reshapes_to(-1, DIMS(-1, 2, 256), "[N,2,256]");
    reshapes_to(-1, DIMS(0, 2, 16, -1), "[N,2,16,16]");
    reshapes_to(-1, DIMS(-1, 256), "[2N,256]"); /* two rows for each image */
    reshapes_to(-1, DIMS(-1), "[512N]");
    reshape_refused(-1, DIMS(1, 512), -ENOTSUP, "fixed size");
    reshape_refused(-1, DIMS(512, -1), -ENOTSUP, "would be mixed");
    reshape_refused(-1, DIMS(-1, 500), -EINVAL, "do not fill");
    reshape_refused(-1, DIMS(0, 500), -EINVAL, "do not fill");
    reshape_refused(-1, DIMS(-1, -1), -EINVAL, "more than one");
    reshape_refused(-1, DIMS(0, -2), -EINVAL, "dimension of -2");
}

Test(onnx_batch, reshape_with_a_fixed_batch)
{
    reshapes_to(1, DIMS(1, 512), "[N,512]");
    reshapes_to(1, DIMS(1, -1), "[N,512]");
    reshapes_to(1, DIMS(-1, 512), "[N,512]");
    reshapes_to(4, DIMS(4, 512), "[N,512]");
    reshapes_to(4, DIMS(4, 2, -1), "[N,2,256]");
    reshapes_to(4, DIMS(-1, 512), "[N,512]");
    reshapes_to(4, DIMS(8, 256), "[2N,256]");
    reshapes_to(4, DIMS(1, 4, 512), "[1,N,512]");
    reshapes_to(4, DIMS(512, 4), "[128N,4]");
}

Test(onnx_batch, without_a_batch_everything_is_as_written)
{
    struct builder *b = reshape(4, DIMS(512, 4));
    struct convoy_onnx_options options = {.no_batch = true};
    cr_assert(builder_load(b, &options) == 0, "%s", b->error.message);
    expect_shape(b->loaded, b->loaded->input, "[4,512,1,1]");
    expect_shape(b->loaded, b->loaded->outputs[0], "[512,4]");
    builder_free(b);
    b = reshape(-1, DIMS(6, 256));
    cr_expect(builder_load(b, &options) == -ENOTSUP);
    options.input_shape = (struct convoy_shape){.rank = 4, .dims = {3, 1, 1, 1}};
    cr_expect(builder_load(b, &options) == 0, "%s",
              b->error.message); /* the open dimension alone is filled in */
    expect_shape(b->loaded, b->loaded->input, "[3,512,1,1]");
    builder_free(b);
}

/* x.view(x.size(0), -1), as exporters before constant folding write it. */
static struct builder *flattened_by_arithmetic(int64_t first)
{
    struct builder *b = builder_new(11);
    builder_input(b, "x", DIMS(first, 3, 8, 8));
    builder_output(b, "y");
    builder_ints(b, "zero", DIMS(0))->n_dims = 0; /* a scalar */
    builder_ints(b, "rest", DIMS(-1));
    builder_node(b, "Shape", "x", "s");
    builder_node(b, "Gather", "s,zero", "n");
    builder_list(b, builder_node(b, "Unsqueeze", "n", "u"), "axes", DIMS(0));
    builder_int(b, builder_node(b, "Concat", "u,rest", "c"), "axis", 0);
    builder_node(b, "Reshape", "x,c", "y");
    return b;
}

Test(onnx_batch, a_shape_computed_from_the_input)
{
    for (int64_t first = -1; first <= 4; first += first == -1 ? 2 : 3) {
        struct builder *b = flattened_by_arithmetic(first);
        expect_output(b, "[N,192]");
        expect_sound(b->loaded);
        cr_expect(b->loaded->node_count == 1 && b->loaded->weight_bytes == 0);
        builder_free(b);
    }
}

Test(onnx_batch, products_and_quotients_of_the_batch)
{
    struct builder *b = builder_new(15);
    IMAGES(b);
    builder_output(b, "y");
    builder_ints(b, "three", DIMS(3));
    builder_ints(b, "six", DIMS(6));
    builder_ints(b, "size", DIMS(8, 8));
    Onnx__NodeProto *shape = builder_node(b, "Shape", "x", "n"); /* [N] */
    builder_int(b, shape, "start", 0);
    builder_int(b, shape, "end", -3);
    builder_node(b, "Mul", "n,six", "m");   /* 6 N */
    builder_node(b, "Add", "m,n", "a");     /* 7 N */
    builder_node(b, "Sub", "a,n", "s");     /* 6 N */
    builder_node(b, "Div", "s,three", "d"); /* 2 N: not the number of 8 x 8 blocks, which is 3 N */
    builder_node(b, "Add", "d,n", "e");     /* 3 N */
    builder_int(b, builder_node(b, "Cast", "e", "f"), "to", ONNX__TENSOR_PROTO__DATA_TYPE__INT32);
    builder_int(b, builder_node(b, "Concat", "f,size", "c"), "axis", 0);
    builder_node(b, "Reshape", "x,c", "y");
    expect_output(b, "[3N,8,8]");
    b->nodes[5]->op_type = builder_text(b, "Identity");
    b->nodes[5]->n_input = 1;
    builder_refused(b, -EINVAL, "do not fill"); /* 2 N blocks of 8 x 8 */
}

Test(onnx_batch, slices_of_a_shape)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_ints(b, "one", DIMS(1));
    builder_ints(b, "zero", DIMS(0));
    builder_ints(b, "minus", DIMS(-1));
    builder_ints(b, "minus_nine", DIMS(-9));
    builder_node(b, "Shape", "x", "s");
    builder_node(b, "Slice", "s,zero,one,zero", "n");
    builder_node(b, "Slice", "s,minus,minus_nine,zero,minus", "r"); /* reversed: 8, 8, 3, N */
    builder_node(b, "Slice", "r,zero,one", "w");
    builder_int(b, builder_node(b, "Concat", "n,minus,w", "c"), "axis", 0);
    builder_node(b, "Reshape", "x,c", "y");
    expect_output(b, "[N,24,8]");
    builder_free(b);
}

Test(onnx_batch, pads_computed_by_an_old_exporter)
{
    /* torch.nn.functional.pad in opset 11: fill up with zeros, then reverse pairs by reshaping and
     * transposing. */
    struct builder *b = builder_new(11);
    IMAGES(b);
    builder_output(b, "y");
    builder_ints(b, "given", DIMS(1, 2, 3, 4)); /* left, right, top, bottom */
    builder_ints(b, "missing", DIMS(4));
    builder_ints(b, "pairs", DIMS(-1, 2));
    builder_ints(b, "zero", DIMS(0));
    builder_ints(b, "minus", DIMS(-1));
    builder_ints(b, "far", DIMS(INT64_MIN + 1));
    builder_node(b, "ConstantOfShape", "missing", "zeros");
    builder_tensor_attribute(b, b->nodes[0], "value",
                             builder_tensor(b, "v", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, DIMS(1)));
    builder_raw(b, b->nodes[0]->attribute[0]->t, NULL, 8);
    builder_int(b, builder_node(b, "Concat", "given,zeros", "all"), "axis", 0);
    builder_node(b, "Reshape", "all,pairs", "t1");
    builder_node(b, "Slice", "t1,minus,far,zero,minus", "t2");
    builder_node(b, "Transpose", "t2", "t3");
    builder_node(b, "Reshape", "t3,minus", "t4");
    builder_int(b, builder_node(b, "Cast", "t4", "pads"), "to", ONNX__TENSOR_PROTO__DATA_TYPE__INT64);
    builder_node(b, "Pad", "x,pads", "y");
    expect_output(b, "[N,3,15,11]");
    const struct convoy_node *pad = &b->loaded->nodes[0];
    cr_assert(pad->op == CONVOY_OP_PAD);
    cr_expect(pad->pad.before[3] == 1 && pad->pad.after[3] == 2 && pad->pad.before[2] == 3 &&
              pad->pad.after[2] == 4);
    builder_free(b);
}

Test(onnx_batch, a_fixed_batch_serves_every_batch)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(4, 3, 8, 8));
    builder_output(b, "y");
    builder_floats(b, "w", DIMS(2, 3, 3, 3), NULL);
    builder_floats(b, "m", DIMS(72, 10), NULL);
    builder_ints(b, "shape", DIMS(4, 72));
    builder_node(b, "Conv", "x,w", "t");
    builder_node(b, "Reshape", "t,shape", "u");
    builder_node(b, "MatMul", "u,m", "y");
    expect_output(b, "[N,10]");
    expect_shape(b->loaded, b->loaded->input, "[N,3,8,8]");
    builder_free(b);
}

Test(onnx_batch, squeezing_a_batch_of_one_and_bringing_it_back)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(1, 6, 1, 1));
    builder_output(b, "y");
    builder_ints(b, "front", DIMS(0));
    builder_floats(b, "m", DIMS(6, 2), NULL);
    builder_node(b, "Squeeze", "x", "t"); /* [6]: all four dimensions of one image and one batch */
    builder_node(b, "Unsqueeze", "t,front", "u");
    builder_node(b, "MatMul", "u,m", "y");
    expect_output(b, "[N,2]");
    builder_free(b);
}

/* What PyTorch's new exporter makes of torch.roll() and mean() where the batch is 1: elements of what was
 * flattened with it. */
static struct builder *taken(const char *from, int axis, int64_t batch, int rank, const int64_t *dims,
                             const int64_t *places)
{
    struct builder *b = builder_new(18);
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    builder_input(b, "x", DIMS(batch, 6, 4));
    builder_output(b, "y");
    builder_ints(b, "flat", DIMS(-1));
    Onnx__TensorProto *indices = builder_ints(b, "places", (int)count, places);
    indices->dims = builder_memory(b, (size_t)(rank + 1) * sizeof *indices->dims);
    indices->n_dims = (size_t)rank;
    for (int i = 0; i < rank; i++)
        indices->dims[i] = dims[i];
    builder_node(b, "Reshape", "x,flat", "f");
    builder_int(b, builder_node(b, "Gather", from, "y"), "axis", axis);
    return b;
}

static struct builder *elements_of_one(int64_t batch, int rank, const int64_t *dims, const int64_t *places)
{
    return taken("f,places", 0, batch, rank, dims, places);
}

/* Is the only node that is no reshape the crop that takes six from `first` on? */
static void expect_crop(struct builder *b, int64_t first)
{
    int crops = 0, others = 0;
    for (int i = 0; i < b->loaded->node_count; i++) {
        const struct convoy_node *node = &b->loaded->nodes[i];
        bool crop = node->op == CONVOY_OP_PAD && node->pad.before[1] == -first &&
                    node->pad.after[1] == first + 6 - 24;
        crops += crop;
        others += !crop && node->op != CONVOY_OP_RESHAPE;
    }
    cr_expect(crops == 1 && others == 0, "%d crops from %d on, %d other nodes", crops, (int)first, others);
}

Test(onnx_batch, elements_of_a_batch_of_one_are_each_image_s)
{
    struct builder *b = elements_of_one(1, DIMS(1, 3, 2), (const int64_t[]){2, 3, 4, 5, 6, 7});
    expect_output(b, "[N,3,2]");
    expect_crop(b, 2);
    builder_free(b);
    b = elements_of_one(1, DIMS(6), (const int64_t[]){-6, -5, -4, -3, -2, -1});
    expect_output(b, "[6N]");
    expect_crop(b, 18);
    builder_free(b);
    b = taken("x,places", 1, 1, DIMS(2), (const int64_t[]){5, 0}); /* of another axis */
    expect_output(b, "[N,2,4]");
    builder_free(b);
    builder_refused(taken("x,places", 0, 1, DIMS(2), (const int64_t[]){0, 0}), -ENOTSUP,
                    "some of the images");
    builder_refused(elements_of_one(2, DIMS(1, 2), (const int64_t[]){0, 1}), -ENOTSUP, "some of the images");
    builder_refused(elements_of_one(-1, DIMS(1, 2), (const int64_t[]){0, 1}), -ENOTSUP, "some of the images");
    builder_refused(elements_of_one(1, DIMS(1, 2), (const int64_t[]){0, 24}), -EINVAL, "outside its input");
    builder_refused(elements_of_one(1, DIMS(1, 2), (const int64_t[]){0, -25}), -EINVAL, "outside its input");
}

/* Rows before images: an element is of each image a row. */
Test(onnx_batch, elements_of_rows_before_a_batch_of_one_are_refused)
{
    struct builder *b = builder_new(18);
    builder_input(b, "x", DIMS(1, 6, 4));
    builder_output(b, "y");
    builder_ints(b, "rows", DIMS(6, 4));
    builder_ints(b, "places", DIMS(5, 0));
    builder_list(b, builder_node(b, "Transpose", "x", "t"), "perm", DIMS(1, 0, 2));
    builder_node(b, "Reshape", "t,rows", "f");
    builder_node(b, "Gather", "f,places", "y");
    builder_refused(b, -ENOTSUP, "some of the images");
}

Test(onnx_batch, a_batch_of_one_with_windows_is_repeated_as_written)
{
    struct builder *b = builder_new(18);
    builder_input(b, "x", DIMS(1, 2, 6));
    builder_output(b, "y");
    builder_ints(b, "windows", DIMS(2, 1, 6));
    builder_ints(b, "wanted", DIMS(2, 3, 6));
    builder_ints(b, "back", DIMS(1, 36));
    builder_node(b, "Reshape", "x,windows", "w");
    builder_node(b, "Expand", "w,wanted", "e");
    builder_node(b, "Reshape", "e,back", "y");
    expect_output(b, "[N,36]");
    builder_free(b);
}

/* 10 - x, and then plus x's own rows of numbers, of four windows of an image that the batch was merged with.
 */
static struct builder *windows_with_constants(int64_t batch, int rank, const int64_t *dims)
{
    struct builder *b = builder_new(18);
    builder_input(b, "x", DIMS(batch, 4, 6));
    builder_output(b, "y");
    builder_ints(b, "windows", DIMS(4 * batch, 2, 3));
    builder_ints(b, "back", DIMS(batch, -1));
    builder_floats(b, "c", rank, dims, NULL);
    builder_node(b, "Reshape", "x,windows", "w");
    builder_node(b, "Sub", "c,w", "d");
    builder_node(b, "Reshape", "d,back", "y");
    return b;
}

Test(onnx_batch, constants_for_the_windows_of_a_batch_of_one_are_each_image_s)
{
    struct builder *b = windows_with_constants(1, DIMS(4, 1, 3));
    expect_output(b, "[N,24]");
    expect_sound(b->loaded);
    int found = 0;
    for (int i = 0; i < b->loaded->node_count; i++) {
        const struct convoy_node *node = &b->loaded->nodes[i];
        if (node->op != CONVOY_OP_BINARY)
            continue;
        found++;
        expect_shape(b->loaded, node->output, "[N,4,2,3]");
        expect_shape(b->loaded, node->inputs[0], "[1,4,1,3]");
        cr_expect(b->loaded->tensors[node->inputs[0]].data != NULL && node->binary == CONVOY_SUB);
    }
    cr_expect_eq(found, 1);
    builder_free(b);
    b = windows_with_constants(1, DIMS(1, 2, 3)); /* the same for each window */
    expect_output(b, "[N,24]");
    for (int i = 0; i < b->loaded->node_count; i++)
        if (b->loaded->nodes[i].op == CONVOY_OP_BINARY)
            expect_shape(b->loaded, b->loaded->nodes[i].output, "[4N,2,3]");
    builder_free(b);
    b = windows_with_constants(1, DIMS(3)); /* of fewer dimensions than windows have */
    expect_output(b, "[N,24]");
    builder_free(b);
    b = windows_with_constants(1, 0, NULL);
    expect_output(b, "[N,24]");
    builder_free(b);
    builder_refused(windows_with_constants(2, DIMS(4, 1, 3)), -EINVAL, "cannot be combined");
    builder_refused(windows_with_constants(2, DIMS(8, 1, 3)), -EINVAL, "cannot be combined");
}

Test(onnx_batch, what_would_mix_images_is_refused)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_int(b, builder_node(b, "Concat", "x,x", "y"), "axis", 0);
    builder_refused(b, -ENOTSUP, "along the batch");

    b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_int(b, builder_node(b, "Softmax", "x", "y"), "axis", 0);
    builder_refused(b, -ENOTSUP, "over the batch");

    b = builder_new(11); /* flattened from axis 0: everything at once */
    IMAGES(b);
    builder_output(b, "y");
    builder_int(b, builder_node(b, "Softmax", "x", "y"), "axis", 0);
    builder_refused(b, -ENOTSUP, "over the batch");

    b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_list(b, builder_node(b, "ReduceMean", "x", "y"), "axes", DIMS(0));
    builder_refused(b, -ENOTSUP, "combines the images of a batch");

    b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_node(b, "Transpose", "x", "y");
    builder_refused(b, -ENOTSUP, "not the first dimension of output 'y'");

    b = builder_new(13); /* x^T x adds up over the batch */
    builder_input(b, "x", DIMS(-1, 4));
    builder_output(b, "y");
    builder_node(b, "Transpose", "x", "t");
    builder_node(b, "MatMul", "t,x", "y");
    builder_refused(b, -ENOTSUP, "add up over the images");

    b = builder_new(13); /* x x^T meets every image with every other */
    builder_input(b, "x", DIMS(-1, 4));
    builder_output(b, "y");
    builder_node(b, "Transpose", "x", "t");
    builder_node(b, "MatMul", "x,t", "y");
    builder_refused(b, -ENOTSUP, "every image of a batch with every other");

    b = builder_new(13);
    builder_input(b, "x", DIMS(-1, 4));
    builder_output(b, "y");
    builder_node(b, "Transpose", "x", "t");
    builder_node(b, "Add", "x,t", "y");
    builder_refused(b, -EINVAL, "cannot be combined");

    b = builder_new(13); /* two rows for each image, and one */
    builder_input(b, "x", DIMS(-1, 2, 4));
    builder_output(b, "y");
    builder_ints(b, "rows", DIMS(-1, 4));
    builder_node(b, "Reshape", "x,rows", "t");
    Onnx__NodeProto *mean = builder_node(b, "ReduceMean", "x", "u");
    builder_list(b, mean, "axes", DIMS(1));
    builder_int(b, mean, "keepdims", 0);
    builder_node(b, "Add", "t,u", "y");
    builder_refused(b, -EINVAL, "shapes [2N,4] and [N,4] cannot be combined");

    b = builder_new(13);
    builder_input(b, "x", DIMS(4, 4));
    builder_output(b, "y");
    builder_floats(b, "c", DIMS(4, 4), NULL); /* another number for each image of the batch */
    builder_node(b, "Add", "x,c", "y");
    builder_refused(b, -EINVAL, "cannot be combined");

    b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_ints(b, "pads", DIMS(1, 0, 0, 0, 0, 0, 0, 0));
    builder_node(b, "Pad", "x,pads", "y");
    builder_refused(b, -ENOTSUP, "pads the batch");

    b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y");
    builder_floats(b, "c", DIMS(2, 3, 8, 8), NULL);
    builder_int(b, builder_node(b, "Concat", "x,c", "y"), "axis", 1);
    builder_refused(b, -EINVAL, "cannot be joined");
}
