#include "server/api/oip.h"

#include "engine/base/json.h"
#include "server/api/app.h"
#include "server/api/call.h"
#include "server/api/lookup.h"
#include "server/api/oip_internal.h"
#include "server/http/response.h"
#include "server/http/status.h"

#include <errno.h>
#include <string.h>

bool convoy_oip_respond(struct convoy_request *request, int status, struct convoy_json_writer *json)
{
    int retry_after = status == CONVOY_HTTP_SERVICE_UNAVAILABLE ? CONVOY_RETRY_SOON : CONVOY_RETRY_NONE;

    convoy_json_writer_append(json, "\n", 1);
    return convoy_respond(request, status, CONVOY_TYPE_JSON, json, retry_after);
}

#define MOST_JSON 65536

int convoy_oip_body(const struct convoy_request *request, cJSON **document, struct convoy_error *error)
{
    /* An empty body may be no buffer at all. */
    const char *text = request->body != NULL ? (const char *)request->body : "";

    *document = NULL;
    if (request->body_length > MOST_JSON)
        return convoy_fail(error, -EFBIG, "the body has %zu bytes and this path reads %d: send what it takes",
                           request->body_length, MOST_JSON);
    return convoy_json_parse(text, request->body_length, "the body", document, error);
}

bool convoy_oip_respond_body_error(struct convoy_request *request, int code, const struct convoy_error *error)
{
    int status = code == -EFBIG    ? CONVOY_HTTP_CONTENT_TOO_LARGE
                 : code == -ENOMEM ? CONVOY_HTTP_INTERNAL_SERVER_ERROR
                                   : CONVOY_HTTP_BAD_REQUEST;

    return convoy_respond_error(request, status, CONVOY_RETRY_NONE, error->message);
}

bool convoy_oip_server(struct convoy_request *request)
{
    static const char shared_memory[] = "system_shared_memory";
    static const char *const extensions[] = {
        "binary_tensor_data", "classification",  "classify",   "logging",     "model_configuration",
        "model_repository",   "schedule_policy", "statistics", shared_memory, "trace"};
    struct convoy_json_writer json = {0};

    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "name");
    convoy_json_write_string(&json, "convoyd");
    convoy_json_write_key(&json, "version");
    convoy_json_write_string(&json, CONVOY_VERSION);
    convoy_json_write_key(&json, "extensions");
    convoy_json_write_begin_array(&json);
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++)
        if (extensions[i] != shared_memory || convoy_app_of(request)->shared_memory != NULL)
            convoy_json_write_string(&json, extensions[i]);
    convoy_json_write_end_array(&json);
    convoy_json_write_end_object(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

/* Ends {"live": true} or {"live": false, "error": why}, whose key is written, and answers. */
static bool respond_health(struct convoy_request *request, struct convoy_json_writer *json, const char *why)
{
    convoy_json_write_bool(json, why == NULL);
    if (why != NULL) {
        convoy_json_write_key(json, "error");
        convoy_json_write_string(json, why);
    }
    convoy_json_write_end_object(json);
    return convoy_oip_respond(request, why == NULL ? CONVOY_HTTP_OK : CONVOY_HTTP_SERVICE_UNAVAILABLE, json);
}

bool convoy_oip_live(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};
    struct convoy_health health;

    convoy_supervisor_health(convoy_app_of(request)->supervisor, &health);
    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "live");
    return respond_health(
        request, &json, health.live ? NULL : "the control loop has not turned for a second: restart convoyd");
}

bool convoy_oip_ready(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};
    struct convoy_health health;
    const char *why = NULL;

    convoy_supervisor_health(convoy_app_of(request)->supervisor, &health);
    if (health.draining)
        why = "the server is stopping";
    else if (!health.settled)
        why = "models are still loading, or none could be loaded: /v2/models says which";
    else if (!health.worker)
        why = "no worker is up: the log says why";
    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "ready");
    return respond_health(request, &json, why);
}

void convoy_oip_write_dims(const struct convoy_model_shape *shape, struct convoy_json_writer *json)
{
    uint32_t dims[3];

    convoy_model_input_dims(shape, dims);
    for (int i = 0; i < 3; i++)
        convoy_json_write_unsigned(json, dims[i]);
}

void convoy_oip_write_output_dims(const struct convoy_model_shape *shape, uint32_t i,
                                  struct convoy_json_writer *json)
{
    for (uint32_t k = 0; k < shape->output_rank[i]; k++)
        convoy_json_write_unsigned(json, shape->output_dims[i][k]);
}

void convoy_oip_write_state(const struct convoy_model_view *view, const char *state,
                            struct convoy_json_writer *json)
{
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "name");
    convoy_json_write_string(json, view->model->name);
    convoy_json_write_key(json, "version");
    convoy_json_write_string(json, view->model->version);
    convoy_json_write_key(json, "state");
    convoy_json_write_string(json, state);
    convoy_json_write_key(json, "reason");
    convoy_json_write_string(json, view->reason);
    convoy_json_write_end_object(json);
}

