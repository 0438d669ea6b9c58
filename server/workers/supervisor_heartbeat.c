#include "server/workers/supervisor_internal.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <stdio.h>
#include <string.h>

#define HEALTH_FRESH_US 5000000u /* health comes every second; older than this it says nothing */
#define TUNING_DEATHS   2        /* after so many in a row the device is no longer tuned */
#define DECODER_DEATHS  2        /* and no longer decodes JPEG files */

/* Whether this worker may export a counter of that name: only names of CUDA calls (cudaMemcpyAsync), and a
 * bounded number of them, since each becomes a time series. */
static bool counter_allowed(struct device_worker *worker, const char *name)
{
    for (uint32_t i = 0; i < worker->counter_count; i++)
        if (strcmp(name, worker->counters[i]) == 0)
            return true;
    if (strncmp(name, "cuda", 4) != 0 || strlen(name) >= sizeof worker->counters[0] ||
        worker->counter_count == MAX_COUNTERS)
        return false;
    snprintf(worker->counters[worker->counter_count++], sizeof worker->counters[0], "%s", name);
    return true;
}

static void report_counters(struct device_worker *worker, const cJSON *heartbeat)
{
    const cJSON *counter;
    cJSON_ArrayForEach(counter, cJSON_GetObjectItemCaseSensitive(heartbeat, "counters"))
    {
        if (cJSON_IsNumber(counter) && counter->valuedouble >= 0 && counter->string != NULL &&
            counter_allowed(worker, counter->string))
            convoy_metrics_cuda_calls(worker->metrics, counter->string, (uint64_t)counter->valuedouble);
    }
}

/* The device's own counters, which all of its workers share. */
static struct convoy_device_metrics *of_device(const struct device_worker *worker)
{
    return worker->metrics != NULL ? convoy_metrics_device(worker->supervisor->metrics, worker->device)
                                   : NULL;
}

/* All workers of a device hear the same of it: the first one that is heard speaks for it. NULL: none is. */
static const struct device_worker *speaker(const struct device_worker *worker)
{
    const struct convoy_supervisor *supervisor = worker->supervisor;
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        if (supervisor->workers[i]->health_us != 0 &&
            strcmp(supervisor->workers[i]->device, worker->device) == 0)
            return supervisor->workers[i];
    return NULL;
}

/* What is not known any more must not look as if it were. */
static void hide_health(struct device_worker *worker)
{
    worker->health_us = 0;
    if (speaker(worker) == NULL)
        convoy_metrics_device_health(of_device(worker), NULL);
}

static bool tunes(const struct device_worker *worker)
{
    return strcmp(worker->phase, "tuning") == 0;
}

void convoy_heartbeat(struct device_worker *worker, const struct convoy_worker_message *message)
{
    if (strcmp(worker->phase, message->text) != 0) {
        convoy_log(CONVOY_LOG_DEBUG, "worker's phase", CONVOY_STR("device", worker->device),
                   CONVOY_STR("phase", message->text), convoy_per_model_field(worker));
        if (tunes(worker) && strcmp(message->text, "running") == 0)
            worker->tuning_deaths = 0; /* tuning was completed */
        snprintf(worker->phase, sizeof worker->phase, "%s", message->text);
    }
    if (worker->preparing && !message->preparing)
        worker->decoder_deaths = 0; /* it was prepared, or refused */
    if (!worker->preparing && message->preparing)
        worker->preparing_us = convoy_now_us();
    worker->preparing = message->preparing;
    report_counters(worker, message->json);
    if (worker->health_us != 0 && convoy_now_us() - worker->health_us > HEALTH_FRESH_US) {
        convoy_log(CONVOY_LOG_WARNING, "the GPU's health is not known any more",
                   CONVOY_STR("device", worker->device),
                   CONVOY_STR("reason", "its driver does not answer the worker"));
        hide_health(worker);
    }
}

void convoy_heartbeat_memory(struct device_worker *worker, const struct convoy_worker_message *message)
{
    worker->free_bytes = message->memory.free;
    convoy_metrics_device_memory(worker->metrics, "weights", message->memory.weights);
    convoy_metrics_device_memory(worker->metrics, "workspace", message->memory.workspace);
    convoy_metrics_device_memory(worker->metrics, "free", message->memory.free);
    convoy_metrics_device_memory(worker->metrics, "total", message->memory.total);
}

/* A worker counts the errors that it hears of from 0; here they are those of all workers of the device. */
void convoy_heartbeat_health(struct device_worker *worker, const struct convoy_worker_message *message)
{
    uint64_t xids = message->health.values[CONVOY_HEALTH_XIDS];
    worker->health_us = convoy_now_us();
    bool speaks = speaker(worker) == worker;
    /* What it heard while another one spoke was counted then. */
    uint64_t more =
        xids != CONVOY_HEALTH_UNKNOWN && xids > worker->xids && !worker->listened ? xids - worker->xids : 0;
    worker->listened = !speaks;
    if (xids != CONVOY_HEALTH_UNKNOWN)
        worker->xids = xids;
    if (!speaks)
        return;
    convoy_metrics_device_health(of_device(worker), &message->health);
    if (xids != CONVOY_HEALTH_UNKNOWN)
        convoy_metrics_device_xids(of_device(worker), more);
}

void convoy_heartbeat_died(struct device_worker *worker, bool busy)
{
    bool tuned = tunes(worker) && !busy; /* a worker tunes only when it is idle */
    bool prepared =
        worker->preparing; /* whatever else it did: what is wrong with that shows again without it */
    worker->phase[0] = '\0';
    worker->preparing = false;
    worker->xids = 0;
    worker->listened = false;
    hide_health(worker);
    if (!prepared && convoy_heartbeat_decodes(worker))
        worker->decoder_deaths = 0; /* workers die of something else, too */
    if (prepared && ++worker->decoder_deaths == DECODER_DEATHS)
        convoy_log(CONVOY_LOG_ERROR, "JPEG files are no longer decoded by a device",
                   CONVOY_STR("device", worker->device),
                   CONVOY_STR("reason", "two workers in a row died while they prepared its decoder"),
                   convoy_per_model_field(worker));
    if (!tuned || ++worker->tuning_deaths != TUNING_DEATHS)
        return;
    convoy_log(CONVOY_LOG_WARNING, "tuning is given up", CONVOY_STR("device", worker->device),
               CONVOY_STR("reason", "two workers in a row died while they tuned"),
               convoy_per_model_field(worker));
}

bool convoy_heartbeat_decodes(const struct device_worker *worker)
{
    return worker->decoder_deaths < DECODER_DEATHS;
}

const char *convoy_heartbeat_tune(const struct device_worker *worker)
{
    enum convoy_tune configured = worker->supervisor->config->tune;
    return convoy_tune_choices[worker->tuning_deaths < TUNING_DEATHS ? configured : CONVOY_TUNE_OFF];
}
