/* Whole small networks on a backend: batches of every size, 8-bit rows, fusions that must not change
 * what is computed, profiles, and refusals. */
#include "tests/unit/engine/backends/backend_harness.h"

#define TOLERANCE 2e-5

TestSuite(backend_networks, .init = open_backend, .fini = close_backend, .timeout = 300);

/* Convolutions, pooling, dense layers, softmax: the shape of a classifier of 32 x 32 images. */
static struct convoy_graph *classifier(void)
{
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_MAX, .window = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 16, 16));
    int x = graph->input;
    for (int64_t K = 16; K <= 24; K += 4) {
        x = add_act(graph, add_conv(graph, x, K, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
        x = add_pool(graph, x, pool, false);
    }
    x = add_dense(graph, add_flatten(graph, x), 10, true);
    add_output(graph, x);
    add_output(graph, add_softmax(graph, x, 1, 2));
    return graph;
}

Test(backend_networks, every_batch_size_in_a_form_in_turns)
{
    struct convoy_graph *graph = classifier();
    struct convoy_net_info info;
    struct convoy_net *net = load(graph, 33, &info);
    cr_assert(info.channels == 3 && info.height == 16 && info.width == 16);
    cr_assert(info.output_count == 2 && info.outputs_per_row == 20 && info.precision == CONVOY_COMPUTE_FP32);
    cr_assert_geq(info.weight_bytes, (uint64_t)(3 * 16 * 9 + 16 * 20 * 9 + 20 * 24 * 9 + 96 * 10) * 4);
    for (uint32_t rows = 1; rows <= 33; rows++)
        check_rows(graph, net, &info, rows % 2 == 0 ? CONVOY_LAYOUT_U8_HWC : CONVOY_LAYOUT_F32_CHW, rows,
                   TOLERANCE);
    check_rows(graph, net, &info, CONVOY_LAYOUT_U8_HWC, 33, TOLERANCE);
    backend->unload(device, net);
    convoy_graph_free(graph);
}

/* 8-bit rows of one and four channels, which first convolutions read in layouts of their own. */
Test(backend_networks, eight_bit_rows_of_any_channels)
{
    for (int64_t C = 1; C <= 4; C++) {
        struct convoy_graph *graph = new_graph(SHAPE(1, C, 9, 7));
        add_output(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true));
        struct convoy_net_info info;
        struct convoy_net *net = load(graph, 5, &info);
        check_rows(graph, net, &info, CONVOY_LAYOUT_U8_HWC, 5, TOLERANCE);
        backend->unload(device, net);
        convoy_graph_free(graph);
    }
}

/* A first reader that wants the planes one after the other. */
Test(backend_networks, eight_bit_rows_for_a_dense_layer)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 9, 7));
    add_output(graph, add_dense(graph, add_flatten(graph, graph->input), 10, true));
    add_output(graph, add_act(graph, graph->input, CONVOY_TANH, 0, 0));
    struct convoy_net_info info;
    struct convoy_net *net = load(graph, 5, &info);
    check_rows(graph, net, &info, CONVOY_LAYOUT_U8_HWC, 5, TOLERANCE);
    backend->unload(device, net);
    convoy_graph_free(graph);
}

