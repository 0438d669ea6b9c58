#include "server/workers/placement.h"

#include "engine/base/log.h"
#include "server/workers/supervisor_internal.h"

#include <errno.h>
#include <stdio.h>

#define GIVEN_UP_MS 800u /* the delay between starts after three that failed: 0.1 s, doubled each time */

static bool named(const struct convoy_model *model, uint32_t device)
{
    uint32_t devices = model->config != NULL ? model->config->devices : 0;
    return devices == 0 || (devices >> device & 1) != 0;
}

bool convoy_placement_here(const struct member *member, const struct convoy_model *model)
{
    return named(model, member->worker.device_index);
}

/* "0, 3": the devices that the model names, those that are there or those that are missing. */
static uint32_t list(const struct convoy_supervisor *supervisor, const struct convoy_model *model, bool there,
                     char *text, size_t capacity)
{
    uint32_t count = 0;
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t device = 0; device < CONVOY_MAX_DEVICES; device++)
        if (named(model, device) && (device < supervisor->member_count) == there && used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "%s%u", count++ > 0 ? ", " : "", device);
    return count;
}

int convoy_placement_check(const struct convoy_supervisor *supervisor, const struct convoy_model *model,
                           struct convoy_error *error)
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
            model->config->file, missing, supervisor->member_count, supervisor->backend);
    convoy_log(CONVOY_LOG_WARNING, "some of a model's devices are not there",
               CONVOY_STR("model", model->name), CONVOY_STR("version", model->version),
               CONVOY_STR("missing", missing), CONVOY_STR("there", there));
    return 0;
}

static bool given_up(const struct member *member)
{
    return !(member->worker.running && member->greeted) && member->backoff_ms >= GIVEN_UP_MS;
}

bool convoy_placement_hope(const struct convoy_supervisor *supervisor, const struct convoy_model *model)
{
    for (uint32_t i = 0; i < supervisor->member_count; i++) {
        const struct member *member = supervisor->members[i];
        if (convoy_placement_here(member, model) &&
            (member->kept[model->number].loaded || (!member->answered[model->number] && !given_up(member))))
            return true;
    }
    return false;
}

const struct convoy_model_shape *convoy_placement_shape(const struct convoy_supervisor *supervisor,
                                                        const struct convoy_model *model)
{
    for (uint32_t i = 0; i < supervisor->member_count; i++)
        if (supervisor->members[i]->kept[model->number].loaded)
            return &supervisor->members[i]->kept[model->number].shape;
    return NULL;
}
