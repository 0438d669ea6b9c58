/* Each operator of the CPU backend alone, in every variety that changes the code that runs it, against the
 * reference in double precision. */
#include "tests/unit/engine/backends/backend_harness.h"

#define TOLERANCE 1e-5

TestSuite(backend_operators, .init = open_backend, .fini = close_backend, .timeout = 300);

static void check_conv(struct convoy_shape input, int64_t K, int64_t R, int64_t S, struct convoy_conv conv,
                       bool bias)
{
    struct convoy_graph *graph = new_graph(input);
    add_output(graph, add_conv(graph, graph->input, K, R, S, conv, bias));
    check_graph(graph, TOLERANCE);
}

Test(backend_operators, convolutions)
{
    check_conv(SHAPE(1, 3, 9, 7), 5, 3, 3, CONV3, true);
    check_conv(SHAPE(1, 3, 32, 32), 32, 5, 5,
               ((struct convoy_conv){.groups = 1, .stride = {1, 1}, .dilation = {1, 1}, .pad = {2, 2, 2, 2}}),
               true);
    check_conv(SHAPE(1, 16, 8, 8), 32, 1, 1, CONV1, false);
    check_conv(SHAPE(1, 1, 1, 1), 1, 1, 1, CONV1, true);
    check_conv(SHAPE(1, 17, 6, 6), 19, 3, 3, CONV3, true); /* no whole blocks of channels */
}

Test(backend_operators, convolutions_with_strides_pads_and_dilations)
{
    check_conv(SHAPE(1, 8, 11, 10), 16, 3, 3,
               ((struct convoy_conv){.groups = 1, .stride = {2, 2}, .dilation = {1, 1}, .pad = {1, 1, 1, 1}}),
               true);
    check_conv(SHAPE(1, 8, 11, 10), 16, 3, 2,
               ((struct convoy_conv){.groups = 1, .stride = {2, 1}, .dilation = {1, 1}, .pad = {0, 1, 2, 0}}),
               true);
    check_conv(SHAPE(1, 8, 13, 13), 7, 3, 3,
               ((struct convoy_conv){.groups = 1, .stride = {1, 1}, .dilation = {2, 3}, .pad = {2, 3, 2, 3}}),
               true);
    check_conv(SHAPE(1, 4, 5, 5), 8, 1, 1,
               ((struct convoy_conv){.groups = 1, .stride = {2, 2}, .dilation = {1, 1}, .pad = {0, 0, 0, 0}}),
               false);
    check_conv(SHAPE(1, 3, 4, 4), 2, 3, 3, /* more padding than the window reaches */
               ((struct convoy_conv){.groups = 1, .stride = {1, 1}, .dilation = {1, 1}, .pad = {4, 0, 5, 3}}),
               true);
}

Test(backend_operators, convolutions_in_groups)
{
    struct convoy_conv conv = CONV3;
    conv.groups = 2;
    check_conv(SHAPE(1, 8, 7, 7), 6, 3, 3, conv, true);
    conv.groups = 16; /* depthwise */
    check_conv(SHAPE(1, 16, 9, 9), 16, 3, 3, conv, true);
    conv.stride[0] = conv.stride[1] = 2;
    check_conv(SHAPE(1, 16, 9, 9), 16, 3, 3, conv, false);
    conv.groups = 5; /* depthwise with a multiplier, no whole blocks */
    check_conv(SHAPE(1, 5, 9, 9), 15, 3, 3, conv, true);
}

static void check_pool(struct convoy_shape input, struct convoy_pool pool, bool ceil_mode)
{
    struct convoy_graph *graph = new_graph(input);
    add_output(graph, add_pool(graph, graph->input, pool, ceil_mode));
    check_graph(graph, TOLERANCE);
}

/* A pooling behind a convolution reads a blocked layout. */
static void check_pool_blocked(struct convoy_pool pool, bool ceil_mode)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 10, 10));
    int x = add_conv(graph, graph->input, 24, 3, 3, CONV3, true);
    add_output(graph, add_act(graph, add_pool(graph, x, pool, ceil_mode), CONVOY_RELU, 0, 0));
    check_graph(graph, TOLERANCE);
}

