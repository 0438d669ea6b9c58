#include "server/workers/supervisor_internal.h"

#include "engine/base/log.h"

#include <errno.h>
#include <stdio.h>

#define GIVEN_UP_MS 800u /* the delay between starts after three that failed: 0.1 s, doubled each time */

bool convoy_placement_names(const struct convoy_model_record *model, uint32_t device)
{
    uint32_t devices = model->config != NULL ? model->config->devices : 0;
    return devices == 0 || (devices >> device & 1) != 0;
}

bool convoy_placement_here(const struct device_worker *worker, const struct convoy_model_record *model)
{
    return convoy_per_model_is_for(worker, model) &&
           convoy_placement_names(model, worker->process.settings.device_index);
}

/* "0, 3": the devices that the model names, those that are there or those that are missing. */
static uint32_t list(const struct convoy_supervisor *supervisor, const struct convoy_model_record *model,
                     bool there, char *text, size_t capacity)
{
    uint32_t count = 0;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t device = 0; device < CONVOY_MAX_DEVICES; device++)
        if (convoy_placement_names(model, device) && (device < supervisor->device_count) == there &&
            used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%u", count++ > 0 ? ", " : "", device);
    return count;
}

int convoy_placement_check(const struct convoy_supervisor *supervisor,
                           const struct convoy_model_record *model, struct convoy_error *error)
{
    char missing[64], there[64];
    if (model->config == NULL || model->config->devices == 0 ||
        list(supervisor, model, false, missing, sizeof missing) == 0)
        return 0;
    if (list(supervisor, model, true, there, sizeof there) == 0)
        return convoy_fail(
            error, -ENODEV,
            "%s: devices names %s, but this machine has %u (%s), numbered from 0: name one that is "
            "there, or leave devices out",
            model->config->file, missing, supervisor->device_count, supervisor->backend);
    convoy_log(CONVOY_LOG_WARNING, "some of a model's devices are not there",
               CONVOY_STR("model", model->name), CONVOY_STR("version", model->version),
               CONVOY_STR("missing", missing), CONVOY_STR("there", there));
    return 0;
}

static bool given_up(const struct device_worker *worker)
{
    return !(worker->process.running && worker->said_hello) && worker->backoff_ms >= GIVEN_UP_MS;
}

bool convoy_placement_possible(const struct convoy_supervisor *supervisor,
                               const struct convoy_model_record *model)
{
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        const struct device_worker *worker = supervisor->workers[i];
        if (convoy_placement_here(worker, model) &&
            (worker->kept[model->number].loaded || (!worker->answered[model->number] && !given_up(worker))))
            return true;
    }
    return false;
}

const struct convoy_model_shape *convoy_placement_shape(const struct convoy_supervisor *supervisor,
                                                        const struct convoy_model_record *model)
{
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        if (supervisor->workers[i]->kept[model->number].loaded)
            return &supervisor->workers[i]->kept[model->number].shape;
    return NULL;
}
