#include "server/repository/look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct convoy_look *convoy_look_new(const struct convoy_config *config, struct convoy_registry *registry)
{
    uint32_t count = convoy_registry_count(registry);
    struct convoy_look *look = calloc(1, sizeof *look);
    if (look == NULL)
        return NULL;
    look->config = config;
    look->known = calloc((size_t)count + 1, sizeof *look->known);
    for (uint32_t i = 0; look->known != NULL && i < count; i++) {
        const struct convoy_model *model = convoy_registry_at(registry, i);
        char *name = model != NULL && model->plan.newest ? strdup(model->name) : NULL;
        if (name != NULL)
            look->known[look->known_count++] =
                (struct convoy_known){name, model->version_number, model->stamp};
    }
    return look;
}

static bool is_known(const struct convoy_look *look, const struct convoy_repository_entry *entry)
{
    for (uint32_t i = 0; i < look->known_count; i++)
        if (look->known[i].stamp == entry->stamp && look->known[i].version == entry->number &&
            strcmp(look->known[i].name, entry->name) == 0)
            return true;
    return false;
}

/* Configuration and labels of what is new. False when memory is out. */
static bool read_entry(struct convoy_look *look, uint32_t i)
{
    const struct convoy_repository_entry *entry = &look->repository.entries[i];
    struct convoy_error error;
    const char *problem = entry->problem;
    if (is_known(look, entry))
        return true;
    if (problem == NULL &&
        convoy_model_config_load(entry->folder, &look->config->batching, &look->configs[i], &error) != 0)
        problem = error.message;
    return problem == NULL || (look->problems[i] = strdup(problem)) != NULL;
}

void convoy_look_run(struct convoy_look *look)
{
    look->code = convoy_repository_scan(look->config->models, &look->repository, &look->error);
    if (look->code != 0)
        return;
    size_t count = look->entry_count = look->repository.entry_count;
    look->configs = calloc(count + 1, sizeof *look->configs);
    look->problems = calloc(count + 1, sizeof *look->problems);
    bool complete = look->configs != NULL && look->problems != NULL && look->known != NULL;
    for (uint32_t i = 0; complete && i < count; i++)
        complete = read_entry(look, i);
    if (!complete)
        look->code = convoy_fail(&look->error, -ENOMEM, "out of memory while the models folder %s was read",
                                 look->config->models);
}

void convoy_look_free(struct convoy_look *look)
{
    if (look == NULL)
        return;
    for (uint32_t i = 0; i < look->known_count; i++)
        free(look->known[i].name);
    for (uint32_t i = 0; i < look->entry_count; i++) {
        if (look->configs != NULL)
            convoy_model_config_free(look->configs[i]);
        if (look->problems != NULL)
            free(look->problems[i]);
    }
    free(look->known);
    free(look->configs);
    free(look->problems);
    convoy_repository_free(&look->repository);
    free(look);
}