static void check_pools(enum convoy_pool_kind kind, bool include)
{
    struct convoy_pool pool = {
        .kind = kind, .window = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}, .count_include_pad = include};
    check_pool(SHAPE(1, 3, 8, 8), pool, false);
    check_pool(SHAPE(1, 3, 7, 9), pool, true); /* hangs over */
    pool.window[0] = pool.window[1] = 3;
    for (int i = 0; i < 4; i++)
        pool.pad[i] = 1;
    check_pool(SHAPE(1, 4, 8, 9), pool, false);
    check_pool(SHAPE(1, 4, 8, 10), pool, true);
    check_pool_blocked(pool, false);
    check_pool_blocked(pool, true);
    pool.pad[0] = 0;
    pool.pad[3] = 2; /* top 0, left 1, bottom 1, right 2 */
    pool.stride[1] = 1;
    check_pool(SHAPE(1, 4, 8, 10), pool, false);
    check_pool(SHAPE(1, 4, 8, 10), pool, true);
    pool.dilation[0] = pool.dilation[1] = 2;
    check_pool(SHAPE(1, 2, 9, 9), pool, false);
    check_pool(SHAPE(1, 2, 9, 10), pool, true);
}

Test(backend_operators, max_pooling)
{
    check_pools(CONVOY_POOL_MAX, false);
}

Test(backend_operators, average_pooling_without_padding)
{
    check_pools(CONVOY_POOL_AVERAGE, false);
}

Test(backend_operators, average_pooling_with_padding)
{
    check_pools(CONVOY_POOL_AVERAGE, true);
}

/* Windows that touch nothing but padding: 0 by loops.h. */
Test(backend_operators, pooling_of_padding_alone)
{
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_MAX, .window = {2, 2}, .stride = {1, 1}, .dilation = {1, 1}, .pad = {2, 2, 2, 2}};
    check_pool(SHAPE(1, 3, 4, 4), pool, false);
    pool.kind = CONVOY_POOL_AVERAGE;
    check_pool(SHAPE(1, 3, 4, 4), pool, false);
    pool.pad[2] = pool.pad[3] = 0; /* before the input only, then behind it only */
    check_pool(SHAPE(1, 3, 4, 4), pool, false);
    pool.pad[0] = pool.pad[1] = 0;
    pool.pad[2] = pool.pad[3] = 2;
    check_pool(SHAPE(1, 3, 4, 4), pool, false);
}

Test(backend_operators, global_pooling)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 9, 7));
    int x = add_conv(graph, graph->input, 33, 3, 3, CONV3, true);
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_AVERAGE, .window = {9, 7}, .stride = {1, 1}, .dilation = {1, 1}};
    x = add_pool(graph, x, pool, false);
    add_output(graph, add_reshape(graph, x, SHAPE(1, 33)));
    check_graph(graph, TOLERANCE);
}

Test(backend_operators, activations)
{
    static const struct convoy_activation kinds[] = {{CONVOY_RELU, 0, 0},
                                                     {CONVOY_LEAKY_RELU, 0.1f, 0},
                                                     {CONVOY_SIGMOID, 0, 0},
                                                     {CONVOY_TANH, 0, 0},
                                                     {CONVOY_CLIP, -0.5f, 0.75f},
                                                     {CONVOY_CLIP, 0.25f, INFINITY},
                                                     {CONVOY_CLIP, -INFINITY, 0.25f},
                                                     {CONVOY_HARD_SIGMOID, 0.2f, 0.5f},
                                                     {CONVOY_HARD_SIGMOID, 1.5f, 0.1f},
                                                     {CONVOY_HARD_SWISH, 0, 0},
                                                     {CONVOY_SWISH, 0, 0}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        /* Alone, fused behind a convolution, and on a tensor that is read again. */
        struct convoy_graph *graph = new_graph(SHAPE(1, 3, 5, 5));
        int alone = add_act(graph, graph->input, kinds[i].kind, kinds[i].alpha, kinds[i].beta);
        int conv = add_conv(graph, alone, 18, 3, 3, CONV3, true);
        int fused = add_act(graph, conv, kinds[i].kind, kinds[i].alpha, kinds[i].beta);
        int again = add_act(graph, fused, kinds[i].kind, kinds[i].alpha, kinds[i].beta);
        int other = add_act(graph, fused, CONVOY_TANH, 0, 0);
        add_output(graph, alone);
        add_output(graph, add_binary(graph, again, other, CONVOY_SUB));
        check_graph(graph, TOLERANCE);
    }
}

