/* Residual blocks with a convolution beside them: on a GPU it is a branch of the graph, which may run before,
 * between and after the block's own layers. The emulation tries one order after the other. */
#include "tests/unit/engine/backends/backend_harness.h"

#include <string.h>

#define TOLERANCE 4e-3 /* of the largest output of a row */
#define ORDERS    6    /* as often each network runs */

static void open_fp16(void)
{
    struct convoy_open_options options = {.streams = 2};
    by_largest = true;
    open_backend_with(&options);
}

TestSuite(backend_beside, .init = open_fp16, .fini = close_backend, .timeout = 300);

static int relu(struct convoy_graph *graph, int x)
{
    return add_act(graph, x, CONVOY_RELU, 0, 0);
}

/* What exporters write: the convolution beside the block comes before its layers, or behind them; and it is
 * the sum's first or second side. */
struct written {
    bool before, first;
};

static int add_block(struct convoy_graph *graph, int x, int64_t maps, int64_t stride, struct written written)
{
    struct convoy_conv conv3 = CONV3, beside = CONV1;
    conv3.stride[0] = conv3.stride[1] = beside.stride[0] = beside.stride[1] = stride;
    int other = written.before ? add_conv(graph, x, maps, 1, 1, beside, true) : -1;
    int y = relu(graph, add_conv(graph, x, 2 * maps, 3, 3, conv3, true));
    y = relu(graph, add_conv(graph, y, maps, 1, 1, CONV1, true));
    y = add_conv(graph, y, maps, 3, 3, CONV3, true);
    if (!written.before)
        other = add_conv(graph, x, maps, 1, 1, beside, true);
    return relu(graph, add_binary(graph, written.first ? other : y, written.first ? y : other, CONVOY_ADD));
}

static struct convoy_graph *blocks(struct written written)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 14, 12));
    int x = relu(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true));
    x = add_block(graph, x, 24, 2, written);
    x = add_block(graph, x, 40, 1, written);
    x = add_block(graph, x, 24, 2, written);
    add_output(graph, add_dense(graph, add_flatten(graph, x), 7, true));
    return graph;
}

/* A graph whose first layer is x. */
static struct convoy_graph *start(int *x)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 9, 11));
    *x = relu(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true));
    return graph;
}

