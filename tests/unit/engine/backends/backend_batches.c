/* What the reader makes of a batch: small models of an open batch, as exporters write them, are run for
 * several images at once, and give what the same model gives for each image when no dimension is taken for
 * the batch.
 */
#include "tests/unit/engine/backends/backend_harness.h"
#include "tests/unit/engine/onnx/onnx_builder.h"

/* The CPU backend runs so many in passes of several. */
#define IMAGES_AT_ONCE 16
#define DIFFERENCE     1e-5f

TestSuite(backend_batches, .init = open_backend, .fini = close_backend, .timeout = 300);

/* Runs the loaded graph for `rows` inputs that follow each other; the outputs are the caller's. */
static float *run_rows(const struct convoy_graph *graph, uint32_t rows, const float *values, size_t *count)
{
    struct convoy_net *net = NULL;
    struct convoy_net_info info;
    struct convoy_error error;
    struct convoy_load_options options = {.max_batch = rows};
    cr_assert_eq(backend->load(device, graph, &options, &net, &info, &error), 0, "%s", error.message);
    size_t elements = (size_t)info.channels * info.height * info.width;
    size_t stride = (elements * sizeof(float) + 63) / 64 * 64;
    size_t output_stride = (info.outputs_per_row * sizeof(float) + 63) / 64 * 64;
    char *input = aligned_bytes(stride * rows);
    char *output = aligned_bytes(output_stride * rows);
    for (uint32_t row = 0; row < rows; row++)
        memcpy(input + row * stride, values + row * elements, elements * sizeof(float));
    struct convoy_job job = {.layout = CONVOY_LAYOUT_F32_CHW,
                             .rows = rows,
                             .input = input,
                             .input_stride = stride,
                             .output = (float *)(void *)output,
                             .output_stride = output_stride};
    run(net, &job);
    *count = info.outputs_per_row;
    float *results = calloc(*count * rows, sizeof(float));
    cr_assert(results != NULL);
    for (uint32_t row = 0; row < rows; row++)
        memcpy(results + row * *count, output + row * output_stride, *count * sizeof(float));
    free(input);
    free(output);
    backend->unload(device, net);
    return results;
}

/* The model's input is "x" of [N, dims...], its output "y". */
static void check_batch(struct builder *b, int rank, const int64_t *dims)
{
    struct convoy_onnx_options plain = {.no_batch = true, .input_shape = {.rank = rank, .batch_axis = -1}};
    size_t elements = 1;
    size_t count = 0;
    size_t alone = 0;
    for (int i = 0; i < rank; i++) {
        plain.input_shape.dims[i] = i == 0 ? 1 : dims[i];
        elements *= (size_t)plain.input_shape.dims[i];
    }
    float *values = calloc(elements * IMAGES_AT_ONCE, sizeof(float));
    cr_assert(values != NULL);
    for (size_t i = 0; i < elements * IMAGES_AT_ONCE; i++)
        values[i] = random_value();
    cr_assert(builder_load(b, NULL) == 0, "%s", b->error.message);
    float *together = run_rows(b->loaded, IMAGES_AT_ONCE, values, &count);
    cr_assert(builder_load(b, &plain) == 0, "%s", b->error.message);
    for (int image = 0; image < IMAGES_AT_ONCE; image++) {
        float *single = run_rows(b->loaded, 1, values + (size_t)image * elements, &alone);
        cr_assert_eq(alone, count);
        for (size_t i = 0; i < count; i++)
            cr_assert(fabsf(single[i] - together[(size_t)image * count + i]) <= DIFFERENCE,
                      "image %d, element %zu: %g, alone %g", image, i,
                      (double)together[(size_t)image * count + i], (double)single[i]);
        free(single);
    }
    free(together);
    free(values);
    builder_free(b);
}

static struct builder *begin(int rank, const int64_t *dims)
{
    struct builder *b = builder_new(17);
    builder_input(b, "x", rank, dims);
    builder_output(b, "y");
    return b;
}

static void axis(struct builder *b, Onnx__NodeProto *node, int64_t value)
{
    builder_int(b, node, "axis", value);
}