Test(backend_operators, dense_layers)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 50));
    int x = add_act(graph, add_dense(graph, graph->input, 37, true), CONVOY_RELU, 0, 0);
    int y = add_dense(graph, x, 37, false);
    y = add_binary(graph, y, x, CONVOY_ADD);
    add_output(graph, add_dense(graph, y, 10, true));
    check_graph(graph, TOLERANCE);

    /* Over images that a convolution left in blocks, whole and not. */
    for (int64_t K = 16; K <= 20; K += 4) {
        graph = new_graph(SHAPE(1, 3, 6, 5));
        x = add_conv(graph, graph->input, K, 3, 3, CONV3, true);
        add_output(graph, add_dense(graph, add_flatten(graph, x), 11, true));
        check_graph(graph, TOLERANCE);
    }
    graph = new_graph(SHAPE(1, 3, 6, 5));
    add_output(graph, add_dense(graph, add_flatten(graph, graph->input), 11, true));
    check_graph(graph, TOLERANCE);
}

/* Rows as in a transformer: fewer and more than become pixels, widths that fill vectors and that do not, with
 * and without bias, an activation behind the first layer and a sum behind the second; and one that others
 * read. */
Test(backend_operators, dense_layers_of_many_rows)
{
    const int64_t rows[] = {3, 15, 16, 49}, widths[] = {5, 8, 13, 24, 64};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            bool bias = (r + w) % 2 == 0;
            struct convoy_graph *graph = new_graph(SHAPE(1, rows[r], widths[w]));
            int x = add_reshape(graph, graph->input, SHAPE(rows[r], widths[w]));
            int y = add_act(graph, add_dense(graph, x, 4 * widths[w] + 3, bias), CONVOY_GELU, 0, 0);
            y = add_binary(graph, add_dense(graph, y, widths[w], !bias), x, CONVOY_ADD);
            y = add_act(graph, y, CONVOY_TANH, 0, 0);
            int last = add_dense(graph, y, 7, bias);
            add_output(graph, add_reshape(graph, last, SHAPE(1, rows[r], 7)));
            add_output(graph, add_reshape(graph, y, SHAPE(1, rows[r], widths[w])));
            if ((r + w) % 3 == 0) /* the sum's operand is needed once more */
                add_output(graph, add_reshape(graph, add_act(graph, x, CONVOY_TANH, 0, 0),
                                              SHAPE(1, rows[r], widths[w])));
            check_graph(graph, TOLERANCE);
        }
}

static void check_matmul(struct convoy_shape a, struct convoy_shape b, struct convoy_shape y)
{
    struct convoy_graph *graph = new_graph(a);
    int output = add_activation(graph, y);
    add_node(graph, CONVOY_OP_MATMUL, output, 2, (int[]){graph->input, add_constant(graph, b, 1)});
    add_output(graph, add_act(graph, output, CONVOY_RELU, 0, 0));
    check_graph(graph, TOLERANCE);
}

Test(backend_operators, matrix_products)
{
    check_matmul(SHAPE(1, 12), FIXED(12, 9), SHAPE(1, 9));
    check_matmul(SHAPE(1, 5, 12), FIXED(12, 9), SHAPE(1, 5, 9));
    check_matmul(SHAPE(1, 3, 5, 12), FIXED(12), SHAPE(1, 3, 5));
    check_matmul(SHAPE(1, 3, 5, 12), FIXED(3, 12, 2), SHAPE(1, 3, 5, 2));

    /* Two activations, and a constant on the left. */
    struct convoy_graph *graph = new_graph(SHAPE(1, 6, 8));
    int turned = add_activation(graph, SHAPE(1, 8, 6));
    struct convoy_node *node = add_node(graph, CONVOY_OP_TRANSPOSE, turned, 1, (int[]){graph->input});
    node->perm[1] = 2;
    node->perm[2] = 1;
    int y = add_activation(graph, SHAPE(1, 6, 6));
    add_node(graph, CONVOY_OP_MATMUL, y, 2, (int[]){graph->input, turned});
    int z = add_activation(graph, SHAPE(1, 4, 6));
    add_node(graph, CONVOY_OP_MATMUL, z, 2, (int[]){add_constant(graph, FIXED(4, 6), 1), y});
    add_output(graph, z);
    check_graph(graph, TOLERANCE);
}

