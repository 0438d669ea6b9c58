#include "server/lookup.h"

#include "engine/base/clock.h"
#include "server/http_internal.h"
#include "server/model_wait.h"
#include "server/response.h"

#include <microhttpd.h>
#include <string.h>

const char *convoy_lookup_query(struct convoy_request *request, const char *name, size_t *length,
                                bool *present)
{
    const char *value = NULL;

    *length = 0;
    *present = MHD_lookup_connection_value_n(request->mhd, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value,
                                             length) == MHD_YES;
    return *present ? value : NULL;
}

/* A name from path or query; NULL when neither has it. *bad: it is no name at all. */
static const char *named(struct convoy_request *request, const char *path, const char *parameter, bool *bad)
{
    size_t length;
    bool present;

    if (path[0] != '\0')
        return path;
    const char *value = convoy_lookup_query(request, parameter, &length, &present);
    if (!present)
        return NULL;
    /* A NUL inside would hide what follows it. */
    *bad = value == NULL || strlen(value) != length;
    return value;
}

struct convoy_model *convoy_lookup_model(struct convoy_request *request)
{
    struct convoy_registry *registry = request->http->registry;
    bool bad = false;
    const char *name = named(request, request->path.model, "model", &bad);
    const char *version = named(request, request->path.version, "version", &bad);

    if (bad) {
        request->refusal = MHD_HTTP_BAD_REQUEST;
        convoy_fail(&request->refusal_reason, 0,
                    "query parameters model and version need a value, as in ?model=NAME&version=1");
        return NULL;
    }
    struct convoy_model *model = convoy_registry_find(registry, name, version, &request->refusal_reason);
    if (model == NULL)
        request->refusal = name == NULL && convoy_registry_default_missing(registry) ? MHD_HTTP_BAD_REQUEST
                                                                                     : MHD_HTTP_NOT_FOUND;
    convoy_model_release(request->model); /* of a first look */
    request->model = model;
    return model;
}

bool convoy_lookup_ready(struct convoy_request *request, struct convoy_model *model,
                         struct convoy_model_view *view, int *retry_after)
{
    convoy_model_view(request->http->registry, model, view);
    if (convoy_model_view_answers(view) || view->rests)
        return true;
    request->refusal = MHD_HTTP_SERVICE_UNAVAILABLE;
    *retry_after = CONVOY_RETRY_NONE; /* trying again would not help */
    if (view->state == CONVOY_MODEL_LOADING) {
        *retry_after = CONVOY_RETRY_SOON;
        convoy_fail(&request->refusal_reason, 0, "model %s, version %s, is still loading: try again soon",
                    model->name, model->version);
    } else if (view->state == CONVOY_MODEL_UNLOADED) {
        convoy_fail(&request->refusal_reason, 0,
                    "model %s, version %s, is not loaded: POST /v2/repository/models/%s/load loads what its "
                    "version_policy takes",
                    model->name, model->version, model->name);
    } else {
        convoy_fail(&request->refusal_reason, 0, "model %s, version %s, could not be loaded: %s", model->name,
                    model->version, view->reason);
    }
    convoy_model_view_end(view);
    return false;
}

bool convoy_lookup_awake(struct convoy_request *request, struct convoy_model *model,
                         struct convoy_model_view *view, int *retry_after)
{
    atomic_store_explicit(&model->used_us, convoy_now_us(), memory_order_relaxed);
    if (!convoy_lookup_ready(request, model, view, retry_after))
        return false;
    if (convoy_model_view_answers(view))
        return true;
    convoy_model_view_end(view);
    /* Once: when it was put to rest again since, others need the room more. */
    bool first = !request->woke;
    request->woke = true;
    if (first && convoy_model_wait_begin(request, CONVOY_ERRAND_WAKE, model->name, model->version_number))
        return false;
    *retry_after = CONVOY_RETRY_SOON;
    convoy_fail(&request->refusal_reason, 0, "there is no room for model %s, version %s, now: try again soon",
                model->name, model->version);
    return convoy_request_refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE);
}

void convoy_lookup_resumed(struct convoy_request *request)
{
    if (request->wait != NULL)
        (void)convoy_model_wait_end(request); /* the next look at the model tells what came of it */
}
