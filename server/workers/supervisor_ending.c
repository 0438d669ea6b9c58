#include "server/workers/supervisor_internal.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

/* The ending worker may still hold as much as the next one needs, so more than half must be free. The spare
 * saw this number when it opened the device: it says nothing of what was taken since. */
static bool has_room_for_next(uint64_t free_bytes, uint64_t total_bytes)
{
    return free_bytes > total_bytes / 2;
}

bool convoy_ending_may_leave(void *context, const struct convoy_worker_process *process)
{
    const struct device_worker *worker = context;
    uint64_t free_bytes, total_bytes;
    return worker->supervisor->stopped == NULL && !worker->retires && !process->left.exists &&
           convoy_worker_spares_ready(&process->spares, &free_bytes, &total_bytes) &&
           has_room_for_next(free_bytes, total_bytes);
}

static void say(const struct device_worker *worker, const struct convoy_model_record *model,
                const char *reason)
{
    convoy_log(CONVOY_LOG_INFO, "a model is loaded again when the worker that was replaced is gone",
               CONVOY_STR("device", worker->device), CONVOY_STR("model", model->name),
               CONVOY_STR("version", model->version), CONVOY_STR("reason", reason));
}

bool convoy_ending_excuses(struct device_worker *worker, const struct convoy_model_record *model,
                           const char *reason)
{
    const struct convoy_worker_left *left = &worker->process.left;
    if (left->exists ? left->overdue : !worker->excused)
        return false;
    say(worker, model, reason);
    if (!left->exists) { /* it went while the model was loaded */
        worker->excused = false;
        convoy_loading_send(worker, model, UNSENT_LOAD_BESIDE);
    }
    return true;
}

/* One that is adopted knows models under the numbers of the front before. All are sent when it is done. */
static void load_waiting(struct device_worker *worker)
{
    const struct convoy_supervisor *supervisor = worker->supervisor;
    struct convoy_registry *registry = supervisor->registry;
    if (supervisor->stopped != NULL || !worker->process.running || !worker->said_hello || worker->adopting)
        return;
    bool measures = supervisor->measurer != NULL && !supervisor->sized; /* nothing is loaded before */
    for (uint32_t i = 0; !measures && i < convoy_registry_count(registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(registry, i);
        if (convoy_loading_waits(worker, i) && !convoy_loading_is_asked(worker, i) &&
            convoy_placement_here(worker, model) && !convoy_quarantine_holds(worker, i))
            convoy_loading_send(worker, model, UNSENT_LOAD_BESIDE);
    }
    (void)convoy_worker_process_send(&worker->process, convoy_worker_command_memory());
}

void convoy_ending_gone(void *context)
{
    load_waiting(context);
}

void convoy_ending_watch(struct device_worker *worker, uint64_t now)
{
    struct convoy_worker_left *left = &worker->process.left;
    uint64_t limit_us = convoy_supervisor_load_limit_us(worker->supervisor->config);
    if (!left->exists || left->overdue || now - left->since_us <= limit_us)
        return;
    left->overdue = true;
    convoy_log(CONVOY_LOG_WARNING, "the worker that was replaced does not end",
               CONVOY_STR("device", worker->device), CONVOY_INT("pid", left->pid),
               CONVOY_UINT("waited_ms", (now - left->since_us) / 1000),
               CONVOY_UINT("limit_ms", limit_us / 1000));
    load_waiting(worker); /* what fails from now on has no excuse */
}
