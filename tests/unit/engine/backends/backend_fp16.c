/* Networks of which precision fp16 is asked, as the large ones that people bring are built: on a GPU of sm_90
 * their tensors have 16 bits. And rows whose numbers fp16 does not hold: they are as right as the others. */
#include "tests/unit/engine/backends/backend_harness.h"

/* Of the largest output of a row. Each of some five layers rounds to 11 bits. */
#define TOLERANCE 4e-3

static int warnings; /* about fp16 in the log */

static void count_warnings(void *context, const char *level, const char *text)
{
    (void)context;
    if (strcmp(level, "warn") == 0 && strstr(text, "fp16") != NULL)
        warnings++;
}

static void open_fp16(void)
{
    struct convoy_open_options options = {.streams = 3, .log = count_warnings};
    by_largest = true;
    open_backend_with(&options);
}

static bool has_16_bits(const struct convoy_net_info *info)
{
    return strstr(info->layers[0].kernel, "nhwc") != NULL;
}

TestSuite(backend_fp16, .init = open_fp16, .fini = close_backend, .timeout = 300);

static int relu(struct convoy_graph *graph, int x)
{
    return add_act(graph, x, CONVOY_RELU, 0, 0);
}

static struct convoy_conv strided(struct convoy_conv conv)
{
    conv.stride[0] = conv.stride[1] = 2;
    return conv;
}

/* Batch normalisation that no convolution precedes. */
static int add_scale_shift(struct convoy_graph *graph, int x)
{
    int64_t channels = shape_of(graph, x)->dims[1];
    int scale = add_constant(graph, FIXED(channels), 1), shift = add_constant(graph, FIXED(channels), 0.5f);
    int y = add_activation(graph, *shape_of(graph, x));
    add_node(graph, CONVOY_OP_SCALE_SHIFT, y, 3, (int[]){x, scale, shift});
    return y;
}

/* ResNet: 7 x 7 of stride 2, overlapping pooling, a block that keeps its size and one that changes it. */
static struct convoy_graph *residual_network(void)
{
    struct convoy_conv stem = {.groups = 1, .stride = {2, 2}, .dilation = {1, 1}, .pad = {3, 3, 3, 3}};
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_MAX, .window = {3, 3}, .stride = {2, 2}, .dilation = {1, 1}, .pad = {1, 1, 1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 30, 26));
    int x = relu(graph, add_conv(graph, graph->input, 24, 7, 7, stem, true));
    x = add_pool(graph, x, pool, false);
    int y = relu(graph, add_conv(graph, x, 24, 3, 3, CONV3, true));
    x = relu(graph, add_binary(graph, add_conv(graph, y, 24, 3, 3, CONV3, true), x, CONVOY_ADD));
    y = relu(graph, add_conv(graph, x, 40, 1, 1, CONV1, true));
    y = relu(graph, add_conv(graph, y, 40, 3, 3, strided(CONV3), true));
    y = add_conv(graph, y, 72, 1, 1, CONV1, true);
    x = add_conv(graph, x, 72, 1, 1, strided(CONV1), true);
    x = add_global_average(graph, relu(graph, add_binary(graph, y, x, CONVOY_ADD)));
    add_output(graph, add_dense(graph, add_flatten(graph, x), 13, true));
    return graph;
}

Test(backend_fp16, residual_network)
{
    check_graph_as(residual_network(), CONVOY_COMPUTE_FP16, TOLERANCE);
}

Test(backend_fp16, eight_bit_rows)
{
    struct convoy_graph *graph = residual_network();
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, 5, CONVOY_COMPUTE_FP16, &info);
    check_rows(graph, net, &info, CONVOY_LAYOUT_U8_HWC, 5, TOLERANCE);
    check_rows(graph, net, &info, CONVOY_LAYOUT_U8_HWC, 1, TOLERANCE);
    backend->unload(device, net);
    convoy_graph_free(graph);
}

/* First layers: what pools the convolution's result is not alone in reading it; the pooled result is a part
 * of a concatenation; windows that reach beyond the bottom and the right; rows of images too wide for a
 * block. */
