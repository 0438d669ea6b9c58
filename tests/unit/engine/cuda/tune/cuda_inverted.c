/* Which inverted residuals the CUDA backend finds in a network, and which way they run. On the emulated
 * device. */
#include "tests/unit/engine/cuda/tune/cuda_times.h"

#define NAME "nhwc_inverted"

TestSuite(cuda_inverted, .init = make_folder, .fini = remove_folder, .timeout = 300);

/* Inverted residuals; such of which the first or the last two layers alone are run as a whole; and what is
 * none. */
enum form {
    PLAIN,
    NO_SUM,
    STRIDE,
    FIVE,
    NARROW, /* fewer maps than channels */
    NO_BIAS,
    OTHER_ADDED,
    ODD, /* maps that are no whole cells */
    SQUEEZED,
    SEPARABLE, /* no first layer */
    SEPARABLE_STRIDE,
    SEPARABLE_NO_SUM,
    OTHER_STRIDE,
    PAIRS, /* two channels in a group */
    INNER_READ_TWICE,
    INNER_IS_OUTPUT,
    SEPARABLE_INNER_IS_OUTPUT,
    OTHER_PADDING,
    SEVEN, /* a filter that no kernel has */
    FORMS
};

static int act(struct convoy_graph *graph, int x)
{
    return add_act(graph, x, CONVOY_CLIP, 0, 6);
}

static struct convoy_graph *network(enum form form)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 10, 12));
    struct convoy_conv conv = CONV3;
    int64_t side = form == FIVE    ? 5
                   : form == SEVEN ? 7
                                   : 3,
            maps = form == NARROW ? 8
                   : form == ODD  ? 12
                                  : 16;
    bool separable = form == SEPARABLE || form == SEPARABLE_STRIDE || form == SEPARABLE_NO_SUM ||
                     form == SEPARABLE_INNER_IS_OUTPUT;
    int64_t inside = separable ? 16 : 40;
    conv.groups = form == PAIRS ? 20 : inside;
    conv.pad[0] = conv.pad[1] = conv.pad[2] = conv.pad[3] = side / 2;
    if (form == STRIDE || form == SEPARABLE_STRIDE)
        conv.stride[0] = conv.stride[1] = 2;
    if (form == OTHER_STRIDE)
        conv.stride[1] = 2;
    if (form == OTHER_PADDING) { /* of as many outputs */
        conv.pad[0] = 0;
        conv.pad[2] = 2;
    }
    int x = act(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true));
    int other = form == OTHER_ADDED ? act(graph, add_conv(graph, x, 16, 1, 1, CONV1, true)) : x;
    int first = separable ? x : act(graph, add_conv(graph, x, inside, 1, 1, CONV1, form != NO_BIAS));
    int y = act(graph, add_conv(graph, first, inside, side, side, conv, form != NO_BIAS));
    int depthwise = y;
    if (form == SQUEEZED)
        y = add_binary(graph, y,
                       add_act(graph, add_conv(graph, add_global_average(graph, y), 40, 1, 1, CONV1, true),
                               CONVOY_SIGMOID, 0, 0),
                       CONVOY_MUL);
    y = add_conv(graph, y, maps, 1, 1, CONV1, form != NO_BIAS);
    if (form == PLAIN || form == FIVE || form == OTHER_ADDED || form == SEPARABLE || form > PAIRS)
        y = add_binary(graph, y, other, CONVOY_ADD);
    if (form == INNER_READ_TWICE)
        add_output(graph, act(graph, add_conv(graph, first, 8, 1, 1, CONV1, true)));
    if (form == INNER_IS_OUTPUT)
        add_output(graph, first);
    if (form == SEPARABLE_INNER_IS_OUTPUT)
        add_output(graph, depthwise);
    /* Where y lay over x, or x were overwritten before it is read, this would tell. */
    y = act(graph, add_conv(graph, y, 24, 1, 1, CONV1, true));
    add_output(graph, add_conv(graph, y, 5, 1, 1, CONV1, true));
    return graph;
}

static uint64_t measurements; /* of the last visit */

/* Loads the network for up to so many rows, tunes, checks answers; how many layers one launch computed, then.
 */
static int visit(enum form form, uint32_t max_batch, enum convoy_tuning tune, const char *cache_dir)
{
    random_state = 1;
    struct convoy_graph *graph = network(form);
    struct convoy_net_info info;
    int count = 0;
    open_tuning(tune, cache_dir);
    uint64_t before = calls("cudaEventElapsedTime");
    struct convoy_net *net = load_as(graph, max_batch, CONVOY_COMPUTE_FP16, &info);
    tune_all();
    measurements = calls("cudaEventElapsedTime") - before;
    const struct convoy_net_info *last = changes > 0 ? &changed_info : &info;
    for (uint32_t i = 0; i < last->layer_count; i++)
        count += strstr(last->layers[i].kernel, NAME) != NULL; /* or "in" it */
    for (uint32_t rows = 1; rows <= max_batch; rows++)
        check_rows(graph, net, last, CONVOY_LAYOUT_F32_CHW, rows, TOLERANCE_FP16);
    cr_expect_eq(last->precision, CONVOY_COMPUTE_FP16);
    cr_expect_eq(last->weight_bytes, memory_now().weights);
    unload_all(net, graph);
    close_backend();
    return count;
}

