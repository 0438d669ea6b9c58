/* What is asked of the manager: to load, to unload, to wake. */
#include "server/repository/manager_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool convoy_errands_asked(void *context, const char *name)
{
    const struct convoy_manager *manager = context;
    if (manager->config->repository.control != CONVOY_CONTROL_EXPLICIT)
        return true;
    for (uint32_t i = 0; i < manager->asked_count; i++)
        if (strcmp(manager->asked[i], name) == 0)
            return true;
    return false;
}

bool convoy_errands_ask(struct convoy_manager *manager, const char *name, bool serve)
{
    for (uint32_t i = 0; i < manager->asked_count; i++) {
        if (strcmp(manager->asked[i], name) != 0)
            continue;
        if (!serve) {
            free(manager->asked[i]);
            manager->asked[i] = manager->asked[--manager->asked_count];
        }
        return true;
    }
    if (!serve)
        return true;
    char **grown = realloc(manager->asked, (manager->asked_count + (size_t)1) * sizeof *grown);
    if (grown == NULL)
        return false;
    manager->asked = grown;
    grown[manager->asked_count] = strdup(name);
    return grown[manager->asked_count] != NULL && ++manager->asked_count > 0;
}

/* The newest reading of each version that is to be served; what waits is counted, and why it failed told. */
static int outcome(struct convoy_manager *manager, struct convoy_errand *errand, bool *waits,
                   struct convoy_error *error)
{
    uint32_t wanted = 0, failed = 0;
    *waits = false;
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        struct convoy_model *model = convoy_registry_at(manager->registry, i);
        if (model == NULL || !model->plan.wanted || strcmp(model->name, errand->name) != 0 ||
            (errand->kind == CONVOY_ERRAND_WAKE && model->version_number != errand->version))
            continue;
        wanted++;
        if (errand->kind == CONVOY_ERRAND_WAKE && model->state == CONVOY_MODEL_READY) {
            convoy_model_hold(model);
            errand->model = model;
        }
        *waits = *waits || model->state == CONVOY_MODEL_LOADING ||
                 ((model->state == CONVOY_MODEL_UNLOADED || model->state == CONVOY_MODEL_UNLOADING) &&
                  !model->plan.resting);
        if (model->state == CONVOY_MODEL_FAILED && failed++ == 0)
            convoy_fail(error, -EINVAL, "model %s, version %s, could not be loaded: %s", model->name,
                        model->version, model->reason);
    }
    if (wanted == 0)
        return convoy_fail(
            error, -ENOENT,
            "there is no model %s to be served in %s: a model is NAME/VERSION/model.onnx, and its "
            "version_policy has to take the version",
            errand->name, manager->config->models);
    return failed > 0 ? -EINVAL : 0;
}

static bool known(struct convoy_manager *manager, const char *name)
{
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        const struct convoy_model *model = convoy_registry_at(manager->registry, i);
        if (model != NULL && strcmp(model->name, name) == 0)
            return true;
    }
    return false;
}

/* A model that could not be loaded is tried again, since somebody asks. */
static void try_again(struct convoy_manager *manager, const char *name)
{
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        struct convoy_model *model = convoy_registry_at(manager->registry, i);
        if (model == NULL || model->config == NULL || strcmp(model->name, name) != 0)
            continue;
        if (model->state == CONVOY_MODEL_FAILED && model->plan.newest &&
            convoy_supervisor_released(manager->supervisor, model)) {
            convoy_supervisor_unload(manager->supervisor, model);
            convoy_model_unloaded(manager->registry, model, false);
        }
        model->plan.resting = false;
    }
}

/* Does what the errand asks for; what remains is to wait. Returns 0, or why it ends at once. */
static int begin(struct convoy_manager *manager, struct convoy_errand *errand, struct convoy_error *error)
{
    enum convoy_model_control control = manager->config->repository.control;
    if (manager->stopped)
        return convoy_fail(error, -ECANCELED, "the server is stopping");
    if (errand->kind == CONVOY_ERRAND_WAKE) {
        for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
            struct convoy_model *model = convoy_registry_at(manager->registry, i);
            if (model != NULL && model->version_number == errand->version &&
                strcmp(model->name, errand->name) == 0)
                model->plan.resting = false;
        }
        return 0;
    }
    if (control != CONVOY_CONTROL_EXPLICIT)
        return convoy_fail(
            error, -EPERM,
            "models are not loaded and unloaded by request: model_control is \"%s\"; set it to "
            "\"explicit\"",
            convoy_model_controls[control]);
    if (errand->kind == CONVOY_ERRAND_UNLOAD) {
        if (!known(manager, errand->name))
            return convoy_fail(error, -ENOENT, "there is no model %s in %s", errand->name,
                               manager->config->models);
        convoy_errands_ask(manager, errand->name, false);
        return 0;
    }
    convoy_manager_begin_look(manager);
    if (manager->look == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory");
    errand->look = manager->looks + manager->look_again;
    return 0;
}

void convoy_errands_take(struct convoy_manager *manager)
{
    pthread_mutex_lock(&manager->lock);
    struct convoy_errand *sent = manager->sent, *in_order = NULL;
    manager->sent = NULL;
    pthread_mutex_unlock(&manager->lock);
    while (sent != NULL) {
        struct convoy_errand *next = sent->next;
        sent->next = in_order;
        in_order = sent;
        sent = next;
    }
    while (in_order != NULL) {
        struct convoy_errand *errand = in_order;
        struct convoy_error error = {{0}};
        in_order = errand->next;
        errand->look = 0;
        int code = begin(manager, errand, &error);
        if (code != 0) {
            errand->done(errand, code, &error);
        } else {
            errand->next = manager->open;
            manager->open = errand;
        }
    }
}

void convoy_errands_looked(struct convoy_manager *manager, struct convoy_look *look)
{
    for (struct convoy_errand *errand = manager->open; errand != NULL; errand = errand->next) {
        if (errand->look == 0 || errand->look > manager->looks)
            continue;
        if (look->code == 0)
            convoy_reconcile(manager->registry, look, NULL, errand->name);
        if (known(manager, errand->name)) {
            convoy_errands_ask(manager, errand->name, true);
            try_again(manager, errand->name);
        }
        errand->look = 0;
    }
}

void convoy_errands_end(struct convoy_manager *manager, bool wakes_alone)
{
    struct convoy_errand **link = &manager->open;
    while (*link != NULL) {
        struct convoy_errand *errand = *link;
        struct convoy_error error = {{0}};
        bool waits = errand->look != 0 || (wakes_alone && errand->kind != CONVOY_ERRAND_WAKE);
        int code = 0;
        if (manager->stopped)
            code = convoy_fail(&error, -ECANCELED, "the server is stopping");
        else if (!waits && errand->kind != CONVOY_ERRAND_UNLOAD)
            code = outcome(manager, errand, &waits, &error);
        if (waits && !manager->stopped) {
            link = &errand->next;
            continue;
        }
        *link = errand->next;
        errand->done(errand, code, &error);
    }
}

void convoy_manager_send(struct convoy_manager *manager, struct convoy_errand *errand)
{
    struct convoy_error error;
    pthread_mutex_lock(&manager->lock);
    bool stopped = manager->stopped;
    if (!stopped) {
        errand->next = manager->sent;
        manager->sent = errand;
        if (manager->started) /* else convoy_manager_start() looks for it */
            uv_async_send(&manager->called);
    }
    pthread_mutex_unlock(&manager->lock);
    if (!stopped)
        return;
    convoy_fail(&error, -ECANCELED, "the server is stopping");
    errand->done(errand, -ECANCELED, &error);
}
