#include "server/models/registry_internal.h"

#include "engine/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int convoy_registry_new(const struct convoy_config *config, struct convoy_metrics *metrics,
                        struct convoy_registry **registry, struct convoy_error *error)
{
    *registry = aligned_alloc(_Alignof(struct convoy_registry), sizeof **registry);
    if (*registry == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the models");
    memset(*registry, 0, sizeof **registry);
    convoy_shared_lock_init(&(*registry)->lock);
    (*registry)->config = config;
    (*registry)->metrics = metrics;
    return 0;
}

static void free_model(struct convoy_model_record *model)
{
    if (model == NULL)
        return;
    convoy_model_config_free(model->config);
    convoy_labels_release(model->labels);
    convoy_statistics_release(model->statistics);
    free(model->name);
    free(model->version);
    free(model->path);
    free(model->folder);
    free(model);
}

void convoy_registry_close(struct convoy_registry *registry)
{
    if (registry == NULL)
        return;
    for (uint32_t i = 0; i < registry->count; i++)
        free_model(registry->models[i]);
    convoy_shared_lock_destroy(&registry->lock);
    free(registry);
}

uint32_t convoy_registry_count(const struct convoy_registry *registry)
{
    return registry->count;
}

struct convoy_model_record *convoy_registry_at(struct convoy_registry *registry, uint32_t number)
{
    return registry->models[number];
}

static bool same_version(const struct convoy_model_record *a, const struct convoy_model_record *b)
{
    return a->version_number == b->version_number && strcmp(a->name, b->name) == 0;
}

void convoy_registry_tell_ready(struct convoy_registry *registry, const struct convoy_model_record *model)
{
    bool ready = false, meant = false;
    for (uint32_t i = 0; i < registry->count; i++) {
        const struct convoy_model_record *other = registry->models[i];
        if (other == NULL || !same_version(other, model))
            continue;
        ready = ready || other->state == CONVOY_MODEL_READY;
        meant = meant || other->state == CONVOY_MODEL_LOADING || other->state == CONVOY_MODEL_FAILED;
    }
    if (ready || meant)
        convoy_metrics_model_ready(registry->metrics, model->name, model->version, ready);
    else
        convoy_metrics_model_gone(registry->metrics, model->name, model->version);
}

/* The statistics of an older record of the same version, held, or new ones. NULL when memory is out. */
static struct convoy_statistics *statistics_for(struct convoy_registry *registry,
                                                const struct convoy_model_record *model)
{
    uint32_t max_batch = model->config->batching.max_batch;
    for (uint32_t i = 0; i < registry->count; i++) {
        const struct convoy_model_record *other = registry->models[i];
        if (other != NULL && other->statistics != NULL && same_version(other, model) &&
            convoy_statistics_max_batch(other->statistics) == max_batch)
            return convoy_statistics_hold(other->statistics);
    }
    return convoy_statistics_new(max_batch);
}

int convoy_registry_add(struct convoy_registry *registry, const struct convoy_repository_entry *entry,
                        struct convoy_model_config *config, const char *problem,
                        struct convoy_model_record **result, struct convoy_error *error)
{
    uint32_t number = 0;
    while (number < registry->count && registry->models[number] != NULL)
        number++;
    struct convoy_model_record *model = number < CONVOY_MAX_MODELS ? calloc(1, sizeof *model) : NULL;
    if (model == NULL) {
        convoy_model_config_free(config);
        return number < CONVOY_MAX_MODELS
                   ? convoy_fail(error, -ENOMEM, "out of memory for a model")
                   : convoy_fail(error, -ENFILE, "there are more than %d model versions: remove some",
                                 CONVOY_MAX_MODELS);
    }
    *model = (struct convoy_model_record){.number = number,
                                          .version_number = entry->number,
                                          .generation = ++registry->generations,
                                          .name = strdup(entry->name),
                                          .version = strdup(entry->version),
                                          .path = strdup(entry->path),
                                          .folder = strdup(entry->folder),
                                          .stamp = entry->stamp,
                                          .bytes = entry->bytes,
                                          .config = config,
                                          .plan = {.present = true}};
    bool complete =
        model->name != NULL && model->version != NULL && model->path != NULL && model->folder != NULL;
    if (complete && config != NULL) {
        model->labels = convoy_labels_new(&config->labels);
        model->statistics = statistics_for(registry, model);
        complete = model->labels != NULL && model->statistics != NULL;
    }
    if (!complete) {
        free_model(model);
        return convoy_fail(error, -ENOMEM, "out of memory for a model");
    }
    model->metrics = convoy_metrics_model(registry->metrics, model->name);
    convoy_shared_lock_write(&registry->lock);
    registry->models[number] = model;
    if (number == registry->count)
        registry->count++;
    convoy_shared_lock_end_write(&registry->lock);
    convoy_metrics_model_failures(registry->metrics, model->name, model->version, 0);
    if (problem != NULL)
        convoy_registry_set_failed(registry, model, problem);
    *result = model;
    return 0;
}

bool convoy_registry_remove(struct convoy_registry *registry, struct convoy_model_record *model)
{
    convoy_shared_lock_write(&registry->lock);
    if (atomic_load(&model->holders) > 0) {
        convoy_shared_lock_end_write(&registry->lock);
        return false;
    }
    registry->models[model->number] = NULL;
    while (registry->count > 0 && registry->models[registry->count - 1] == NULL)
        registry->count--;
    convoy_registry_tell_ready(registry, model);
    convoy_shared_lock_end_write(&registry->lock);
    free_model(model);
    return true;
}

/* How well a record answers a lookup; the highest rank is found. Where the models are those found at start
 * (control "none"), a version that cannot be served is not silently replaced by a lower one, which has never
 * been seen to work. */
static int rank_of(const struct convoy_registry *registry, const struct convoy_model_record *model)
{
    bool live = registry->config->repository.control != CONVOY_CONTROL_NONE;
    switch (model->state) {
    case CONVOY_MODEL_READY:
        return 5;
    case CONVOY_MODEL_LOADING:
        return live ? 4 : 5;
    case CONVOY_MODEL_FAILED:
        return live ? 3 : 5;
    default:
        if (model->evicted) /* the next request loads it */
            return 5;
        return model->state == CONVOY_MODEL_UNLOADED ? 2 : 1;
    }
}

/* True when a lookup prefers a to b; b may be NULL. */
static bool better(const struct convoy_registry *registry, const struct convoy_model_record *a,
                   const struct convoy_model_record *b)
{
    int rank = rank_of(registry, a), other = b != NULL ? rank_of(registry, b) : 0;
    if (b == NULL || rank != other)
        return rank > other;
    if (a->version_number != b->version_number)
        return a->version_number > b->version_number;
    return a->generation > b->generation;
}

/* The name of the default model: the configured one, or the only one of those to be served; NULL when there
 * is none. Under the lock. */
static const char *default_name(const struct convoy_registry *registry)
{
    const char *wanted = registry->config->default_model, *only = NULL;
    bool one = true;
    for (uint32_t i = 0; i < registry->count; i++) {
        const struct convoy_model_record *model = registry->models[i];
        if (model == NULL)
            continue;
        if (wanted != NULL && strcmp(model->name, wanted) == 0)
            return model->name;
        if (!model->evicted &&
            (model->state == CONVOY_MODEL_UNLOADED || model->state == CONVOY_MODEL_UNLOADING))
            continue;
        one = one && (only == NULL || strcmp(model->name, only) == 0);
        only = model->name;
    }
    return one ? only : NULL;
}

/* "a, b, c": the models' names, for messages. Under the lock. */
static const char *names(const struct convoy_registry *registry, char *text, size_t capacity)
{
    const char *last = "";
    size_t used = 0;
    snprintf(text, capacity, "none");
    for (;;) {
        const char *next = NULL; /* by the alphabet */
        for (uint32_t i = 0; i < registry->count; i++) {
            const struct convoy_model_record *model = registry->models[i];
            if (model != NULL && strcmp(model->name, last) > 0 &&
                (next == NULL || strcmp(model->name, next) < 0))
                next = model->name;
        }
        if (next == NULL)
            return text;
        if (used + strlen(next) + sizeof ", ..." > capacity) {
            snprintf(text + used, capacity - used, ", ...");
            return text;
        }
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", used > 0 ? ", " : "", next);
        last = next;
    }
}

struct convoy_model_record *convoy_registry_find(struct convoy_registry *registry, const char *name,
                                                 const char *version, struct convoy_error *why)
{
    struct convoy_model_record *found = NULL;
    char text[256];
    bool named = false;
    convoy_shared_lock_read(&registry->lock);
    if (name == NULL)
        name = default_name(registry);
    for (uint32_t i = 0; name != NULL && i < registry->count; i++) {
        struct convoy_model_record *model = registry->models[i];
        if (model == NULL || strcmp(model->name, name) != 0)
            continue;
        named = true;
        if ((version == NULL || strcmp(model->version, version) == 0) && better(registry, model, found))
            found = model;
    }
    if (found != NULL)
        convoy_model_hold(found);
    else if (name == NULL)
        convoy_fail(
            why, -ENOENT,
            "name a model with ?model=NAME (convoy: --model NAME): there is no default; the models are %s",
            names(registry, text, sizeof text));
    else if (named)
        convoy_fail(why, -ENOENT,
                    "that version of the model does not exist: GET /v2/models lists those that do");
    else
        convoy_fail(why, -ENOENT, "there is no such model: the models are %s",
                    names(registry, text, sizeof text));
    convoy_shared_lock_end_read(&registry->lock);
    return found;
}

bool convoy_registry_default_missing(struct convoy_registry *registry)
{
    convoy_shared_lock_read(&registry->lock);
    bool missing = default_name(registry) == NULL;
    convoy_shared_lock_end_read(&registry->lock);
    return missing;
}

static int by_name_version_rank(const void *left, const void *right, void *registry)
{
    const struct convoy_model_record *a = *(struct convoy_model_record *const *)left,
                                     *b = *(struct convoy_model_record *const *)right;
    int order = strcmp(a->name, b->name);
    if (order != 0)
        return order;
    if (a->version_number != b->version_number)
        return a->version_number < b->version_number ? -1 : 1;
    return better(registry, a, b) ? -1 : 1;
}

/* Writes the best record of each name and version into models, in order; returns how many. Under the lock. */
static uint32_t best_of_each(struct convoy_registry *registry, const char *name,
                             struct convoy_model_record *models[CONVOY_MAX_MODELS])
{
    uint32_t count = 0, kept = 0;
    for (uint32_t i = 0; i < registry->count; i++)
        if (registry->models[i] != NULL && (name == NULL || strcmp(registry->models[i]->name, name) == 0))
            models[count++] = registry->models[i];
    if (count > 0)
        qsort_r(models, count, sizeof *models, by_name_version_rank, registry);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || !same_version(models[kept - 1], models[i]))
            models[kept++] = models[i];
    return kept;
}

