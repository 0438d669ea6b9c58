/* Control requests: load, unload, wake. */
#include "server/repository/manager_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool convoy_manager_serves_name(void *context, const char *name)
{
    const struct convoy_manager *manager = context;
    if (manager->config->repository.control != CONVOY_CONTROL_EXPLICIT)
        return true;
    for (uint32_t i = 0; i < manager->asked_count; i++)
        if (strcmp(manager->asked[i], name) == 0)
            return true;
    return false;
}

/* How the master remembers that models are loaded by request, and which. */
#define MARK   "models are served by request"
#define PREFIX "served "

static void remember(struct convoy_manager *manager, const char *name, bool serve)
{
    char key[sizeof PREFIX + sizeof MARK + CONVOY_MODEL_NAME_BYTES];
    if (manager->link == NULL)
        return;
    snprintf(key, sizeof key, PREFIX "%s", name);
    if (serve)
        convoy_link_hold(manager->link, key, -1);
    else
        convoy_link_drop(manager->link, key);
}

void convoy_manager_requests_follow(struct convoy_manager *manager, struct convoy_link *link)
{
    char name[sizeof MARK + CONVOY_MODEL_NAME_BYTES];
    bool follows = convoy_link_take_remark(link, MARK, name, sizeof name);
    while (follows && manager->asked_count > 0)
        free(manager->asked[--manager->asked_count]);
    while (follows && convoy_link_take_remark(link, PREFIX, name, sizeof name))
        (void)convoy_manager_set_served(manager, name,
                                        true); /* without memory it can be loaded by request again */
    manager->link = link;
    if (follows)
        return;
    convoy_link_hold(link, MARK, -1);
    for (uint32_t i = 0; i < manager->asked_count; i++)
        remember(manager, manager->asked[i], true);
}

bool convoy_manager_set_served(struct convoy_manager *manager, const char *name, bool serve)
{
    for (uint32_t i = 0; i < manager->asked_count; i++) {
        if (strcmp(manager->asked[i], name) != 0)
            continue;
        if (!serve) {
            remember(manager, name, false);
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
    if (grown[manager->asked_count] == NULL)
        return false;
    manager->asked_count++;
    remember(manager, name, true);
    return true;
}

/* The result for the records of the name that are to be served: 0, or a negative errno and a sentence.
 * *waits: some of them are neither READY nor FAILED yet. A READY model is held for a request that activates
 * it.
 */
static int outcome(struct convoy_manager *manager, struct convoy_control_request *request, bool *waits,
                   struct convoy_error *error)
{
    uint32_t wanted = 0, failed = 0;
    *waits = false;
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(manager->registry, i);
        if (model == NULL || !model->plan.wanted || strcmp(model->name, request->name) != 0 ||
            (request->kind == CONVOY_CONTROL_REQUEST_ACTIVATE && model->version_number != request->version))
            continue;
        wanted++;
        if (request->kind == CONVOY_CONTROL_REQUEST_ACTIVATE && model->state == CONVOY_MODEL_READY) {
            convoy_model_hold(model);
            request->model = model;
        }
        *waits = *waits || model->state == CONVOY_MODEL_LOADING ||
                 ((model->state == CONVOY_MODEL_UNLOADED || model->state == CONVOY_MODEL_UNLOADING) &&
                  !model->plan.evicted);
        if (model->state == CONVOY_MODEL_FAILED && failed++ == 0)
            convoy_fail(error, -EINVAL, "model %s, version %s, could not be loaded: %s", model->name,
                        model->version, model->reason);
    }
    if (wanted == 0)
        return convoy_fail(
            error, -ENOENT,
            "there is no model %s to be served in %s: a model is NAME/VERSION/model.onnx, and its "
            "version_policy has to take the version",
            request->name, manager->config->models);
    return failed > 0 ? -EINVAL : 0;
}

static bool known(struct convoy_manager *manager, const char *name)
{
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(manager->registry, i);
        if (model != NULL && strcmp(model->name, name) == 0)
            return true;
    }
    return false;
}

/* FAILED models of the name may be loaded again. */
static void try_again(struct convoy_manager *manager, const char *name)
{
    for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(manager->registry, i);
        if (model == NULL || model->config == NULL || strcmp(model->name, name) != 0)
            continue;
        if (model->state == CONVOY_MODEL_FAILED && model->plan.newest &&
            convoy_supervisor_released(manager->supervisor, model)) {
            convoy_supervisor_unload(manager->supervisor, model);
            convoy_registry_set_unloaded(manager->registry, model, false);
        }
        model->plan.evicted = false;
    }
}

