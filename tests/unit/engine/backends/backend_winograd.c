/* Convolutions of 3 x 3 with many channels and pixels, which the CPU backend computes by Winograd's algorithm
 * where oneDNN has it (AVX-512); elsewhere these are the same convolutions computed directly. */
#include "tests/unit/engine/backends/backend_harness.h"

#include <stdlib.h>
#include <string.h>

#define TOLERANCE 2e-5

TestSuite(backend_winograd, .init = open_backend, .fini = close_backend, .timeout = 300);

static struct convoy_conv padded(int64_t top, int64_t left, int64_t bottom, int64_t right)
{
    return (struct convoy_conv){
        .groups = 1, .stride = {1, 1}, .dilation = {1, 1}, .pad = {top, left, bottom, right}};
}

/* Is the only layer of this convolution computed by Winograd's algorithm? */
static bool chosen(int64_t channels, int64_t maps, int64_t side, int64_t stride, bool rounded)
{
    struct convoy_net_info info;
    struct convoy_conv conv = CONV3;
    conv.stride[0] = conv.stride[1] = stride;
    struct convoy_graph *graph = new_graph(SHAPE(1, channels, side, side));
    int y = add_conv(graph, graph->input, maps, 3, 3, conv, true);
    if (rounded)
        y = add_act(graph, y, CONVOY_ROUND, 0, 0);
    add_output(graph, y);
    struct convoy_net *net = load(graph, 1, &info);
    bool found = strstr(info.layers[0].kernel, "wino") != NULL;
    backend->unload(device, net);
    convoy_graph_free(graph);
    return found;
}

Test(backend_winograd, where_it_is_chosen)
{
    if (strcmp(backend->name, "cpu") != 0)
        cr_skip("only the CPU backend has it");
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        cr_skip("oneDNN has it for AVX-512, which this processor lacks");
    if (getenv("ONEDNN_MAX_CPU_ISA") != NULL)
        cr_skip("oneDNN may use less than this processor has");
    cr_expect(chosen(32, 64, 14, 1, false));
    cr_expect(chosen(64, 32, 28, 1, false));
    cr_expect_not(chosen(32, 64, 13, 1, false), "slower for few pixels");
    cr_expect_not(chosen(32, 72, 14, 1, false), "slower for such channels");
    cr_expect_not(chosen(24, 64, 14, 1, false), "slower for such channels");
    cr_expect_not(chosen(32, 64, 28, 2, false), "it has no strides");
    cr_expect_not(chosen(32, 64, 14, 1, true), "sums that are rounded are to be exact");
}

Test(backend_winograd, images_that_are_no_whole_tiles)
{
    static const struct {
        int64_t height, width;
        struct convoy_conv conv;
    } cases[] = {{14, 14, CONV3},
                 {15, 17, CONV3},
                 {29, 13, CONV3},
                 {17, 16, {.groups = 1, .stride = {1, 1}, .dilation = {1, 1}, .pad = {0, 0, 0, 0}}},
                 {16, 16, {.groups = 1, .stride = {1, 1}, .dilation = {1, 1}, .pad = {1, 0, 0, 1}}},
                 {16, 15, {.groups = 1, .stride = {1, 1}, .dilation = {1, 1}, .pad = {2, 2, 3, 1}}}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct convoy_graph *graph = new_graph(SHAPE(1, 32, cases[i].height, cases[i].width));
        add_output(graph, add_conv(graph, graph->input, 32, 3, 3, cases[i].conv, i % 2 == 0));
        check_graph(graph, TOLERANCE);
    }
}

/* A residual block: an activation and a sum are fused, layouts meet those of a 1 x 1 convolution. */
Test(backend_winograd, a_residual_block)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 15, 15));
    int x = add_conv(graph, graph->input, 64, 1, 1, CONV1, true);
    int y = add_act(graph, add_conv(graph, x, 32, 3, 3, padded(1, 1, 1, 1), true), CONVOY_RELU, 0, 0);
    y = add_conv(graph, y, 64, 3, 3, padded(1, 1, 1, 1), true);
    y = add_act(graph, add_binary(graph, y, x, CONVOY_ADD), CONVOY_RELU, 0, 0);
    add_output(graph, add_conv(graph, y, 8, 1, 1, CONV1, true));
    check_graph(graph, TOLERANCE);
}

/* NaN goes to the 3 x 3 outputs around it, not to all 4 x 4 of a tile: of so many channels and pixels oneDNN
 * would compute such tiles, of fewer tiles of 2 x 2, where NaN goes no further than it should. */
Test(backend_winograd, nan_stays_in_its_window)
{
    enum { CHANNELS = 128, SIDE = 28, PLACE = 6 };
    if (strcmp(backend->name, "cpu") != 0)
        cr_skip("only the CPU backend has it");
    struct convoy_net_info info;
    struct convoy_job_times times = {0};
    struct convoy_graph *graph = new_graph(SHAPE(1, CHANNELS, SIDE, SIDE));
    add_output(graph, add_conv(graph, graph->input, CHANNELS, 3, 3, CONV3, true));
    struct convoy_net *net = load(graph, 1, &info);
    size_t bytes = sizeof(float) * CHANNELS * SIDE * SIDE;
    float *input = aligned_bytes(bytes), *output = aligned_bytes(bytes);
    for (int i = 0; i < CHANNELS * SIDE * SIDE; i++)
        input[i] = random_value();
    input[PLACE * SIDE + PLACE] = NAN;
    run(net, &(struct convoy_job){.layout = CONVOY_LAYOUT_F32_CHW,
                                  .rows = 1,
                                  .input = input,
                                  .input_stride = bytes,
                                  .output = output,
                                  .output_stride = bytes,
                                  .times = &times});
    for (int i = 0; i < CHANNELS * SIDE * SIDE; i++) {
        int h = i / SIDE % SIDE, w = i % SIDE;
        bool around = h >= PLACE - 1 && h <= PLACE + 1 && w >= PLACE - 1 && w <= PLACE + 1;
        cr_assert_eq(isnan(output[i]) != 0, around, "element %d is %g", i, (double)output[i]);
    }
    free(input);
    free(output);
    backend->unload(device, net);
    convoy_graph_free(graph);
}

/* A quantised network: the sums are whole numbers, half of them lie between two that the result is rounded
 * to. */
Test(backend_winograd, sums_of_whole_numbers_are_exact)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 32, 14, 14));
    int x = add_binary(graph, graph->input, add_constant(graph, FIXED(1, 1, 1, 1), 1), CONVOY_MUL);
    graph->tensors[graph->nodes[graph->node_count - 1].inputs[1]].data[0] = 8;
    x = add_conv(graph, add_act(graph, x, CONVOY_ROUND, 0, 0), 32, 3, 3, CONV3, false);
    const struct convoy_node *conv = &graph->nodes[graph->node_count - 1];
    float *weights = graph->tensors[conv->inputs[1]].data;
    for (int i = 0; i < 32 * 32 * 9; i++)
        weights[i] = rintf(random_value() * 4);
    x = add_binary(graph, x, add_constant(graph, FIXED(1, 1, 1, 1), 1), CONVOY_MUL);
    graph->tensors[graph->nodes[graph->node_count - 1].inputs[1]].data[0] = 0.5f;
    add_output(graph, add_act(graph, x, CONVOY_ROUND, 0, 0));
    check_graph(graph, TOLERANCE);
}
