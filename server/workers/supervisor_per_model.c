#include "server/workers/supervisor_internal.h"

#include "engine/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool convoy_per_model_is_for(const struct device_worker *worker, const struct convoy_model_record *model)
{
    return strcmp(worker->of, CONVOY_OF_ALL) == 0 || strcmp(worker->of, model->name) == 0;
}

bool convoy_per_model_hears(const struct device_worker *worker, const struct convoy_worker_message *message)
{
    const struct convoy_model_record *model;
    if (message->type == CONVOY_WORKER_CHECKED && message->checked.check == CONVOY_CHECK_DECODER)
        return true; /* of the device, not of a model */
    switch (message->type) {
    case CONVOY_WORKER_LOADING:
    case CONVOY_WORKER_MEASURED:
    case CONVOY_WORKER_LOADED:
    case CONVOY_WORKER_FAILED:
    case CONVOY_WORKER_TUNED:
    case CONVOY_WORKER_CHECKED:
        model = convoy_registry_at(worker->supervisor->registry, message->model);
        return model == NULL || convoy_per_model_is_for(worker, model);
    default:
        return true; /* HELD: convoy_adopt_held() looks at the model itself */
    }
}

static bool is_named(const struct device_worker *worker)
{
    return worker->of[0] != '\0' && strcmp(worker->of, CONVOY_OF_ALL) != 0;
}

struct convoy_log_field convoy_per_model_field(const struct device_worker *worker)
{
    return is_named(worker) ? CONVOY_STR("model", worker->of)
                            : (struct convoy_log_field){.kind = CONVOY_LOG_FIELD_END};
}

struct convoy_device_metrics *convoy_per_model_metrics(const struct device_worker *worker)
{
    return convoy_metrics_worker(worker->supervisor->metrics, worker->device,
                                 is_named(worker) ? worker->of : "");
}

static bool is_used(const struct device_worker *worker)
{
    return !worker->dormant && !worker->retires;
}

static struct device_worker *find(struct convoy_supervisor *supervisor, uint32_t device, const char *of)
{
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        struct device_worker *worker = supervisor->workers[i];
        if (worker->process.settings.device_index == device && is_used(worker) && strcmp(worker->of, of) == 0)
            return worker;
    }
    return NULL;
}

static struct device_worker *find_dormant(struct convoy_supervisor *supervisor, uint32_t device)
{
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        if (supervisor->workers[i]->dormant &&
            supervisor->workers[i]->process.settings.device_index == device)
            return supervisor->workers[i];
    return NULL;
}

/* A worker that has loaded nothing yet is the model's from now on. */
static void claim(struct device_worker *worker, const char *name)
{
    struct convoy_device_metrics *before = worker->metrics;
    snprintf(worker->of, sizeof worker->of, "%s", name);
    if (!worker->said_hello)
        return; /* it gets its metrics and its label later */
    worker->metrics = convoy_per_model_metrics(worker);
    convoy_metrics_worker_process(worker->metrics, worker->process.pid);
    if (worker->up)
        convoy_metrics_worker_up(worker->metrics, true);
    convoy_metrics_worker_gone(before);
    if (worker->process.channel.base != NULL)
        convoy_worker_process_laid_out(&worker->process, worker->supervisor->backend);
    convoy_log(CONVOY_LOG_INFO, "worker is for a model", CONVOY_STR("device", worker->device),
               CONVOY_INT("pid", worker->process.pid), convoy_per_model_field(worker));
}

/* Finds or makes a worker of the device for models of this name. */
static int place_on(struct convoy_supervisor *supervisor, uint32_t device, const char *name,
                    struct convoy_error *error)
{
    struct device_worker *worker;
    if (find(supervisor, device, name) != NULL)
        return 0;
    if ((worker = find(supervisor, device, CONVOY_OF_NONE)) != NULL) {
        claim(worker, name);
        return 0;
    }
    if ((worker = find_dormant(supervisor, device)) != NULL) {
        claim(worker, name);
        convoy_supervisor_wake(worker);
        return 0;
    }
    return convoy_supervisor_add(supervisor, device, name, error);
}

