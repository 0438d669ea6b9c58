/* Which bottlenecks the CUDA backend finds in a network, and which way they run: by estimate, by what the
 * tuner measured, by what is remembered, by what the environment says. On the emulated device. */
#include "engine/base/hash.h"
#include "tests/unit/engine/cuda/tune/cuda_times.h"

#include <inttypes.h>

#define NAME "nhwc_bottleneck:"

TestSuite(cuda_bottleneck, .init = make_folder, .fini = remove_folder, .timeout = 300);

/* What is not as in a bottleneck. */
enum form {
    PLAIN,
    ACTIVATIONS, /* a bottleneck, too */
    NO_BIAS,     /* as well */
    STRIDE,
    DILATION,
    GROUPS,
    INNER_READ_TWICE,
    INNER_IS_OUTPUT,
    OTHER_ADDED,
    NOTHING_ADDED,
    OTHER_MIDDLE,
    OTHER_PADDING,
    MULTIPLIED,
    INNER_ADDED,
    OTHER_ACTIVATION, /* that no kernel applies to its results */
    OF_THE_INPUT,
    FORMS
};

static int act(struct convoy_graph *graph, int x, enum form form, enum convoy_activation_kind kind)
{
    return add_act(graph, x, form == ACTIVATIONS ? kind : CONVOY_RELU, 0, 6);
}

static struct convoy_graph *network(enum form form)
{
    struct convoy_conv inner = CONV3;
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 10, 12));
    int64_t middle = form == OTHER_MIDDLE ? 16 : 8;
    int x = form == OF_THE_INPUT ? graph->input
                                 : act(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true), PLAIN, 0);
    int other = form == OTHER_ADDED ? act(graph, add_conv(graph, x, 16, 1, 1, CONV1, true), PLAIN, 0) : x;
    int y = act(graph, add_conv(graph, x, 8, 1, 1, CONV1, form != NO_BIAS), form, CONVOY_SWISH);
    int first = y;
    if (form == OTHER_ACTIVATION)
        y = add_act(graph, add_conv(graph, x, 8, 1, 1, CONV1, true), CONVOY_ELU, 1, 0);
    if (form == STRIDE)
        inner.stride[0] = inner.stride[1] = 2;
    if (form == DILATION) { /* of as many outputs, and as many rows of padding above */
        inner.dilation[0] = inner.dilation[1] = 2;
        inner.pad[2] = inner.pad[3] = 3;
    }
    if (form == GROUPS)
        inner.groups = 2;
    if (form == OTHER_PADDING) { /* of as many outputs */
        inner.pad[0] = 0;
        inner.pad[2] = 2;
    }
    int more = form == INNER_ADDED ? act(graph, add_conv(graph, x, 8, 1, 1, CONV1, true), PLAIN, 0) : -1;
    y = add_conv(graph, y, middle, 3, 3, inner, form != NO_BIAS);
    if (form == INNER_ADDED)
        y = add_binary(graph, y, more, CONVOY_ADD);
    y = act(graph, y, form, CONVOY_CLIP);
    y = add_conv(graph, y, 16, 1, 1, CONV1, form != NO_BIAS);
    if (form == STRIDE)
        other = add_conv(graph, x, 16, 1, 1,
                         (struct convoy_conv){.groups = 1, .stride = {2, 2}, .dilation = {1, 1}}, true);
    if (form != NOTHING_ADDED)
        y = add_binary(graph, y, other, form == MULTIPLIED ? CONVOY_MUL : CONVOY_ADD);
    y = act(graph, y, form, CONVOY_TANH);
    if (form == INNER_READ_TWICE)
        add_output(graph, act(graph, add_conv(graph, first, 8, 1, 1, CONV1, true), PLAIN, 0));
    if (form == INNER_IS_OUTPUT)
        add_output(graph, first);
    add_output(graph, add_conv(graph, y, 5, 1, 1, CONV1, true));
    return graph;
}