/* "n" is the batch, as a list of one number: Shape and Slice. */
static void batch_size(struct builder *b)
{
    builder_ints(b, "zero", DIMS(0));
    builder_ints(b, "one", DIMS(1));
    builder_node(b, "Shape", "x", "shape");
    builder_node(b, "Slice", "shape,zero,one,zero", "n");
}

Test(backend_batches, a_class_token_before_the_patches_of_each_image)
{
    struct builder *b = begin(DIMS(-1, 5, 6));
    batch_size(b);
    builder_floats(b, "token", DIMS(1, 1, 6), NULL);
    builder_floats(b, "positions", DIMS(1, 6, 6), NULL);
    builder_ints(b, "rest", DIMS(-1, -1));
    axis(b, builder_node(b, "Concat", "n,rest", "wanted"), 0);
    builder_ints(b, "minus", DIMS(-1));
    builder_ints(b, "ones", DIMS(1, 1, 1)); /* torch's expand: -1 keeps a dimension */
    builder_node(b, "Equal", "wanted,minus", "kept");
    builder_node(b, "Where", "kept,ones,wanted", "repeats");
    builder_node(b, "Expand", "token,repeats", "tokens");
    axis(b, builder_node(b, "Concat", "tokens,x", "joined"), 1);
    builder_node(b, "Add", "joined,positions", "y");
    check_batch(b, DIMS(-1, 5, 6));
}

Test(backend_batches, attention_as_torch_has_it_with_lengths_before_the_batch)
{
    struct builder *b = begin(DIMS(-1, 4, 6));
    batch_size(b);
    builder_floats(b, "w", DIMS(6, 6), NULL);
    builder_floats(b, "bias", DIMS(6), NULL);
    builder_ints(b, "length", DIMS(4));
    builder_ints(b, "heads", DIMS(2));
    builder_ints(b, "width", DIMS(3));
    builder_ints(b, "six", DIMS(6));
    builder_list(b, builder_node(b, "Transpose", "x", "t"), "perm", DIMS(1, 0, 2)); /* [L,N,D] */
    builder_node(b, "Mul", "n,heads", "nh");
    axis(b, builder_node(b, "Concat", "length,nh,width", "by_heads"), 0);
    builder_node(b, "Reshape", "t,by_heads", "q0"); /* [L,N heads,d] */
    builder_list(b, builder_node(b, "Transpose", "q0", "q"), "perm", DIMS(1, 0, 2));
    builder_list(b, builder_node(b, "Transpose", "q", "k"), "perm", DIMS(0, 2, 1));
    builder_node(b, "MatMul", "q,k", "scores");
    axis(b, builder_node(b, "Softmax", "scores", "weights"), -1);
    builder_node(b, "MatMul", "weights,q", "mixed"); /* [N heads,L,d] */
    builder_list(b, builder_node(b, "Transpose", "mixed", "back"), "perm", DIMS(1, 0, 2));
    builder_node(b, "Mul", "n,length", "rows");
    axis(b, builder_node(b, "Concat", "rows,six", "as_rows"), 0);
    builder_node(b, "Reshape", "back,as_rows", "r"); /* [L N,D]: the batch is the inner one */
    builder_node(b, "Gemm", "r,w,bias", "p");
    axis(b, builder_node(b, "Concat", "length,n,six", "as_before"), 0);
    builder_node(b, "Reshape", "p,as_before", "l");
    builder_list(b, builder_node(b, "Transpose", "l", "y"), "perm", DIMS(1, 0, 2));
    check_batch(b, DIMS(-1, 4, 6));
}

