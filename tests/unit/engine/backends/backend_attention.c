/* Attention as exporters write it. With fp16 it is one kernel on a GPU of sm_90, and what cuts images into
 * windows, rolls them, or puts the batch between rows and channels moves nothing there. */
#include "tests/unit/engine/backends/backend_rows.h"

TestSuite(backend_attention, .init = open_rows, .fini = close_backend, .timeout = 300);

enum form {
    SCALED_QUERIES,
    SCALED_PRODUCT, /* with the bias of Swin added behind */
    SCALED_SUM,     /* of product and bias: no kernel does that */
    READ_PRODUCT,   /* which is an output of the network, too */
    EINSUM,         /* heads are counted with the images by both products, and not by the softmax */
};

/* Self-attention of rows of T x channels, as timm's networks are exported: queries, keys and values take each
 * their part of one transposition. */
static int add_attention(struct convoy_graph *graph, int x, int64_t heads, enum form form)
{
    const struct convoy_shape rows = *shape_of(graph, x);
    int64_t T = rows.dims[1], C = rows.dims[2], D = C / heads;
    int y = add_reshape(graph, add_rows_dense(graph, x, 3 * C), SHAPE(1, T, 3, heads, D)), part[3];
    y = add_transpose(graph, y, (const int[]){2, 0, 3, 1, 4});
    for (int i = 0; i < 3; i++)
        part[i] = add_reshape(graph, add_slice(graph, y, 0, i, 1), SHAPE(1, heads, T, D));
    int scale = add_constant(graph, FIXED(1), 0);
    graph->tensors[scale].data[0] = 0.4f;
    part[1] = add_transpose(graph, part[1], (const int[]){0, 1, 3, 2});
    if (form == SCALED_QUERIES || form == READ_PRODUCT)
        part[0] = add_binary(graph, part[0], scale, CONVOY_MUL);
    const struct convoy_shape scores = SHAPE(1, heads, T, T);
    for (int i = 0; i < 3 && form == EINSUM; i++)
        part[i] = add_reshape(graph, part[i], i == 1 ? SHAPE(heads, D, T) : SHAPE(heads, T, D));
    int s = add_activation(graph, form == EINSUM ? SHAPE(heads, T, T) : scores);
    add_node(graph, CONVOY_OP_MATMUL, s, 2, (int[]){part[0], part[1]});
    if (form == READ_PRODUCT)
        add_output(graph, s);
    if (form == EINSUM)
        s = add_reshape(graph, s, scores);
    if (form == SCALED_PRODUCT || form == EINSUM)
        s = add_binary(graph, s, scale, CONVOY_MUL);
    if (form == SCALED_PRODUCT || form == SCALED_SUM || form == EINSUM)
        s = add_binary(graph, s, add_constant(graph, FIXED(1, heads, T, T), 2), CONVOY_ADD);
    if (form == SCALED_SUM)
        s = add_binary(graph, s, scale, CONVOY_MUL);
    s = add_softmax(graph, s, 3, 4);
    if (form == EINSUM)
        s = add_reshape(graph, s, SHAPE(heads, T, T));
    y = add_activation(graph, form == EINSUM ? SHAPE(heads, T, D) : SHAPE(1, heads, T, D));
    add_node(graph, CONVOY_OP_MATMUL, y, 2, (int[]){s, part[2]});
    if (form == EINSUM)
        y = add_reshape(graph, y, SHAPE(1, heads, T, D));
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

Test(backend_attention, as_timm_has_it)
{
    check_layers(transformer(48, 3, SCALED_QUERIES), 2, 0);
    check_layers(transformer(48, 2, SCALED_PRODUCT), 2, 0);
    check_layers(transformer(48, 2, SCALED_SUM), 0, -1);
    check_layers(transformer(48, 2, READ_PRODUCT), 0, -1);
    check_layers(transformer(48, 2, EINSUM), 2, 0);
    check_layers(transformer(20, 2, SCALED_QUERIES), 0, -1); /* 10 channels of a head */
    check_graph_as(transformer(48, 3, SCALED_PRODUCT), CONVOY_COMPUTE_FP32, 1e-4);
}

/* As transformers' networks come from PyTorch's older exporter: queries, keys and values have layers of their
 * own, and the keys' one transposition takes heads to the front and channels before rows. */
static int add_attention_apart(struct convoy_graph *graph, int x, int64_t heads)
{
    const struct convoy_shape rows = *shape_of(graph, x);
    int64_t T = rows.dims[1], C = rows.dims[2], D = C / heads;
    const int by_heads[] = {0, 2, 1, 3}, turned[] = {0, 2, 3, 1};
    int part[3], scale = add_constant(graph, FIXED(1), 0);
    graph->tensors[scale].data[0] = 0.6f;
    for (int i = 0; i < 3; i++) {
        part[i] = add_reshape(graph, add_rows_dense(graph, x, C), SHAPE(1, T, heads, D));
        part[i] = add_transpose(graph, part[i], i == 1 ? turned : by_heads);
        if (i < 2)
            part[i] = add_binary(graph, part[i], scale, CONVOY_MUL);
    }
    int s = add_activation(graph, SHAPE(1, heads, T, T));
    add_node(graph, CONVOY_OP_MATMUL, s, 2, part);
    int y = add_activation(graph, SHAPE(1, heads, T, D));
    add_node(graph, CONVOY_OP_MATMUL, y, 2, (int[]){add_softmax(graph, s, 3, 4), part[2]});
    return add_rows_dense(graph, add_reshape(graph, add_transpose(graph, y, by_heads), rows), C);
}

Test(backend_attention, as_transformers_have_it)
{
    struct convoy_conv patches = {.groups = 1, .stride = {5, 5}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 15, 15));
    int x = add_conv(graph, graph->input, 48, 5, 5, patches, true);
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, 48, 9)), (const int[]){0, 2, 1});
    for (int layer = 0; layer < 2; layer++)
        x = add_binary(graph, x, add_attention_apart(graph, add_normalize(graph, x, false), 3), CONVOY_ADD);
    add_output(graph, add_classifier(graph, add_normalize(graph, x, false)));
    check_kernels(graph, 2, 0, 0, 0);
}