Test(backend_fp16, first_layers)
{
    struct convoy_conv seven = {.groups = 1, .stride = {2, 2}, .dilation = {1, 1}, .pad = {3, 3, 3, 3}};
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_MAX, .window = {3, 3}, .stride = {2, 2}, .dilation = {1, 1}, .pad = {1, 1, 1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 30, 26));
    int x = relu(graph, add_conv(graph, graph->input, 24, 3, 3, strided(CONV3), true));
    int y = relu(graph, add_conv(graph, x, 16, 3, 3, strided(CONV3), true));
    x = add_concat(graph, 2, (int[]){add_pool(graph, x, pool, false), y}, 1);
    add_output(graph, add_dense(graph, add_flatten(graph, add_global_average(graph, x)), 9, true));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);

    graph = new_graph(SHAPE(1, 3, 31, 27));
    x = add_pool(graph, relu(graph, add_conv(graph, graph->input, 32, 7, 7, seven, true)), pool, false);
    y = relu(graph, add_conv(graph, x, 8, 3, 3, CONV3, true));
    add_output(graph, add_conv(graph, add_concat(graph, 2, (int[]){x, y}, 1), 9, 1, 1, CONV1, true));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);

    pool.pad[0] = pool.pad[1] = 0;
    graph = new_graph(SHAPE(1, 1, 12, 300));
    x = add_act(graph, add_conv(graph, graph->input, 20, 3, 3, strided(CONV3), true), CONVOY_TANH, 0, 0);
    add_output(graph, add_conv(graph, add_pool(graph, x, pool, true), 8, 1, 1, CONV1, true));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);

    for (int other = 0; other < 2; other++) { /* pooling that the first layer's kernel has not */
        pool.kind = other == 0 ? CONVOY_POOL_AVERAGE : CONVOY_POOL_MAX;
        pool.pad[1] = pool.pad[3] = 1;
        pool.pad[0] = pool.pad[2] = other == 0 ? 1 : 0;
        graph = new_graph(SHAPE(1, 3, 31, 27));
        x = relu(graph, add_conv(graph, graph->input, 32, 3, 3, strided(CONV3), true));
        add_output(graph, add_conv(graph, add_pool(graph, x, pool, false), 8, 1, 1, CONV1, true));
        check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
    }
}

/* EfficientNet: depthwise filters of 3 x 3 and 5 x 5, x sigmoid(x), a gate for each channel. 9 channels fill
 * no cell of 8. */
Test(backend_fp16, inverted_residual_with_gate)
{
    struct convoy_conv depthwise = CONV3, large = CONV3;
    depthwise.groups = large.groups = 36;
    for (int i = 0; i < 4; i++)
        large.pad[i] = 2;
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 12, 12));
    int x = add_act(graph, add_conv(graph, graph->input, 9, 3, 3, strided(CONV3), true), CONVOY_SWISH, 0, 0);
    int y = add_act(graph, add_conv(graph, x, 36, 1, 1, CONV1, true), CONVOY_SWISH, 0, 0);
    y = add_act(graph, add_conv(graph, y, 36, 3, 3, depthwise, true), CONVOY_SWISH, 0, 0);
    y = add_act(graph, add_conv(graph, y, 36, 5, 5, large, true), CONVOY_SWISH, 0, 0);
    int gate = add_conv(graph, add_global_average(graph, y), 4, 1, 1, CONV1, true);
    gate = add_conv(graph, add_act(graph, gate, CONVOY_SWISH, 0, 0), 36, 1, 1, CONV1, true);
    y = add_binary(graph, y, add_act(graph, gate, CONVOY_SIGMOID, 0, 0), CONVOY_MUL);
    y = add_binary(graph, x, add_conv(graph, y, 9, 1, 1, CONV1, true), CONVOY_ADD);
    add_output(graph, y);
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* DenseNet: normalisation in front of convolutions, and all results so far side by side, again for each
 * layer. */
Test(backend_fp16, dense_block)
{
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_AVERAGE, .window = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 12, 12));
    int parts[4] = {add_conv(graph, graph->input, 16, 3, 3, CONV3, true)}, x = parts[0];
    for (int layer = 1; layer < 4; layer++) {
        int y = add_conv(graph, relu(graph, add_scale_shift(graph, x)), 32, 1, 1, CONV1, true);
        parts[layer] = add_conv(graph, relu(graph, y), layer == 3 ? 12 : 8, 3, 3, CONV3, true);
        x = add_concat(graph, layer + 1, parts, 1);
    }
    x = add_pool(graph, add_conv(graph, relu(graph, add_scale_shift(graph, x)), 20, 1, 1, CONV1, true), pool,
                 false);
    add_output(graph, add_dense(graph, add_flatten(graph, x), 11, true));
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, 5, CONVOY_COMPUTE_FP16, &info);
    for (uint32_t i = 0; i < info.layer_count; i++) /* a scale and nothing else is a copy */
        cr_assert(strcmp(info.layers[i].kernel, "nhwc_scale_shift") != 0, "%s copies", info.layers[i].name);
    backend->unload(device, net);
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* Inception: branches side by side, one of them branches itself; a result that is in two concatenations,
 * twice in one, read between, and parts of a number of channels that is no multiple of 8. */