Test(backend_batches, windows_that_are_rolled_and_merged_with_the_batch)
{
    struct builder *b = begin(DIMS(-1, 4, 6, 2));
    builder_ints(b, "three", DIMS(3));
    builder_ints(b, "zero", DIMS(0));
    builder_ints(b, "end", DIMS(INT64_MAX));
    builder_ints(b, "two", DIMS(2));
    builder_node(b, "Slice", "x,three,end,two", "right");
    builder_node(b, "Slice", "x,zero,three,two", "left");
    axis(b, builder_node(b, "Concat", "right,left", "rolled"), 2);
    builder_ints(b, "apart", DIMS(-1, 2, 2, 2, 3, 2));
    builder_node(b, "Reshape", "rolled,apart", "a");
    builder_list(b, builder_node(b, "Transpose", "a", "t"), "perm", DIMS(0, 1, 3, 2, 4, 5));
    builder_ints(b, "windows", DIMS(-1, 6, 2));
    builder_node(b, "Reshape", "t,windows", "w"); /* [4N,6,2] */
    builder_floats(b, "bias", DIMS(4, 6, 2), NULL);
    builder_ints(b, "grouped", DIMS(-1, 4, 6, 2));
    builder_node(b, "Reshape", "w,grouped", "g");
    builder_node(b, "Add", "g,bias", "s");
    builder_node(b, "Reshape", "s,windows", "w2");
    axis(b, builder_node(b, "Softmax", "w2", "m"), 1);
    builder_ints(b, "together", DIMS(-1, 2, 2, 2, 3, 2));
    builder_node(b, "Reshape", "m,together", "u");
    builder_list(b, builder_node(b, "Transpose", "u", "v"), "perm", DIMS(0, 1, 3, 2, 4, 5));
    builder_ints(b, "image", DIMS(-1, 4, 6, 2));
    builder_node(b, "Reshape", "v,image", "y");
    check_batch(b, DIMS(-1, 4, 6, 2));
}

Test(backend_batches, indices_that_count_the_images)
{
    struct builder *b = begin(DIMS(-1, 5));
    batch_size(b);
    builder_add_initializer(b, builder_tensor(b, "start", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 0, NULL));
    builder_raw(b, b->initializers[b->graph.n_initializer - 1], (int64_t[]){0}, 8);
    builder_add_initializer(b, builder_tensor(b, "step", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 0, NULL));
    builder_raw(b, b->initializers[b->graph.n_initializer - 1], (int64_t[]){1}, 8);
    builder_node(b, "Squeeze", "n", "number");
    builder_node(b, "Range", "start,number,step", "images");
    builder_ints(b, "five", DIMS(5));
    builder_node(b, "Mul", "images,five", "firsts");
    builder_node(b, "Unsqueeze", "firsts,one", "column");
    builder_ints(b, "order", DIMS(4, 0, 1));
    builder_node(b, "Add", "column,order", "places");
    builder_ints(b, "flat", DIMS(-1));
    builder_node(b, "Reshape", "x,flat", "all");
    axis(b, builder_node(b, "Gather", "all,places", "y"), 0);
    check_batch(b, DIMS(-1, 5));
}

Test(backend_batches, elements_that_are_taken_repeated_and_bordered)
{
    struct builder *b = begin(DIMS(-1, 6, 5));
    builder_ints(b, "starts", DIMS(5, 0));
    builder_ints(b, "ends", DIMS(-7, 5));
    builder_ints(b, "axes", DIMS(1, 2));
    builder_ints(b, "steps", DIMS(-2, 2));
    builder_node(b, "Slice", "x,starts,ends,axes,steps", "s"); /* [N,3,3] */
    builder_ints(b, "indices", DIMS(2, 0, 0, 1, 2));
    axis(b, builder_node(b, "Gather", "s,indices", "g"), 2); /* [N,3,5] */
    builder_ints(b, "lengths", DIMS(1, 2));
    axis(b, builder_node(b, "Split", "g,lengths", "top,bottom"), 1);
    builder_ints(b, "repeats", DIMS(1, 2, 1));
    builder_node(b, "Tile", "top,repeats", "tiled");
    builder_node(b, "Add", "tiled,bottom", "sum"); /* [N,2,5] */
    builder_ints(b, "pads", DIMS(0, 1, 2, 0, 1, 1));
    builder_string(b, builder_node(b, "Pad", "sum,pads", "reflected"), "mode", "reflect");
    builder_string(b, builder_node(b, "Pad", "reflected,pads", "edged"), "mode", "edge");
    builder_floats(b, "value", 0, NULL, FLOATS(2.5f));
    builder_node(b, "Pad", "edged,pads,value", "y");
    check_batch(b, DIMS(-1, 6, 5));
}

