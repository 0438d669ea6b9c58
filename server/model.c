#include "server/model.h"

#include "engine/base/log.h"
#include "engine/channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct convoy_labels {
    atomic_uint holders;
    struct convoy_label_list list;
};

struct convoy_registry {
    pthread_mutex_t lock;
    struct convoy_metrics *metrics;
    struct convoy_repository repository; /* sorted by name, then version; models point into it */
    struct convoy_model *models;         /* one per entry, in the same order */
    uint32_t count;
    struct convoy_model *default_model; /* NULL: a request has to name one */
};

/* Takes the list over. */
static struct convoy_labels *labels_new(struct convoy_label_list *list)
{
    struct convoy_labels *labels = calloc(1, sizeof *labels);
    if (labels == NULL)
        return NULL;
    atomic_init(&labels->holders, 1);
    labels->list = *list;
    memset(list, 0, sizeof *list);
    return labels;
}

static void labels_release(struct convoy_labels *labels)
{
    if (labels == NULL || atomic_fetch_sub(&labels->holders, 1) != 1)
        return;
    convoy_label_list_free(&labels->list);
    free(labels);
}

static void open_model(struct convoy_registry *registry, uint32_t number, const struct convoy_config *config)
{
    const struct convoy_repository_entry *entry = &registry->repository.entries[number];
    struct convoy_model *model = &registry->models[number];
    struct convoy_error error;
    *model = (struct convoy_model){.number = number,
                                   .name = entry->name,
                                   .version = entry->version,
                                   .path = entry->path,
                                   .folder = entry->folder,
                                   .metrics = convoy_metrics_model(registry->metrics, entry->name)};
    convoy_metrics_model_ready(registry->metrics, model->name, model->version, false);
    if (number >= CONVOY_MAX_MODELS)
        convoy_model_failed(registry, model, "there are more than 1024 model versions: remove some");
    else if (entry->problem != NULL)
        convoy_model_failed(registry, model, entry->problem);
    else if (convoy_model_config_load(entry->folder, &config->batching, &model->config, &error) != 0)
        convoy_model_failed(registry, model, error.message);
    else
        model->labels = labels_new(&model->config->labels);
    if (model->config != NULL)
        model->statistics = convoy_statistics_new(model->config->batching.max_batch);
}

/* The configured default where it is there, else the only model there is. */
static void choose_default(struct convoy_registry *registry, const char *wanted)
{
    bool one_name = registry->count > 0 &&
                    strcmp(registry->models[0].name, registry->models[registry->count - 1].name) == 0;
    if (wanted != NULL)
        registry->default_model = convoy_registry_find(registry, wanted, NULL, NULL);
    bool missing = wanted != NULL && registry->default_model == NULL;
    if (registry->default_model == NULL && one_name)
        registry->default_model = &registry->models[registry->count - 1];
    if (missing && registry->default_model != NULL)
        convoy_log(CONVOY_LOG_WARNING, "the default_model is not there: the only model takes its place",
                   CONVOY_STR("default_model", wanted), CONVOY_STR("model", registry->default_model->name));
    else if (missing)
        convoy_log(CONVOY_LOG_WARNING, "the default_model is not there: requests must name one",
                   CONVOY_STR("default_model", wanted));
}