/* As torchvision has it: batch within rows, and queries, keys and values of 1 x T x N x C. */
static int add_attention_within_rows(struct convoy_graph *graph, int x, int64_t heads)
{
    const struct convoy_shape rows = *shape_of(graph, x);
    const int swap[] = {1, 0, 2}, swap_behind[] = {0, 2, 1, 3};
    int64_t T = rows.dims[1], C = rows.dims[2], D = C / heads;
    struct convoy_shape packed = {.rank = 5, .batch_axis = 2, .dims = {1, T, 1, 3, C}};
    struct convoy_shape apart = {.rank = 4, .batch_axis = 2, .dims = {3, T, 1, C}};
    struct convoy_shape by_heads = {.rank = 3, .batch_axis = 1, .dims = {T, heads, D}};
    struct convoy_shape mixed = {.rank = 4, .batch_axis = 2, .dims = {1, T, 1, C}};
    int y = add_reshape(graph, add_transpose(graph, x, swap), SHAPE(T, C)), part[3];
    y = add_reshape(graph, add_dense(graph, y, 3 * C, true), packed);
    y = add_reshape(graph, add_transpose(graph, y, (const int[]){3, 1, 2, 0, 4}), apart);
    for (int i = 0; i < 3; i++) {
        part[i] = add_reshape(graph, add_slice(graph, y, 0, i, 1), by_heads);
        part[i] = add_reshape(graph, add_transpose(graph, part[i], swap), SHAPE(1, heads, T, D));
    }
    int scale = add_constant(graph, FIXED(1), 0);
    graph->tensors[scale].data[0] = 0.6f;
    part[0] = add_binary(graph, part[0], scale, CONVOY_MUL);
    part[1] = add_binary(graph, add_transpose(graph, part[1], (const int[]){0, 1, 3, 2}), scale, CONVOY_MUL);
    int s = add_activation(graph, SHAPE(1, heads, T, T));
    add_node(graph, CONVOY_OP_MATMUL, s, 2, part);
    y = add_activation(graph, SHAPE(1, heads, T, D));
    add_node(graph, CONVOY_OP_MATMUL, y, 2, (int[]){add_softmax(graph, s, 3, 4), part[2]});
    y = add_reshape(graph, add_transpose(graph, y, (const int[]){2, 0, 1, 3}), mixed);
    y = add_reshape(graph, add_transpose(graph, y, swap_behind), SHAPE(T, C));
    struct convoy_shape back = {.rank = 4, .batch_axis = 1, .dims = {1, 1, T, C}};
    y = add_transpose(graph, add_reshape(graph, add_dense(graph, y, C, true), back), swap_behind);
    struct convoy_shape outside = {.rank = 3, .batch_axis = 1, .dims = {T, 1, C}};
    return add_transpose(graph, add_reshape(graph, y, outside), swap);
}