Test(backend_batches, reductions_over_axes_that_are_apart)
{
    static const char *const ops[] = {"ReduceMean", "ReduceMax",  "ReduceMin",       "ReduceL1",
                                      "ReduceL2",   "ReduceProd", "ReduceLogSumExp", "ReduceSumSquare"};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct builder *b = begin(DIMS(-1, 3, 4, 5));
        builder_list(b, builder_node(b, "Transpose", "x", "t"), "perm", DIMS(1, 2, 0, 3));
        Onnx__NodeProto *node = builder_node(b, ops[i], "t", "r"); /* [3,N,5] less 4, and less 3 */
        builder_list(b, node, "axes", DIMS(0, 3));
        builder_int(b, node, "keepdims", 0); /* [4,N] */
        builder_list(b, builder_node(b, "Transpose", "r", "y"), "perm", DIMS(1, 0));
        check_batch(b, DIMS(-1, 3, 4, 5));
    }
}

Test(backend_batches, conditions_of_activations)
{
    struct builder *b = begin(DIMS(-1, 4, 5));
    builder_floats(b, "level", DIMS(5), FLOATS(-0.5f, 0, 0.5f, 0.25f, -0.25f));
    builder_node(b, "Greater", "x,level", "above");
    builder_node(b, "Neg", "x", "negative");
    builder_node(b, "Where", "above,x,negative", "chosen");
    builder_node(b, "Not", "above", "below");
    builder_floats(b, "infinite", 0, NULL, FLOATS(-INFINITY));
    builder_node(b, "Where", "below,infinite,chosen", "masked");
    builder_node(b, "Max", "masked,level,x", "most");
    builder_node(b, "Mean", "most,x,chosen", "y");
    check_batch(b, DIMS(-1, 4, 5));
}

/* As exporters write masks, with the batch in their shape. */
Test(backend_batches, constants_that_are_repeated_for_each_image)
{
    struct builder *b = begin(DIMS(-1, 4, 5));
    builder_floats(b, "kept", DIMS(5), FLOATS(1, 0, 1, 1, 0));
    builder_floats(b, "one", 0, NULL, FLOATS(1));
    builder_floats(b, "low", 0, NULL, FLOATS(-2));
    builder_floats(b, "column", DIMS(4, 1), FLOATS(1, 2, 3, 4));
    builder_node(b, "Shape", "x", "s");
    builder_node(b, "Expand", "kept,s", "repeated");
    builder_node(b, "Expand", "one,s", "ones");
    builder_node(b, "Where", "repeated,column,low", "mask");
    builder_node(b, "Mul", "mask,x", "masked");
    builder_node(b, "Where", "repeated,masked,column", "chosen");
    builder_node(b, "Sub", "ones,mask", "less");
    builder_list(b, builder_node(b, "ReduceMean", "chosen", "mean"), "axes", DIMS(2));
    builder_node(b, "Add", "mean,ones", "more"); /* [N,4,5] again */
    builder_node(b, "Sum", "chosen,less,more", "y");
    check_batch(b, DIMS(-1, 4, 5));
}

Test(backend_batches, a_quantised_layer)
{
    struct builder *b = begin(DIMS(-1, 2, 4, 4));
    static const int8_t weights[12] = {1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11, -12};
    static const uint8_t zero[1] = {128};
    builder_add_initializer(b, builder_tensor(b, "w", ONNX__TENSOR_PROTO__DATA_TYPE__INT8, DIMS(3, 2, 1, 2)));
    builder_raw(b, b->initializers[0], weights, sizeof(weights));
    builder_add_initializer(b, builder_tensor(b, "zero", ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, 0, NULL));
    builder_raw(b, b->initializers[1], zero, sizeof(zero));
    builder_floats(b, "scale", 0, NULL, FLOATS(1 / 64.0f));
    builder_floats(b, "w_scale", DIMS(3), FLOATS(0.5f, 0.25f, 2));
    builder_node(b, "QuantizeLinear", "x,scale,zero", "q");
    builder_node(b, "DequantizeLinear", "q,scale,zero", "d");
    axis(b, builder_node(b, "DequantizeLinear", "w,w_scale", "dw"), 0);
    builder_node(b, "Conv", "d,dw", "c");
    builder_node(b, "DynamicQuantizeLinear", "c", "dq,ds,dz");
    builder_node(b, "ConvInteger", "dq,w2,dz", "ci");
    builder_add_initializer(b,
                            builder_tensor(b, "w2", ONNX__TENSOR_PROTO__DATA_TYPE__INT8, DIMS(2, 3, 2, 1)));
    builder_raw(b, b->initializers[b->graph.n_initializer - 1], weights, sizeof(weights));
    builder_int(b, builder_node(b, "Cast", "ci", "cf"), "to", FLOAT_TYPE);
    builder_node(b, "Mul", "cf,ds", "y");
    check_batch(b, DIMS(-1, 2, 4, 4));
}