int convoy_per_model_place(struct convoy_supervisor *supervisor, const struct convoy_model_record *model,
                           struct convoy_error *error)
{
    struct convoy_error reason;
    uint32_t placed = 0, failed = 0;
    if (!supervisor->config->worker.per_model)
        return 0;
    for (uint32_t device = 0; device < supervisor->device_count; device++) {
        if (!convoy_placement_names(model, device))
            continue;
        if (place_on(supervisor, device, model->name, &reason) == 0)
            placed++;
        else
            failed++;
    }
    if (failed > 0 && placed == 0)
        return convoy_fail(error, -ENOSPC, "%s", reason.message);
    if (failed > 0)
        convoy_log(CONVOY_LOG_ERROR, "devices do without a model", CONVOY_STR("model", model->name),
                   CONVOY_UINT("devices", failed), CONVOY_STR("reason", reason.message));
    return 0;
}

void convoy_per_model_place_all(struct convoy_supervisor *supervisor)
{
    struct convoy_error error;
    for (uint32_t i = 0; i < convoy_registry_count(supervisor->registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(supervisor->registry, i);
        if (model != NULL && (model->state == CONVOY_MODEL_LOADING || model->state == CONVOY_MODEL_READY) &&
            convoy_per_model_place(supervisor, model, &error) != 0 && model->state == CONVOY_MODEL_LOADING)
            convoy_loading_fail(supervisor, model, error.message);
    }
    supervisor->untidy = true;
}

static bool is_wanted(const struct device_worker *worker)
{
    const struct convoy_supervisor *supervisor = worker->supervisor;
    for (uint32_t i = 0; i < convoy_registry_count(supervisor->registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(supervisor->registry, i);
        if (model != NULL && strcmp(worker->of, model->name) == 0 &&
            (model->state == CONVOY_MODEL_LOADING || model->state == CONVOY_MODEL_READY ||
             model->state == CONVOY_MODEL_UNLOADING || supervisor->retry[i]))
            return true;
    }
    return false;
}

/* No process is left. The next one is for other models, or for none yet. */
static void lay_down(struct device_worker *worker)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    uint32_t device = worker->process.settings.device_index, others = 0;
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        others += supervisor->workers[i] != worker && is_used(supervisor->workers[i]) &&
                  supervisor->workers[i]->process.settings.device_index == device;
    convoy_metrics_worker_gone(worker->metrics);
    worker->metrics = NULL;
    worker->said_hello = worker->attached = worker->retires = false;
    worker->phase[0] = '\0';
    convoy_adopt_forget(worker);
    convoy_channel_reset(&worker->process.channel);
    worker->dormant = true;
    worker->process.other_models = true;
    worker->preparing = false;
    worker->tuning_deaths = worker->decoder_deaths = 0;
    worker->backoff_ms = 0;
    memset(worker->asked, 0, CONVOY_MAX_MODELS * sizeof *worker->asked);
    memset(worker->unsent, 0, CONVOY_MAX_MODELS * sizeof *worker->unsent);
    worker->channel_unsent = false;
    if (others == 0)
        convoy_supervisor_wake(worker);
}

bool convoy_per_model_gone(struct device_worker *worker)
{
    if (!worker->retires)
        return false;
    convoy_log(CONVOY_LOG_INFO, "worker has ended: its model is not served any more",
               CONVOY_STR("device", worker->device));
    lay_down(worker);
    return true;
}

void convoy_per_model_tidy(struct convoy_supervisor *supervisor)
{
    if (!supervisor->untidy || !supervisor->config->worker.per_model)
        return;
    supervisor->untidy = false;
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        struct device_worker *worker = supervisor->workers[i];
        if (!is_used(worker) || !is_named(worker) || is_wanted(worker))
            continue;
        worker->of[0] = '\0';
        worker->retires = true;
        if (worker->process.running) {
            convoy_worker_process_kill(&worker->process, "unloaded");
        } else {
            uv_timer_stop(&worker->restart);
            lay_down(worker);
        }
    }
}