Test(backend_fp16, branches)
{
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_MAX, .window = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .pad = {1, 1, 1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 10, 10));
    int x = relu(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true));
    int a = relu(graph, add_conv(graph, x, 24, 1, 1, CONV1, true));
    int b = relu(graph, add_conv(graph, x, 8, 3, 3, CONV3, true));
    int c = relu(graph, add_conv(graph, add_pool(graph, x, pool, false), 16, 1, 1, CONV1, true));
    int inner = add_concat(graph, 2, (int[]){b, c}, 1);
    int d = add_conv(graph, inner, 8, 1, 1, CONV1, true);
    int first = add_concat(graph, 4, (int[]){a, inner, d, b}, 1);
    int average = add_global_average(graph, first);
    int second = add_concat(graph, 3, (int[]){d, d, add_conv(graph, first, 12, 3, 3, CONV3, true)}, 1);
    second = relu(graph, add_conv(graph, second, 28, 1, 1, CONV1, true));
    int third = add_concat(graph, 2, (int[]){second, a}, 1); /* a is read when all else of first is not */
    add_output(graph, add_conv(graph, third, 9, 1, 1, CONV1, true));
    add_output(graph, average);
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* What has no kernel for 16 bits between layers that have: convolutions in groups, softmax. */
Test(backend_fp16, layers_with_float32_between)
{
    struct convoy_conv grouped = CONV3;
    grouped.groups = 4;
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 10, 10));
    int x = relu(graph, add_conv(graph, graph->input, 32, 3, 3, CONV3, true));
    int y = relu(graph, add_conv(graph, x, 32, 3, 3, grouped, true));
    y = relu(graph, add_binary(graph, add_conv(graph, y, 32, 1, 1, CONV1, true), x, CONVOY_ADD));
    add_output(graph, add_softmax(graph, add_dense(graph, add_flatten(graph, y), 6, true), 1, 2));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, TOLERANCE);
}

/* Batches of 5 of which one row is so loud, then batches of 5 of ordinary ones. */
static void check_loud(struct convoy_graph *graph, uint32_t row, float by, int batches)
{
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, 17, CONVOY_COMPUTE_FP16, &info);
    loud.row = row;
    for (int i = 0; i < 2 * batches; i++) {
        loud.by = i < batches ? by : 1;
        check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 5, TOLERANCE);
        cr_assert_eq(warnings, has_16_bits(&info) ? 1 : 0);
    }
    loud.by = 1;
    warnings = 0;
    backend->unload(device, net);
    convoy_graph_free(graph);
}

/* Numbers of 16 bits whose largest is at a place that 16 bits do not hold. */
Test(backend_fp16, places_are_exact)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 8, 8));
    int x = relu(graph, add_conv(graph, graph->input, 2600, 1, 1, CONV1, true));
    graph->tensors[graph->nodes[0].inputs[2]].data[2501] = 100;
    x = add_flatten(graph, add_global_average(graph, x));
    add_output(graph, add_top(graph, x, 1, (struct convoy_top){.axis = 1, .places = true}));
    check_graph_as(graph, CONVOY_COMPUTE_FP16, 1e-6);
}

Test(backend_fp16, results_too_large_for_fp16)
{
    check_loud(residual_network(), 0, 3e4f, 2);
    check_loud(residual_network(), 3, 3e4f, 2);
    check_loud(residual_network(), 4, 1e9f, 2); /* not even the input */
}

/* A network whose numbers are too large in every row of every batch: after some it runs without fp16 at once.
 */
Test(backend_fp16, a_network_too_large_for_fp16)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 6, 6));
    int x = add_conv(graph, graph->input, 16, 1, 1, CONV1, true);
    x = add_binary(graph, x, add_act(graph, x, CONVOY_CLIP, 3e4f, 4e4f), CONVOY_MUL);
    x = relu(graph, add_conv(graph, x, 16, 3, 3, CONV3, true));
    add_output(graph, add_dense(graph, add_flatten(graph, x), 7, true));
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, 9, CONVOY_COMPUTE_FP16, &info);
    for (uint32_t i = 0; i < 100; i++) {
        check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 1 + i % 9, TOLERANCE);
        /* The first batch says so, the 4th sends 64 others elsewhere, the 72nd twice as many. */
        cr_assert_eq(warnings,
                     !has_16_bits(&info) ? 0
                     : i < 3             ? 1
                     : i < 71            ? 2
                                         : 3,
                     "batch %u: %d", i, warnings);
    }
    backend->unload(device, net);
    convoy_graph_free(graph);
}