/* Small numbers with known answers; the input is "x" of [N,count]. */
static void check_values(struct builder *b, int count, const float *input, int answers, const float *expected)
{
    size_t elements = 0;
    float values[24 * IMAGES_AT_ONCE];
    cr_assert_leq(count, 24);
    for (int row = 0; row < IMAGES_AT_ONCE; row++)
        memcpy(values + row * count, input, (size_t)count * sizeof(float));
    cr_assert(builder_load(b, NULL) == 0, "%s", b->error.message);
    float *results = run_rows(b->loaded, IMAGES_AT_ONCE, values, &elements);
    cr_assert_eq(elements, (size_t)answers);
    for (int i = 0; i < IMAGES_AT_ONCE * answers; i++)
        cr_expect(fabsf(results[i] - expected[i % answers]) <= 1e-6f, "[%d]: %g instead of %g", i,
                  (double)results[i], (double)expected[i % answers]);
    free(results);
    builder_free(b);
}

#define SEVEN FLOATS(1, 2, 3, 4, 5, 6, 7)

Test(backend_batches, answers_that_are_known)
{
    struct builder *b = begin(DIMS(-1, 7));
    builder_ints(b, "one", DIMS(1));
    builder_ints(b, "end", DIMS(7));
    builder_ints(b, "two", DIMS(2));
    builder_node(b, "Slice", "x,one,end,one,two", "y");
    check_values(b, 7, SEVEN, 3, FLOATS(2, 4, 6));

    b = begin(DIMS(-1, 7));
    builder_ints(b, "indices", DIMS(6, 0, 3, 4, 5, -2));
    axis(b, builder_node(b, "Gather", "x,indices", "y"), 1);
    check_values(b, 7, SEVEN, 6, FLOATS(7, 1, 4, 5, 6, 6));

    b = begin(DIMS(-1, 7));
    builder_ints(b, "pads", DIMS(0, 3, 0, -4));
    builder_string(b, builder_node(b, "Pad", "x,pads", "y"), "mode", "reflect");
    check_values(b, 7, SEVEN, 6, FLOATS(4, 3, 2, 1, 2, 3));

    b = begin(DIMS(-1, 7)); /* range -2.55 to 2.55 * 99: scale 1, zero point 3 */
    builder_node(b, "DynamicQuantizeLinear", "x", "q,s,z");
    builder_node(b, "Sub", "q,z", "d");
    builder_node(b, "Add", "q,s", "t");
    builder_node(b, "Add", "t,z", "u");
    axis(b, builder_node(b, "Concat", "u,d", "y"), 1);
    check_values(b, 7, FLOATS(-3, 252, 0, 1.4f, 1.6f, 100, 2.5f), 14,
                 FLOATS(4, 259, 7, 8, 9, 107, 9, -3, 252, 0, 1, 2, 100, 2));

    b = begin(DIMS(-1, 7));
    static const uint8_t zero[1] = {10};
    builder_add_initializer(b, builder_tensor(b, "zero", ONNX__TENSOR_PROTO__DATA_TYPE__INT8, 0, NULL));
    builder_raw(b, b->initializers[0], zero, sizeof(zero));
    builder_floats(b, "scale", 0, NULL, FLOATS(0.5f));
    builder_node(b, "QuantizeLinear", "x,scale,zero", "q");
    builder_node(b, "DequantizeLinear", "q,scale,zero", "y"); /* -128 to 127 less 10, times 0.5 */
    check_values(b, 7, FLOATS(-100, 100, 0.2f, 0.25f, 0.3f, -0.75f, 1), 7,
                 FLOATS(-69, 58.5f, 0, 0, 0.5f, -1, 1));
}

/* `count` numbers, 1, 2, ..., as `channels` x pixels x windows, put into an image of `image` by blocks of
 * `block`. */