/* Adds a dense layer of y as an output, and compares all outputs with the reference's. */
static void check_classifier(struct convoy_graph *graph, int y)
{
    add_output(graph, add_dense(graph, add_flatten(graph, y), 5, true));
    check_graph_of_few(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

Test(backend_beside, before_behind_first_and_second)
{
    for (int i = 0; i < 4; i++)
        for (int order = 0; order < ORDERS; order++)
            check_graph_of_few(blocks((struct written){i / 2, i % 2}), CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* The block's first layer lets its input be converted, and the one beside it reads what was converted. */
Test(backend_beside, behind_a_layer_of_float32)
{
    struct convoy_conv grouped = CONV3;
    grouped.groups = 4;
    for (int order = 0; order < 2 * ORDERS; order++) {
        struct convoy_graph *graph = new_graph(SHAPE(1, 8, 10, 10));
        int x = relu(graph, add_conv(graph, graph->input, 32, 3, 3, CONV3, true));
        x = relu(graph, add_conv(graph, x, 32, 3, 3, grouped, true));
        x = add_block(graph, x, 24, 1, (struct written){order % 2, false});
        check_classifier(graph, x);
    }
}

/* The same where what is converted is a part of a concatenation, whose first part was there before. */
Test(backend_beside, behind_a_layer_of_float32_that_is_concatenated)
{
    struct convoy_conv grouped = CONV3;
    grouped.groups = 4;
    for (int order = 0; order < 2 * ORDERS; order++) {
        struct convoy_graph *graph = new_graph(SHAPE(1, 8, 10, 10));
        int a = relu(graph, add_conv(graph, graph->input, 32, 3, 3, CONV3, true));
        int x = relu(graph, add_conv(graph, a, 32, 3, 3, grouped, true));
        int y = add_block(graph, x, 24, 1, (struct written){order % 2, false});
        int both = add_activation(graph, SHAPE(1, 64, 10, 10));
        add_node(graph, CONVOY_OP_CONCAT, both, 2, (int[]){a, x})->axis = 1;
        add_output(graph, add_conv(graph, both, 16, 1, 1, CONV1, true));
        check_classifier(graph, y);
    }
}

/* Blocks in blocks: while one convolution runs beside others, another one could. */
Test(backend_beside, one_within_another)
{
    for (int order = 0; order < 2 * ORDERS; order++) {
        int x, other = -1;
        struct convoy_graph *graph = start(&x);
        if (order % 4 < 2)
            other = add_conv(graph, x, 40, 1, 1, CONV1, true);
        int y = relu(graph, add_conv(graph, x, 24, 3, 3, CONV3, true));
        y = add_conv(graph, add_block(graph, y, 32, 1, (struct written){order % 2, false}), 40, 1, 1, CONV1,
                     true);
        if (other < 0)
            other = add_conv(graph, x, 40, 1, 1, CONV1, true);
        y = relu(graph, add_binary(graph, y, other, CONVOY_ADD));
        check_classifier(graph, y);
    }
}

/* One reads what is computed while the one before it may run. */
Test(backend_beside, one_that_follows_another)
{
    for (int order = 0; order < 2 * ORDERS; order++) {
        int x;
        struct convoy_graph *graph = start(&x);
        int a = relu(graph, add_conv(graph, x, 24, 3, 3, CONV3, true));
        int b = relu(graph, add_conv(graph, a, 24, 3, 3, CONV3, true));
        b = add_conv(graph, b, 32, 1, 1, CONV1, true);
        int y = relu(graph, add_binary(graph, b, add_conv(graph, x, 32, 1, 1, CONV1, true), CONVOY_ADD));
        int other = add_conv(graph, a, 40, 1, 1, CONV1, true);
        y = relu(graph, add_conv(graph, y, 16, 3, 3, CONV3, true));
        y = add_conv(graph, y, 40, 1, 1, CONV1, true);
        y = relu(graph, add_binary(graph, y, other, CONVOY_ADD));
        check_classifier(graph, y);
    }
}

/* One begins before the sum that the one before it is for, and is for a later sum. */
Test(backend_beside, two_that_cross)
{
    for (int order = 0; order < 2 * ORDERS; order++) {
        int x;
        struct convoy_graph *graph = start(&x);
        int one = add_conv(graph, x, 32, 1, 1, CONV1, true);
        int a = relu(graph, add_conv(graph, x, 24, 3, 3, CONV3, true));
        int other = add_conv(graph, a, 40, 1, 1, CONV1, true);
        int b = add_conv(graph, a, 32, 1, 1, CONV1, true);
        int y = relu(graph, add_binary(graph, b, one, CONVOY_ADD));
        y = add_conv(graph, y, 40, 3, 3, CONV3, true);
        y = relu(graph, add_binary(graph, y, other, CONVOY_ADD));
        check_classifier(graph, y);
    }
}

/* The block's own layers read it, too: it runs in its turn. */
Test(backend_beside, one_that_others_read)
{
    for (int order = 0; order < ORDERS; order++) {
        int x;
        struct convoy_graph *graph = start(&x);
        int a = relu(graph, add_conv(graph, x, 24, 3, 3, CONV3, true));
        int other = add_conv(graph, x, 40, 1, 1, CONV1, true);
        int c = relu(graph, add_conv(graph, other, 24, 3, 3, CONV3, true));
        int y = add_conv(graph, add_binary(graph, a, c, CONVOY_MUL), 40, 1, 1, CONV1, true);
        y = relu(graph, add_binary(graph, y, other, CONVOY_ADD));
        check_classifier(graph, y);
    }
}

/* The sum belongs to the block's last layer: the other convolution waits for nothing in the block. */
Test(backend_beside, the_last_layer_of_the_block_adds)
{
    for (int i = 0; i < 4; i++) {
        struct convoy_graph *graph = new_graph(SHAPE(1, 16, 8, 8));
        struct convoy_net_info info;
        add_output(graph, add_block(graph, relu(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true)),
                                    24, 1, (struct written){i / 2, i % 2}));
        struct convoy_net *net = load_as(graph, 2, CONVOY_COMPUTE_FP16, &info);
        int adding = -1;
        for (uint32_t k = 0; k < info.layer_count; k++)
            if (strstr(info.layers[k].kernel, "+add") != NULL)
                adding = (int)k;
        if (strncmp(info.layers[0].kernel, "nhwc", 4) == 0) { /* of a GPU */
            cr_assert_eq(adding, (int)info.layer_count - 1, "%d: layer %d adds", i, adding);
            cr_assert_str_eq(info.layers[adding].name, graph->nodes[i / 2 ? 7 : 6].name);
        }
        backend->unload(device, net);
        convoy_graph_free(graph);
    }
}
