/* Networks whose tensors are rows of channels, as those of ConvNeXt, mixers and transformers: with fp16 these
 * are tensors in 16 bits, channels last, of a GPU of sm_90, and transpositions from and to images move
 * nothing. */
#include "tests/unit/engine/backends/backend_harness.h"

#define TOLERANCE 4e-3 /* of the largest output of a row, as in backend_fp16.c */

static void open_rows(void)
{
    by_largest = true;
    open_backend();
}

TestSuite(backend_rows, .init = open_rows, .fini = close_backend, .timeout = 300);

static int add_transpose(struct convoy_graph *graph, int x, const int *perm)
{
    struct convoy_shape shape = *shape_of(graph, x);
    for (int i = 0; i < shape.rank; i++) {
        shape.dims[i] = shape_of(graph, x)->dims[perm[i]];
        if (perm[i] == shape_of(graph, x)->batch_axis)
            shape.batch_axis = i;
    }
    int y = add_activation(graph, shape);
    memcpy(add_node(graph, CONVOY_OP_TRANSPOSE, y, 1, &x)->perm, perm, (size_t)shape.rank * sizeof(perm[0]));
    return y;
}

/* Along the last axis. */
static int add_normalize(struct convoy_graph *graph, int x, bool rms)
{
    const struct convoy_shape *shape = shape_of(graph, x);
    int axis = shape->rank - 1;
    int64_t channels = shape->dims[axis];
    int inputs[3] = {x, add_constant(graph, FIXED(channels), 1), add_constant(graph, FIXED(channels), 1)};
    int y = add_activation(graph, *shape_of(graph, x));
    add_node(graph, CONVOY_OP_NORMALIZE, y, rms ? 2 : 3, inputs)->normalize =
        (struct convoy_normalize){.axis = axis,
                                  .axis_end = axis + 1,
                                  .epsilon = 1e-3f,
                                  .rms = rms,
                                  .has_scale = true,
                                  .has_shift = !rms};
    return y;
}

/* Rows of T x C for each image, whatever the tensor's shape, to as many of K, and back to the shape. */
static int add_rows_dense(struct convoy_graph *graph, int x, int64_t K)
{
    struct convoy_shape shape = *shape_of(graph, x);
    int64_t channels = shape.dims[shape.rank - 1];
    int rows = add_reshape(graph, x, SHAPE(convoy_shape_elements(&shape) / channels, channels));
    shape.dims[shape.rank - 1] = K;
    return add_reshape(graph, add_dense(graph, rows, K, true), shape);
}

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

static int add_classifier(struct convoy_graph *graph, int x)
{
    return add_dense(graph, add_flatten(graph, x), 11, true);
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

enum form {
    SCALED_QUERIES,
    SCALED_PRODUCT, /* with the bias of Swin added behind */
    SCALED_SUM,     /* of product and bias: no kernel does that */
    READ_PRODUCT,   /* which is an output of the network, too */
};

/* Self-attention of rows of T x channels, as timm's networks are exported: queries, keys and values take each
 * their part of one transposition. */
static int add_attention(struct convoy_graph *graph, int x, int64_t heads, enum form form)
{
    const struct convoy_shape rows = *shape_of(graph, x);
    int64_t T = rows.dims[1], C = rows.dims[2], D = C / heads;
    int y = add_reshape(graph, add_rows_dense(graph, x, 3 * C), SHAPE(1, T, 3, heads, D)), part[3];
    y = add_transpose(graph, y, (const int[]){2, 0, 3, 1, 4});
    for (int i = 0; i < 3; i++) {
        struct convoy_shape shape = *shape_of(graph, y);
        shape.dims[0] = 1;
        int slice = add_activation(graph, shape);
        struct convoy_node *node = add_node(graph, CONVOY_OP_PAD, slice, 1, &y);
        node->pad.before[0] = -i;
        node->pad.after[0] = i - 2;
        part[i] = add_reshape(graph, slice, SHAPE(1, heads, T, D));
    }
    int scale = add_constant(graph, FIXED(1), 0);
    graph->tensors[scale].data[0] = 0.4f;
    part[1] = add_transpose(graph, part[1], (const int[]){0, 1, 3, 2});
    if (form == SCALED_QUERIES || form == READ_PRODUCT)
        part[0] = add_binary(graph, part[0], scale, CONVOY_MUL);
    int s = add_activation(graph, SHAPE(1, heads, T, T));
    add_node(graph, CONVOY_OP_MATMUL, s, 2, (int[]){part[0], part[1]});
    if (form == READ_PRODUCT)
        add_output(graph, s);
    if (form == SCALED_PRODUCT)
        s = add_binary(graph, s, scale, CONVOY_MUL);
    if (form == SCALED_PRODUCT || form == SCALED_SUM)
        s = add_binary(graph, s, add_constant(graph, FIXED(1, heads, T, T), 2), CONVOY_ADD);
    if (form == SCALED_SUM)
        s = add_binary(graph, s, scale, CONVOY_MUL);
    s = add_softmax(graph, s, 3, 4);
    y = add_activation(graph, SHAPE(1, heads, T, D));
    add_node(graph, CONVOY_OP_MATMUL, y, 2, (int[]){s, part[2]});
    y = add_reshape(graph, add_transpose(graph, y, (const int[]){0, 2, 1, 3}), rows);
    return add_rows_dense(graph, y, C);
}

static struct convoy_graph *transformer(int64_t channels, int64_t heads, enum form form)
{
    struct convoy_conv patches = {.groups = 1, .stride = {5, 5}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 15, 15)); /* 9 rows: those of the bias have a gap */
    int x = add_conv(graph, graph->input, channels, 5, 5, patches, true);
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, channels, 9)), (const int[]){0, 2, 1});
    for (int layer = 0; layer < 2; layer++)
        x = add_binary(graph, x, add_attention(graph, add_normalize(graph, x, false), heads, form),
                       CONVOY_ADD);
    add_output(graph, add_classifier(graph, add_normalize(graph, x, false)));
    return graph;
}

/* Layers of the graph that the kernel computes, in fp16 on a GPU of sm_90. */
static void check_attention(struct convoy_graph *graph, int expected)
{
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, 2, CONVOY_COMPUTE_FP16, &info);
    int attention = 0, nhwc = 0;
    for (uint32_t i = 0; i < info.layer_count; i++) {
        attention += strcmp(info.layers[i].kernel, "nhwc_attention") == 0;
        nhwc += strncmp(info.layers[i].kernel, "nhwc", 4) == 0;
    }
    cr_assert(nhwc == 0 || attention == expected, "%d layers are attention", attention);
    backend->unload(device, net);
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

Test(backend_rows, attention)
{
    check_attention(transformer(48, 3, SCALED_QUERIES), 2);
    check_attention(transformer(48, 2, SCALED_PRODUCT), 2);
    check_attention(transformer(48, 2, SCALED_SUM), 0);
    check_attention(transformer(48, 2, READ_PRODUCT), 0);
    check_attention(transformer(20, 2, SCALED_QUERIES), 0); /* 10 channels of a head */
    check_graph_as(transformer(48, 3, SCALED_PRODUCT), CONVOY_COMPUTE_FP32, 1e-4);
}