Test(cuda_inverted, what_is_one)
{
    setenv("CONVOY_BOTTLENECK", NAME, 1);
    for (enum form form = PLAIN; form < FORMS; form++)
        cr_expect_eq(visit(form, MAX_BATCH, CONVOY_TUNING_OFF, NULL),
                     form <= NO_BIAS            ? 3
                     : form <= SEPARABLE_NO_SUM ? 2
                                                : 0,
                     "form %d", (int)form);
}

/* The last layer of one is the first layer of the next one, as in MobileNetV1: only one of the two runs as a
 * whole. */
Test(cuda_inverted, two_that_share_a_layer)
{
    setenv("CONVOY_BOTTLENECK", NAME, 1);
    for (int64_t maps = 160; maps <= 168; maps += 8) { /* of more than 160 the first two layers are taken */
        struct convoy_conv depthwise = CONV3;
        struct convoy_net_info info;
        struct convoy_graph *graph = new_graph(SHAPE(1, 16, 8, 9));
        int x = act(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true));
        for (int i = 0; i < 3; i++) {
            int64_t channels = i == 0 ? 24 : i == 1 ? maps : 40;
            x = act(graph, add_conv(graph, x, channels, 1, 1, CONV1, true));
            depthwise.groups = channels;
            if (i < 2)
                x = act(graph, add_conv(graph, x, channels, 3, 3, depthwise, true));
        }
        add_output(graph, add_conv(graph, x, 5, 1, 1, CONV1, true));
        open_tuning(CONVOY_TUNING_OFF, NULL);
        struct convoy_net *net = load_as(graph, MAX_BATCH, CONVOY_COMPUTE_FP16, &info);
        for (uint32_t rows = 1; rows <= MAX_BATCH; rows++)
            check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, rows, TOLERANCE_FP16);
        unload_all(net, graph);
        close_backend();
    }
}

/* Two of other strides share weights, which the kernel reads in another order then. */
Test(cuda_inverted, two_strides_of_the_same_weights)
{
    struct convoy_net_info info;
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 10, 12));
    int weights[3], x = act(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true));
    setenv("CONVOY_BOTTLENECK", NAME, 1);
    for (int stride = 1; stride <= 2; stride++) {
        struct convoy_conv depthwise = CONV3;
        depthwise.groups = 40;
        depthwise.stride[0] = depthwise.stride[1] = stride;
        for (int layer = 0; layer < 3; layer++) {
            x = layer == 1 ? add_conv(graph, x, 40, 3, 3, depthwise, true)
                           : add_conv(graph, x, layer == 0 ? 40 : 16, 1, 1, CONV1, true);
            struct convoy_node *node = &graph->nodes[graph->node_count - 1];
            if (stride == 1)
                weights[layer] = node->inputs[1];
            node->inputs[1] = weights[layer];
            x = act(graph, x);
        }
    }
    add_output(graph, add_conv(graph, x, 5, 1, 1, CONV1, true));
    open_tuning(CONVOY_TUNING_OFF, NULL);
    struct convoy_net *net = load_as(graph, MAX_BATCH, CONVOY_COMPUTE_FP16, &info);
    int whole = 0;
    for (uint32_t i = 0; i < info.layer_count; i++)
        whole += strstr(info.layers[i].kernel, NAME) != NULL; /* or "in" it */
    cr_expect_eq(whole, 6);
    for (uint32_t rows = 1; rows <= MAX_BATCH; rows++)
        check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, rows, TOLERANCE_FP16);
    unload_all(net, graph);
    close_backend();
}

Test(cuda_inverted, before_it_was_measured_estimates_decide)
{
    cr_expect_eq(visit(PLAIN, MAX_BATCH, CONVOY_TUNING_OFF, NULL), 3);
    setenv("CONVOY_BOTTLENECK", "layers", 1);
    cr_expect_eq(visit(PLAIN, MAX_BATCH, CONVOY_TUNING_OFF, NULL), 0);
}

/* On a clock on which fewer launches are faster, and on one on which more are; each time it is remembered
 * which way was the fastest. */
static void check_choice(enum form form, int layers, const char *key)
{
    for (int whole = 0; whole < 2; whole++) {
        char line[128];
        setenv("CONVOY_EMULATED_CLOCK", whole ? "launches" : "kernels", 1);
        cr_expect_eq(visit(form, 1, CONVOY_TUNING_FORCE, folder.path), whole ? layers : 0);
        char *text = read_times();
        snprintf(line, sizeof(line), "\t%s\t%s", whole ? NAME : "layers", key);
        cr_expect_not_null(strstr(text, line), "%s", text);
        free(text);
        cr_expect_eq(visit(form, 1, CONVOY_TUNING_OFF, folder.path), whole ? layers : 0);
        cr_expect_eq(visit(form, 1, CONVOY_TUNING_ON, folder.path), whole ? layers : 0);
        cr_expect_eq(measurements, 0);
    }
}

Test(cuda_inverted, the_tuner_chooses)
{
    check_choice(STRIDE, 3, "inverted n1 x16x10x12 m40 k16 3x3/2 r0 b1,1,1 a");
}

Test(cuda_inverted, the_tuner_chooses_for_the_last_two_layers)
{
    check_choice(SEPARABLE, 2, "separable n1 x16x10x12 m16 k16 3x3/1 r1 b0,1,1 a");
}
