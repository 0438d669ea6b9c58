/* When tuning of a device is given up; what is shown of its health. */
#include "engine/base/clock.h"
#include "server/workers/supervisor_internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct convoy_config config = {.tune = CONVOY_TUNE_ON};
static struct convoy_supervisor supervisor = {.config = &config};

static void die(struct device_worker *worker, const char *phase, bool busy)
{
    snprintf(worker->phase, sizeof worker->phase, "%s", phase);
    convoy_heartbeat_died(worker, busy);
    cr_assert_str_empty(worker->phase, "the next worker has said nothing yet");
}

Test(heartbeat, tuning_is_given_up_after_two_deaths_of_it)
{
    struct device_worker worker = {.supervisor = &supervisor};
    die(&worker, "tuning", false);
    cr_assert_str_eq(convoy_heartbeat_tune(&worker), "on");
    die(&worker, "tuning", false);
    cr_assert_str_eq(convoy_heartbeat_tune(&worker), "off");
}

Test(heartbeat, deaths_of_something_else_leave_tuning_alone)
{
    struct device_worker worker = {.supervisor = &supervisor};
    for (int i = 0; i < 3; i++) {
        die(&worker, "running", false);
        die(&worker, "tuning", true); /* between two pieces of tuning it ran a slot, and died of that */
    }
    cr_assert_str_eq(convoy_heartbeat_tune(&worker), "on");
}

static void beat(struct device_worker *worker, bool preparing)
{
    struct convoy_worker_message message = {
        .type = CONVOY_WORKER_HEARTBEAT, .text = "running", .preparing = preparing};
    convoy_heartbeat(worker, &message);
}

/* Whether the watch kills a worker that has prepared its decoder for so long. */
static bool is_killed(uint64_t prepares_us)
{
    struct convoy_config own = {.worker.hang_timeout_ms = 2000};
    uint8_t unsent[CONVOY_MAX_MODELS] = {0};
    struct device_worker worker = {.said_hello = true, .loading = NO_MODEL, .unsent = unsent};
    struct convoy_supervisor watched = {.config = &own, .worker_count = 1, .workers[0] = &worker};
    uv_timer_t timer = {.data = &watched};
    uint64_t now = convoy_now_us();
    struct convoy_error error;
    cr_assert_eq(convoy_registry_new(&own, NULL, &watched.registry, &error), 0);
    worker.supervisor = &watched;
    beat(&worker, true);
    worker.preparing_us = now - prepares_us;
    worker.process.running = worker.process.exited = true; /* so that there is nothing to send a signal to */
    worker.process.heard_us = now;
    watched.turned_us = watched.retried_us = now;
    convoy_watch(&timer);
    convoy_registry_close(watched.registry);
    return worker.process.kill_reason != NULL;
}

Test(heartbeat, a_decoder_that_is_prepared_without_end_is_a_hang)
{
    static const struct convoy_config limits = {.worker.hang_timeout_ms = 2000};
    uint64_t limit = convoy_supervisor_load_limit_us(&limits);
    cr_assert(!is_killed(limit / 2));
    cr_assert(is_killed(limit + 1000000));
}

Test(heartbeat, a_decoder_is_given_up_after_two_deaths_of_it_in_a_row)
{
    struct device_worker worker = {.supervisor = &supervisor};
    for (int i = 0; i < 3; i++) {
        die(&worker, "running", false);
        beat(&worker, true);
        die(&worker, "running", true);
        cr_assert(convoy_heartbeat_decodes(&worker));
        beat(&worker, false);
        beat(&worker, true);
        beat(&worker, false); /* it is prepared */
    }
    for (int i = 0; i < 2; i++) {
        cr_assert(convoy_heartbeat_decodes(&worker));
        beat(&worker, true);
        die(&worker, "running", false);
    }
    cr_assert_not(convoy_heartbeat_decodes(&worker));
    beat(&worker, false);
    die(&worker, "running", false);
    cr_assert_not(convoy_heartbeat_decodes(&worker), "the next worker prepares nothing");
}

/* An image that kills its worker comes again: first while the decoder is prepared, then before. */
Test(heartbeat, a_decoder_is_not_to_blame_where_workers_die_otherwise)
{
    struct device_worker worker = {.supervisor = &supervisor};
    for (int i = 0; i < 5; i++) {
        beat(&worker, true);
        die(&worker, "running", true);
        die(&worker, "running", true);
    }
    cr_assert(convoy_heartbeat_decodes(&worker));
}

