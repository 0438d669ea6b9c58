/* Layers that need not wait for each other: on a GPU they are branches of a graph, which the emulation runs
 * in any order that the graph allows, another one each time. */
#include "tests/unit/engine/backends/backend_harness.h"

#include <stdlib.h>
#include <string.h>

#define TOLERANCE 4e-3 /* of the largest output of a row */
#define ORDERS    6    /* as often each network runs */

static void open_branches(void)
{
    struct convoy_open_options options = {.streams = 2};
    setenv("CONVOY_BRANCHES", "branches", 1);
    by_largest = true;
    open_backend_with(&options);
}

TestSuite(backend_branches, .init = open_branches, .fini = close_backend, .timeout = 300);

static int conv(struct convoy_graph *graph, int x, int64_t maps, int64_t side)
{
    struct convoy_conv shape = CONV1;
    shape.pad[0] = shape.pad[1] = shape.pad[2] = shape.pad[3] = side / 2;
    return add_act(graph, add_conv(graph, x, maps, side, side, shape, true), CONVOY_RELU, 0, 0);
}

static int pool(struct convoy_graph *graph, int x)
{
    struct convoy_pool three = {
        .kind = CONVOY_POOL_MAX, .window = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .pad = {1, 1, 1, 1}};
    return add_pool(graph, x, three, false);
}

static struct convoy_graph *start(int *x)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 9, 11));
    *x = conv(graph, graph->input, 16, 3);
    return graph;
}

