/* Residual networks of bottlenecks: on a GPU of sm_90 one kernel makes each, for few images, and what it
 * makes is what the layers make. */
#include "tests/unit/engine/backends/backend_harness.h"

#include <math.h>

#define TOLERANCE 4e-3 /* of the largest output of a row */

static void open_fp16(void)
{
    struct convoy_open_options options = {.streams = 3};
    by_largest = true;
    open_backend_with(&options);
}

TestSuite(backend_bottleneck, .init = open_fp16, .fini = close_backend, .timeout = 300);

static int conv_act(struct convoy_graph *graph, int x, int64_t maps, struct convoy_conv conv,
                    enum convoy_activation_kind act)
{
    int64_t side = conv.pad[0] == 1 ? 3 : 1;
    return add_act(graph, add_conv(graph, x, maps, side, side, conv, true), act, 0, 6);
}

/* Of as many channels as x, unless it has a stride. */
static int add_block(struct convoy_graph *graph, int x, int64_t mid, int64_t maps, int stride,
                     enum convoy_activation_kind act)
{
    struct convoy_conv inner = CONV3, beside = CONV1;
    inner.stride[0] = inner.stride[1] = beside.stride[0] = beside.stride[1] = stride;
    bool changes = stride > 1 || shape_of(graph, x)->dims[1] != maps;
    int y = conv_act(graph, conv_act(graph, x, mid, CONV1, act), mid, inner, act);
    int other = changes ? add_conv(graph, x, maps, 1, 1, beside, true) : x;
    return add_act(graph, add_binary(graph, add_conv(graph, y, maps, 1, 1, CONV1, true), other, CONVOY_ADD),
                   act, 0, 6);
}

/* As ResNet-50, smaller: blocks whose input is another one's, of 15 x 17, then of 8 x 9 pixels. */
static struct convoy_graph *resnet(enum convoy_activation_kind act)
{
    struct convoy_conv stem = {.groups = 1, .stride = {2, 2}, .dilation = {1, 1}, .pad = {3, 3, 3, 3}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 30, 34));
    int x = add_act(graph, add_conv(graph, graph->input, 24, 7, 7, stem, true), act, 0, 6);
    x = add_block(graph, x, 16, 40, 1, act);
    x = add_block(graph, x, 16, 40, 1, act);
    x = add_block(graph, x, 20, 72, 2, act);
    x = add_block(graph, x, 20, 72, 1, act);
    x = add_block(graph, x, 20, 72, 1, act);
    struct convoy_pool mean = {.kind = CONVOY_POOL_AVERAGE,
                               .window = {shape_of(graph, x)->dims[2], shape_of(graph, x)->dims[3]},
                               .stride = {1, 1},
                               .dilation = {1, 1}};
    add_output(graph, add_dense(graph, add_flatten(graph, add_pool(graph, x, mean, false)), 13, true));
    return graph;
}

Test(backend_bottleneck, networks)
{
    check_graph_as(resnet(CONVOY_RELU), CONVOY_COMPUTE_FP16, TOLERANCE);
    check_graph_as(resnet(CONVOY_CLIP), CONVOY_COMPUTE_FP16, TOLERANCE);
    check_graph_as(resnet(CONVOY_SWISH), CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* x and the result are parts of tensors that have other channels, too, and one result is read twice. */
Test(backend_bottleneck, parts_of_concatenations)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 9, 12));
    int x = conv_act(graph, graph->input, 16, CONV3, CONVOY_RELU);
    int y = add_block(graph, x, 8, 16, 1, CONVOY_RELU);
    int z = add_block(graph, y, 8, 16, 1, CONVOY_RELU);
    struct convoy_shape shape = *shape_of(graph, x);
    shape.dims[1] = 48;
    int all = add_activation(graph, shape);
    add_node(graph, CONVOY_OP_CONCAT, all, 3, (int[]){x, y, z})->axis = 1;
    add_output(graph, add_conv(graph, all, 9, 1, 1, CONV1, true));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* Multiplies the weights of the convolution that computes y, and makes them positive. */
static int amplify(struct convoy_graph *graph, int y, float by)
{
    for (int n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].output == y) {
            struct convoy_tensor *weights = &graph->tensors[graph->nodes[n].inputs[1]];
            for (int64_t i = 0; i < convoy_shape_elements(&weights->shape); i++)
                weights->data[i] = fabsf(weights->data[i]) * by;
        }
    return y;
}

/* In a row ten thousand times as large the numbers inside are too large, and nothing that comes of them: a
 * bounded activation hides them. */
static struct convoy_graph *hidden_large_numbers(int layer)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 9, 12));
    int x = add_conv(graph, graph->input, 16, 1, 1, CONV1, true);
    int y = amplify(graph, add_conv(graph, x, 8, 1, 1, CONV1, true), layer == 0 ? 40 : 0.1f);
    y = add_act(graph, y, CONVOY_LEAKY_RELU, layer == 0 ? 1 : 0.5f, 0);
    y = amplify(graph, add_conv(graph, y, 8, 3, 3, CONV3, true), layer == 0 ? 0.01f : 40);
    y = add_act(graph, y, layer == 0 ? CONVOY_HARD_SIGMOID : CONVOY_LEAKY_RELU, layer == 0 ? 1e-6f : 1, 0.5f);
    y = add_conv(graph, y, 16, 1, 1, CONV1, true);
    amplify(graph, y, layer == 0 ? 1e4f : 1e-3f);
    add_output(graph, add_act(graph, add_binary(graph, y, x, CONVOY_ADD), CONVOY_HARD_SIGMOID, 1e-5f, 0.5f));
    return graph;
}

/* A row whose numbers fp16 does not hold inside of a bottleneck is as right as the others. */
static void check_loud(struct convoy_graph *graph, float by)
{
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, 5, CONVOY_COMPUTE_FP16, &info);
    loud.row = 3;
    for (int i = 0; i < 2; i++) {
        loud.by = i == 0 ? by : 1;
        check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 5, TOLERANCE);
    }
    backend->unload(device, net);
    convoy_graph_free(graph);
}

Test(backend_bottleneck, results_too_large_for_fp16)
{
    check_loud(resnet(CONVOY_RELU), 3e4f);
    check_loud(hidden_large_numbers(0), 1e4f);
    check_loud(hidden_large_numbers(1), 1e4f);
}