/* Layers that run as a bottleneck's last one, which has the time of all. */
static int bottlenecks_in(const struct convoy_net_info *info)
{
    int count = 0;
    for (uint32_t i = 0; i < info->layer_count; i++)
        count += strncmp(info->layers[i].kernel, NAME, strlen(NAME)) == 0;
    return count;
}

static uint64_t measurements; /* of the last visit */

/* Loads the network for up to so many rows, tunes, checks answers; how many bottlenecks ran as a whole, then.
 */
static int visit(enum form form, uint32_t max_batch, enum convoy_tuning tune, const char *cache_dir)
{
    random_state = 1;
    struct convoy_graph *graph = network(form);
    struct convoy_net_info info;
    open_tuning(tune, cache_dir);
    uint64_t before = calls("cudaEventElapsedTime");
    struct convoy_net *net = load_as(graph, max_batch, CONVOY_COMPUTE_FP16, &info);
    tune_all();
    measurements = calls("cudaEventElapsedTime") - before;
    const struct convoy_net_info *last = changes > 0 ? &changed_info : &info;
    int count = bottlenecks_in(last);
    for (uint32_t rows = 1; rows <= max_batch; rows++)
        check_rows(graph, net, last, CONVOY_LAYOUT_F32_CHW, rows, TOLERANCE_FP16);
    cr_expect_eq(last->precision, CONVOY_COMPUTE_FP16);
    cr_expect_eq(last->weight_bytes, memory_now().weights);
    unload_all(net, graph);
    close_backend();
    return count;
}

Test(cuda_bottleneck, what_is_one)
{
    for (enum form form = PLAIN; form < FORMS; form++)
        cr_expect_eq(visit(form, MAX_BATCH, CONVOY_TUNING_OFF, NULL), form <= NO_BIAS ? 1 : 0, "form %d",
                     (int)form);
}

/* Profiles name the layers that are computed with the last one, which is named as a whole. */
Test(cuda_bottleneck, names)
{
    struct convoy_graph *graph = network(PLAIN);
    struct convoy_net_info info;
    open_tuning(CONVOY_TUNING_OFF, NULL);
    struct convoy_net *net = load_as(graph, MAX_BATCH, CONVOY_COMPUTE_FP16, &info);
    cr_assert_eq(info.layer_count, 5);
    cr_expect_eq(strncmp(info.layers[1].kernel, "in " NAME, 3 + strlen(NAME)), 0, "%s",
                 info.layers[1].kernel);
    cr_expect_eq(strncmp(info.layers[2].kernel, "in " NAME, 3 + strlen(NAME)), 0, "%s",
                 info.layers[2].kernel);
    cr_expect_eq(strncmp(info.layers[3].kernel, NAME, strlen(NAME)), 0, "%s", info.layers[3].kernel);
    cr_expect_not_null(strstr(info.layers[3].kernel, "+add+relu"), "%s", info.layers[3].kernel);
    unload_all(net, graph);
}

/* Many images: the estimates are not asked. */
Test(cuda_bottleneck, many_images_run_layer_by_layer)
{
    struct convoy_graph *graph = network(PLAIN);
    struct convoy_net_info info;
    open_tuning(CONVOY_TUNING_OFF, NULL);
    struct convoy_net *net = load_as(graph, 9, CONVOY_COMPUTE_FP16, &info);
    cr_expect_eq(bottlenecks_in(&info), 0);
    check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 9, TOLERANCE_FP16);
    check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 2, TOLERANCE_FP16);
    unload_all(net, graph);
}

/* On a clock on which fewer launches are faster, and on one on which more are; each time it is remembered
 * which way was the fastest. */