int convoy_registry_open(const struct convoy_config *config, struct convoy_metrics *metrics,
                         struct convoy_registry **result, struct convoy_error *error)
{
    struct convoy_registry *registry = calloc(1, sizeof *registry);
    if (registry == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the models");
    pthread_mutex_init(&registry->lock, NULL);
    registry->metrics = metrics;
    int code = convoy_repository_scan(config->models, &registry->repository, error);
    if (code != 0)
        goto failed;
    for (uint32_t i = 0; i < registry->repository.note_count; i++)
        convoy_log(registry->repository.notes[i].level, "model repository",
                   CONVOY_STR("note", registry->repository.notes[i].text));
    registry->count = registry->repository.entry_count;
    registry->models = calloc(registry->count + 1, sizeof *registry->models);
    if (registry->models == NULL) {
        code = convoy_fail(error, -ENOMEM, "out of memory for the models");
        goto failed;
    }
    for (uint32_t i = 0; i < registry->count; i++)
        open_model(registry, i, config);
    choose_default(registry, config->default_model);
    *result = registry;
    return 0;
failed:
    convoy_registry_close(registry);
    return code;
}

void convoy_registry_close(struct convoy_registry *registry)
{
    if (registry == NULL)
        return;
    for (uint32_t i = 0; registry->models != NULL && i < registry->count; i++) {
        convoy_model_config_free(registry->models[i].config);
        labels_release(registry->models[i].labels);
        convoy_statistics_free(registry->models[i].statistics);
    }
    free(registry->models);
    convoy_repository_free(&registry->repository);
    pthread_mutex_destroy(&registry->lock);
    free(registry);
}

uint32_t convoy_registry_count(const struct convoy_registry *registry)
{
    return registry->count;
}

struct convoy_model *convoy_registry_at(struct convoy_registry *registry, uint32_t number)
{
    return &registry->models[number];
}

struct convoy_model *convoy_registry_find(struct convoy_registry *registry, const char *name,
                                          const char *version, struct convoy_error *why)
{
    struct convoy_model *found = NULL;
    char names[256];
    if (name == NULL && version == NULL && registry->default_model != NULL)
        return registry->default_model;
    if (name == NULL && registry->default_model != NULL)
        name = registry->default_model->name;
    /* Sorted by version within a name: the last match is the highest. */
    bool named = false;
    for (uint32_t i = 0; name != NULL && i < registry->count; i++) {
        struct convoy_model *model = &registry->models[i];
        if (strcmp(model->name, name) != 0)
            continue;
        named = true;
        if (version == NULL || strcmp(model->version, version) == 0)
            found = model;
    }
    if (found == NULL && name == NULL)
        convoy_fail(why, -ENOENT, "name a model with ?model=NAME: there is no default; the models are %s",
                    convoy_registry_names(registry, names, sizeof names));
    else if (found == NULL && named)
        convoy_fail(why, -ENOENT,
                    "that version of the model does not exist: GET /v2/models lists those that do");
    else if (found == NULL)
        convoy_fail(why, -ENOENT, "there is no such model: the models are %s",
                    convoy_registry_names(registry, names, sizeof names));
    return found;
}

bool convoy_registry_default_missing(const struct convoy_registry *registry)
{
    return registry->default_model == NULL;
}

const char *convoy_registry_names(const struct convoy_registry *registry, char *text, size_t capacity)
{
    size_t used = 0;
    snprintf(text, capacity, "none");
    for (uint32_t i = 0; i < registry->count; i++) {
        const char *name = registry->models[i].name;
        if (i > 0 && strcmp(name, registry->models[i - 1].name) == 0)
            continue;
        if (used + strlen(name) + sizeof ", ..." > capacity) {
            snprintf(text + used, capacity - used, ", ...");
            break;
        }
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", used > 0 ? ", " : "", name);
    }
    return text;
}

void convoy_model_view(struct convoy_registry *registry, struct convoy_model *model,
                       struct convoy_model_view *view)
{
    pthread_mutex_lock(&registry->lock);
    *view = (struct convoy_model_view){
        .model = model, .state = model->state, .shape = model->shape, .labels = model->labels};
    memcpy(view->reason, model->reason, sizeof view->reason);
    convoy_model_view_hold(view);
    if (model->config != NULL) {
        view->softmax = model->config->softmax == CONVOY_SOFTMAX_ON ||
                        (model->config->softmax == CONVOY_SOFTMAX_AUTO && !model->shape.ends_in_softmax);
        view->crop = model->config->resize == CONVOY_RESIZE_CROP;
        view->max_delay_us = model->config->batching.max_delay_us;
    }
    pthread_mutex_unlock(&registry->lock);
}

void convoy_model_view_hold(struct convoy_model_view *view)
{
    if (view->labels != NULL)
        atomic_fetch_add(&view->labels->holders, 1);
}

void convoy_model_view_end(struct convoy_model_view *view)
{
    labels_release(view->labels);
    view->labels = NULL;
}

const char *convoy_model_label(const struct convoy_model_view *view, uint32_t index, char *buffer)
{
    if (view->labels != NULL && index < view->labels->list.count)
        return view->labels->list.labels[index];
    snprintf(buffer, 16, "%u", index);
    return buffer;
}

const char *convoy_model_label_file(const struct convoy_model_view *view)
{
    return view->labels != NULL && view->labels->list.name != NULL ? view->labels->list.name : "";
}

/* Fewer or more labels than classes are most likely those of another network, and nothing else would show it.
 * Under the lock. */
static void compare_labels(const struct convoy_model *model)
{
    uint32_t labels = model->labels == NULL ? 0 : model->labels->list.count;
    uint64_t classes = model->shape.output_elements[0];

    if (labels != 0 && labels != classes)
        convoy_log(CONVOY_LOG_WARNING,
                   "labels and classes differ in number: are these another model's labels?",
                   CONVOY_STR("model", model->name), CONVOY_STR("version", model->version),
                   CONVOY_UINT("labels", labels), CONVOY_UINT("classes", classes));
}

void convoy_model_ready(struct convoy_registry *registry, struct convoy_model *model,
                        const struct convoy_model_shape *shape)
{
    pthread_mutex_lock(&registry->lock);
    model->shape = *shape;
    model->state = CONVOY_MODEL_READY;
    compare_labels(model);
    pthread_mutex_unlock(&registry->lock);
    convoy_metrics_model_ready(registry->metrics, model->name, model->version, true);
}

void convoy_model_precision(struct convoy_registry *registry, struct convoy_model *model,
                            const char *precision)
{
    pthread_mutex_lock(&registry->lock);
    snprintf(model->shape.precision, sizeof model->shape.precision, "%s", precision);
    pthread_mutex_unlock(&registry->lock);
}

void convoy_model_failed(struct convoy_registry *registry, struct convoy_model *model, const char *reason)
{
    pthread_mutex_lock(&registry->lock);
    model->state = CONVOY_MODEL_FAILED;
    snprintf(model->reason, sizeof model->reason, "%s", reason);
    pthread_mutex_unlock(&registry->lock);
    convoy_metrics_model_ready(registry->metrics, model->name, model->version, false);
    convoy_log(CONVOY_LOG_ERROR, "model failed", CONVOY_STR("model", model->name),
               CONVOY_STR("version", model->version), CONVOY_STR("reason", reason));
}

void convoy_model_answered(struct convoy_model *model, bool well, uint64_t us)
{
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_REQUEST, us);
    convoy_statistics_answered(model->statistics, well, us);
}

