#include "server/repository/repository_scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct convoy_repository_scan *convoy_repository_scan_new(const struct convoy_config *config,
                                                          struct convoy_registry *registry)
{
    uint32_t count = convoy_registry_count(registry);
    struct convoy_repository_scan *scan = calloc(1, sizeof *scan);
    if (scan == NULL)
        return NULL;
    scan->config = config;
    scan->known = calloc((size_t)count + 1, sizeof *scan->known);
    for (uint32_t i = 0; scan->known != NULL && i < count; i++) {
        const struct convoy_model_record *model = convoy_registry_at(registry, i);
        char *name = model != NULL && model->plan.newest ? strdup(model->name) : NULL;
        if (name != NULL)
            scan->known[scan->known_count++] =
                (struct convoy_known_version){name, model->version_number, model->stamp};
    }
    return scan;
}

static bool is_known(const struct convoy_repository_scan *scan, const struct convoy_repository_entry *entry)
{
    for (uint32_t i = 0; i < scan->known_count; i++)
        if (scan->known[i].stamp == entry->stamp && scan->known[i].version == entry->number &&
            strcmp(scan->known[i].name, entry->name) == 0)
            return true;
    return false;
}

/* Reads configuration and labels of an entry that is not known. False when memory is out. */
static bool read_entry(struct convoy_repository_scan *scan, uint32_t i)
{
    const struct convoy_repository_entry *entry = &scan->repository.entries[i];
    struct convoy_error error;
    const char *problem = entry->problem;
    if (is_known(scan, entry))
        return true;
    if (problem == NULL &&
        convoy_model_config_load(entry->folder, &scan->config->batching, &scan->configs[i], &error) != 0)
        problem = error.message;
    return problem == NULL || (scan->problems[i] = strdup(problem)) != NULL;
}

void convoy_repository_scan_run(struct convoy_repository_scan *scan)
{
    scan->code = convoy_repository_read(scan->config->models, &scan->repository, &scan->error);
    if (scan->code != 0)
        return;
    size_t count = scan->entry_count = scan->repository.entry_count;
    scan->configs = calloc(count + 1, sizeof *scan->configs);
    scan->problems = calloc(count + 1, sizeof *scan->problems);
    bool complete = scan->configs != NULL && scan->problems != NULL && scan->known != NULL;
    for (uint32_t i = 0; complete && i < count; i++)
        complete = read_entry(scan, i);
    if (!complete)
        scan->code = convoy_fail(&scan->error, -ENOMEM, "out of memory while the models folder %s was read",
                                 scan->config->models);
}

void convoy_repository_scan_free(struct convoy_repository_scan *scan)
{
    if (scan == NULL)
        return;
    for (uint32_t i = 0; i < scan->known_count; i++)
        free(scan->known[i].name);
    for (uint32_t i = 0; i < scan->entry_count; i++) {
        if (scan->configs != NULL)
            convoy_model_config_free(scan->configs[i]);
        if (scan->problems != NULL)
            free(scan->problems[i]);
    }
    free(scan->known);
    free(scan->configs);
    free(scan->problems);
    convoy_repository_free(&scan->repository);
    free(scan);
}