bool convoy_oip_models(struct convoy_request *request)
{
    static const char *const states[] = {[CONVOY_MODEL_LOADING] = "LOADING",
                                         [CONVOY_MODEL_READY] = "READY",
                                         [CONVOY_MODEL_FAILED] = "FAILED",
                                         [CONVOY_MODEL_UNLOADING] = NULL};
    struct convoy_json_writer json = {0};
    struct convoy_model_list list;

    if (convoy_registry_list(convoy_app_of(request)->registry, NULL, &list, NULL) != 0)
        return false;
    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "models");
    convoy_json_write_begin_array(&json);
    for (uint32_t i = 0; i < list.count; i++) {
        const struct convoy_model_view *view = &list.views[i];
        /* An evicted one is loaded for the next request. */
        const char *state = view->evicted ? states[CONVOY_MODEL_READY] : states[view->state];
        if (state == NULL)
            continue;
        convoy_oip_write_state(view, state, &json);
    }
    convoy_model_list_end(&list);
    convoy_json_write_end_array(&json);
    convoy_json_write_end_object(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

/* Up to the first dimension, which is any number of rows; the caller writes the others and ends the array. */
static void write_tensor_type(const char *datatype, struct convoy_json_writer *json)
{
    convoy_json_write_key(json, "datatype");
    convoy_json_write_string(json, datatype);
    convoy_json_write_key(json, "shape");
    convoy_json_write_begin_array(json);
    convoy_json_write_fragment(json, "-1", 2);
}

static void write_input(const struct convoy_model_shape *shape, struct convoy_json_writer *json)
{
    convoy_json_write_key(json, "inputs");
    convoy_json_write_begin_array(json);
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "name");
    convoy_json_write_string(json, shape->input_name);
    write_tensor_type(convoy_input_type_text(shape->input_type), json);
    convoy_oip_write_dims(shape, json);
    convoy_json_write_end_array(json);
    convoy_json_write_end_object(json);
    convoy_json_write_end_array(json);
}

static void write_outputs(const struct convoy_model_shape *shape, struct convoy_json_writer *json)
{
    convoy_json_write_key(json, "outputs");
    convoy_json_write_begin_array(json);
    for (uint32_t i = 0; i < shape->output_count; i++) {
        convoy_json_write_begin_object(json);
        convoy_json_write_key(json, "name");
        convoy_json_write_string(json, shape->output_names[i]);
        write_tensor_type("FP32", json);
        convoy_oip_write_output_dims(shape, i, json);
        convoy_json_write_end_array(json);
        convoy_json_write_end_object(json);
    }
    convoy_json_write_end_array(json);
}

/* Those that are served, or about to be. False when memory is out. */
static bool write_versions(struct convoy_registry *registry, const char *name,
                           struct convoy_json_writer *json)
{
    struct convoy_model_list list;

    if (convoy_registry_list(registry, name, &list, NULL) != 0)
        return false;
    convoy_json_write_key(json, "versions");
    convoy_json_write_begin_array(json);
    for (uint32_t i = 0; i < list.count; i++) {
        const struct convoy_model_view *view = &list.views[i];
        if (!view->evicted && (view->state == CONVOY_MODEL_UNLOADED || view->state == CONVOY_MODEL_UNLOADING))
            continue;
        convoy_json_write_string(json, view->model->version);
    }
    convoy_json_write_end_array(json);
    convoy_model_list_end(&list);
    return true;
}

struct convoy_model_record *convoy_oip_ready_model(struct convoy_request *request,
                                                   struct convoy_model_view *view, bool *answered)
{
    int retry_after = CONVOY_RETRY_NONE;

    *answered = false;
    if (convoy_lookup_model(request) != NULL && convoy_lookup_ready(request, view, &retry_after)) {
        if (view->shape.output_count > 0)
            return convoy_call_of(request)->model;
        /* It is evicted, and no worker has read it yet. */
        convoy_model_view_end(view);
        retry_after = CONVOY_RETRY_SOON;
        convoy_fail(&request->refusal_reason, 0, "model %s, version %s, waits for room: try again soon",
                    convoy_call_of(request)->model->name, convoy_call_of(request)->model->version);
        (void)convoy_request_refuse(request, CONVOY_HTTP_SERVICE_UNAVAILABLE);
    }
    *answered = convoy_respond_error(request, request->refusal, retry_after, request->refusal_reason.message);
    return NULL;
}

bool convoy_oip_model(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};
    struct convoy_model_view view;
    bool answered;
    struct convoy_model_record *model = convoy_oip_ready_model(request, &view, &answered);

    if (model == NULL)
        return answered;
    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "name");
    convoy_json_write_string(&json, model->name);
    json.failed = !write_versions(convoy_app_of(request)->registry, model->name, &json) || json.failed;
    convoy_json_write_key(&json, "platform");
    convoy_json_write_string(&json, view.shape.platform);
    write_input(&view.shape, &json);
    write_outputs(&view.shape, &json);
    convoy_json_write_key(&json, "precision");
    convoy_json_write_string(&json, view.shape.precision);
    convoy_json_write_key(&json, "decoder");
    convoy_json_write_string(&json, atomic_load(&model->takes_files) ? "gpu" : "cpu");
    convoy_json_write_end_object(&json);
    convoy_model_view_end(&view);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

bool convoy_oip_model_ready(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};
    struct convoy_model_view view;
    bool answered;
    struct convoy_model_record *model = convoy_oip_ready_model(request, &view, &answered);

    if (model == NULL)
        return answered;
    convoy_model_view_end(&view);
    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "name");
    convoy_json_write_string(&json, model->name);
    convoy_json_write_key(&json, "ready");
    convoy_json_write_bool(&json, true);
    convoy_json_write_end_object(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

bool convoy_metrics_page(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};

    json.bytes = convoy_metrics_render(convoy_app_of(request)->metrics, &json.length);
    if (json.bytes == NULL)
        return false;
    json.capacity = json.length;
    return convoy_respond(request, CONVOY_HTTP_OK, CONVOY_TYPE_METRICS, &json, CONVOY_RETRY_NONE);
}