static void check_residual_connections(void)
{
    /* The skip dies in the sum; is read again behind it; is the convolution's own input; is the network's
     * input. */
    for (int variant = 0; variant < 4; variant++) {
        struct convoy_graph *graph = new_graph(SHAPE(1, 16, 8, 8));
        int x = graph->input;
        if (variant != 3)
            x = add_act(graph, add_conv(graph, x, 16, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
        int y = x;
        if (variant != 2)
            y = add_act(graph, add_conv(graph, y, 16, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
        y = add_conv(graph, y, 16, 3, 3, CONV3, true);
        y = add_act(graph,
                    variant == 0 ? add_binary(graph, x, y, CONVOY_ADD) : add_binary(graph, y, x, CONVOY_ADD),
                    CONVOY_RELU, 0, 0);
        if (variant == 1)
            y = add_binary(graph, add_conv(graph, y, 16, 1, 1, CONV1, true), x, CONVOY_SUB);
        add_output(graph, y);
        check_graph(graph, TOLERANCE);
    }
}

Test(backend_networks, residual_connections)
{
    check_residual_connections();
}

/* One constant as the weights of two convolutions, which are of 256 channels in two groups and of 128 in one.
 */
Test(backend_networks, weights_that_convolutions_of_other_groups_share)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 128, 14, 14));
    int weights = add_constant(graph, FIXED(128, 64, 1, 1), 0.1f);
    int x[2] = {graph->input, add_conv(graph, graph->input, 64, 1, 1, CONV1, true)};
    for (int i = 0; i < 2; i++) {
        struct convoy_conv conv = CONV1;
        conv.groups = 2 - i;
        int y = add_activation(graph, SHAPE(1, 128, 14, 14));
        add_node(graph, CONVOY_OP_CONV, y, 2, (int[]){x[i], weights})->conv = conv;
        add_output(graph, y);
    }
    check_graph(graph, TOLERANCE);
}

/* Both operands of the sum are convolutions, as in a block that changes its size; and the sum of two sums. */
Test(backend_networks, residual_connections_between_convolutions)
{
    struct convoy_conv half = CONV3;
    struct convoy_conv skip = CONV1;
    half.stride[0] = half.stride[1] = skip.stride[0] = skip.stride[1] = 2;
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 12, 12));
    int x = add_act(graph, add_conv(graph, graph->input, 20, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    int y = add_act(graph, add_conv(graph, x, 40, 3, 3, half, true), CONVOY_RELU, 0, 0);
    y = add_conv(graph, y, 40, 3, 3, CONV3, true);
    int z = add_conv(graph, x, 40, 1, 1, skip, true);
    y = add_act(graph, add_binary(graph, y, z, CONVOY_ADD), CONVOY_RELU, 0, 0);
    int u = add_conv(graph, y, 40, 1, 1, CONV1, false);
    u = add_binary(graph, u, y, CONVOY_ADD);
    u = add_act(graph, u, CONVOY_HARD_SWISH, 0, 0);
    add_output(graph, u);
    add_output(graph, add_binary(graph, u, y, CONVOY_ADD));
    check_graph(graph, TOLERANCE);
}

/* An intermediate result that is itself an output, or read twice, must not vanish into a fusion; one that
 * lies under a reshape must not be overwritten while the reshape is read. */
Test(backend_networks, results_that_others_read_survive)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 6, 6));
    int conv = add_conv(graph, graph->input, 8, 3, 3, CONV3, true);
    int relu = add_act(graph, conv, CONVOY_RELU, 0, 0);
    add_output(graph, conv);
    add_output(graph, relu);
    check_graph(graph, TOLERANCE);

    graph = new_graph(SHAPE(1, 4, 6, 6));
    int flat = add_flatten(graph, graph->input);
    int changed = add_act(graph, graph->input, CONVOY_TANH, 0, 0);
    int sum = add_binary(graph, add_flatten(graph, changed), flat, CONVOY_ADD);
    add_output(graph, sum);
    check_graph(graph, TOLERANCE);

    graph = new_graph(SHAPE(1, 4, 6, 6));
    flat = add_flatten(graph, graph->input);
    int other = add_act(graph, flat, CONVOY_SIGMOID, 0, 0);
    add_output(graph, add_conv(graph, graph->input, 4, 3, 3, CONV3, true));
    add_output(graph, other);
    add_output(graph, flat);
    check_graph(graph, TOLERANCE);
}

/* Depthwise separable convolutions with a squeeze-and-excitation gate. */
static void check_inverted_residual(void)
{
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_AVERAGE, .window = {8, 8}, .stride = {1, 1}, .dilation = {1, 1}};
    struct convoy_conv depthwise = CONV3;
    depthwise.groups = 40;
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 8, 8));
    int x = add_act(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true), CONVOY_HARD_SWISH, 0, 0);
    int y = add_act(graph, add_conv(graph, x, 40, 1, 1, CONV1, true), CONVOY_HARD_SWISH, 0, 0);
    y = add_act(graph, add_conv(graph, y, 40, 3, 3, depthwise, true), CONVOY_CLIP, 0, 6);
    int gate = add_act(graph, add_conv(graph, add_pool(graph, y, pool, false), 8, 1, 1, CONV1, true),
                       CONVOY_RELU, 0, 0);
    gate = add_act(graph, add_conv(graph, gate, 40, 1, 1, CONV1, true), CONVOY_HARD_SIGMOID, 1.0f / 6, 0.5f);
    y = add_binary(graph, gate, y, CONVOY_MUL);
    y = add_binary(graph, x, add_conv(graph, y, 16, 1, 1, CONV1, true), CONVOY_ADD);
    add_output(graph, y);
    check_graph(graph, TOLERANCE);
}

