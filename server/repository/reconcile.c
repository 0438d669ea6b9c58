#include "server/repository/reconcile.h"

#include "engine/base/log.h"
#include "engine/ipc/channel.h"

#include <stdlib.h>
#include <string.h>

/* The newest record of a name and version; NULL: none. */
static struct convoy_model_record *newest_of(struct convoy_registry *registry, const char *name,
                                             uint32_t version)
{
    struct convoy_model_record *newest = NULL;
    for (uint32_t i = 0; i < convoy_registry_count(registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(registry, i);
        if (model != NULL && model->version_number == version && strcmp(model->name, name) == 0 &&
            (newest == NULL || model->generation > newest->generation))
            newest = model;
    }
    return newest;
}

static const struct convoy_repository_entry *entry_of(const struct convoy_repository *repository,
                                                      const char *name, uint32_t version)
{
    for (uint32_t i = 0; i < repository->entry_count; i++)
        if (repository->entries[i].number == version && strcmp(repository->entries[i].name, name) == 0)
            return &repository->entries[i];
    return NULL;
}

static bool add(struct convoy_registry *registry, struct convoy_repository_scan *scan, uint32_t i)
{
    struct convoy_model_record *model;
    struct convoy_error error;
    const struct convoy_repository_entry *entry = &scan->repository.entries[i];
    struct convoy_model_config *config = scan->configs[i];
    if (config == NULL && scan->problems[i] == NULL)
        return false; /* it was known when the scan began: the next scan reads it */
    scan->configs[i] = NULL;
    if (convoy_registry_add(registry, entry, config, scan->problems[i], &model, &error) == 0)
        return true;
    convoy_log(CONVOY_LOG_ERROR, "a model is passed over", CONVOY_STR("model", entry->name),
               CONVOY_STR("version", entry->version), CONVOY_STR("reason", error.message));
    return false;
}

uint32_t convoy_reconcile(struct convoy_registry *registry, struct convoy_repository_scan *scan,
                          const struct convoy_repository *previous, const char *only)
{
    const struct convoy_repository *found = &scan->repository;
    uint32_t added = 0;
    for (uint32_t i = 0; i < convoy_registry_count(registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(registry, i);
        if (model == NULL || (only != NULL && strcmp(model->name, only) != 0))
            continue;
        /* A version is gone only when two scans in a row miss it: a folder may be replaced by renaming. */
        model->plan.present =
            entry_of(found, model->name, model->version_number) != NULL ||
            (previous != NULL && entry_of(previous, model->name, model->version_number) != NULL);
    }
    for (uint32_t i = 0; i < found->entry_count; i++) {
        const struct convoy_repository_entry *entry = &found->entries[i];
        const struct convoy_model_record *newest = newest_of(registry, entry->name, entry->number);
        const struct convoy_repository_entry *before =
            previous != NULL ? entry_of(previous, entry->name, entry->number) : NULL;
        bool settled = previous == NULL || (before != NULL && before->stamp == entry->stamp);
        if ((only == NULL || strcmp(entry->name, only) == 0) && settled &&
            (newest == NULL || newest->stamp != entry->stamp))
            added += add(registry, scan, i);
    }
    return added;
}

/* By name, then the highest version first, then its newest record. */
static int by_name_newest(const void *left, const void *right)
{
    const struct convoy_model_record *a = *(struct convoy_model_record *const *)left;
    const struct convoy_model_record *b = *(struct convoy_model_record *const *)right;
    int order = strcmp(a->name, b->name);
    if (order != 0)
        return order;
    if (a->version_number != b->version_number)
        return a->version_number > b->version_number ? -1 : 1;
    return a->generation > b->generation ? -1 : 1;
}

/* The policy of the newest record with a configuration; without one every version is served. */
static struct convoy_version_policy policy_of(struct convoy_model_record *const *models, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (models[i]->config != NULL)
            return models[i]->config->versions;
    return (struct convoy_version_policy){0};
}

/* Selects among the records of one name. */
static void select_of_name(struct convoy_model_record *const *models, uint32_t count, bool asked)
{
    const struct convoy_version_policy policy = policy_of(models, count);
    uint32_t higher = 0;
    bool covered = true;
    for (uint32_t i = 0; i < count; i++) {
        struct convoy_model_record *model = models[i];
        bool newest = i == 0 || models[i - 1]->version_number != model->version_number;
        model->plan.newest = newest;
        model->plan.wanted = newest && asked && model->plan.present &&
                             convoy_version_policy_serves(&policy, model->version_number, higher);
        higher += newest && model->plan.present;
        if (model->plan.wanted && model->state != CONVOY_MODEL_READY && !model->plan.evicted)
            covered = false;
    }
    for (uint32_t i = 0; i < count; i++)
        models[i]->plan.covered = covered;
}

void convoy_select_versions(struct convoy_registry *registry, bool (*asked)(void *context, const char *name),
                            void *context)
{
    struct convoy_model_record *models[CONVOY_MAX_MODELS];
    uint32_t count = 0, end;
    for (uint32_t i = 0; i < convoy_registry_count(registry); i++)
        if (convoy_registry_at(registry, i) != NULL)
            models[count++] = convoy_registry_at(registry, i);
    if (count > 0)
        qsort(models, count, sizeof models[0], by_name_newest);
    for (uint32_t first = 0; first < count; first = end) {
        for (end = first + 1; end < count && strcmp(models[end]->name, models[first]->name) == 0;)
            end++;
        select_of_name(models + first, end - first, asked(context, models[first]->name));
    }
}
