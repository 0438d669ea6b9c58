/* What others ask about the workers' state. */
#include "server/workers/supervisor_internal.h"

#include "engine/base/clock.h"

void convoy_supervisor_drain(struct convoy_supervisor *supervisor)
{
    atomic_store(&supervisor->draining, true);
    convoy_spare_end(supervisor);
}

void convoy_supervisor_health(struct convoy_supervisor *supervisor, struct convoy_health *health)
{
    uint64_t now = convoy_now_us(), turned = atomic_load(&supervisor->turned_us);
    uint64_t last_up = atomic_load(&supervisor->last_up_us);
    uint64_t grace = supervisor->config->ready_grace_ms * (uint64_t)1000;
    health->live = now < turned + CONVOY_LIVE_US;
    health->draining = atomic_load(&supervisor->draining);
    health->worker = atomic_load(&supervisor->any_up) || (last_up > 0 && now < last_up + grace);
    health->settled = convoy_registry_settled(supervisor->registry);
}

bool convoy_supervisor_loads(const struct convoy_supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        const struct device_worker *worker = supervisor->workers[i];
        for (uint32_t model = 0; model < convoy_registry_count(supervisor->registry); model++)
            if (worker->process.running && worker->said_hello && convoy_loading_waits(worker, model))
                return true;
    }
    return false;
}

bool convoy_supervisor_starts(const struct convoy_supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        if (supervisor->workers[i]->process.running && !supervisor->workers[i]->said_hello)
            return true;
    return false;
}
