/* A long job is told from one that stands still: the CPU backend reports each layer of each pass. */
#include "tests/unit/engine/backends/backend_harness.h"

#include <stdatomic.h>

#define ROWS   40
#define LAYERS 3

static atomic_int reports;

static void count_report(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

static void open_counting(void)
{
    open_backend_with(
        &(struct convoy_open_options){.streams = 1, .context = &reports, .progress = count_report});
}

TestSuite(backend_progress, .init = open_counting, .fini = close_backend, .timeout = 60);

Test(backend_progress, each_layer_of_a_job_is_reported)
{
    static _Alignas(64) float input[ROWS][4 * 8 * 8], output[ROWS][4 * 8 * 8];
    struct convoy_error error;
    struct convoy_net *net = NULL;
    struct convoy_net_info info;
    struct convoy_job_times times = {0};
    uint64_t tag;
    int got = 0;
    if (strcmp(backend->name, "cpu") != 0)
        return; /* a CUDA graph reports nothing: its jobs take milliseconds */
    struct convoy_graph *graph = new_graph(SHAPE(1, 4, 8, 8));
    int x = graph->input;
    for (int i = 0; i < LAYERS; i++)
        x = add_conv(graph, x, 4, 3, 3, CONV3, false);
    add_output(graph, x);
    struct convoy_load_options options = {.name = "long", .max_batch = ROWS};
    cr_assert_eq(backend->load(device, graph, &options, &net, &info, &error), 0, "%s", error.message);
    atomic_store(&reports, 0);
    struct convoy_job job = {.layout = CONVOY_LAYOUT_F32_CHW,
                             .rows = ROWS,
                             .input = input,
                             .input_stride = sizeof input[0],
                             .output = output[0],
                             .output_stride = sizeof output[0],
                             .times = &times};
    cr_assert_eq(backend->submit(device, net, &job, &error), 0, "%s", error.message);
    while (got == 0)
        got = backend->collect(device, 100000, &tag, &error);
    cr_assert_eq(got, 1, "%s", error.message);
    /* A pass takes 16 rows at most. */
    cr_assert_geq(atomic_load(&reports), LAYERS * ((ROWS + 15) / 16));
    backend->unload(device, net);
    convoy_graph_free(graph);
}