/* x op constant and constant op x, x raw and x behind a convolution. */
static void check_binary(struct convoy_shape constant, bool keep_away_from_zero)
{
    static const enum convoy_binary_kind kinds[] = {CONVOY_ADD, CONVOY_SUB, CONVOY_MUL,  CONVOY_DIV,
                                                    CONVOY_MAX, CONVOY_MIN, CONVOY_LESS, CONVOY_LESS_EQUAL};
    for (int k = 0; k < 8; k++)
        for (int side = 0; side < 2; side++)
            for (int conv = 0; conv < 2; conv++) {
                struct convoy_graph *graph = new_graph(SHAPE(1, 6, 4, 5));
                int x = graph->input;
                if (conv)
                    x = add_conv(graph, x, 6, 3, 3, CONV3, true);
                if (keep_away_from_zero && side == 1 && kinds[k] == CONVOY_DIV)
                    x = add_act(graph, x, CONVOY_CLIP, 0.5f, 9);
                int c = add_constant(graph, constant, 1);
                for (int64_t i = 0; i < convoy_shape_elements(&constant); i++)
                    graph->tensors[c].data[i] += graph->tensors[c].data[i] < 0 ? -0.5f : 0.5f;
                add_output(graph, add_binary(graph, side == 0 ? x : c, side == 0 ? c : x, kinds[k]));
                check_graph(graph, TOLERANCE);
            }
}

Test(backend_operators, binary_functions_with_constants)
{
    check_binary(FIXED(1), true);
    check_binary(FIXED(6, 1, 1), true);
    check_binary(FIXED(1, 6, 1, 1), true);
    check_binary(FIXED(5), true);
    check_binary(FIXED(1, 6, 4, 5), true);
    check_binary(FIXED(1, 1, 4, 1), true);
}

Test(backend_operators, binary_functions_of_two_activations)
{
    static const enum convoy_binary_kind kinds[] = {CONVOY_ADD,   CONVOY_SUB,   CONVOY_MUL,
                                                    CONVOY_DIV,   CONVOY_MAX,   CONVOY_MIN,
                                                    CONVOY_POWER, CONVOY_EQUAL, CONVOY_KEEP};
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_AVERAGE, .window = {6, 6}, .stride = {1, 1}, .dilation = {1, 1}};
    for (int k = 0; k < 9; k++)
        for (int64_t channels = 32; channels >= 20; channels -= 12)
            for (int side = 0; side < 2; side++) {
                /* Equal shapes, and a gate per image and channel, in blocked layouts. */
                struct convoy_graph *graph = new_graph(SHAPE(1, 3, 6, 6));
                int x = add_conv(graph, graph->input, channels, 3, 3, CONV3, true);
                int a = add_act(graph, x, CONVOY_SIGMOID, 0, 0);
                int b = add_conv(graph, x, channels, 1, 1, CONV1, true);
                b = add_act(graph, b, CONVOY_CLIP, 0.5f, 3);
                int gate = add_act(graph, add_pool(graph, b, pool, false), CONVOY_CLIP, 0.25f, 1);
                add_output(graph, add_binary(graph, a, b, kinds[k]));
                add_output(graph, side ? add_binary(graph, gate, b, kinds[k])
                                       : add_binary(graph, b, gate, kinds[k]));
                check_graph(graph, TOLERANCE);
            }
    /* A row against a column of the same image, and a tensor with itself. */
    struct convoy_graph *graph = new_graph(SHAPE(1, 4, 1, 5));
    int column = add_reshape(graph, graph->input, SHAPE(1, 4, 5, 1));
    add_output(graph, add_binary(graph, graph->input, column, CONVOY_MUL));
    add_output(graph, add_binary(graph, column, column, CONVOY_ADD));
    check_graph(graph, TOLERANCE);
}

Test(backend_operators, scale_and_shift)
{
    static const struct convoy_shape shapes[] = {
        {4, 0, {1, 20, 6, 5}}, {3, 0, {1, 20, 6}}, {2, 0, {1, 20}}, {5, 0, {1, 3, 2, 3, 4}}};
    for (int i = 0; i < 4; i++) {
        struct convoy_graph *graph = new_graph(shapes[i]);
        int64_t C = shapes[i].dims[1];
        int y = add_activation(graph, shapes[i]);
        int scale = add_constant(graph, FIXED(C), 1);
        int shift = add_constant(graph, FIXED(C), 1);
        add_node(graph, CONVOY_OP_SCALE_SHIFT, y, 3, (int[]){graph->input, scale, shift});
        add_output(graph, add_act(graph, y, CONVOY_RELU, 0, 0));
        check_graph(graph, TOLERANCE);
    }
}