Test(backend_networks, inverted_residual_with_gate)
{
    check_inverted_residual();
}

/* A constant of one element. */
static int add_number(struct convoy_graph *graph, float value)
{
    int constant = add_constant(graph, FIXED(1), 1);
    graph->tensors[constant].data[0] = value;
    return constant;
}

/* The same functions again and again with other numbers: leaky relus, clips, products and sums. */
static int add_chain(struct convoy_graph *graph, int x)
{
    x = add_act(graph, x, CONVOY_LEAKY_RELU, 0.3f, 0);
    x = add_binary(graph, x, add_number(graph, 0.6f), CONVOY_MUL);
    x = add_act(graph, x, CONVOY_TANH, 0, 0);
    x = add_binary(graph, x, add_number(graph, -0.4f), CONVOY_ADD);
    x = add_act(graph, x, CONVOY_LEAKY_RELU, -0.7f, 0);
    x = add_act(graph, x, CONVOY_CLIP, 0.1f, 0.6f);
    return add_act(graph, x, CONVOY_CLIP, 0.2f, 0.5f);
}

static void check_chain(struct convoy_graph *graph, int x)
{
    add_output(graph, add_chain(graph, x));
    check_graph(graph, TOLERANCE);
}

Test(backend_networks, chains_of_one_function_with_other_numbers)
{
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_AVERAGE, .window = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 9, 6, 6));
    check_chain(graph, add_conv(graph, graph->input, 11, 3, 3, CONV3, true));
    graph = new_graph(SHAPE(1, 16, 6, 6));
    check_chain(graph, add_pool(graph, graph->input, pool, false));
    graph = new_graph(SHAPE(1, 12));
    check_chain(graph, add_dense(graph, graph->input, 7, true));
    graph = new_graph(SHAPE(1, 9, 5, 5));
    check_chain(graph, add_binary(graph, graph->input, add_act(graph, graph->input, CONVOY_SIGMOID, 0, 0),
                                  CONVOY_MUL));
    graph = new_graph(SHAPE(1, 9, 5, 5));
    int y = add_activation(graph, *shape_of(graph, graph->input));
    int inputs[3] = {graph->input, add_constant(graph, FIXED(9), 1), add_constant(graph, FIXED(9), 1)};
    add_node(graph, CONVOY_OP_SCALE_SHIFT, y, 3, inputs);
    check_chain(graph, y);
}

/* Processors without AVX-512 get other primitives and layouts (blocks of 8 channels, filled up with zeros),
 * which are tested where there is AVX-512 too. */
static void open_backend_avx2(void)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    open_backend();
}

TestSuite(backend_networks_avx2, .init = open_backend_avx2, .fini = close_backend, .timeout = 300);

Test(backend_networks_avx2, residual_connections)
{
    check_residual_connections();
}

Test(backend_networks_avx2, inverted_residual_with_gate)
{
    check_inverted_residual();
}

Test(backend_networks_avx2, classifier)
{
    check_graph(classifier(), TOLERANCE);
}

/* A product in blocks of 8 channels that are not full, then what could be fused into it. */
Test(backend_networks_avx2, functions_of_products_in_filled_up_blocks)
{
    const enum convoy_activation_kind kinds[] = {CONVOY_RELU,    CONVOY_LEAKY_RELU, CONVOY_TANH,
                                                 CONVOY_SIGMOID, CONVOY_HARD_SWISH, CONVOY_CLIP};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (int64_t channels = 3; channels <= 9; channels += 3) {
            struct convoy_graph *graph = new_graph(SHAPE(1, channels, 6, 6));
            int x = add_conv(graph, graph->input, channels, 3, 3, CONV3, true);
            x = add_act(graph, add_binary(graph, x, graph->input, CONVOY_MUL), kinds[i], -0.5f, 0.5f);
            add_output(graph, add_conv(graph, x, channels, 3, 3, CONV3, false));
            check_graph(graph, TOLERANCE);
        }
    }
}