/* The token of a class before the patches: zeros and a constant. */
static int add_token(struct convoy_graph *graph, int x)
{
    int64_t T = shape_of(graph, x)->dims[1], C = shape_of(graph, x)->dims[2];
    int flat = add_reshape(graph, x, SHAPE(1, T * C));
    int token = add_activation(graph, SHAPE(1, C));
    struct convoy_node *node = add_node(graph, CONVOY_OP_PAD, token, 1, &flat);
    node->pad.before[1] = -T * C;
    node->pad.after[1] = C;
    token = add_reshape(graph, token, SHAPE(1, 1, C));
    token = add_binary(graph, token, add_constant(graph, FIXED(1, 1, C), 1), CONVOY_ADD);
    x = add_concat(graph, 2, (const int[]){token, x}, 1);
    return add_binary(graph, x, add_constant(graph, FIXED(1, T + 1, C), 1), CONVOY_ADD);
}

static struct convoy_graph *vision_transformer(int64_t channels, int64_t heads)
{
    struct convoy_conv patches = {.groups = 1, .stride = {16, 12}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 35, 36));
    int x = add_conv(graph, graph->input, channels, 16, 12, patches, true);
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, channels, 6)), (const int[]){0, 2, 1});
    x = add_token(graph, x);
    for (int layer = 0; layer < 2; layer++) {
        int y = add_attention_within_rows(graph, add_normalize(graph, x, false), heads);
        x = add_binary(graph, y, x, CONVOY_ADD);
        y = add_rows_dense(graph, add_normalize(graph, x, false), 2 * channels);
        x = add_binary(graph, x, add_rows_dense(graph, add_act(graph, y, CONVOY_GELU, 0, 0), channels),
                       CONVOY_ADD);
    }
    x = add_slice(graph, add_normalize(graph, x, false), 1, 0, 1);
    add_output(graph, add_classifier(graph, x));
    return graph;
}

Test(backend_attention, as_torchvision_has_it)
{
    check_kernels(vision_transformer(48, 3), 2, 0, 0, 1);
}

/* Two tokens of the last layer are read, in another order, or by something else, too. */
static struct convoy_graph *two_tokens(int64_t one, int64_t other, bool all_are_read)
{
    struct convoy_conv patches = {.groups = 1, .stride = {5, 5}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 15, 15));
    int x = add_conv(graph, graph->input, 48, 5, 5, patches, true);
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, 48, 9)), (const int[]){0, 2, 1});
    int y = add_attention(graph, add_normalize(graph, x, false), 3, SCALED_PRODUCT);
    x = add_binary(graph, x, y, CONVOY_ADD);
    y = add_act(graph, add_rows_dense(graph, add_normalize(graph, x, true), 96), CONVOY_GELU, 0, 0);
    x = add_binary(graph, add_rows_dense(graph, y, 48), x, CONVOY_ADD);
    x = add_binary(graph, x, add_constant(graph, FIXED(48), 1), CONVOY_MUL);
    int tokens[2] = {add_slice(graph, x, 1, one, 1), add_slice(graph, x, 1, other, 1)};
    add_output(graph, add_classifier(graph, add_concat(graph, 2, tokens, 1)));
    if (all_are_read)
        add_output(graph, y);
    return graph;
}