/* Why the newest reading of this version's files cannot be served; NULL when it can be, or is this one. Under
 * the lock. */
static const char *newer_failure(const struct convoy_registry *registry,
                                 const struct convoy_model_record *model)
{
    const struct convoy_model_record *newest = model;
    for (uint32_t i = 0; i < registry->count; i++) {
        const struct convoy_model_record *other = registry->models[i];
        if (other != NULL && same_version(other, model) && other->generation > newest->generation)
            newest = other;
    }
    return newest != model && newest->state == CONVOY_MODEL_FAILED ? newest->reason : NULL;
}

int convoy_registry_list(struct convoy_registry *registry, const char *name, struct convoy_model_list *list,
                         struct convoy_error *error)
{
    struct convoy_model_record *models[CONVOY_MAX_MODELS];
    convoy_shared_lock_read(&registry->lock);
    list->count = best_of_each(registry, name, models);
    list->views = calloc((size_t)list->count + 1, sizeof *list->views);
    for (uint32_t i = 0; list->views != NULL && i < list->count; i++) {
        struct convoy_model_view *view = &list->views[i];
        convoy_model_view_fill(models[i], view);
        const char *failure = newer_failure(registry, models[i]);
        if (failure != NULL)
            snprintf(view->reason, sizeof view->reason, "%s", failure);
        else if (view->state != CONVOY_MODEL_FAILED)
            view->reason[0] = '\0';
    }
    convoy_shared_lock_end_read(&registry->lock);
    return list->views != NULL ? 0 : convoy_fail(error, -ENOMEM, "out of memory for the list of models");
}