/* 0 / 0 in the channels that fill up a block must not reach the sums of the convolution behind. */
Test(backend_networks_avx2, quotients_leave_filled_up_blocks_alone)
{
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_MAX, .window = {6, 6}, .stride = {1, 1}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 6, 6));
    int x = add_conv(graph, graph->input, 20, 3, 3, CONV3, true);
    int gate = add_act(graph, add_pool(graph, x, pool, false), CONVOY_CLIP, 0.5f, 2);
    int y = add_binary(graph, x, gate, CONVOY_DIV);
    add_output(graph, add_conv(graph, y, 20, 3, 3, CONV3, true));
    check_graph(graph, TOLERANCE);
}

Test(backend_networks, graphs_without_a_batch_take_one_row)
{
    struct convoy_graph *graph = new_graph(FIXED(3, 4, 5));
    add_output(graph, add_softmax(graph, graph->input, 0, 1));
    struct convoy_net_info info;
    struct convoy_net *net = load(graph, 16, &info);
    cr_assert_eq(info.channels * info.height * info.width, 60);
    check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 1, TOLERANCE);
    float input[128] = {0};
    float output[64];
    struct convoy_job job = {.layout = CONVOY_LAYOUT_F32_CHW,
                             .rows = 2,
                             .input = input,
                             .input_stride = 256,
                             .output = output,
                             .output_stride = 256};
    struct convoy_error error;
    uint64_t tag;
    int code = backend->submit(device, net, &job, &error);
    cr_assert_eq(code == 0 ? take(&tag, &error) : code, -EINVAL);
    cr_assert(strstr(error.message, "2 rows") != NULL, "%s", error.message);
    backend->unload(device, net);
    convoy_graph_free(graph);
}

/* Two images in one row: no batch, although the first dimension is that of one. */
Test(backend_networks, one_row_may_hold_several_images)
{
    for (int depthwise = 0; depthwise < 2; depthwise++) {
        struct convoy_conv conv = CONV3;
        conv.groups = depthwise ? 3 : 1;
        struct convoy_graph *graph = new_graph(FIXED(2, 3, 4, 5));
        add_output(graph, add_conv(graph, graph->input, 3, 3, 3, conv, true));
        struct convoy_net_info info;
        struct convoy_net *net = load(graph, 16, &info);
        check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 1, TOLERANCE);
        backend->unload(device, net);
        convoy_graph_free(graph);
    }
}

Test(backend_networks, profile_names_every_layer_and_times_it)
{
    struct convoy_graph *graph = classifier();
    struct convoy_net_info info;
    struct convoy_net *net = load(graph, 16, &info);
    /* 3 x (conv, pool), dense, softmax; a backend may pool where it convolves */
    cr_assert(info.layer_count == 8 || info.layer_count == 5, "%u layers", info.layer_count);
    static float input[16 * 768];
    static float output[16 * 32];
    float layer_us[8];
    for (int i = 0; i < 8; i++)
        layer_us[i] = NAN;
    struct convoy_job_times times = {.layer_us = layer_us};
    struct convoy_job job = {.tag = 3,
                             .layout = CONVOY_LAYOUT_F32_CHW,
                             .rows = 16,
                             .input = input,
                             .input_stride = 3072,
                             .output = output,
                             .output_stride = 128,
                             .profile = true,
                             .times = &times};
    /* What the layers take adds up to most of the whole in the quietest run: elsewhere another program may
     * have had the core between two of them. */
    float share = 0;
    for (int attempt = 0; attempt < 50 && share < 0.5f; attempt++) {
        run(net, &job);
        cr_assert_eq(times.layer_us, layer_us);
        float sum = 0;
        for (uint32_t i = 0; i < info.layer_count; i++) {
            cr_assert(layer_us[i] > 0, "layer %u took %g us", i, (double)layer_us[i]);
            cr_assert(info.layers[i].name[0] != '\0' && info.layers[i].kernel[0] != '\0');
            sum += layer_us[i];
        }
        cr_assert(sum <= times.compute_us, "layers %g us, in all %g us", (double)sum,
                  (double)times.compute_us);
        cr_assert(times.input_us > 0 && times.output_us > 0);
        share = sum / times.compute_us;
    }
    cr_assert(share >= 0.5f, "layers take %g of the whole", (double)share);
    cr_assert(strstr(info.layers[0].kernel, "+relu") != NULL, "%s", info.layers[0].kernel);
    cr_assert_str_eq(info.layers[0].name, "conv_0");

    /* Without being asked for, the array stays as it is. */
    layer_us[0] = -1;
    job.profile = false;
    run(net, &job);
    cr_assert_eq(layer_us[0], -1);
    backend->unload(device, net);
    convoy_graph_free(graph);
}