Test(backend_attention, of_which_some_rows_are_read)
{
    check_kernels(two_tokens(7, 2, false), 1, 0, 0, 0);
    check_kernels(two_tokens(1, 0, false), 1, 0, 0, 0);
    check_layers(two_tokens(7, 2, true), 1, 0);
}

/* What is added last is there before attention is, and is kept for as long as all that lies between. */
Test(backend_attention, of_which_a_row_is_added_late)
{
    struct convoy_conv patches = {.groups = 1, .stride = {5, 5}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 15, 15));
    int x = add_conv(graph, graph->input, 48, 5, 5, patches, true);
    x = add_transpose(graph, add_reshape(graph, x, SHAPE(1, 48, 9)), (const int[]){0, 2, 1});
    int y = add_attention(graph, add_normalize(graph, x, false), 3, SCALED_QUERIES);
    y = add_rows_dense(graph, add_act(graph, add_rows_dense(graph, y, 96), CONVOY_GELU, 0, 0), 48);
    /* Large tensors of all rows take whatever memory is free meanwhile. */
    int z = add_rows_dense(graph, x, 24);
    for (int64_t width = 32; width < 700; width *= 2)
        z = add_rows_dense(graph, add_act(graph, z, CONVOY_RELU, 0, 0), width);
    y = add_binary(graph, add_normalize(graph, y, false), x, CONVOY_ADD);
    add_output(graph, add_classifier(graph, add_slice(graph, y, 1, 4, 1)));
    add_output(graph, add_rows_dense(graph, z, 8));
    check_kernels(graph, 1, 0, 1, 0);
}

/* Rows of unit length; of zeros where all are. */
static int add_unit_rows(struct convoy_graph *graph, int x)
{
    const struct convoy_shape shape = *shape_of(graph, x);
    int64_t d = shape.dims[shape.rank - 1];
    int scale = add_constant(graph, FIXED(d), 0), y = add_activation(graph, shape);
    for (int64_t i = 0; i < d; i++)
        graph->tensors[scale].data[i] = 1 / sqrtf((float)d);
    add_node(graph, CONVOY_OP_NORMALIZE, y, 2, (int[]){x, scale})->normalize =
        (struct convoy_normalize){.axis = shape.rank - 1,
                                  .axis_end = shape.rank,
                                  .epsilon = 1e-24F / (float)d,
                                  .rms = true,
                                  .has_scale = true};
    return y;
}

enum cosine {
    NO_COSINE,
    COSINE,         /* Swin v2's */
    COSINE_QUERIES, /* of the queries' rows alone */
    COSINE_SUM,     /* products and bias are multiplied: no kernel does that */
    COSINE_WINDOWS, /* by factors of each window: the same */
    COSINES
};

/* The factors of the heads. */
static int add_factors(struct convoy_graph *graph, int scores, enum cosine cosine)
{
    const int64_t *dims = shape_of(graph, scores)->dims;
    bool of_windows = cosine == COSINE_WINDOWS;
    struct convoy_shape shape = of_windows ? FIXED(1, dims[1], dims[2], 1, 1) : FIXED(dims[1], 1, 1);
    if (of_windows)
        shape.dims[1] = dims[0], shape.dims[2] = dims[1];
    int factors = add_constant(graph, shape, 0);
    int64_t count = convoy_shape_elements(&shape);
    for (int64_t i = 0; i < count; i++)
        graph->tensors[factors].data[i] = 1.5F + 2 * (float)i;
    if (!of_windows)
        return add_binary(graph, scores, factors, CONVOY_MUL);
    const struct convoy_shape before = *shape_of(graph, scores);
    scores =
        add_reshape(graph, scores, SHAPE(1, before.dims[0], before.dims[1], before.dims[2], before.dims[3]));
    return add_reshape(graph, add_binary(graph, scores, factors, CONVOY_MUL), before);
}