void convoy_model_list_end(struct convoy_model_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        convoy_model_view_end(&list->views[i]);
    free(list->views);
}

void convoy_registry_states(struct convoy_registry *registry, struct convoy_model_states *states)
{
    struct convoy_model_record *models[CONVOY_MAX_MODELS];
    *states = (struct convoy_model_states){0};
    convoy_shared_lock_read(&registry->lock);
    uint32_t count = best_of_each(registry, NULL, models);
    for (uint32_t i = 0; i < count; i++) {
        states->loading += models[i]->state == CONVOY_MODEL_LOADING;
        states->ready += models[i]->state == CONVOY_MODEL_READY;
        states->failed += models[i]->state == CONVOY_MODEL_FAILED;
        states->unloaded +=
            models[i]->state == CONVOY_MODEL_UNLOADED || models[i]->state == CONVOY_MODEL_UNLOADING;
    }
    convoy_shared_lock_end_read(&registry->lock);
}

bool convoy_registry_any_ready(struct convoy_registry *registry)
{
    struct convoy_model_states states;
    convoy_registry_states(registry, &states);
    return states.ready > 0;
}

void convoy_registry_settle(struct convoy_registry *registry)
{
    convoy_shared_lock_write(&registry->lock);
    registry->settled = true;
    convoy_shared_lock_end_write(&registry->lock);
}

bool convoy_registry_settled(struct convoy_registry *registry)
{
    struct convoy_model_states states;
    convoy_registry_states(registry, &states);
    convoy_shared_lock_read(&registry->lock);
    bool settled = registry->settled;
    convoy_shared_lock_end_read(&registry->lock);
    bool nothing_asked = registry->config->repository.control == CONVOY_CONTROL_EXPLICIT &&
                         states.loading + states.failed == 0;
    return settled && (states.ready > 0 || nothing_asked);
}

void convoy_registry_reconfigure(struct convoy_registry *registry, struct convoy_model_record *model,
                                 struct convoy_model_config *fresh)
{
    struct convoy_labels *labels = convoy_labels_new(&fresh->labels), *old = NULL;
    convoy_shared_lock_write(&registry->lock);
    if (labels != NULL) {
        old = model->labels;
        model->labels = labels;
    }
    model->config->batching.max_delay_us = fresh->batching.max_delay_us;
    convoy_shared_lock_end_write(&registry->lock);
    if (model->state == CONVOY_MODEL_READY)
        convoy_labels_compare(model);
    convoy_labels_release(old);
    convoy_model_config_free(fresh);
}
