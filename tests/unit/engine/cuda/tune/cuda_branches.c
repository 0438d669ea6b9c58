/* Whether a network's graph has all branches that it can have: by what the tuner measured, by what is
 * remembered. On the emulated device. */
#include "tests/unit/engine/cuda/tune/cuda_times.h"

TestSuite(cuda_branches, .init = make_folder, .fini = remove_folder, .timeout = 300);

static int conv(struct convoy_graph *graph, int x, int64_t maps, bool wide)
{
    return add_act(graph, add_conv(graph, x, maps, wide ? 3 : 1, wide ? 3 : 1, wide ? CONV3 : CONV1, true),
                   CONVOY_RELU, 0, 0);
}

/* Two branches of two layers, which do not begin with siblings; or begin with them, and read other channels
 * of the same pixels then; layers that follow each other; two branches, one of which has many layers. */
enum form { EVEN, SIBLINGS, CHAIN, UNEVEN };

static struct convoy_graph *network(enum form form)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 6, 5));
    int x = conv(graph, graph->input, 16, true);
    int one = conv(graph, conv(graph, x, 16, false), 24, true);
    int other = conv(graph, conv(graph, form != CHAIN ? x : one, 8, form != SIBLINGS), 24, true);
    for (int i = 0; i < 10 && form == UNEVEN; i++)
        other = conv(graph, other, 24, true);
    int inputs[] = {one, other};
    add_output(graph, add_dense(graph, add_flatten(graph, add_concat(graph, 2, inputs, 1)), 5, true));
    return graph;
}

static uint64_t measured; /* by the last visit */

/* Loads, tunes, checks answers of up to two rows; is the network's graph recorded on more than one stream? */
static bool visit(enum form form, enum convoy_tuning tune)
{
    random_state = 1;
    struct convoy_graph *graph = network(form);
    struct convoy_net_info info;
    open_tuning(tune, folder.path);
    struct convoy_net *net = load_as(graph, 2, CONVOY_COMPUTE_FP16, &info);
    uint64_t measurements = calls("cudaEventElapsedTime");
    tune_all();
    measured = calls("cudaEventElapsedTime") - measurements;
    const struct convoy_net_info *last = changes > 0 ? &changed_info : &info;
    for (uint32_t rows = 1; rows <= 2; rows++)
        check_rows(graph, net, last, CONVOY_LAYOUT_F32_CHW, rows, TOLERANCE_FP16);
    backend->unload(device, net);
    /* Once more, with all that is known: graphs are recorded at once. */
    uint64_t streams = calls("cudaStreamCreateWithFlags");
    net = load_as(graph, 2, CONVOY_COMPUTE_FP16, &info);
    bool more = calls("cudaStreamCreateWithFlags") > streams;
    unload_all(net, graph);
    close_backend();
    return more;
}

static bool remembers(const char *text)
{
    char *all = read_times();
    bool found = strstr(all, text) != NULL;
    free(all);
    return found;
}

/* On a clock that does not count what runs beside something else, and on one that counts all. */
Test(cuda_branches, the_tuner_chooses)
{
    for (int faster = 0; faster < 2; faster++) {
        setenv("CONVOY_EMULATED_CLOCK", faster ? "chains" : "launches", 1);
        cr_expect_eq(visit(EVEN, CONVOY_TUNING_FORCE), faster);
        cr_expect(remembers(faster ? "\tbranches\tbranches " : "\tlayers\tbranches "));
        cr_expect_eq(visit(EVEN, CONVOY_TUNING_OFF), faster);
        cr_expect_eq(visit(EVEN, CONVOY_TUNING_ON), faster);
        cr_expect_eq(measured, 0);
    }
}

/* Where the longest chain is estimated to take much less than all. */
Test(cuda_branches, before_they_were_measured_there_are_likely_ones)
{
    cr_expect(visit(EVEN, CONVOY_TUNING_OFF));
    cr_expect(visit(SIBLINGS, CONVOY_TUNING_OFF));
    cr_expect_not(visit(UNEVEN, CONVOY_TUNING_OFF));
}

/* Nothing is measured where there is no choice. */
Test(cuda_branches, layers_that_follow_each_other_have_none)
{
    setenv("CONVOY_EMULATED_CLOCK", "chains", 1);
    cr_expect_not(visit(CHAIN, CONVOY_TUNING_FORCE));
    cr_expect_not(remembers("\tbranches "));
}

/* Layers that follow each other, the first of which is added to the last one, and between them twice, or not,
 * a convolution beside two layers. */
static struct convoy_graph *long_skip(bool beside)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 16, 16));
    int first = conv(graph, graph->input, 16, true), y = first;
    for (int i = 0; i < 20; i++) {
        int x = y;
        y = conv(graph, x, 16, true);
        if (i % 10 == 5 && beside)
            y = add_act(graph,
                        add_binary(graph, add_conv(graph, y, 16, 3, 3, CONV3, true),
                                   add_conv(graph, x, 16, 1, 1, CONV1, true), CONVOY_ADD),
                        CONVOY_RELU, 0, 0);
    }
    add_output(graph, add_dense(graph, add_flatten(graph, add_binary(graph, y, first, CONVOY_ADD)), 5, true));
    return graph;
}

/* One convolution beside others is a branch before anything was measured, and what such a branch keeps in
 * memory is little, however far a tensor reaches over it. */
Test(cuda_branches, a_tensor_that_reaches_far_is_no_hindrance)
{
    uint64_t workspace[2];
    for (int beside = 0; beside < 2; beside++) {
        struct convoy_graph *graph = long_skip(beside);
        struct convoy_net_info info;
        open_tuning(CONVOY_TUNING_OFF, NULL);
        uint64_t streams = calls("cudaStreamCreateWithFlags");
        struct convoy_net *net = load_as(graph, 1, CONVOY_COMPUTE_FP16, &info);
        cr_expect_eq(calls("cudaStreamCreateWithFlags") > streams, beside);
        workspace[beside] = memory_now().workspace;
        check_rows(graph, net, &info, CONVOY_LAYOUT_F32_CHW, 1, TOLERANCE_FP16);
        unload_all(net, graph);
        close_backend();
    }
    cr_expect_lt(workspace[1], 2 * workspace[0], "%lu and %lu bytes", (unsigned long)workspace[0],
                 (unsigned long)workspace[1]);
}

/* Kernel times from before there were branches: these alone are timed. */
Test(cuda_branches, times_without_branches_are_kept)
{
    setenv("CONVOY_EMULATED_CLOCK", "chains", 1);
    setenv("CONVOY_BRANCHES", "layers", 1);
    cr_expect_not(visit(EVEN, CONVOY_TUNING_ON));
    unsetenv("CONVOY_BRANCHES");
    cr_expect(visit(EVEN, CONVOY_TUNING_ON));
    cr_expect_gt(measured, 0);
    cr_expect_eq(changes, 1, "the network does not use what was found");
    cr_expect_eq(logged("is tuned: 7 layers, 2 shapes timed"), 1, "%s", log_text);
}
