/* Networks of which a single image is work enough for several threads: which of its layers they share. */
#include "tests/unit/engine/backends/backend_harness.h"

#include "engine/base/clock.h"

#include <dirent.h>

#define TOLERANCE 1e-5
#define WAIT_US   20000000u

/* As on a machine of three cores without AVX-512. */
static void open_backend_of_three(void)
{
    setenv("OMP_NUM_THREADS", "3", 1);
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    open_backend();
}

TestSuite(backend_threads, .init = open_backend_of_three, .fini = close_backend, .timeout = 300);

static void need_threads(void)
{
    if (strcmp(backend->name, "cpu") != 0)
        cr_skip("this backend computes on no threads");
}

/* x times a number for each channel that is computed from x: threads share x, one computes the numbers. The
 * channels are no whole blocks. */
Test(backend_threads, gates)
{
    need_threads();
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_AVERAGE, .window = {65, 47}, .stride = {1, 1}, .dilation = {1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 12, 65, 47));
    int x = add_act(graph, add_conv(graph, graph->input, 37, 3, 3, CONV3, true), CONVOY_SWISH, 0, 0);
    int gate = add_conv(graph, add_pool(graph, x, pool, false), 70, 1, 1, CONV1, true);
    gate = add_conv(graph, add_act(graph, gate, CONVOY_SWISH, 0, 0), 37, 1, 1, CONV1, true);
    gate = add_act(graph, gate, CONVOY_SIGMOID, 0, 0);
    int y = add_binary(graph, x, gate, CONVOY_MUL);
    pool.window[0] = pool.window[1] = pool.stride[0] = pool.stride[1] = 9;
    add_output(graph, add_pool(graph, y, pool, false));
    check_graph(graph, TOLERANCE);
}

/* Swish alone, of a tensor that is read again, and between what is fused. */
Test(backend_threads, swish)
{
    need_threads();
    struct convoy_graph *graph = new_graph(SHAPE(1, 5, 65, 47));
    int x = add_act(graph, add_conv(graph, graph->input, 37, 3, 3, CONV3, true), CONVOY_SWISH, 0, 0);
    int again = add_act(graph, x, CONVOY_SWISH, 0, 0);
    int y = add_conv(graph, again, 37, 1, 1, CONV1, true);
    y = add_act(graph, add_binary(graph, y, x, CONVOY_ADD), CONVOY_SWISH, 0, 0);
    y = add_act(graph, y, CONVOY_CLIP, 0.1f, 0.9f);
    struct convoy_pool pool = {
        .kind = CONVOY_POOL_AVERAGE, .window = {5, 5}, .stride = {5, 5}, .dilation = {1, 1}};
    add_output(graph, add_pool(graph, y, pool, false));
    check_graph(graph, TOLERANCE);
}

static int threads_of_process(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    cr_assert_not_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* oneDNN computes with the module's team, not with libgomp's, whose threads would stay. */
Test(backend_threads, end_with_the_device)
{
    need_threads();
    int opened = threads_of_process();
    struct convoy_graph *graph = new_graph(SHAPE(1, 24, 65, 47));
    add_output(graph, add_conv(graph, graph->input, 32, 3, 3, CONV3, true));
    check_graph(graph, TOLERANCE);
    cr_assert_eq(threads_of_process(), opened + 2);
    close_backend();
    uint64_t end_us = convoy_now_us() + WAIT_US;
    while (threads_of_process() > opened - 2) /* a thread that was joined is listed for a moment */
        cr_assert_lt(convoy_now_us(), end_us, "%d threads are left", threads_of_process());
    open_backend_of_three();
}