/* Begins what the request asks for. Returns 0 when it now waits, or the code with which it ends at once. */
static int begin(struct convoy_manager *manager, struct convoy_control_request *request,
                 struct convoy_error *error)
{
    enum convoy_model_control control = manager->config->repository.control;
    if (manager->stopped)
        return convoy_fail(error, -ECANCELED, "the server is stopping");
    if (request->kind == CONVOY_CONTROL_REQUEST_ACTIVATE) {
        for (uint32_t i = 0; i < convoy_registry_count(manager->registry); i++) {
            struct convoy_model_record *model = convoy_registry_at(manager->registry, i);
            if (model != NULL && model->version_number == request->version &&
                strcmp(model->name, request->name) == 0)
                model->plan.evicted = false;
        }
        return 0;
    }
    if (control != CONVOY_CONTROL_EXPLICIT)
        return convoy_fail(
            error, -EPERM,
            "models are not loaded and unloaded by request: model_control is \"%s\"; set it to "
            "\"explicit\"",
            convoy_model_controls[control]);
    if (request->kind == CONVOY_CONTROL_REQUEST_UNLOAD) {
        if (!known(manager, request->name))
            return convoy_fail(error, -ENOENT, "there is no model %s in %s", request->name,
                               manager->config->models);
        convoy_manager_set_served(manager, request->name, false);
        return 0;
    }
    convoy_manager_begin_scan(manager);
    if (manager->scan == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory");
    request->scan = manager->scans + manager->scan_again;
    return 0;
}

static struct convoy_control_request *request_of(struct convoy_list *link)
{
    return convoy_list_entry(link, struct convoy_control_request, link);
}

static struct convoy_control_request *take_sent(struct convoy_manager *manager)
{
    pthread_mutex_lock(&manager->lock);
    struct convoy_list *first = convoy_list_take_first(&manager->sent);
    pthread_mutex_unlock(&manager->lock);
    return first != NULL ? request_of(first) : NULL;
}

void convoy_manager_requests_take(struct convoy_manager *manager)
{
    struct convoy_control_request *request;
    while ((request = take_sent(manager)) != NULL) {
        struct convoy_error error = {{0}};
        request->scan = 0;
        int code = begin(manager, request, &error);
        if (code != 0)
            request->done(request, code, &error);
        else
            convoy_list_add_last(&manager->open, &request->link);
    }
}

void convoy_manager_requests_scanned(struct convoy_manager *manager, struct convoy_repository_scan *scan)
{
    convoy_list_for_each(at, following, &manager->open) {
        struct convoy_control_request *request = request_of(at);
        if (request->scan == 0 || request->scan > manager->scans)
            continue;
        if (scan->code == 0)
            convoy_reconcile(manager->registry, scan, NULL, request->name);
        if (known(manager, request->name)) {
            convoy_manager_set_served(manager, request->name, true);
            try_again(manager, request->name);
        }
        request->scan = 0;
    }
}

void convoy_manager_requests_end(struct convoy_manager *manager, bool activations_only)
{
    convoy_list_for_each(at, following, &manager->open) {
        struct convoy_control_request *request = request_of(at);
        struct convoy_error error = {{0}};
        bool waits =
            request->scan != 0 || (activations_only && request->kind != CONVOY_CONTROL_REQUEST_ACTIVATE);
        int code = 0;
        if (manager->stopped)
            code = convoy_fail(&error, -ECANCELED, "the server is stopping");
        else if (!waits && request->kind != CONVOY_CONTROL_REQUEST_UNLOAD)
            code = outcome(manager, request, &waits, &error);
        if (waits && !manager->stopped)
            continue;
        convoy_list_remove(&request->link);
        request->done(request, code, &error);
    }
}

void convoy_manager_send(struct convoy_manager *manager, struct convoy_control_request *request)
{
    struct convoy_error error;
    pthread_mutex_lock(&manager->lock);
    bool stopped = manager->stopped;
    if (!stopped) {
        convoy_list_add_last(&manager->sent, &request->link);
        if (manager->started) /* else convoy_manager_start() scans for it */
            uv_async_send(&manager->called);
    }
    pthread_mutex_unlock(&manager->lock);
    if (!stopped)
        return;
    convoy_fail(&error, -ECANCELED, "the server is stopping");
    request->done(request, -ECANCELED, &error);
}
