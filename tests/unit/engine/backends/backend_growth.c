/* How long networks of very many tensors take to load. */
#include "tests/unit/engine/backends/backend_harness.h"

#include <time.h>

#define FEW  2500
#define MANY 25000

TestSuite(backend_growth, .init = open_backend, .fini = close_backend, .timeout = 300);

/* Processor seconds of loading a network of so many tensors that are all alive at once. */
static double seconds_of(int count)
{
    double best = 1e9;
    struct convoy_graph *graph = new_graph(SHAPE(1, 8));
    int *alive = calloc((size_t)count, sizeof *alive);
    cr_assert_not_null(alive);
    for (int i = 0; i < count; i++)
        alive[i] = add_act(graph, i == 0 ? graph->input : alive[i - 1], CONVOY_SIGMOID, 0, 0);
    int sum = alive[0];
    for (int i = count - 1; i > 0; i--)
        sum = add_binary(graph, sum, alive[i], CONVOY_ADD);
    add_output(graph, sum);
    for (int i = 0; i < 3; i++) {
        struct convoy_net_info info;
        struct timespec from, to;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
        struct convoy_net *net = load(graph, 1, &info);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
        backend->unload(device, net);
        double took = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
        best = took < best ? took : best;
    }
    free(alive);
    convoy_graph_free(graph);
    return best;
}

/* Ten times as many take 10 to 15 times as long; 100 times where each is compared with each. */
Test(backend_growth, tensors_that_live_at_once_are_not_compared_with_each_other)
{
    double few = seconds_of(FEW), many = seconds_of(MANY);
    cr_assert_lt(many, few * 40, "%d tensors: %.3f s, %d: %.3f s", FEW, few, MANY, many);
}
