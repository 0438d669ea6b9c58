/* A decoder of JPEG files that is prepared while networks are used (backend.h's run_behind()). Where nothing
 * goes wrong on a GPU, too. */
#include "tests/unit/engine/backends/backend_jpeg.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

TestSuite(backend_jpeg_behind, .fini = close_backend, .timeout = 300);

static struct {
    int asked; /* calls of run_behind() */
    void (*work)(void *argument);
    int (*done)(void *argument, struct convoy_error *error);
    void *argument;
} behind;
static const struct convoy_net *told[8]; /* networks for which changed() was called, with files */
static int tellings;

static void run_behind(void *context, void (*work)(void *argument),
                       int (*done)(void *argument, struct convoy_error *error), void *argument)
{
    (void)context;
    behind.asked++;
    behind.work = work;
    behind.done = done;
    behind.argument = argument;
}

static void changed(void *context, struct convoy_net *net, const struct convoy_net_info *info)
{
    (void)context;
    cr_assert(info->takes_jpeg);
    told[tellings++] = net;
}

static void open_behind(const char *wish)
{
    struct convoy_error error;
    struct convoy_open_options options = {
        .streams = 3, .log = keep_log, .run_behind = run_behind, .changed = changed};
    if (wish != NULL && (!is_exact() || backend_nvjpeg[0] == '\0'))
        cr_skip("there is no stand-in for the library");
    if (wish != NULL)
        setenv("CONVOY_EMULATED_NVJPEG", wish, 1);
    open_jpeg();
    backend->close(device);
    cr_assert_eq(backend->open(0, &options, &device, &about, &error), 0, "%s", error.message);
}

static struct mirror load_one(bool decoder_first)
{
    struct mirror mirror = {.fitting = stretch, .graph = new_graph(SHAPE(1, 3, 20, 24))};
    struct convoy_load_options options = {
        .name = "mirror", .max_batch = 8, .fitting = stretch, .decoder_first = decoder_first};
    struct convoy_error error;
    add_output(mirror.graph, add_act(mirror.graph, mirror.graph->input, CONVOY_RELU, 0, 0));
    for (int c = 0; c < CONVOY_MAX_U8_CHANNELS; c++)
        options.multiply[c] = 1;
    cr_assert_eq(backend->load(device, mirror.graph, &options, &mirror.net, &mirror.info, &error), 0, "%s",
                 error.message);
    return mirror;
}

static void *run_work(void *ignored)
{
    behind.work(behind.argument);
    return ignored;
}

static void expect_refused(const struct mirror *mirror)
{
    struct rows *rows = new_rows();
    struct convoy_job_times times;
    struct convoy_error error;
    add_row(rows, usual(), 1);
    lay_out(rows);
    struct convoy_job job = job_of(mirror, rows, NULL, &times);
    cr_assert_eq(backend->submit(device, mirror->net, &job, &error), -EINVAL);
    free_rows(rows);
}

static void expect_decoded(const struct mirror *mirror)
{
    struct rows *rows = new_rows();
    add_row(rows, usual(), 1);
    lay_out(rows);
    check_rows_but(mirror, rows, 0);
}

Test(backend_jpeg_behind, networks_are_used_while_it_is_prepared)
{
    char path[] = "/tmp/convoy-hold-XXXXXX", wish[64];
    struct convoy_error error;
    struct convoy_device_memory before, after;
    pthread_t thread;
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    close(file);
    unlink(path); /* it is held */
    snprintf(wish, sizeof(wish), "hold:%s", path);
    open_behind(is_exact() ? wish : NULL);
    struct mirror first = load_one(false), second = load_one(false), gone = load_one(false);
    cr_assert_eq(behind.asked, 1, "once for all networks");
    cr_assert_not(first.info.takes_jpeg);
    cr_assert_eq(backend->memory(device, &before, &error), 0);
    cr_assert_eq(pthread_create(&thread, NULL, run_work, NULL), 0);
    check_rows(first.graph, first.net, &first.info, CONVOY_LAYOUT_F32_CHW, 3, 1e-6);
    expect_refused(&first);
    if (is_exact())
        cr_assert_eq(backend->verify_decoder(device, &error), 0, "nothing takes files yet");
    unload_mirror(&gone);
    if ((file = open(path, O_CREAT | O_WRONLY, 0600)) >= 0)
        close(file);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    expect_refused(&first);
    cr_assert_eq(tellings, 0);
    cr_assert_eq(behind.done(behind.argument, &error), 0, "%s", error.message);
    unlink(path);
    cr_assert_eq(tellings, 2, "%d", tellings);
    cr_assert(told[0] == first.net && told[1] == second.net);
    first.info.takes_jpeg = second.info.takes_jpeg = true;
    expect_decoded(&first);
    expect_decoded(&second);
    cr_assert_eq(backend->verify_decoder(device, &error), 1, "%s", error.message);
    cr_assert_eq(backend->memory(device, &after, &error), 0);
    cr_assert_gt(after.workspace, before.workspace);
    cr_assert(strstr(logged, "info: the JPEG decoder was prepared in ") != NULL, "%s", logged);
    struct mirror later = load_one(false);
    cr_assert(later.info.takes_jpeg);
    cr_assert_eq(behind.asked, 1);
    expect_decoded(&later);
    unload_mirror(&later);
    unload_mirror(&second);
    unload_mirror(&first);
}

