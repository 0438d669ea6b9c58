/* worker.spares: beside each worker of a GPU processes that have opened the device, so that the death of the
 * worker costs the loading of its models alone. */
#include "server/workers/supervisor_internal.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <string.h>

#define SERVED_US   2000000u            /* a worker that has served so long is past its start */
#define LEAST_BYTES (UINT64_C(4) << 30) /* free on the device, of which a spare takes a CUDA context */
#define SLOW_OPEN   "cuda"              /* the backend whose devices take long to open */

static bool has_loaded_all(const struct device_worker *worker)
{
    for (uint32_t i = 0; i < convoy_registry_count(worker->supervisor->registry); i++)
        if (convoy_loading_waits(worker, i))
            return false;
    return worker->loading == NO_MODEL;
}

/* Not while kernels are timed, which opening a device may disturb, nor while the worker starts or another
 * process ends, which is waited for until it is overdue. Behind one that was a spare the next one comes when
 * its models are loaded: an image that kills workers kills several, until it is found. */
static bool is_quiet(const struct device_worker *worker, uint64_t now)
{
    const struct convoy_worker_left *left = &worker->process.left;
    return worker->up && has_loaded_all(worker) && !worker->preparing && !worker->adopting &&
           (!left->exists || left->overdue) &&
           (worker->process.was_spare || now - worker->up_us > SERVED_US) &&
           strcmp(worker->phase, "running") == 0;
}

void convoy_spare_keep(struct device_worker *worker, uint64_t now)
{
    const struct convoy_supervisor *supervisor = worker->supervisor;
    if (atomic_load(&supervisor->draining) || strcmp(supervisor->backend, SLOW_OPEN) != 0 ||
        !convoy_worker_spares_due(&worker->process.spares) || !is_quiet(worker, now) ||
        worker->free_bytes == 0) /* it has not said yet */
        return;
    if (worker->free_bytes >= LEAST_BYTES) {
        worker->told_no_spare = false;
        convoy_worker_process_keep_spares(&worker->process, supervisor->backend,
                                          convoy_heartbeat_tune(worker));
        return;
    }
    if (!worker->told_no_spare)
        convoy_log(CONVOY_LOG_INFO, "no spare worker is kept", CONVOY_STR("device", worker->device),
                   CONVOY_STR("reason", "its device has less than 4 GiB free"));
    worker->told_no_spare = true;
}

void convoy_spare_end(struct convoy_supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        convoy_worker_spares_end(&supervisor->workers[i]->process.spares);
}