/* Multiplies the weights of the convolution that computes y; with by < 0 their absolute values by -by. */
static void amplify(struct convoy_graph *graph, int y, float by)
{
    for (int n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].output == y) {
            struct convoy_tensor *weights = &graph->tensors[graph->nodes[n].inputs[1]];
            for (int64_t i = 0; i < convoy_shape_elements(&weights->shape); i++)
                weights->data[i] = by < 0 ? fabsf(weights->data[i]) * -by : weights->data[i] * by;
        }
}

/* Each kernel that makes new numbers, as the only one that makes large ones, which what follows would hide:
 * sums and products with infinity that are no NaN, and activations that are bounded. */
enum telling { CONV, SPLIT, DEPTHWISE, PRODUCT, SCALE, READ, CONVERT, FIRST, KINDS };

static int add_large(struct convoy_graph *graph, enum telling kind)
{
    struct convoy_pool quarters = {
        .kind = CONVOY_POOL_AVERAGE, .window = {20, 20}, .stride = {20, 20}, .dilation = {1, 1}};
    struct convoy_conv grouped = CONV3;
    int x = graph->input;
    if (kind == READ)
        return x;
    if (kind == FIRST) {
        x = add_conv(graph, x, 8, 3, 3, CONV3, false);
        amplify(graph, x, 40);
        return x;
    }
    x = add_conv(graph, x, 64, 1, 1, CONV1, false); /* at most 8 x 2 x 5,000 x 0.71 */
    switch (kind) {
    case CONV:
        x = add_conv(graph, x, 8, 1, 1, CONV1, false);
        break;
    case SPLIT: /* few outputs */
        x = add_conv(graph, add_pool(graph, x, quarters, false), 64, 3, 3, CONV3, false);
        amplify(graph, x, 100);
        break;
    case DEPTHWISE:
        grouped.groups = 64;
        x = add_conv(graph, x, 64, 3, 3, grouped, false);
        break;
    case PRODUCT:
        return add_binary(graph, add_act(graph, x, CONVOY_LEAKY_RELU, 0.5f, 0), x, CONVOY_MUL);
    case SCALE:
        x = add_scale_shift(graph, add_act(graph, x, CONVOY_LEAKY_RELU, 0.5f, 0));
        break;
    default: /* float32 in planes, then 16 bits again */
        grouped.groups = 4;
        x = add_conv(graph, x, 64, 3, 3, grouped, false);
        amplify(graph, x, 40);
        return relu(graph, x);
    }
    amplify(graph, x, 40);
    return x;
}

Test(backend_fp16, every_kernel_tells_of_large_results)
{
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_AVERAGE, .window = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    for (enum telling kind = 0; kind < KINDS; kind++) {
        /* 40 x 40 do not fit into whole_net, whose products are others. */
        struct convoy_graph *graph = new_graph(SHAPE(1, kind == READ ? 4 : kind == FIRST ? 3 : 8, 40, 40));
        int x = add_large(graph, kind);
        if (kind == READ || kind == CONVERT) {
            x = add_conv(graph, x, 8, 1, 1, CONV1, false);
            amplify(graph, x, kind == READ ? -1e-5f : -1e-3f); /* and makes them positive */
        } else {
            x = add_pool(graph, x, pool, false);
        }
        const float slope[KINDS] = {1e-6f, 1e-6f, 1e-6f, 1e-8f, 1e-6f, 0.3f, 1e-4f, 1e-6f};
        x = add_act(graph, x, CONVOY_HARD_SIGMOID, slope[kind], 0.5f);
        add_output(graph, x);
        check_loud(graph, 2, kind == READ ? 4e4f : 5e3f, 1);
    }
}

/* Where memory does not suffice for float32 tensors, the rows are said to be no numbers, and the others are
 * right. */
/* A dense layer of the pixels of an image, and a convolution of its parts: these rows are no images, and
 * large results are computed all the same. */