/* Of windows of 3 x 3, rolled and masked or not, as Swin has it. */
static int add_window_attention(struct convoy_graph *graph, int x, int64_t heads, bool shifted,
                                enum cosine cosine)
{
    const struct convoy_shape s = *shape_of(graph, x);
    int64_t h = s.dims[1], w = s.dims[2], C = s.dims[3], D = C / heads, T = 9, W = h * w / T;
    for (int axis = 1; axis < 3 && shifted; axis++)
        x = add_roll(graph, x, axis, -1);
    int y = add_dense(graph, add_windows(graph, x, 3), 3 * C, true), part[3];
    const int *layer = graph->nodes[graph->node_count - 1].inputs;
    for (int64_t i = 0; i < D && cosine != NO_COSINE; i++) { /* queries without a direction */
        graph->tensors[layer[2]].data[i] = 0;
        memset(&graph->tensors[layer[1]].data[i * C], 0, (size_t)C * sizeof(float));
    }
    y = add_transpose(graph, add_reshape(graph, y, SHAPE(W, T, 3, heads, D)), (const int[]){2, 0, 3, 1, 4});
    for (int i = 0; i < 3; i++)
        part[i] = add_reshape(graph, add_slice(graph, y, 0, i, 1), SHAPE(W, heads, T, D));
    if (cosine != NO_COSINE)
        part[0] = add_unit_rows(graph, part[0]);
    if (cosine != NO_COSINE && cosine != COSINE_QUERIES)
        part[1] = add_unit_rows(graph, part[1]);
    int scale = add_constant(graph, FIXED(1), 0);
    graph->tensors[scale].data[0] = 0.35f;
    part[0] = add_binary(graph, part[0], scale, CONVOY_MUL);
    part[1] = add_transpose(graph, part[1], (const int[]){0, 1, 3, 2});
    int scores = add_activation(graph, SHAPE(W, heads, T, T));
    add_node(graph, CONVOY_OP_MATMUL, scores, 2, part);
    if (cosine != NO_COSINE && cosine != COSINE_SUM)
        scores = add_factors(graph, scores, cosine);
    scores = add_binary(graph, scores, add_constant(graph, FIXED(1, heads, T, T), 2), CONVOY_ADD);
    if (cosine == COSINE_SUM)
        scores = add_factors(graph, scores, cosine);
    if (shifted) {
        int mask = add_constant(graph, FIXED(1, W, 1, T, T), 1);
        for (int64_t i = 0; i < W * T * T; i++)
            graph->tensors[mask].data[i] = i / T % T != i % T && random_value() > 0.5f ? -100 : 0;
        scores = add_binary(graph, add_reshape(graph, scores, SHAPE(1, W, heads, T, T)), mask, CONVOY_ADD);
        scores = add_reshape(graph, scores, SHAPE(W, heads, T, T));
    }
    y = add_activation(graph, SHAPE(W, heads, T, D));
    add_node(graph, CONVOY_OP_MATMUL, y, 2, (int[]){add_softmax(graph, scores, 3, 4), part[2]});
    y = add_reshape(graph, add_transpose(graph, y, (const int[]){0, 2, 1, 3}), SHAPE(W * T, C));
    y = add_image(graph, add_dense(graph, y, C, true), 3, h, w);
    for (int axis = 1; axis < 3 && shifted; axis++)
        y = add_roll(graph, y, axis, 1);
    return y;
}

/* Every other pixel, from `first` on. */
static int add_strided(struct convoy_graph *graph, int x, int axis, int64_t first)
{
    struct convoy_shape shape = *shape_of(graph, x), apart = shape;
    apart.rank++;
    for (int i = shape.rank; i > axis + 1; i--)
        apart.dims[i] = shape.dims[i - 1];
    apart.dims[axis + 1] = 2;
    apart.dims[axis] = shape.dims[axis] /= 2;
    return add_reshape(graph, add_slice(graph, add_reshape(graph, x, apart), axis + 1, first, 1), shape);
}

static int add_merged_patches(struct convoy_graph *graph, int x)
{
    int part[4];
    for (int i = 0; i < 4; i++)
        part[i] = add_strided(graph, add_strided(graph, x, 1, i % 2), 2, i / 2);
    x = add_normalize(graph, add_concat(graph, 4, part, 3), false);
    return add_rows_dense(graph, x, shape_of(graph, x)->dims[3] / 2);
}

