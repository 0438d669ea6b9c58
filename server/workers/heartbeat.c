#include "server/workers/heartbeat.h"

#include "engine/base/log.h"
#include "server/workers/supervisor_internal.h"

#include <stdio.h>
#include <string.h>

#define TUNING_DEATHS 2 /* after so many in a row a device is served with what is known */

/* A counter that this worker may export: CUDA's calls under their own names, cudaMemcpyAsync and so on, and
 * not without end, since each becomes a series. */
static bool counter_allowed(struct member *member, const char *name)
{
    for (uint32_t i = 0; i < member->counter_count; i++)
        if (strcmp(name, member->counters[i]) == 0)
            return true;
    if (strncmp(name, "cuda", 4) != 0 || strlen(name) >= sizeof member->counters[0] ||
        member->counter_count == MAX_COUNTERS)
        return false;
    snprintf(member->counters[member->counter_count++], sizeof member->counters[0], "%s", name);
    return true;
}

static void report_counters(struct member *member, const cJSON *heartbeat)
{
    const cJSON *counter;
    cJSON_ArrayForEach(counter, cJSON_GetObjectItemCaseSensitive(heartbeat, "counters"))
    {
        if (cJSON_IsNumber(counter) && counter->valuedouble >= 0 && counter->string != NULL &&
            counter_allowed(member, counter->string))
            convoy_metrics_cuda_calls(member->metrics, counter->string, (uint64_t)counter->valuedouble);
    }
}

static bool tunes(const struct member *member)
{
    return strcmp(member->phase, "tuning") == 0;
}

void convoy_heartbeat(struct member *member, const struct convoy_worker_message *message)
{
    if (strcmp(member->phase, message->text) != 0) {
        convoy_log(CONVOY_LOG_DEBUG, "worker's phase", CONVOY_STR("device", member->device),
                   CONVOY_STR("phase", message->text));
        if (tunes(member) && strcmp(message->text, "running") == 0)
            member->tuning_deaths = 0; /* it came to an end */
        snprintf(member->phase, sizeof member->phase, "%s", message->text);
    }
    report_counters(member, message->json);
}

void convoy_heartbeat_memory(struct member *member, const struct convoy_worker_message *message)
{
    convoy_metrics_device_memory(member->metrics, "weights", message->memory.weights);
    convoy_metrics_device_memory(member->metrics, "workspace", message->memory.workspace);
    convoy_metrics_device_memory(member->metrics, "free", message->memory.free);
    convoy_metrics_device_memory(member->metrics, "total", message->memory.total);
}

void convoy_heartbeat_died(struct member *member, bool busy)
{
    bool tuned = tunes(member) && !busy; /* it tunes when it has nothing else to do */
    member->phase[0] = '\0';
    if (!tuned || ++member->tuning_deaths != TUNING_DEATHS)
        return;
    convoy_log(CONVOY_LOG_WARNING, "tuning is given up", CONVOY_STR("device", member->device),
               CONVOY_STR("reason", "two workers in a row died while they tuned"));
}

const char *convoy_heartbeat_tune(const struct member *member)
{
    enum convoy_tune wish = member->supervisor->config->tune;
    return convoy_tune_choices[member->tuning_deaths < TUNING_DEATHS ? wish : CONVOY_TUNE_OFF];
}
