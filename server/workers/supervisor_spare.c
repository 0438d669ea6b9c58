/* worker.spares: beside each worker of a GPU processes that have opened the device, so that the death of the
 * worker costs the loading of its models alone. */
#include "server/workers/supervisor_internal.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <string.h>

#define SERVED_US   2000000u            /* a worker that has served so long is past its start */
#define LEAST_BYTES (UINT64_C(4) << 30) /* free on the device: a spare takes half a GiB of it */
#define SLOW_OPEN   "cuda"              /* the backend whose devices take long to open */

/* Not while kernels are timed, which opening a device disturbs, nor while the worker starts. */
static bool is_quiet(const struct device_worker *worker, uint64_t now)
{
    return worker->up && worker->loading == NO_MODEL && !worker->preparing && !worker->adopting &&
           now - worker->up_us > SERVED_US && strcmp(worker->phase, "running") == 0;
}

static bool wanted(const struct convoy_supervisor *supervisor)
{
    /* With worker.per_model processes do not share a channel, and a spare would be for one model alone. */
    return supervisor->config->worker.spares > 0 && !supervisor->config->worker.per_model &&
           !atomic_load(&supervisor->draining) && strcmp(supervisor->backend, SLOW_OPEN) == 0;
}

static void keep(struct device_worker *worker)
{
    const struct convoy_supervisor *supervisor = worker->supervisor;
    worker->process.spares.wanted = supervisor->config->worker.spares;
    convoy_worker_process_keep_spares(&worker->process, supervisor->backend, convoy_heartbeat_tune(worker));
}

void convoy_spare_keep(struct device_worker *worker, uint64_t now)
{
    if (!wanted(worker->supervisor) || !is_quiet(worker, now))
        return;
    if (worker->free_bytes == 0) /* it has not said yet */
        return;
    if (worker->free_bytes < LEAST_BYTES) {
        if (!worker->told_no_spare)
            convoy_log(CONVOY_LOG_INFO, "no spare worker is kept", CONVOY_STR("device", worker->device),
                       CONVOY_STR("reason", "its device has less than 4 GiB free"));
        worker->told_no_spare = true;
        return;
    }
    worker->told_no_spare = false;
    keep(worker);
}

void convoy_spare_refill(struct device_worker *worker)
{
    if (wanted(worker->supervisor) && worker->process.was_spare)
        keep(worker);
}

void convoy_spare_end(struct convoy_supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        convoy_worker_spares_end(&supervisor->workers[i]->process.spares);
}
