#include "server/api/lookup.h"

#include "engine/base/clock.h"
#include "server/api/app.h"
#include "server/api/call.h"
#include "server/api/model_wait.h"
#include "server/http/response.h"
#include "server/http/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A name from path or query; NULL when neither has it. *bad: it is no name at all. */
static const char *named(struct convoy_request *request, const char *path, const char *parameter, bool *bad)
{
    size_t length;
    bool present;

    if (path[0] != '\0')
        return path;
    const char *value = convoy_request_query(request, parameter, &length, &present);
    if (!present)
        return NULL;
    /* A NUL inside would hide what follows it. */
    *bad = value == NULL || strlen(value) != length;
    return value;
}

struct convoy_model_record *convoy_lookup_model(struct convoy_request *request)
{
    struct convoy_registry *registry = convoy_app_of(request)->registry;
    const struct convoy_call *call = convoy_call_of(request);
    bool bad = false;
    if (call->bound)
        return call->model;
    const char *name = named(request, request->path.model, "model", &bad);
    const char *version = named(request, request->path.version, "version", &bad);

    if (bad) {
        request->refusal = CONVOY_HTTP_BAD_REQUEST;
        convoy_fail(&request->refusal_reason, 0,
                    "query parameters model and version need a value, as in ?model=NAME&version=1");
        return NULL;
    }
    struct convoy_model_record *model =
        convoy_registry_find(registry, name, version, &request->refusal_reason);
    if (model == NULL)
        request->refusal = name == NULL && convoy_registry_default_missing(registry) ? CONVOY_HTTP_BAD_REQUEST
                                                                                     : CONVOY_HTTP_NOT_FOUND;
    convoy_call_set_model(request, model);
    return model;
}

/* Why a model that is not READY does not answer. */
static void refuse(struct convoy_request *request, const struct convoy_model_view *view, int *retry_after)
{
    const struct convoy_model_record *model = view->model;

    request->refusal = CONVOY_HTTP_SERVICE_UNAVAILABLE;
    *retry_after = CONVOY_RETRY_NONE; /* trying again would not help */
    if (view->state == CONVOY_MODEL_LOADING) {
        *retry_after = CONVOY_RETRY_SOON;
        convoy_fail(&request->refusal_reason, 0, "model %s, version %s, is still loading: try again soon",
                    model->name, model->version);
    } else if (view->state == CONVOY_MODEL_FAILED) {
        convoy_fail(&request->refusal_reason, 0, "model %s, version %s, could not be loaded: %s", model->name,
                    model->version, view->reason);
    } else {
        convoy_fail(&request->refusal_reason, 0,
                    "model %s, version %s, is not loaded: POST /v2/repository/models/%s/load loads what its "
                    "version_policy takes",
                    model->name, model->version, model->name);
    }
}

bool convoy_lookup_ready(struct convoy_request *request, struct convoy_model_view *view, int *retry_after)
{
    const struct convoy_call *call = convoy_call_of(request);

    for (bool again = false;; again = true) {
        convoy_registry_view(convoy_app_of(request)->registry, call->model, view);
        if (view->state == CONVOY_MODEL_READY || view->evicted || call->bound)
            return true;
        if (view->state != CONVOY_MODEL_UNLOADING || again)
            break;
        /* Most likely, a reload replaced it since it was found. */
        convoy_model_view_end(view);
        if (convoy_lookup_model(request) == NULL)
            return false;
    }
    refuse(request, view, retry_after);
    convoy_model_view_end(view);
    return false;
}

bool convoy_lookup_activated(struct convoy_request *request, struct convoy_model_view *view,
                             uint64_t deadline_us, int *retry_after)
{
    if (!convoy_lookup_ready(request, view, retry_after))
        return false;
    struct convoy_call *call = convoy_call_of(request);
    struct convoy_model_record *model = call->model;
    atomic_store_explicit(&model->used_us, convoy_now_us(), memory_order_relaxed);
    if (view->state == CONVOY_MODEL_READY || call->bound)
        return true;
    convoy_model_view_end(view);
    *retry_after = CONVOY_RETRY_SOON;
    convoy_fail(&request->refusal_reason, 0, "there is no room for model %s, version %s, now: try again soon",
                model->name, model->version);
    /* Once: what could not be activated has its reason, which the next lookup tells. */
    if (!call->activated) {
        char name[CONVOY_MODEL_NAME_BYTES + 1];
        uint32_t version = model->version_number;
        snprintf(name, sizeof name, "%s", model->name);
        call->activated = true;
        /* A model that is held cannot be evicted, so it could not be activated either. */
        convoy_call_set_model(request, NULL);
        call->wait = convoy_model_wait_begin(request, convoy_app_of(request)->manager,
                                             CONVOY_CONTROL_REQUEST_ACTIVATE, name, version, deadline_us);
        if (call->wait != NULL)
            return false;
    }
    return convoy_request_refuse(request, CONVOY_HTTP_SERVICE_UNAVAILABLE);
}

void convoy_lookup_resumed(struct convoy_request *request)
{
    struct convoy_call *call = convoy_call_of(request);
    struct convoy_model_record *activated;

    if (call->wait == NULL)
        return;
    int code = convoy_model_wait_end(call->wait, &activated, &request->refusal_reason);
    call->wait = NULL;
    if (code == -ECONNABORTED || code == -ETIMEDOUT)
        (void)convoy_request_refuse(request, code == -ECONNABORTED ? CONVOY_HTTP_CLIENT_GONE
                                                                   : CONVOY_HTTP_SERVICE_UNAVAILABLE);
    if (activated == NULL)
        return;
    convoy_call_set_model(request, activated);
    call->bound = true;
}
