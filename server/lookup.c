#include "server/lookup.h"

#include "server/http_internal.h"
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
    request->model = model;
    return model;
}

bool convoy_lookup_ready(struct convoy_request *request, struct convoy_model *model,
                         struct convoy_model_view *view, int *retry_after)
{
    convoy_model_view(request->http->registry, model, view);
    if (view->state == CONVOY_MODEL_READY)
        return true;
    request->refusal = MHD_HTTP_SERVICE_UNAVAILABLE;
    if (view->state == CONVOY_MODEL_LOADING) {
        *retry_after = CONVOY_RETRY_SOON;
        convoy_fail(&request->refusal_reason, 0, "model %s, version %s, is still loading: try again soon",
                    model->name, model->version);
    } else {
        /* Trying again would not help. */
        *retry_after = CONVOY_RETRY_NONE;
        convoy_fail(&request->refusal_reason, 0, "model %s, version %s, could not be loaded: %s", model->name,
                    model->version, view->reason);
    }
    convoy_model_view_end(view);
    return false;
}
