#include "server/workers/supervisor_internal.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#define START_US 10000000u /* a worker may take this long to say HELLO */
#define RETRY_US 5000000u  /* how often a model that was READY and FAILED later is asked for again */

static void check_worker(struct device_worker *worker, uint64_t now)
{
    uint64_t limit = worker->supervisor->config->worker.hang_timeout_ms * (uint64_t)1000;
    if (!worker->process.running || worker->process.kill_reason != NULL)
        return;
    uint64_t heard_us = worker->said_hello ? worker->process.heard_us : worker->process.started_us;
    uint64_t silence_limit = !worker->said_hello && limit < START_US ? START_US : limit;
    uint64_t load_limit = convoy_supervisor_load_limit_us(worker->supervisor->config);
    if (worker->adopting) /* it says nothing before it has loaded what the front before had it load */
        silence_limit = load_limit;
    struct convoy_stall stall = {0};
    if (worker->attached)
        convoy_worker_slots_stall(worker->slots, now, limit, load_limit, &stall);
    const char *reason;
    uint64_t waited_us, limit_us;
    if (now - heard_us > silence_limit) {
        reason = "it sends no message";
        waited_us = now - heard_us;
        limit_us = silence_limit;
    } else if (worker->loading != NO_MODEL && now - worker->loading_us > load_limit) {
        reason = "it loads a model without end";
        waited_us = now - worker->loading_us;
        limit_us = load_limit;
    } else if (worker->preparing && now - worker->preparing_us > load_limit) {
        reason = "it prepares its JPEG decoder without end";
        waited_us = now - worker->preparing_us;
        limit_us = load_limit;
    } else if (worker->loading == NO_MODEL && stall.hangs) { /* while it loads a model its slots may wait */
        reason = "its batches make no progress";
        waited_us = stall.passed_us > stall.since_us ? stall.passed_us : stall.since_us;
        limit_us = stall.limit_us;
    } else {
        return;
    }
    convoy_log(CONVOY_LOG_ERROR, "a worker hangs", CONVOY_STR("device", worker->device),
               CONVOY_STR("reason", reason), CONVOY_UINT("waited_ms", waited_us / 1000),
               CONVOY_UINT("limit_ms", limit_us / 1000), convoy_per_model_field(worker));
    convoy_worker_process_kill(&worker->process, "hang");
}

void convoy_watch(uv_timer_t *timer)
{
    struct convoy_supervisor *supervisor = timer->data;
    uint64_t now = convoy_now_us(), last = atomic_exchange(&supervisor->turned_us, now);
    /* When this process itself was stopped, workers are not to blame for messages that it did not read. Half
     * the hang timeout leaves room for a heartbeat. */
    uint64_t half = supervisor->config->worker.hang_timeout_ms * (uint64_t)500;
    bool was_away = now - last > (half < CONVOY_LIVE_US ? half : CONVOY_LIVE_US);
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        struct device_worker *worker = supervisor->workers[i];
        if (was_away) {
            worker->process.heard_us = worker->process.started_us = worker->loading_us =
                worker->preparing_us = now;
            if (worker->slots != NULL)
                convoy_worker_slots_forgive(worker->slots);
        } else if (supervisor->stopped == NULL) {
            check_worker(worker, now);
            convoy_ending_watch(worker, now);
        }
    }
    if (supervisor->stopped != NULL)
        return;
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        convoy_loading_send_again(supervisor->workers[i]);
        convoy_spare_keep(supervisor->workers[i], now);
    }
    convoy_per_model_tidy(supervisor);
    if (now - supervisor->retried_us < RETRY_US)
        return;
    supervisor->retried_us = now;
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        if (supervisor->workers[i]->loading == NO_MODEL)
            convoy_loading_retry(supervisor->workers[i]);
}
