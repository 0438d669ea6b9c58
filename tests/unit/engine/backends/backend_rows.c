/* Networks whose tensors are rows of channels, as those of ConvNeXt, mixers and transformers: with fp16 these
 * are tensors in 16 bits, channels last, of a GPU of sm_90, and transpositions from and to images move
 * nothing. */
#include "tests/unit/engine/backends/backend_rows.h"

TestSuite(backend_rows, .init = open_rows, .fini = close_backend, .timeout = 300);

static const int to_last[] = {0, 2, 3, 1}, to_first[] = {0, 3, 1, 2};

/* A block of ConvNeXt: the sum is of images, what is added to the block's input was made by a dense layer. */
static int add_convnext_block(struct convoy_graph *graph, int x, enum convoy_activation_kind act)
{
    struct convoy_conv depthwise = CONV3;
    int64_t channels = shape_of(graph, x)->dims[1];
    depthwise.groups = channels;
    int y = add_transpose(graph, add_conv(graph, x, channels, 3, 3, depthwise, true), to_last);
    y = add_rows_dense(graph, add_normalize(graph, y, false), 4 * channels);
    y = add_transpose(graph, add_rows_dense(graph, add_act(graph, y, act, 0, 0), channels), to_first);
    y = add_binary(graph, y, add_constant(graph, FIXED(channels, 1, 1), 1), CONVOY_MUL);
    return add_binary(graph, y, x, CONVOY_ADD);
}

static struct convoy_graph *convnext(enum convoy_activation_kind act)
{
    struct convoy_conv stem = {.groups = 1, .stride = {4, 4}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 20, 16));
    int x = add_transpose(graph, add_conv(graph, graph->input, 24, 4, 4, stem, true), to_last);
    x = add_transpose(graph, add_normalize(graph, x, false), to_first);
    x = add_convnext_block(graph, x, act);
    x = add_convnext_block(graph, x, act);
    add_output(graph, add_classifier(graph, x));
    return graph;
}

Test(backend_rows, blocks_of_convnext)
{
    check_graph_as(convnext(CONVOY_GELU), CONVOY_COMPUTE_FP16, TOLERANCE);
    check_graph_as(convnext(CONVOY_GELU_TANH), CONVOY_COMPUTE_FP16, TOLERANCE);
    check_graph_as(convnext(CONVOY_RELU), CONVOY_COMPUTE_FP16, TOLERANCE);
    check_graph_as(convnext(CONVOY_GELU), CONVOY_COMPUTE_FP32, 1e-4);
}

/* Patches as rows behind a row of the network's own, positions added, two layers of a mixer that add what
 * they were given; the classifier reads one row. Channels that fill no pixel. */
static struct convoy_graph *rows_of_patches(int64_t channels, bool rms)
{
    struct convoy_conv patches = {.groups = 1, .stride = {5, 5}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 20, 15));
    int x = add_conv(graph, graph->input, channels, 5, 5, patches, true);
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, channels, 12)), (const int[]){0, 2, 1});
    x = add_binary(graph, x, add_constant(graph, FIXED(1, 12, channels), 1), CONVOY_ADD);
    for (int layer = 0; layer < 2; layer++) {
        int y = add_rows_dense(graph, add_normalize(graph, x, rms), 3 * channels);
        y = add_rows_dense(graph, add_act(graph, y, CONVOY_GELU, 0, 0), channels);
        x = layer == 0 ? add_binary(graph, x, y, CONVOY_ADD) : add_binary(graph, y, x, CONVOY_ADD);
        x = add_binary(graph, x, add_constant(graph, FIXED(channels), 1), CONVOY_ADD);
    }
    add_output(graph, add_classifier(graph, add_normalize(graph, x, rms)));
    return graph;
}

Test(backend_rows, rows_of_patches)
{
    check_graph_as(rows_of_patches(32, false), CONVOY_COMPUTE_FP16, TOLERANCE);
    check_graph_as(rows_of_patches(20, true), CONVOY_COMPUTE_FP16, TOLERANCE);
    check_graph_as(rows_of_patches(150, false), CONVOY_COMPUTE_FP16, TOLERANCE);
    check_graph_as(rows_of_patches(520, true), CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* Far beyond where its formula was fitted: nothing below, the number itself above. */
Test(backend_rows, gelu_of_large_numbers)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 6, 5));
    int x = add_transpose(graph, add_conv(graph, graph->input, 16, 1, 1, CONV1, true), to_last);
    x = add_binary(graph, x, add_constant(graph, FIXED(16), 60), CONVOY_MUL);
    add_output(graph, add_act(graph, x, CONVOY_GELU, 0, 0));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
    cr_assert_eq(overflows, 0);
}

/* What a dense layer made is read by others than the sum, or the sum's other side is made later. */
Test(backend_rows, sums_that_no_layer_can_add)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 6, 5));
    int x = add_transpose(graph, add_conv(graph, graph->input, 16, 1, 1, CONV1, true), to_last);
    int y = add_rows_dense(graph, x, 16);
    int z = add_binary(graph, x, y, CONVOY_ADD);
    z = add_binary(graph, z, y, CONVOY_MUL); /* y again */
    int later = add_rows_dense(graph, z, 16);
    z = add_binary(graph, add_act(graph, later, CONVOY_RELU, 0, 0), add_rows_dense(graph, x, 16), CONVOY_ADD);
    add_output(graph, z);
    add_output(graph, add_transpose(graph, z, to_first));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* Images do not follow each other: row by row, one of each image. */
Test(backend_rows, images_within_rows)
{
    const int swap[] = {1, 0, 2};
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 6, 5));
    int x = add_conv(graph, graph->input, 16, 1, 1, CONV1, true);
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, 16, 30)), (const int[]){0, 2, 1});
    x = add_transpose(graph, x, swap);
    x = add_dense(graph, add_reshape(graph, x, SHAPE(30, 16)), 24, true);
    struct convoy_shape shape = {.rank = 3, .batch_axis = 1, .dims = {30, 1, 24}};
    x = add_transpose(graph, add_reshape(graph, add_act(graph, x, CONVOY_GELU, 0, 0), shape), swap);
    add_output(graph, add_normalize(graph, x, false));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* On a CPU these are pixels of a 1 x 1 convolution, which is faster than a matrix product. */
Test(backend_rows, many_rows_on_a_cpu)
{
    if (strcmp(backend->name, "cpu") != 0)
        cr_skip("this is about the CPU backend");
    if (!__builtin_cpu_supports("avx2"))
        cr_skip("oneDNN has it for AVX2 and AVX-512, which this processor lacks");
    struct convoy_net_info info;
    struct convoy_graph *graph = new_graph(SHAPE(1, 4, 4, 64));
    int x = add_rows_dense(graph, add_reshape(graph, graph->input, SHAPE(1, 16, 64)), 96);
    add_output(graph, x);
    struct convoy_net *net = load(graph, 2, &info);
    bool found = false;
    for (uint32_t i = 0; i < info.layer_count; i++)
        found |= strstr(info.layers[i].kernel, "1x1") != NULL;
    cr_expect(found, "no layer runs as a 1 x 1 convolution");
    backend->unload(device, net);
    check_graph(graph, TOLERANCE);
}
