/* verify(): what a network keeps resident is what was loaded; and jobs that give the same bits each time. */
#include "tests/faults/flip.c"
#include "tests/unit/engine/backends/backend_harness.h"

#include "engine/base/hash.h"

#include <errno.h>

#define MOST_CALLS 10000

TestSuite(backend_verify, .init = open_backend, .fini = close_backend, .timeout = 120);

static struct convoy_graph *network(void)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 8, 8));
    int x = add_conv(graph, graph->input, 16, 3, 3, CONV3, true);
    x = add_dense(graph, add_flatten(graph, x), 400, true); /* 1.6 MB: several slices */
    add_output(graph, add_dense(graph, x, 10, true));
    return graph;
}

/* Calls until everything was read or something is wrong. */
static int verify_all(struct convoy_net *net, int64_t budget_us, int *calls, struct convoy_error *error)
{
    int more = 1;
    for (*calls = 0; more == 1 && *calls < MOST_CALLS; ++*calls)
        more = backend->verify(device, net, budget_us, error);
    return more;
}

/* Flipping works in memory of this process, which a GPU's is not. */
static bool can_flip(void)
{
    return getenv("CONVOY_TEST_MODULE") == NULL;
}

Test(backend_verify, reads_everything_in_slices_and_begins_again)
{
    struct convoy_error error;
    struct convoy_net_info info;
    struct convoy_graph *graph = network();
    struct convoy_net *net = load(graph, 4, &info);
    int calls;
    for (int round = 0; round < 3; round++) {
        cr_assert_eq(verify_all(net, 0, &calls, &error), 0, "%s", error.message);
        cr_assert_geq((size_t)calls, info.weight_bytes / CONVOY_CHECKSUM_SLICE, "%d", calls);
        cr_assert_leq(calls, 100);
    }
    cr_assert_eq(verify_all(net, 60000000, &calls, &error), 0, "%s", error.message);
    cr_assert_eq(calls, 1, "%d calls though there is time for all", calls);
    backend->unload(device, net);
    convoy_graph_free(graph);
}

Test(backend_verify, a_bit_that_flips_is_found)
{
    struct convoy_error error;
    struct convoy_net_info info;
    struct convoy_graph *graph = network();
    struct convoy_net *net = load(graph, 4, &info);
    int calls;
    if (!can_flip())
        return;
    cr_assert_eq(verify_all(net, 0, &calls, &error), 0, "%s", error.message);
    fault_flip_note(graph);
    cr_assert_gt(fault_flip(), 1, "only the graph has the constant"); /* it is there, too */
    cr_assert_eq(verify_all(net, 0, &calls, &error), -EBADMSG);
    cr_assert_not_null(strstr(error.message, "constant "), "%s", error.message);
    backend->unload(device, net);
    convoy_graph_free(graph);
}
