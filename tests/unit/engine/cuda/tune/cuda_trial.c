/* Kernels on trial, which have not run on a GPU: plans and the tuner take them only with
 * CONVOY_TRIAL_KERNELS=1 in the environment, and what was timed with them is not believed without. The device
 * is the emulated one, whose clock says the same of all kernels of one launch, so that the estimate decides.
 */
#include "tests/unit/engine/cuda/tune/cuda_tuning.h"

#include "tests/unit/folder.h"

#include <sys/wait.h>

#define LOOSE 1e-2 /* of fp16 */

static struct folder folder;

static void make_folder(void)
{
    folder = folder_make();
    setenv("CONVOY_EMULATED_CLOCK", "launches", 1);
}

static void remove_folder(void)
{
    close_backend();
    folder_remove(&folder);
}

TestSuite(cuda_trial, .init = make_folder, .fini = remove_folder, .timeout = 300);

/* Images of 8 channels, of which no kernel makes the network as a whole. */
static struct convoy_graph *network(void)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 6, 5));
    int x = add_act(graph, add_conv(graph, graph->input, 16, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    add_output(graph, add_dense(graph, add_flatten(graph, x), 5, true));
    return graph;
}

static bool on_trial(const struct convoy_net_info *info)
{
    return strncmp(info->layers[0].kernel, "nhwc_maps:", 10) == 0;
}

struct seen {
    bool planned, tuned; /* a kernel on trial, before the tuner ran and after it */
    bool passed_over;    /* the file of times, as that of another build */
};

/* Loads the network, tunes, checks answers and closes. */
static struct seen visit(void)
{
    random_state = 1; /* the same network each time */
    struct convoy_graph *graph = network();
    struct convoy_net_info info;
    open_tuning(CONVOY_TUNING_ON, folder.path);
    struct convoy_net *net = load_as(graph, MAX_BATCH, CONVOY_COMPUTE_FP16, &info);
    struct seen seen = {.planned = on_trial(&info)};
    tune_all();
    const struct convoy_net_info *last = changes > 0 ? &changed_info : &info;
    seen.tuned = on_trial(last);
    seen.passed_over = logged("another device, driver or build") > 0;
    for (uint32_t rows = 1; rows <= MAX_BATCH; rows++)
        check_rows(graph, net, last, CONVOY_LAYOUT_F32_CHW, rows, LOOSE);
    unload_all(net, graph);
    close_backend();
    return seen;
}

/* The same in a process of its own, since the environment is looked at once; NULL: it says nothing. */
static struct seen visit_with(const char *value)
{
    struct seen seen;
    int ends[2], status;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        if (value != NULL)
            setenv("CONVOY_TRIAL_KERNELS", value, 1);
        else
            unsetenv("CONVOY_TRIAL_KERNELS");
        seen = visit();
        _exit(write(ends[1], &seen, sizeof seen) == sizeof seen ? 0 : 1);
    }
    close(ends[1]);
    cr_assert_eq(read(ends[0], &seen, sizeof seen), (ssize_t)sizeof seen, "the process came to nothing");
    close(ends[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    return seen;
}

Test(cuda_trial, kernels_on_trial_are_left_out)
{
    struct seen seen = visit_with(NULL);
    cr_expect(!seen.planned && !seen.tuned);
    seen = visit_with("0");
    cr_expect(!seen.planned && !seen.tuned);
    cr_expect_not(seen.passed_over);
}

Test(cuda_trial, they_are_taken_where_the_environment_asks)
{
    struct seen seen = visit_with("1");
    cr_expect(seen.planned, "the estimate is not the least: this test wants another network");
    cr_expect(seen.tuned);
}

/* And the other way round: what was timed without them does not keep them away. */
Test(cuda_trial, times_with_them_are_those_of_another_build)
{
    visit_with("1");
    struct seen seen = visit_with(NULL);
    cr_expect(seen.passed_over);
    cr_expect(!seen.planned && !seen.tuned);
    seen = visit_with("1");
    cr_expect(seen.passed_over);
    cr_expect(seen.tuned);
}
