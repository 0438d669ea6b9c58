#include "server/api/oip_repository.h"

#include "engine/base/json.h"
#include "server/api/app.h"
#include "server/api/call.h"
#include "server/api/model_wait.h"
#include "server/api/oip_internal.h"
#include "server/config/model_name.h"
#include "server/http/response.h"
#include "server/http/status.h"

#include <errno.h>
#include <stdio.h>

/* The body, which is an object or empty; *document is the caller's to free, NULL for an empty one. */
static int read_object(const struct convoy_request *request, cJSON **document, struct convoy_json *root,
                       struct convoy_error *error)
{
    static const char what[] = "the body";

    *document = NULL;
    *root = (struct convoy_json){.file = what};
    if (request->body_length == 0)
        return 0;
    int code = convoy_oip_body(request, document, error);
    return code != 0 ? code : convoy_json_root(*document, what, root, error);
}

/* *ready_only keeps its value where the body says nothing. */
static int read_body(const struct convoy_request *request, bool *ready_only, struct convoy_error *error)
{
    cJSON *document;
    struct convoy_json root;

    int code = read_object(request, &document, &root, error);
    if (code == 0)
        code = convoy_json_bool(&root, "ready", ready_only, error);
    cJSON_Delete(document);
    return code;
}

/* Triton's states; it has no word of its own for a model that could not be loaded, and says "unloaded" as the
 * reason of one that is not to be served. */
static const char *state_of(const struct convoy_model_view *view)
{
    switch (view->state) {
    case CONVOY_MODEL_LOADING:
        return "LOADING";
    case CONVOY_MODEL_READY:
        return "READY";
    case CONVOY_MODEL_UNLOADING:
        return "UNLOADING";
    default:
        return "UNAVAILABLE";
    }
}

static void write_entry(struct convoy_model_view *view, struct convoy_json_writer *json)
{
    if (view->state == CONVOY_MODEL_UNLOADED && view->reason[0] == '\0')
        snprintf(view->reason, sizeof view->reason, "%s",
                 view->evicted ? "unloaded until it is asked for" : "unloaded");
    convoy_oip_write_state(view, state_of(view), json);
}

bool convoy_oip_repository_index(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};
    struct convoy_model_list list;
    struct convoy_error error;
    bool ready_only = false;

    int code = read_body(request, &ready_only, &error);
    if (code != 0)
        return convoy_oip_respond_body_error(request, code, &error);
    if (convoy_registry_list(convoy_app_of(request)->registry, NULL, &list, NULL) != 0)
        return false;
    convoy_json_write_begin_array(&json);
    for (uint32_t i = 0; i < list.count; i++) {
        if (ready_only && list.views[i].state != CONVOY_MODEL_READY)
            continue;
        write_entry(&list.views[i], &json);
    }
    convoy_model_list_end(&list);
    convoy_json_write_end_array(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

/* Of the body's parameters those are taken that change nothing here. */
static int check_body(const struct convoy_request *request, struct convoy_error *error)
{
    static const char *const known[] = {"unload_dependents", NULL};
    struct convoy_json root, parameters;
    cJSON *document;

    int code = read_object(request, &document, &root, error);
    if (code == 0)
        code = convoy_json_object(&root, "parameters", &parameters, error);
    if (code == 0 && convoy_json_known(&parameters, known, NULL) != 0)
        code = convoy_fail(error, -EINVAL,
                           "a model is loaded as it lies in the repository: parameters that replace its "
                           "configuration or bring its files are not taken; write models/NAME/config.json");
    cJSON_Delete(document);
    return code;
}

static int status_of(int code)
{
    switch (code) {
    case 0:
        return CONVOY_HTTP_OK;
    case -ENOENT:
        return CONVOY_HTTP_NOT_FOUND;
    case -ECANCELED:
        return CONVOY_HTTP_SERVICE_UNAVAILABLE;
    case -ECONNABORTED:
        return CONVOY_HTTP_CLIENT_GONE;
    case -ENOMEM:
        return CONVOY_HTTP_INTERNAL_SERVER_ERROR;
    default:
        return CONVOY_HTTP_BAD_REQUEST;
    }
}

/* Has the manager do it, and answers when it has. */
static bool run(struct convoy_request *request, enum convoy_control_request_kind kind)
{
    struct convoy_call *call = convoy_call_of(request);
    struct convoy_json_writer json = {0};
    struct convoy_error error;

    if (call->wait == NULL) {
        int code = check_body(request, &error);
        if (code != 0)
            return convoy_oip_respond_body_error(request, code, &error);
        if (!convoy_model_name_valid(request->path.model))
            return convoy_respond_error(
                request, CONVOY_HTTP_NOT_FOUND, CONVOY_RETRY_NONE,
                "there is no such model: a name is 1 to 128 letters, digits, '.', '_' "
                "or '-'");
        call->wait = convoy_model_wait_begin(request, convoy_app_of(request)->manager, kind,
                                             request->path.model, 0, 0);
        if (call->wait != NULL)
            return true;
        return convoy_respond_error(request, CONVOY_HTTP_SERVICE_UNAVAILABLE, CONVOY_RETRY_SOON,
                                    "the server is stopping, or has no memory: send the request again");
    }
    int status = status_of(convoy_model_wait_end(call->wait, NULL, &error));
    call->wait = NULL;
    if (status != CONVOY_HTTP_OK)
        return convoy_respond_error(
            request, status,
            status == CONVOY_HTTP_SERVICE_UNAVAILABLE ? CONVOY_RETRY_SOON : CONVOY_RETRY_NONE, error.message);
    convoy_json_write_begin_object(&json);
    convoy_json_write_end_object(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

bool convoy_oip_repository_load(struct convoy_request *request)
{
    return run(request, CONVOY_CONTROL_REQUEST_LOAD);
}

bool convoy_oip_repository_unload(struct convoy_request *request)
{
    return run(request, CONVOY_CONTROL_REQUEST_UNLOAD);
}