Test(cuda_bottleneck, the_tuner_chooses)
{
    for (int whole = 0; whole < 2; whole++) {
        setenv("CONVOY_EMULATED_CLOCK", whole ? "launches" : "kernels", 1);
        cr_expect_eq(visit(PLAIN, 1, CONVOY_TUNING_FORCE, folder.path), whole);
        char *text = read_times();
        cr_expect_not_null(strstr(text, "\tbottleneck n1 x16x10x12 m8 b1,1,1 a1,1,1\n"), "%s", text);
        cr_expect_not_null(strstr(text, whole ? "\t" NAME : "\tlayers\tbottleneck"), "%s", text);
        /* The layers were timed, too. */
        cr_expect_not_null(strstr(text, "\tconv n1 x16x10x12 w8x1x1"), "%s", text);
        cr_expect_not_null(strstr(text, "\tconv n1 x8x10x12 w8x3x3"), "%s", text);
        free(text);
        cr_expect_eq(visit(PLAIN, 1, CONVOY_TUNING_OFF, folder.path), whole);
        cr_expect_eq(visit(PLAIN, 1, CONVOY_TUNING_ON, folder.path), whole);
        cr_expect_eq(measurements, 0);
    }
}

/* One and two images with kernels that want the weights in different forms. */
Test(cuda_bottleneck, sizes_of_batch_have_kernels_of_their_own)
{
    static const char *const kernels[] = {"16x1", "64x1"};
    const char *file = folder_path(&folder, "emulated-GPU-0.times");
    struct convoy_error error;
    size_t length;
    char *text;
    setenv("CONVOY_EMULATED_CLOCK", "launches", 1);
    cr_expect_eq(visit(PLAIN, 2, CONVOY_TUNING_FORCE, folder.path), 1);
    cr_assert_eq(convoy_file_read(file, 1 << 20, &text, &length, &error), 0, "%s", error.message);
    for (int n = 1; n <= 2; n++) {
        char key[32];
        snprintf(key, sizeof(key), "\tbottleneck n%d ", n);
        char *at = strstr(text, key);
        cr_assert_not_null(at, "%s", text);
        memcpy(at - 4, kernels[n - 1], 4); /* of a name that ends so */
    }
    /* "end COUNT HASH", of what is before. */
    char *end = strstr(text, "\nend ") + 1;
    snprintf(strrchr(end, ' ') + 1, 18, "%016" PRIx64 "\n", convoy_hash(0, text, (size_t)(end - text)));
    folder_write(&folder, "emulated-GPU-0.times", text);
    cr_expect_eq(visit(PLAIN, 2, CONVOY_TUNING_ON, folder.path), 1);
    cr_expect_eq(measurements, 0);
    free(text);
}

/* Kernel times from before there were bottlenecks: all is still known, and only these are timed. */
Test(cuda_bottleneck, times_without_bottlenecks_are_kept)
{
    setenv("CONVOY_EMULATED_CLOCK", "launches", 1);
    setenv("CONVOY_BOTTLENECK", "layers", 1);
    cr_expect_eq(visit(PLAIN, 1, CONVOY_TUNING_ON, folder.path), 0);
    unsetenv("CONVOY_BOTTLENECK");
    cr_expect_eq(visit(PLAIN, 1, CONVOY_TUNING_ON, folder.path), 1);
    cr_expect_eq(logged("is tuned: 5 layers, 1 shapes timed"), 1, "%s", log_text);
}

Test(cuda_bottleneck, the_environment_says_which_way)
{
    static const char *const kernels[] = {NAME "16x1", NAME "16x2", NAME "32x1", NAME "32x2", NAME "64x1"};
    setenv("CONVOY_EMULATED_CLOCK", "launches", 1);
    setenv("CONVOY_BOTTLENECK", "layers", 1);
    cr_expect_eq(visit(PLAIN, 1, CONVOY_TUNING_OFF, NULL), 0);
    setenv("CONVOY_EMULATED_CLOCK", "kernels", 1);
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        struct convoy_net_info info;
        struct convoy_graph *graph = network(PLAIN);
        setenv("CONVOY_BOTTLENECK", kernels[i], 1);
        open_tuning(CONVOY_TUNING_ON, NULL);
        struct convoy_net *net = load_as(graph, 9, CONVOY_COMPUTE_FP16, &info);
        cr_expect_eq(strncmp(info.layers[3].kernel, kernels[i], strlen(kernels[i])), 0, "%s",
                     info.layers[3].kernel);
        check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 2, TOLERANCE_FP16);
        unload_all(net, graph);
        close_backend();
    }
}