static struct convoy_graph *swin(int64_t channels, int64_t heads, enum cosine cosine)
{
    struct convoy_conv patches = {.groups = 1, .stride = {2, 2}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 12, 24));
    int x = add_conv(graph, graph->input, channels, 2, 2, patches, true);
    x = add_transpose(graph, x, (const int[]){0, 2, 3, 1}); /* 6 x 12 */
    for (int layer = 0; layer < 2; layer++) {
        int y = add_window_attention(graph, add_normalize(graph, x, false), heads, layer == 1, cosine);
        x = add_binary(graph, x, y, CONVOY_ADD);
        y = add_rows_dense(graph, add_normalize(graph, x, false), 2 * channels);
        x = add_binary(graph, x, add_rows_dense(graph, add_act(graph, y, CONVOY_GELU, 0, 0), channels),
                       CONVOY_ADD);
    }
    x = add_merged_patches(graph, x); /* 3 x 6 */
    x = add_binary(graph, x,
                   add_window_attention(graph, add_normalize(graph, x, false), 2 * heads, false, cosine),
                   CONVOY_ADD);
    add_output(graph, add_classifier(graph, x));
    return graph;
}

Test(backend_attention, as_swin_has_it)
{
    check_kernels(swin(32, 2, NO_COSINE), 3, 0, 0, 1);
    check_graph_as(swin(32, 2, NO_COSINE), CONVOY_COMPUTE_FP32, 1e-4);
}

Test(backend_attention, as_swin_v2_has_it)
{
    for (enum cosine cosine = COSINE; cosine < COSINES; cosine++) {
        bool fits = cosine == COSINE || cosine == COSINE_QUERIES;
        check_layers(swin(32, 2, cosine), fits ? 3 : 0, -1);
        check_graph_as(swin(32, 2, cosine), CONVOY_COMPUTE_FP32, 1e-4);
    }
    check_kernels(swin(32, 2, COSINE), 3, 0, 0, 1);
    cr_assert_eq(overflows, 0);
}

/* Of an image that convolutions made and read, as CoAtNet has it: each head has its queries, keys and values
 * side by side. */
static struct convoy_graph *attention_of_images(int64_t heads, int64_t d)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 5, 4));
    int64_t T = 20;
    int x = add_conv(graph, graph->input, heads * d, 1, 1, CONV1, true), part[3];
    int y =
        add_reshape(graph, add_conv(graph, x, 3 * heads * d, 1, 1, CONV1, true), SHAPE(1, heads, 3 * d, T));
    for (int i = 0; i < 3; i++)
        part[i] = add_slice(graph, y, 2, i * d, d);
    int scale = add_constant(graph, FIXED(1), 0);
    graph->tensors[scale].data[0] = 0.5f;
    part[0] = add_binary(graph, add_transpose(graph, part[0], (const int[]){0, 1, 3, 2}), scale, CONVOY_MUL);
    part[1] = add_binary(graph, part[1], scale, CONVOY_MUL);
    part[2] = add_transpose(graph, part[2], (const int[]){0, 1, 3, 2});
    int s = add_activation(graph, SHAPE(1, heads, T, T));
    add_node(graph, CONVOY_OP_MATMUL, s, 2, part);
    s = add_binary(graph, s, add_constant(graph, FIXED(1, heads, T, T), 1), CONVOY_ADD);
    y = add_activation(graph, SHAPE(1, heads, T, d));
    add_node(graph, CONVOY_OP_MATMUL, y, 2, (int[]){add_softmax(graph, s, 3, 4), part[2]});
    y = add_transpose(graph, y, (const int[]){0, 1, 3, 2});
    y = add_conv(graph, add_reshape(graph, y, SHAPE(1, heads * d, 5, 4)), heads * d, 3, 3, CONV3, true);
    add_output(graph, add_classifier(graph, add_binary(graph, x, y, CONVOY_ADD)));
    return graph;
}

Test(backend_attention, of_images)
{
    check_kernels(attention_of_images(3, 16), 1, 0, 0, 0);
    check_kernels(attention_of_images(2, 24), 1, 0, 0, 0);
    check_layers(attention_of_images(2, 12), 0, -1); /* heads of the keys do not begin on 8 channels */
}