void convoy_model_waited(struct convoy_model *model, uint64_t us)
{
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_QUEUE, us);
    convoy_statistics_waited(model->statistics, us);
}

void convoy_model_ran(struct convoy_model *model, struct convoy_device_metrics *device, uint32_t rows,
                      const struct convoy_batch_times *times)
{
    convoy_metrics_batch(model->metrics, device, rows);
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_INPUT, times->input_us);
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_COMPUTE, times->compute_us);
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_OUTPUT, times->output_us);
    convoy_statistics_ran(model->statistics, rows, times);
}

void convoy_model_looked_up(struct convoy_model *model, bool hit, uint64_t ns)
{
    convoy_metrics_cache_lookup(model->metrics, hit);
    convoy_statistics_looked_up(model->statistics, hit, ns);
}

void convoy_model_inserted(struct convoy_model *model, uint64_t ns)
{
    convoy_statistics_inserted(model->statistics, ns);
}

void convoy_registry_states(struct convoy_registry *registry, struct convoy_model_states *states)
{
    *states = (struct convoy_model_states){0};
    pthread_mutex_lock(&registry->lock);
    for (uint32_t i = 0; i < registry->count; i++) {
        states->loading += registry->models[i].state == CONVOY_MODEL_LOADING;
        states->ready += registry->models[i].state == CONVOY_MODEL_READY;
        states->failed += registry->models[i].state == CONVOY_MODEL_FAILED;
    }
    pthread_mutex_unlock(&registry->lock);
}

bool convoy_registry_any_ready(struct convoy_registry *registry)
{
    struct convoy_model_states states;
    convoy_registry_states(registry, &states);
    return states.ready > 0;
}

bool convoy_registry_settled(struct convoy_registry *registry)
{
    struct convoy_model_states states;
    convoy_registry_states(registry, &states);
    return states.ready > 0 && states.loading == 0;
}

void convoy_registry_reload(struct convoy_registry *registry, const struct convoy_config *config)
{
    for (uint32_t i = 0; i < registry->count; i++) {
        struct convoy_model *model = &registry->models[i];
        struct convoy_model_config *fresh;
        struct convoy_error error;
        if (model->config == NULL)
            continue;
        if (convoy_model_config_load(model->folder, &config->batching, &fresh, &error) != 0) {
            convoy_log(CONVOY_LOG_ERROR, "a model's configuration is not taken over",
                       CONVOY_STR("model", model->name), CONVOY_STR("reason", error.message));
            continue;
        }
        struct convoy_labels *labels = labels_new(&fresh->labels);
        pthread_mutex_lock(&registry->lock);
        struct convoy_labels *old = model->labels;
        if (labels != NULL)
            model->labels = labels;
        if (model->state == CONVOY_MODEL_READY)
            compare_labels(model);
        model->config->batching.max_delay_us = fresh->batching.max_delay_us;
        pthread_mutex_unlock(&registry->lock);
        if (labels != NULL)
            labels_release(old);
        convoy_model_config_free(fresh);
    }
}