Test(backend_jpeg_behind, a_network_waits_for_it_that_shall)
{
    open_behind(NULL);
    struct mirror mirror = load_one(true);
    cr_assert(mirror.info.takes_jpeg);
    cr_assert_eq(behind.asked, 0);
    expect_decoded(&mirror);
    unload_mirror(&mirror);
}

/* One that waits while it is prepared behind another has it then, and the work finds nothing left to do. */
Test(backend_jpeg_behind, a_network_waits_for_it_that_came_later)
{
    struct convoy_error error;
    open_behind(NULL);
    struct mirror mirror = load_one(false), other = load_one(true);
    cr_assert(!mirror.info.takes_jpeg && other.info.takes_jpeg);
    run_work(NULL);
    cr_assert_eq(behind.done(behind.argument, &error), 0, "%s", error.message);
    cr_assert(tellings == 1 && told[0] == mirror.net);
    const char *said = strstr(logged, "the JPEG decoder was prepared");
    cr_assert(said != NULL && strstr(said + 1, "the JPEG decoder was prepared") == NULL, "%s", logged);
    unload_mirror(&other);
    unload_mirror(&mirror);
}

/* The work ends without a decoder, so often as it is asked for; networks take pixels as before. */
static void expect_none(const char *said, int asked)
{
    struct convoy_error error;
    struct mirror mirror = load_one(false);
    run_work(NULL);
    cr_assert_eq(behind.done(behind.argument, &error), 0, "%s", error.message);
    cr_assert_eq(tellings, 0);
    cr_assert(strstr(logged, said) != NULL, "'%s' is not in: %s", said, logged);
    check_rows(mirror.graph, mirror.net, &mirror.info, CONVOY_LAYOUT_F32_CHW, 3, 1e-6);
    expect_refused(&mirror);
    struct mirror later = load_one(false);
    cr_assert_not(later.info.takes_jpeg);
    cr_assert_eq(behind.asked, asked);
    unload_mirror(&later);
    unload_mirror(&mirror);
}

Test(backend_jpeg_behind, it_cannot_be_prepared)
{
    open_behind("none");
    expect_none("info: model 'mirror': JPEG files are decoded by the processor: nvjpegCreateExV2", 1);
}

Test(backend_jpeg_behind, it_decodes_wrongly)
{
    open_behind("flat");
    expect_none("model 'mirror': JPEG files are decoded by the processor: ", 1);
    cr_assert(strstr(logged, "of a known JPEG file are off by more than") != NULL, "%s", logged);
}

/* Memory may be there when another network is loaded. */
Test(backend_jpeg_behind, memory_does_not_suffice)
{
    setenv("CONVOY_EMULATED_FAULT", "memory:6000000", 1);
    open_behind("");
    expect_none("warning: model 'mirror': JPEG files are decoded by the processor", 2);
}

Test(backend_jpeg_behind, the_device_is_lost)
{
    char path[] = "/tmp/convoy-lost-XXXXXX", wish[64];
    struct convoy_error error;
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    close(file);
    unlink(path);
    snprintf(wish, sizeof(wish), "0:%s", path);
    setenv("CONVOY_EMULATED_LOST", wish, 1);
    open_behind("");
    struct mirror mirror = load_one(false);
    unload_mirror(&mirror); /* no network is left to find out */
    file = open(path, O_CREAT | O_WRONLY, 0600);
    cr_assert_geq(file, 0);
    close(file);
    run_work(NULL);
    int failed = behind.done(behind.argument, &error);
    unlink(path);
    cr_assert_eq(failed, -ENODEV);
    cr_assert_eq(tellings, 0);
    device = NULL; /* as the worker, which ends: nothing is cleaned up */
}