static void check_classifier(struct convoy_graph *graph, int y)
{
    add_output(graph, add_dense(graph, add_flatten(graph, add_global_average(graph, y)), 5, true));
    check_graph_of_few(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* GoogLeNet's module: four branches of one or two layers. */
static int add_module(struct convoy_graph *graph, int x, int64_t maps)
{
    int a = conv(graph, x, maps, 1);
    int b = conv(graph, conv(graph, x, maps / 2, 1), maps, 3);
    int c = conv(graph, conv(graph, x, 8, 1), maps / 2, 5);
    int d = conv(graph, pool(graph, x), 8, 1);
    return add_concat(graph, 4, (int[]){a, b, c, d}, 1);
}

Test(backend_branches, modules_that_follow_each_other)
{
    for (int order = 0; order < ORDERS; order++) {
        int x;
        struct convoy_graph *graph = start(&x);
        for (int i = 0; i < 3; i++)
            x = add_module(graph, x, 16 + 8 * i);
        check_classifier(graph, x);
    }
}

/* Inception's last modules: branches that branch once more, and more of them than lanes. */
Test(backend_branches, branches_of_branches)
{
    for (int order = 0; order < ORDERS; order++) {
        int x;
        struct convoy_graph *graph = start(&x);
        for (int i = 0; i < 2; i++) {
            int parts[8], stem = conv(graph, x, 16, 1), other = conv(graph, conv(graph, x, 8, 1), 16, 3);
            parts[0] = conv(graph, x, 24, 1);
            parts[1] = conv(graph, stem, 16, 3);
            parts[2] = conv(graph, stem, 8, 1);
            parts[3] = add_concat(graph, 2, (int[]){conv(graph, other, 8, 3), conv(graph, other, 16, 1)}, 1);
            parts[4] = conv(graph, pool(graph, x), 8, 1);
            for (int k = 5; k < 8; k++)
                parts[k] = conv(graph, x, 8, 1);
            x = add_concat(graph, 8, parts, 1);
        }
        check_classifier(graph, x);
    }
}

/* Two tensors are there from the beginning to the end, which exchange what they found: there is no place at
 * which one tensor alone is, and more layers than a region has. */
Test(backend_branches, two_that_go_on_side_by_side)
{
    for (int order = 0; order < ORDERS; order++) {
        int x, other;
        struct convoy_graph *graph = start(&x);
        other = conv(graph, x, 24, 1);
        for (int i = 0; i < 18; i++) {
            int from = add_conv(graph, other, 16, 1, 1, CONV1, true), to = conv(graph, other, 24, 3);
            other = add_binary(graph, to, add_conv(graph, x, 24, 1, 1, CONV1, true), CONVOY_ADD);
            x = add_act(graph, add_binary(graph, conv(graph, x, 16, 3), from, CONVOY_ADD), CONVOY_RELU, 0, 0);
        }
        check_classifier(graph, add_concat(graph, 2, (int[]){x, other}, 1));
    }
}

/* Zeros around the plane are an operator of their own. */
static int padded(struct convoy_graph *graph, int x, int64_t maps)
{
    struct convoy_shape shape = *shape_of(graph, x);
    shape.dims[2] += 2;
    shape.dims[3] += 2;
    int y = add_activation(graph, shape);
    struct convoy_node *node = add_node(graph, CONVOY_OP_PAD, y, 1, &x);
    for (int axis = 2; axis < 4; axis++)
        node->pad.before[axis] = node->pad.after[axis] = 1;
    return add_act(graph, add_conv(graph, y, maps, 3, 3, CONV1, true), CONVOY_RELU, 0, 0);
}

static int random_below(int end)
{
    int number = (int)(((double)random_value() + 1) / 2 * end);
    return number < 0 ? 0 : number < end ? number : end - 1;
}

/* An operator that is added to a random network, of tensors that are there, all of 9 x 11 pixels. */
static int add_random(struct convoy_graph *graph, const int *tensors, int count)
{
    int x = tensors[random_below(count)], other = tensors[random_below(count)];
    int64_t maps = 8 * (1 + random_below(4));
    switch (random_below(8)) {
    case 0:
        return pool(graph, x);
    case 7:
        return padded(graph, x, maps);
    case 1:
        return add_concat(graph, 2, (int[]){x, other}, 1);
    case 2:
        return add_binary(graph, x, add_conv(graph, other, shape_of(graph, x)->dims[1], 1, 1, CONV1, true),
                          CONVOY_ADD);
    case 3:
        return add_binary(graph, conv(graph, x, maps, 1), conv(graph, other, maps, 1), CONVOY_MUL);
    case 4:
        return conv(graph, x, maps, 3);
    default:
        return conv(graph, x, maps, 1);
    }
}

#define ROWS 3

/* Loads the network, with or without branches, and runs it on the same rows so often; the outputs of each run
 * one after the other. */
static float *run_with(const struct convoy_graph *graph, const char *branches, int times)
{
    struct convoy_net_info info;
    setenv("CONVOY_BRANCHES", branches, 1);
    struct convoy_net *net = load_as(graph, ROWS, CONVOY_COMPUTE_FP16, &info);
    size_t elements = (size_t)info.channels * info.height * info.width, outputs = ROWS * info.outputs_per_row;
    float *input = (float *)aligned_bytes(ROWS * elements * sizeof(float));
    float *all = malloc((size_t)times * outputs * sizeof(float));
    double *values = malloc(ROWS * elements * sizeof(double));
    cr_assert(all != NULL && values != NULL);
    random_state = 1;
    fill_rows(&info, CONVOY_LAYOUT_F32_CHW, ROWS, elements * sizeof(float), (char *)input, values);
    float *output = (float *)aligned_bytes(outputs * sizeof(float));
    for (int i = 0; i < times; i++) {
        struct convoy_job_times took = {.layer_us = NULL};
        memset(output, 0xff, outputs * sizeof(float));
        run(net, &(struct convoy_job){.layout = CONVOY_LAYOUT_F32_CHW,
                                      .rows = ROWS,
                                      .input = input,
                                      .input_stride = elements * sizeof(float),
                                      .output = output,
                                      .output_stride = info.outputs_per_row * sizeof(float),
                                      .times = &took});
        memcpy(all + (size_t)i * outputs, output, outputs * sizeof(float));
    }
    backend->unload(device, net);
    free(values);
    free(input);
    free(output);
    return all;
}

/* What reads what is drawn. Branches change no bit. */
Test(backend_branches, any_order)
{
    uint64_t state = 7;
    for (int network = 0; network < 60; network++) {
        int tensors[24], count = 1, x;
        random_state = state;
        struct convoy_graph *graph = start(&x);
        tensors[0] = x;
        int end = 6 + random_below(16);
        while (count < end) {
            /* Mostly of the last ones, so that the network is deep. */
            int from = count > 4 && random_below(3) > 0 ? count - 4 : 0;
            int y = add_random(graph, tensors + from, count - from);
            if (shape_of(graph, y)->dims[1] <= 160)
                tensors[count++] = y;
        }
        add_output(graph, conv(graph, tensors[count - 2], 3, 1));
        add_output(graph, add_dense(graph, add_flatten(graph, tensors[count - 1]), 5, true));
        state = random_state;
        float *want = run_with(graph, "layers", 1), *got = run_with(graph, "branches", ORDERS);
        size_t bytes = ROWS * (3 * 9 * 11 + 5) * sizeof(float);
        for (int i = 0; i < ORDERS; i++)
            cr_assert_eq(memcmp(want, (char *)got + (size_t)i * bytes, bytes), 0, "network %d, run %d",
                         network, i);
        free(want);
        free(got);
        convoy_graph_free(graph);
    }
}