Test(backend_fp16, large_results_in_several_rows_of_an_image)
{
    for (int conv = 0; conv < 2; conv++) {
        struct convoy_net_info info;
        struct convoy_graph *graph = new_graph(SHAPE(1, 8, 4, 4));
        int x = add_conv(graph, graph->input, 64, 1, 1, CONV1, false);
        int rows = add_reshape(graph, x, conv ? SHAPE(4, 16, 4, 4) : SHAPE(16, 64));
        rows = conv ? add_conv(graph, rows, 16, 1, 1, CONV1, false) : add_dense(graph, rows, 64, false);
        amplify(graph, rows, 40);
        add_output(graph, add_reshape(graph, rows, SHAPE(1, 64, 4, 4)));
        struct convoy_net *net = load_as(graph, 5, CONVOY_COMPUTE_FP16, &info);
        loud.row = 3;
        for (int i = 0; i < 2; i++) {
            loud.by = i == 0 ? 5e3f : 1;
            check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 5, TOLERANCE);
        }
        loud.by = 1;
        warnings = 0;
        backend->unload(device, net);
        convoy_graph_free(graph);
    }
}

Test(backend_fp16, no_memory_for_what_fp16_does_not_hold)
{
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_AVERAGE, .window = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 40, 40));
    int x = add_pool(graph, add_large(graph, CONV), pool, false);
    add_output(graph, add_act(graph, x, CONVOY_HARD_SIGMOID, 1e-6f, 0.5f)); /* infinity would be 1 */
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, 17, CONVOY_COMPUTE_FP16, &info);
    const char *module = getenv("CONVOY_TEST_MODULE");
    bool emulated = strstr(module != NULL ? module : backend_module, "cuda-emulated") != NULL;
    struct convoy_device_memory memory = {0};
    struct convoy_error error;
    char fault[64];
    if (emulated && has_16_bits(&info)) { /* which has no more memory than is in use */
        cr_assert_eq(backend->memory(device, &memory, &error), 0);
        snprintf(fault, sizeof(fault), "memory:%zu", (size_t)(memory.total - memory.free));
        setenv("CONVOY_EMULATED_FAULT", fault, 1);
        loud.lost = true;
    }
    loud.row = 1;
    loud.by = 5e3f;
    for (int i = 0; i < 3; i++)
        check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 5, TOLERANCE);
    loud.by = 1;
    loud.lost = false;
    check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 5, TOLERANCE);
    unsetenv("CONVOY_EMULATED_FAULT");
    backend->unload(device, net);
    convoy_graph_free(graph);
}

static void run_row(struct convoy_net *net, size_t row_bytes, float by, bool repeatable, float *output)
{
    float *input = aligned_bytes(row_bytes);
    struct convoy_job_times times = {0};
    struct convoy_job job = {.layout = CONVOY_LAYOUT_F32_CHW,
                             .rows = 1,
                             .input = input,
                             .input_stride = row_bytes,
                             .output = output,
                             .output_stride = 64,
                             .repeatable = repeatable,
                             .times = &times};
    random_state = 5;
    for (size_t i = 0; i < row_bytes / sizeof *input; i++)
        input[i] = random_value() * by;
    run(net, &job);
    free(input);
}

/* Batch after batch of large results sends the next ones elsewhere. A repeatable job gives the same bits
 * there and then as before, and does not count as a batch of small results. */
Test(backend_fp16, a_repeatable_job_is_computed_as_before)
{
    static _Alignas(64) float before[16], again[16], elsewhere[16];
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 8, 8));
    int x = relu(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true));
    x = relu(graph, add_conv(graph, x, 16, 3, 3, CONV3, true));
    add_output(graph, add_dense(graph, add_flatten(graph, x), 16, true));
    struct convoy_net_info info;
    struct convoy_net *net = load_as(graph, 4, CONVOY_COMPUTE_FP16, &info);
    size_t bytes = sizeof(float) * 8 * 8 * 8;
    run_row(net, bytes, 1, true, before);
    for (int i = 0; i < 5; i++) {
        run_row(net, bytes, 1e9f, false, again);
        run_row(net, bytes, 1, true, again);
        cr_assert_arr_eq(before, again, sizeof before, "after %d batches", i + 1);
    }
    if (has_16_bits(&info)) {
        cr_assert_eq(warnings, 2, "%d: batches are not sent elsewhere", warnings);
        run_row(net, bytes, 1, false, elsewhere);
        cr_assert_arr_neq(before, elsewhere, sizeof before);
    }
    backend->unload(device, net);
    convoy_graph_free(graph);
}