static Onnx__NodeProto *into_image(struct builder **b, int count, int rows, const int64_t *image,
                                   const int64_t *block)
{
    *b = begin(DIMS(-1, count));
    builder_ints(*b, "windows", 3, (const int64_t[]){0, rows, -1});
    builder_ints(*b, "image", 2, image);
    builder_ints(*b, "block", 2, block);
    builder_node(*b, "Reshape", "x,windows", "w");
    Onnx__NodeProto *node = builder_node(*b, "Col2Im", "w,image,block", "i");
    builder_node(*b, "Flatten", "i", "y");
    return node;
}

Test(backend_batches, windows_that_are_put_back)
{
    float numbers[24];
    for (int i = 0; i < 24; i++)
        numbers[i] = (float)(i + 1);
    struct builder *b;
    Onnx__NodeProto *node = into_image(&b, 16, 4, (int64_t[]){4, 4}, (int64_t[]){2, 2});
    builder_list(b, node, "strides", DIMS(2, 2));
    check_values(b, 16, numbers, 16, FLOATS(1, 5, 2, 6, 9, 13, 10, 14, 3, 7, 4, 8, 11, 15, 12, 16));

    into_image(&b, 16, 4, (int64_t[]){3, 3}, (int64_t[]){2, 2}); /* they overlap */
    check_values(b, 16, numbers, 9, FLOATS(1, 7, 6, 12, 34, 22, 11, 27, 16));

    node = into_image(&b, 24, 4, (int64_t[]){3, 2}, (int64_t[]){2, 1}); /* two channels */
    builder_list(b, node, "dilations", DIMS(2, 1));
    builder_list(b, node, "pads", DIMS(1, 0, 1, 0));
    check_values(b, 24, numbers, 12, FLOATS(3, 4, 12, 14, 9, 10, 15, 16, 36, 38, 21, 22));

    node =
        into_image(&b, 8, 4, (int64_t[]){3, 5}, (int64_t[]){2, 2}); /* the image has more than its windows */
    builder_list(b, node, "strides", DIMS(2, 2));
    check_values(b, 8, numbers, 15, FLOATS(1, 3, 2, 4, 0, 5, 7, 6, 8, 0, 0, 0, 0, 0, 0));
}

/* Windows of an image lie along the batch; the image has one range. */
static struct builder *quantized_windows(void)
{
    struct builder *b = begin(DIMS(-1, 6));
    builder_ints(b, "windows", DIMS(-1, 2));
    builder_ints(b, "rows", DIMS(-1, 6));
    builder_node(b, "Reshape", "x,windows", "w");
    builder_node(b, "DynamicQuantizeLinear", "w", "q,s,z");
    builder_node(b, "DequantizeLinear", "q,s,z", "d");
    builder_node(b, "Add", "d,z", "e");
    builder_node(b, "Reshape", "e,rows", "y");
    return b;
}

Test(backend_batches, windows_that_are_quantised)
{
    check_values(quantized_windows(), 6, FLOATS(-3, 252, 0, 1.4f, 1.6f, 100), 6,
                 FLOATS(0, 255, 3, 4, 5, 103));
    check_batch(quantized_windows(), DIMS(-1, 6));
}

Test(backend_batches, a_pool_that_is_larger_than_its_image)
{
    for (int padded = 0; padded < 2; padded++) {
        struct builder *b = begin(DIMS(-1, 6));
        builder_ints(b, "image", DIMS(0, 1, 2, 3));
        builder_node(b, "Reshape", "x,image", "i");
        Onnx__NodeProto *node = builder_node(b, "AveragePool", "i", "p");
        builder_list(b, node, "kernel_shape", DIMS(9, 9));
        builder_list(b, node, "strides", DIMS(9, 9));
        builder_list(b, node, "pads", DIMS(padded, 0, padded, 0));
        builder_int(b, node, "ceil_mode", 1);
        builder_int(b, node, "count_include_pad", 1);
        builder_node(b, "Flatten", "p", "y");
        check_values(b, 6, FLOATS(1, 2, 3, 4, 5, 9), 1, padded ? FLOATS(2) : FLOATS(4)); /* 24 / 12, 24 / 6 */
    }
}
