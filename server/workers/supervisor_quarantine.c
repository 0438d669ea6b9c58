#include "server/workers/supervisor_internal.h"

#include "engine/base/hash.h"
#include "engine/base/log.h"

#include <string.h>

#define DEATHS_TO_FAIL 2

static const char wrong_reason[] = "two workers in a row computed it wrongly: the device or its memory is "
                                   "faulty, see the log; it is not loaded "
                                   "again until its files change or convoyd starts again";
static const char reason[] =
    "loading it killed two workers: it is not loaded again until its files change or convoyd starts again";

/* Other models may have had the record's number, and hard links give two models the same files. */
static uint64_t files_of(const struct convoy_model_record *model)
{
    uint64_t hash = convoy_hash(0, model->name, strlen(model->name));
    hash = convoy_hash(hash, &model->version_number, sizeof model->version_number);
    return convoy_hash(hash, &model->stamp, sizeof model->stamp);
}

void convoy_quarantine_renew(struct device_worker *worker, const struct convoy_model_record *model)
{
    struct loading_deaths *deaths = &worker->deaths[model->number];
    uint64_t files = files_of(model);
    if (deaths->files != files)
        *deaths = (struct loading_deaths){.files = files};
}

bool convoy_quarantine_holds(const struct device_worker *worker, uint32_t number)
{
    return worker->deaths[number].count >= DEATHS_TO_FAIL || worker->deaths[number].wrong >= DEATHS_TO_FAIL;
}

void convoy_quarantine_clear(struct device_worker *worker, uint32_t number)
{
    worker->deaths[number].count = 0;
    if (!worker->deaths[number].wrong_late)
        worker->deaths[number].wrong = 0;
}

void convoy_quarantine_right(struct device_worker *worker, uint32_t number)
{
    worker->deaths[number].wrong = 0;
    worker->deaths[number].wrong_late = false;
}

static const char *reason_of(const struct device_worker *worker, uint32_t number)
{
    return worker->deaths[number].wrong >= DEATHS_TO_FAIL ? wrong_reason : reason;
}

/* It may be the device's fault: when another device serves the model or may still load it, only this one does
 * without. */
static void do_without(struct device_worker *worker, struct convoy_model_record *model)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    uint32_t number = model->number;
    worker->answered[number] = 1;
    worker->kept[number].loaded = false;
    if (worker->slots != NULL)
        convoy_worker_slots_model(worker->slots, model, false, NULL, 0);
    if (convoy_placement_possible(supervisor, model)) {
        convoy_log(CONVOY_LOG_ERROR, "one device does without a model", CONVOY_STR("device", worker->device),
                   CONVOY_STR("model", model->name), CONVOY_STR("reason", reason_of(worker, number)));
        return;
    }
    supervisor->retry[number] = false;
    if (model->state != CONVOY_MODEL_FAILED)
        convoy_loading_fail(supervisor, model, reason_of(worker, number));
}

void convoy_quarantine_died(struct device_worker *worker)
{
    uint32_t number = (uint32_t)worker->loading;
    struct convoy_model_record *model = convoy_registry_at(worker->supervisor->registry, number);
    if (model == NULL)
        return;
    convoy_quarantine_renew(worker, model);
    if (++worker->deaths[number].count >= DEATHS_TO_FAIL)
        do_without(worker, model);
}

void convoy_quarantine_wrong(struct device_worker *worker, struct convoy_model_record *model, bool late)
{
    struct loading_deaths *deaths = &worker->deaths[model->number];
    convoy_quarantine_renew(worker, model);
    deaths->wrong++;
    deaths->wrong_late = deaths->wrong_late || late;
    if (deaths->wrong >= DEATHS_TO_FAIL)
        do_without(worker, model);
}

void convoy_quarantine_check(struct convoy_supervisor *supervisor, struct convoy_model_record *model)
{
    const struct device_worker *holder = NULL;
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        if (convoy_placement_here(supervisor->workers[i], model) &&
            convoy_quarantine_holds(supervisor->workers[i], model->number))
            holder = supervisor->workers[i];
    if (holder != NULL && !convoy_placement_possible(supervisor, model))
        convoy_loading_fail(supervisor, model, reason_of(holder, model->number));
}
