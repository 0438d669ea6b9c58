#include "server/workers/supervisor_internal.h"

#include "engine/base/log.h"
#include "server/workers/worker_command.h"
#include "server/workers/worker_label.h"

#include <stdlib.h>
#include <string.h>

static bool is_listed(const struct convoy_adoptable *found, uint32_t count,
                      const struct convoy_adoptable *one)
{
    for (uint32_t i = 0; i < count; i++)
        if (found[i].device == one->device && strcmp(found[i].of, one->of) == 0)
            return true;
    return false;
}

struct convoy_worker_settings convoy_supervisor_settings(const struct convoy_supervisor *supervisor,
                                                         uint32_t device, const char *of)
{
    const struct convoy_config *config = supervisor->config;
    return (struct convoy_worker_settings){.device_index = device,
                                           .streams = config->worker.streams,
                                           .cache_dir = config->cache_dir,
                                           .of = of,
                                           .tune = convoy_tune_choices[config->tune],
                                           .sandbox = convoy_worker_sandbox_of(config),
                                           .pixels_only = !convoy_files_wanted(supervisor),
                                           .canary_ms = config->worker.canary_ms,
                                           /* With a worker for each model a channel's memory is renewed. */
                                           .spares = config->worker.per_model ? 0 : config->worker.spares,
                                           .orphan_ms = convoy_adopt_orphan_ms(supervisor)};
}

uint32_t convoy_adopt_prepare(struct convoy_supervisor *supervisor,
                              struct convoy_adoptable found[CONVOY_MAX_WORKERS])
{
    struct convoy_adoptable held;
    uint32_t count = 0;
    for (uint32_t i = 0; convoy_worker_label_held(supervisor->link, i, &held.device, held.of); i++) {
        struct convoy_worker_settings like = convoy_supervisor_settings(supervisor, held.device, held.of);
        struct convoy_channel_size size;
        char backend[CONVOY_BACKEND_BYTES];
        bool is_of_all = strcmp(held.of, CONVOY_OF_ALL) == 0;
        if (held.device >= CONVOY_MAX_DEVICES || count == CONVOY_MAX_WORKERS ||
            is_of_all == supervisor->config->worker.per_model || is_listed(found, count, &held) ||
            convoy_worker_label_find(supervisor->link, &like, supervisor->backend, &size, backend) == NULL)
            continue;
        found[count++] = held;
        memcpy(supervisor->backend, backend, sizeof backend);
        supervisor->size = size;
        supervisor->sized = true;
    }
    return count;
}

static bool same_size(const struct convoy_channel_size *a, const struct convoy_channel_size *b)
{
    return a->slots == b->slots && a->input_bytes == b->input_bytes && a->output_bytes == b->output_bytes;
}

bool convoy_adopt_begin(struct device_worker *worker)
{
    const struct convoy_supervisor *supervisor = worker->supervisor;
    struct convoy_channel_size size;
    char backend[CONVOY_BACKEND_BYTES];
    /* All channels are of one size. */
    if (convoy_worker_label_find(supervisor->link, &worker->process.settings, supervisor->backend, &size,
                                 backend) == NULL ||
        !same_size(&size, &supervisor->size) ||
        !convoy_worker_process_adopt(&worker->process, supervisor->backend))
        return false;
    worker->adopted = worker->adopting = true;
    worker->loading = NO_MODEL;
    return true;
}

/* The record that this front would load just as the worker has; NULL: there is none, or another number of the
 * worker is it already. */
static const struct convoy_model_record *match(const struct device_worker *worker, const cJSON *load)
{
    struct convoy_registry *registry = worker->supervisor->registry;
    for (uint32_t i = 0; i < convoy_registry_count(registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(registry, i);
        if (model == NULL || model->config == NULL || model->state != CONVOY_MODEL_LOADING ||
            !convoy_placement_here(worker, model))
            continue;
        cJSON *own = convoy_worker_command_load_kind(model, convoy_files_of(worker));
        bool same = own != NULL && cJSON_Compare(own, load, true);
        cJSON_Delete(own);
        for (const struct held_model *held = worker->held; held != NULL && same; held = held->next)
            same = held->message.model != model->number;
        if (same)
            return model;
    }
    return NULL;
}

static void free_held(struct held_model *held)
{
    free(held->message.loaded.layers);
    free(held);
}

void convoy_adopt_held(struct device_worker *worker, const struct convoy_worker_message *message)
{
    if (!worker->adopting || !worker->said_hello)
        return;
    const struct convoy_model_record *model =
        match(worker, cJSON_GetObjectItemCaseSensitive(message->json, "load"));
    uint32_t layers = message->loaded.shape.layer_count;
    struct held_model *held = model != NULL ? calloc(1, sizeof *held) : NULL;
    if (held == NULL) /* the worker is to unload it, and to load it again when it is wanted */
        return;
    held->was = message->model;
    held->message = *message;
    held->message.type = CONVOY_WORKER_LOADED;
    held->message.json = NULL;
    held->message.model = model->number;
    held->message.loaded.layers = calloc(layers + (size_t)1, sizeof *held->message.loaded.layers);
    if (held->message.loaded.layers == NULL) {
        free(held);
        return;
    }
    memcpy(held->message.loaded.layers, message->loaded.layers, layers * sizeof *held->message.loaded.layers);
    held->next = worker->held;
    worker->held = held;
}

void convoy_adopt_end(struct device_worker *worker)
{
    cJSON *keep = convoy_worker_command_keep();
    uint32_t count = 0;
    if (!worker->adopting || !worker->said_hello) {
        cJSON_Delete(keep);
        return;
    }
    bool complete = keep != NULL;
    for (const struct held_model *held = worker->held; held != NULL && complete; held = held->next) {
        complete = convoy_worker_command_keep_add(keep, held->was, held->message.model);
        count++;
    }
    if (!complete) {
        cJSON_Delete(keep);
        convoy_worker_process_kill(&worker->process, "memory");
        return;
    }
    /* Before all that follows: until it has come the worker knows the models under their old numbers. */
    if (convoy_worker_process_send(&worker->process, keep) != 0) {
        convoy_worker_process_kill(&worker->process, "memory");
        return;
    }
    worker->adopting = false;
    convoy_log(CONVOY_LOG_INFO, "worker taken over from the front before",
               CONVOY_STR("device", worker->device), CONVOY_INT("pid", worker->process.pid),
               CONVOY_UINT("models_kept", count), convoy_per_model_field(worker));
    while (worker->held != NULL) {
        struct held_model *held = worker->held;
        worker->held = held->next;
        convoy_loading_answered(worker, &held->message);
        free_held(held);
    }
    convoy_loading_begin(worker);
}

void convoy_adopt_forget(struct device_worker *worker)
{
    while (worker->held != NULL) {
        struct held_model *held = worker->held;
        worker->held = held->next;
        free_held(held);
    }
    worker->adopted = worker->adopting = false;
}

bool convoy_supervisor_keeps(const struct convoy_supervisor *supervisor)
{
    return convoy_adopt_orphan_ms(supervisor) > 0;
}

uint32_t convoy_adopt_orphan_ms(const struct convoy_supervisor *supervisor)
{
    return convoy_link_can_keep() ? supervisor->config->worker.orphan_ms : 0;
}

bool convoy_supervisor_adopts(const struct convoy_supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        const struct device_worker *worker = supervisor->workers[i];
        if (worker->adopted && worker->process.running && !worker->attached)
            return true;
    }
    return false;
}
