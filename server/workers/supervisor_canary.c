#include "server/workers/supervisor_internal.h"

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "server/workers/worker_command.h"

#include <stdlib.h>
#include <string.h>

/* The files that were read, and all that a worker was told of the model. 0: unknown. */
static uint64_t files_of(const struct convoy_model_record *model, const struct convoy_worker_message *message)
{
    cJSON *command = convoy_worker_command_load(model, false, true);
    char *text = cJSON_PrintUnformatted(command);
    uint64_t files = 0;
    if (text != NULL && message->loaded.files != 0)
        files = convoy_hash(message->loaded.files, text, strlen(text));
    cJSON_free(text);
    cJSON_Delete(command);
    return files;
}

/* Answers for other files than the model's present ones are of no use any more: other models may have had its
 * number, and a worker may find other files than the worker before it. */
static void forget_others(struct known_answer **link, uint64_t files)
{
    while (*link != NULL) {
        struct known_answer *known = *link;
        if (known->files == files) {
            link = &known->next;
        } else {
            *link = known->next;
            free(known);
        }
    }
}

static void keep(struct known_answer **list, uint64_t files, uint64_t kind,
                 const struct convoy_canary *answer)
{
    struct known_answer *known = malloc(sizeof *known);
    if (known == NULL)
        return; /* the next worker's answer is the first one then */
    *known = (struct known_answer){.next = *list, .files = files, .kind = kind, .answer = *answer};
    *list = known;
}

/* Answers of the response cache may be this worker's. */
static void forget_answers(const struct device_worker *worker)
{
    struct convoy_registry *registry = worker->supervisor->registry;
    for (uint32_t i = 0; i < convoy_registry_count(registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(registry, i);
        if (model != NULL && worker->kept[i].loaded)
            convoy_registry_count_load(registry, model);
    }
}

/* model: NULL where what is wrong is of no model. */
static void take_out(struct device_worker *worker, const struct convoy_model_record *model, const char *check,
                     const char *how)
{
    convoy_log(CONVOY_LOG_ERROR, "a device computes wrongly: its worker is replaced",
               CONVOY_STR("device", worker->device), CONVOY_STR("model", model != NULL ? model->name : ""),
               CONVOY_STR("version", model != NULL ? model->version : ""), CONVOY_STR("check", check),
               CONVOY_STR("text", how));
    worker->distrusted = true;
    forget_answers(worker);
    worker->loading = NO_MODEL; /* it is not the loading that kills it */
    convoy_metrics_device_check(worker->metrics, check, false);
    convoy_worker_process_kill(&worker->process, check);
}

bool convoy_canary_accepts(struct device_worker *worker, struct convoy_model_record *model,
                           const struct convoy_worker_message *message)
{
    struct known_answer **list = &worker->supervisor->known[model->number], *known;
    const struct convoy_canary *answer = &message->loaded.canary;
    float bound = model->config->precision == CONVOY_PRECISION_FP32 ? CONVOY_CANARY_BOUND_FP32
                                                                    : CONVOY_CANARY_BOUND_LESS;
    struct convoy_error error;
    uint64_t files = files_of(model, message);
    if (files == 0 || answer->count == 0)
        return true;
    forget_others(list, files);
    for (known = *list; known != NULL && known->kind != worker->kind; known = known->next)
        ;
    if (known == NULL) {
        keep(list, files, worker->kind, answer);
    } else if (!convoy_canary_agrees(&known->answer, answer, bound, &error)) {
        take_out(worker, model, convoy_device_check_name(CONVOY_CHECK_CANARY), error.message);
        convoy_quarantine_wrong(worker, model, false);
        return false;
    }
    convoy_metrics_device_check(worker->metrics, "canary", true);
    return true;
}

void convoy_canary_checked(struct device_worker *worker, const struct convoy_worker_message *message)
{
    bool decoder = message->checked.check == CONVOY_CHECK_DECODER;
    const char *check = convoy_device_check_name(message->checked.check);
    struct convoy_model_record *model =
        decoder ? NULL : convoy_registry_at(worker->supervisor->registry, message->model);
    if ((model == NULL && !decoder) || worker->distrusted)
        return;
    if (!message->checked.same) {
        bool late = worker->loading != (int)message->model;
        take_out(worker, model, check, message->text);
        if (model != NULL)
            convoy_quarantine_wrong(worker, model, late);
        return;
    }
    convoy_metrics_device_check(worker->metrics, check, true);
    if (message->checked.check == CONVOY_CHECK_CANARY)
        convoy_quarantine_right(worker, message->model);
}

void convoy_canary_free(struct convoy_supervisor *supervisor)
{
    for (uint32_t i = 0; i < CONVOY_MAX_MODELS; i++)
        forget_others(&supervisor->known[i], 0);
    free(supervisor->known);
}