/* A device's worker that told the power, and how many errors it heard of. */
static void tell(struct device_worker *worker, uint64_t xids)
{
    struct convoy_worker_message message = {.type = CONVOY_WORKER_HEALTH};
    for (int i = 0; i < CONVOY_HEALTH_VALUES; i++)
        message.health.values[i] = CONVOY_HEALTH_UNKNOWN;
    message.health.values[CONVOY_HEALTH_POWER] = 5000;
    message.health.values[CONVOY_HEALTH_XIDS] = xids;
    convoy_heartbeat_health(worker, &message);
}

static void expect_shown(struct convoy_metrics *metrics, const char *line, bool shown)
{
    size_t length;
    char *text = convoy_metrics_render(metrics, &length);
    cr_assert_not_null(text);
    cr_expect_eq(strstr(text, line) != NULL, shown, "%s", line);
    free(text);
}

#define POWER     "convoyd_gpu_power_watts{device=\"cuda:0\"} 5\n"
#define XIDS(n)   "convoyd_gpu_xid_errors_total{device=\"cuda:0\"} " #n "\n"
#define NO_NUMBER "convoyd_gpu_xid_errors_total"

/* A worker of cuda:0, one of so many. */
static struct device_worker worker_in(struct convoy_metrics *metrics, uint32_t count)
{
    struct device_worker worker = {
        .supervisor = &supervisor, .metrics = convoy_metrics_device(metrics, "cuda:0"), .device = "cuda:0"};
    supervisor.metrics = metrics;
    supervisor.worker_count = count;
    return worker;
}

Test(heartbeat, health_is_shown_while_it_is_fresh)
{
    struct convoy_metrics *metrics = convoy_metrics_new();
    struct convoy_worker_message beat = {.type = CONVOY_WORKER_HEARTBEAT, .text = "running"};
    struct device_worker worker = worker_in(metrics, 1);
    supervisor.workers[0] = &worker;
    tell(&worker, CONVOY_HEALTH_UNKNOWN);
    convoy_heartbeat(&worker, &beat);
    expect_shown(metrics, POWER, true);
    expect_shown(metrics, NO_NUMBER, false);
    worker.health_us = convoy_now_us() - 4000000;
    convoy_heartbeat(&worker, &beat);
    expect_shown(metrics, POWER, true);
    worker.health_us = convoy_now_us() - 5100000; /* the driver does not answer the worker, which lives */
    convoy_heartbeat(&worker, &beat);
    expect_shown(metrics, POWER, false);
    tell(&worker, 0);
    expect_shown(metrics, POWER, true);
    die(&worker, "running", false);
    expect_shown(metrics, POWER, false);
    convoy_metrics_free(metrics);
}

Test(heartbeat, errors_of_a_devices_workers_add_up)
{
    struct convoy_metrics *metrics = convoy_metrics_new();
    struct device_worker worker = worker_in(metrics, 1);
    supervisor.workers[0] = &worker;
    tell(&worker, 0);
    expect_shown(metrics, XIDS(0), true);
    tell(&worker, 2);
    tell(&worker, 2);
    expect_shown(metrics, XIDS(2), true);
    die(&worker, "running", false);
    tell(&worker, 1); /* the next one's first */
    expect_shown(metrics, XIDS(3), true);
    tell(&worker, 0); /* a lie */
    expect_shown(metrics, XIDS(3), true);
    convoy_metrics_free(metrics);
}

/* With worker.per_model several workers of a device hear of the same errors. */
Test(heartbeat, one_of_a_devices_workers_speaks_for_it)
{
    struct convoy_metrics *metrics = convoy_metrics_new();
    struct device_worker a = worker_in(metrics, 1), b = worker_in(metrics, 2), other = worker_in(metrics, 3);
    snprintf(other.device, sizeof other.device, "cuda:1");
    supervisor.workers[0] = &a;
    supervisor.workers[1] = &b;
    supervisor.workers[2] = &other;
    tell(&other, 7);
    tell(&b, 0);
    tell(&a, 0);
    tell(&a, 1);
    tell(&b, 1);
    expect_shown(metrics, XIDS(1), true);
    tell(&a, 2); /* both hear of it; it is told by the one that dies of it */
    expect_shown(metrics, XIDS(2), true);
    die(&a, "running", false);
    expect_shown(metrics, POWER, true); /* the other one knows */
    tell(&b, 2);
    tell(&b, 3);
    expect_shown(metrics, XIDS(3), true);
    die(&b, "running", false);
    expect_shown(metrics, POWER, false);
    expect_shown(metrics, XIDS(3), true);
    convoy_metrics_free(metrics);
}