/* 62 bytes and a letter of two, in room for 63. */
Test(backend_networks, long_names_of_layers_end_with_a_whole_character)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 5));
    int y = add_activation(graph, SHAPE(1, 5));
    char name[65];
    memset(name, 'a', 62);
    memcpy(name + 62, "\xC3\xA9", 3);
    convoy_graph_add_node(graph, CONVOY_OP_ACTIVATION, name, NULL, &graph->input, 1, y);
    add_output(graph, y);
    struct convoy_net_info info;
    struct convoy_net *net = load(graph, 1, &info);
    name[62] = '\0';
    cr_expect_str_eq(info.layers[0].name, name);
    backend->unload(device, net);
    convoy_graph_free(graph);
}

Test(backend_networks, jobs_run_in_order_and_the_same_row_gives_the_same_bits)
{
    struct convoy_graph *graph = classifier();
    struct convoy_net_info info;
    struct convoy_net *net = load(graph, 4, &info);
    static float input[1024];
    float output[3][32];
    for (int i = 0; i < 768; i++)
        input[i] = random_value();
    struct convoy_error error;
    uint64_t tag = 99;
    cr_assert_eq(backend->collect(device, 0, &tag, &error), 0);
    for (int i = 0; i < 3; i++) {
        struct convoy_job job = {.tag = 40u + (unsigned)i,
                                 .layout = CONVOY_LAYOUT_F32_CHW,
                                 .rows = 1,
                                 .input = input,
                                 .input_stride = 4096,
                                 .output = output[i],
                                 .output_stride = 128};
        cr_assert_eq(backend->submit(device, net, &job, &error), 0);
    }
    for (uint64_t i = 0; i < 3; i++) {
        cr_assert_eq(take(&tag, &error), 1);
        cr_assert_eq(tag, 40 + i);
    }
    cr_assert_eq(backend->collect(device, 0, &tag, &error), 0);
    for (int i = 0; i < 20; i++)
        cr_assert(output[0][i] == output[1][i] && output[0][i] == output[2][i], "element %d", i);
    backend->unload(device, net);
    convoy_graph_free(graph);
}

Test(backend_networks, refusals_name_the_node_or_the_device)
{
    struct convoy_error error;
    struct convoy_device *none = NULL;
    struct convoy_device_info device_info;
    cr_assert_eq(backend->open(99, &(struct convoy_open_options){.streams = 1}, &none, &device_info, &error),
                 -ENODEV);

    struct convoy_graph *graph = classifier();
    graph->nodes[3].op = CONVOY_OP_COUNT;
    graph->nodes[3].input_count = 1;
    struct convoy_load_options options = {.name = "odd", .max_batch = 4};
    struct convoy_net *net = NULL;
    struct convoy_net_info info;
    cr_assert_eq(backend->load(device, graph, &options, &net, &info, &error), -ENOTSUP);
    cr_assert(strstr(error.message, "model 'odd'") && strstr(error.message, graph->nodes[3].name), "%s",
              error.message);
    convoy_graph_free(graph);

    graph = new_graph((struct convoy_shape){.rank = 2, .batch_axis = 1, .dims = {4, 1}});
    add_output(graph, add_act(graph, graph->input, CONVOY_RELU, 0, 0));
    cr_assert_eq(backend->load(device, graph, &options, &net, &info, &error), -ENOTSUP);
    cr_assert(strstr(error.message, "axis 1") != NULL, "%s", error.message);
    convoy_graph_free(graph);
}

/* A tensor that others want in another layout, and that is added in that layout twice: the first sum must not
 * be written over what the second one adds. */
Test(backend_networks, what_is_added_twice)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 8, 8));
    int x = add_act(graph, add_softmax(graph, graph->input, 1, 2), CONVOY_LOG, 0, 0); /* row-major */
    int y = x;
    for (int i = 0; i < 3; i++)
        y = add_binary(graph, add_conv(graph, y, 16, 3, 3, CONV3, true), x, CONVOY_ADD);
    add_output(graph, y);
    check_graph(graph, TOLERANCE);
}