Test(backend_operators, padding_and_cropping)
{
    static const int64_t amounts[][8] = {{0, 0, 1, 2, 0, 0, 3, 0},
                                         {0, 0, -1, -2, 0, 0, -1, 0},
                                         {0, 1, 2, -1, 0, 2, -2, 1},
                                         {0, 0, 0, 9, 0, 0, 0, -2},
                                         {0, 0, 0, -3, 0, 0, 0, 4}};
    for (int i = 0; i < 5; i++) {
        struct convoy_graph *graph = new_graph(SHAPE(1, 3, 5, 6));
        struct convoy_shape shape = SHAPE(1, 3, 5, 6);
        for (int axis = 0; axis < 4; axis++)
            shape.dims[axis] += amounts[i][axis] + amounts[i][4 + axis];
        int y = add_activation(graph, shape);
        struct convoy_node *node = add_node(graph, CONVOY_OP_PAD, y, 1, (int[]){graph->input});
        memcpy(node->pad.before, amounts[i], 4 * sizeof(int64_t));
        memcpy(node->pad.after, amounts[i] + 4, 4 * sizeof(int64_t));
        add_output(graph, y);
        check_graph(graph, 0);
    }
}

Test(backend_operators, transposes)
{
    static const int perms[][4] = {{0, 2, 3, 1}, {0, 3, 1, 2}, {0, 1, 3, 2}, {2, 0, 1, 3}, {3, 2, 1, 0}};
    for (int i = 0; i < 5; i++)
        for (int conv = 0; conv < 2; conv++) {
            struct convoy_graph *graph = new_graph(SHAPE(1, 3, 5, 6));
            int x = conv ? add_conv(graph, graph->input, 20, 3, 3, CONV3, true) : graph->input;
            struct convoy_shape shape = *shape_of(graph, x);
            for (int axis = 0; axis < 4; axis++) {
                shape.dims[axis] = shape_of(graph, x)->dims[perms[i][axis]];
                if (perms[i][axis] == 0)
                    shape.batch_axis = axis;
            }
            int y = add_activation(graph, shape);
            struct convoy_node *node = add_node(graph, CONVOY_OP_TRANSPOSE, y, 1, &x);
            memcpy(node->perm, perms[i], sizeof(perms[i]));
            add_output(graph, y);
            check_graph(graph, TOLERANCE);
        }
}

static void check_concat(int axis, int64_t channels)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 6, 6));
    int a = add_conv(graph, graph->input, channels, 3, 3, CONV3, true);
    int b = add_conv(graph, graph->input, channels, 1, 1, CONV1, true);
    struct convoy_shape shape = *shape_of(graph, a);
    shape.dims[axis] *= 3;
    int y = add_activation(graph, shape);
    add_node(graph, CONVOY_OP_CONCAT, y, 3, (int[]){a, b, a})->axis = axis;
    add_output(graph, add_conv(graph, y, 8, 1, 1, CONV1, true));
    add_output(graph, a);
    check_graph(graph, TOLERANCE);
}

Test(backend_operators, concatenations)
{
    for (int axis = 1; axis < 4; axis++) {
        check_concat(axis, 16);
        check_concat(axis, 7);
    }
    /* The raw input beside what a convolution made of it. */
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 6, 6));
    int a = add_conv(graph, graph->input, 16, 3, 3, CONV3, true);
    int y = add_activation(graph, SHAPE(1, 19, 6, 6));
    add_node(graph, CONVOY_OP_CONCAT, y, 2, (int[]){graph->input, a})->axis = 1;
    add_output(graph, y);
    check_graph(graph, TOLERANCE);
}

Test(backend_operators, softmax_over_any_axes)
{
    for (int axis = 1; axis < 4; axis++)
        for (int axis_end = axis + 1; axis_end <= 4; axis_end++) {
            struct convoy_graph *graph = new_graph(SHAPE(1, 3, 5, 6));
            int big =
                add_act(graph, graph->input, CONVOY_LEAKY_RELU, 60, 0); /* sums of exponents would overflow */
            add_output(graph, add_softmax(graph, big, axis, axis_end));
            check_graph(graph, TOLERANCE);
        }
    struct convoy_graph *graph = new_graph(SHAPE(1, 10));
    add_output(graph, add_softmax(graph, graph->input, 1, 2));
    check_graph(graph, TOLERANCE);
    for (int axis = 1; axis < 3; axis++) { /* its logarithm, of rows and of columns */
        graph = new_graph(SHAPE(1, 7, 9));
        int big = add_act(graph, graph->input, CONVOY_LEAKY_RELU, 90, 0);
        add_output(graph, add_softmax(graph, big, axis, axis + 1));
        graph->nodes[graph->node_count - 1].softmax.log = true;
        check_graph(graph, TOLERANCE);
    }
}
