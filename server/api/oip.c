#include "server/api/oip.h"

#include "engine/base/json.h"
#include "server/api/app.h"
#include "server/api/call.h"
#include "server/api/lookup.h"
#include "server/api/oip_internal.h"
#include "server/http/response.h"

#include <errno.h>
#include <microhttpd.h>
#include <string.h>

bool convoy_oip_respond(struct convoy_request *request, int status, struct convoy_text *text)
{
    int retry_after = status == MHD_HTTP_SERVICE_UNAVAILABLE ? CONVOY_RETRY_SOON : CONVOY_RETRY_NONE;

    return convoy_respond(request, status, CONVOY_TYPE_JSON, text, retry_after);
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
    int status = code == -EFBIG    ? MHD_HTTP_CONTENT_TOO_LARGE
                 : code == -ENOMEM ? MHD_HTTP_INTERNAL_SERVER_ERROR
                                   : MHD_HTTP_BAD_REQUEST;

    return convoy_respond_error(request, status, CONVOY_RETRY_NONE, error->message);
}

bool convoy_oip_server(struct convoy_request *request)
{
    struct convoy_text text = {0};

    convoy_text_add(&text, "{\"name\":\"convoyd\",\"version\":");
    convoy_text_string(&text, CONVOY_VERSION);
    convoy_text_add(&text, ",\"extensions\":[\"binary_tensor_data\",\"classification\",\"classify\","
                           "\"model_configuration\",\"model_repository\",\"schedule_policy\","
                           "\"statistics\","
                           "\"system_shared_memory\",\"trace\"]}\n");
    return convoy_oip_respond(request, MHD_HTTP_OK, &text);
}

/* {"live": true} or {"live": false, "error": why}; key as the protocol names it. */
static bool respond_health(struct convoy_request *request, const char *key, const char *why)
{
    struct convoy_text text = {0};

    convoy_text_add(&text, "{");
    convoy_text_string(&text, key);
    if (why == NULL) {
        convoy_text_add(&text, ":true}\n");
        return convoy_oip_respond(request, MHD_HTTP_OK, &text);
    }
    convoy_text_add(&text, ":false,\"error\":");
    convoy_text_string(&text, why);
    convoy_text_add(&text, "}\n");
    return convoy_oip_respond(request, MHD_HTTP_SERVICE_UNAVAILABLE, &text);
}

bool convoy_oip_live(struct convoy_request *request)
{
    struct convoy_health health;

    convoy_supervisor_health(convoy_app_of(request)->supervisor, &health);
    return respond_health(request, "live",
                          health.live ? NULL
                                      : "the control loop has not turned for a second: restart convoyd");
}

bool convoy_oip_ready(struct convoy_request *request)
{
    struct convoy_health health;
    const char *why = NULL;

    convoy_supervisor_health(convoy_app_of(request)->supervisor, &health);
    if (health.draining)
        why = "the server is stopping";
    else if (!health.settled)
        why = "models are still loading, or none could be loaded: /v2/models says which";
    else if (!health.worker)
        why = "no worker is up: the log says why";
    return respond_health(request, "ready", why);
}

void convoy_oip_write_dims(const struct convoy_model_shape *shape, struct convoy_text *text)
{
    convoy_text_natural(text, shape->channels);
    convoy_text_add(text, ",");
    convoy_text_natural(text, shape->height);
    convoy_text_add(text, ",");
    convoy_text_natural(text, shape->width);
}

void convoy_oip_write_state(const struct convoy_model_view *view, const char *state, struct convoy_text *text)
{
    convoy_text_add(text, "{\"name\":");
    convoy_text_string(text, view->model->name);
    convoy_text_add(text, ",\"version\":");
    convoy_text_string(text, view->model->version);
    convoy_text_add(text, ",\"state\":");
    convoy_text_string(text, state);
    convoy_text_add(text, ",\"reason\":");
    convoy_text_string(text, view->reason);
    convoy_text_add(text, "}");
}

bool convoy_oip_models(struct convoy_request *request)
{
    static const char *const states[] = {[CONVOY_MODEL_LOADING] = "LOADING",
                                         [CONVOY_MODEL_READY] = "READY",
                                         [CONVOY_MODEL_FAILED] = "FAILED",
                                         [CONVOY_MODEL_UNLOADING] = NULL};
    struct convoy_text text = {0};
    struct convoy_model_list list;
    bool first = true;

    if (convoy_registry_list(convoy_app_of(request)->registry, NULL, &list, NULL) != 0)
        return false;
    convoy_text_add(&text, "{\"models\":[");
    for (uint32_t i = 0; i < list.count; i++) {
        const struct convoy_model_view *view = &list.views[i];
        /* An evicted one is loaded for the next request. */
        const char *state = view->evicted ? states[CONVOY_MODEL_READY] : states[view->state];
        if (state == NULL)
            continue;
        if (!first)
            convoy_text_add(&text, ",");
        first = false;
        convoy_oip_write_state(view, state, &text);
    }
    convoy_model_list_end(&list);
    convoy_text_add(&text, "]}\n");
    return convoy_oip_respond(request, MHD_HTTP_OK, &text);
}

static void write_input(const struct convoy_model_shape *shape, struct convoy_text *text)
{
    convoy_text_add(text, ",\"inputs\":[{\"name\":");
    convoy_text_string(text, shape->input_name);
    convoy_text_add(text, ",\"datatype\":\"FP32\",\"shape\":[-1,");
    convoy_oip_write_dims(shape, text);
    convoy_text_add(text, "]}]");
}

static void write_outputs(const struct convoy_model_shape *shape, struct convoy_text *text)
{
    convoy_text_add(text, ",\"outputs\":[");
    for (uint32_t i = 0; i < shape->output_count; i++) {
        if (i > 0)
            convoy_text_add(text, ",");
        convoy_text_add(text, "{\"name\":");
        convoy_text_string(text, shape->output_names[i]);
        convoy_text_add(text, ",\"datatype\":\"FP32\",\"shape\":[-1,");
        convoy_text_natural(text, shape->output_elements[i]);
        convoy_text_add(text, "]}");
    }
    convoy_text_add(text, "]");
}

/* Those that are served, or about to be. False when memory is out. */
static bool write_versions(struct convoy_registry *registry, const char *name, struct convoy_text *text)
{
    struct convoy_model_list list;
    bool first = true;

    if (convoy_registry_list(registry, name, &list, NULL) != 0)
        return false;
    convoy_text_add(text, ",\"versions\":[");
    for (uint32_t i = 0; i < list.count; i++) {
        const struct convoy_model_view *view = &list.views[i];
        if (!view->evicted && (view->state == CONVOY_MODEL_UNLOADED || view->state == CONVOY_MODEL_UNLOADING))
            continue;
        if (!first)
            convoy_text_add(text, ",");
        first = false;
        convoy_text_string(text, view->model->version);
    }
    convoy_text_add(text, "]");
    convoy_model_list_end(&list);
    return true;
}

struct convoy_model *convoy_oip_ready_model(struct convoy_request *request, struct convoy_model_view *view,
                                            bool *answered)
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
        (void)convoy_request_refuse(request, MHD_HTTP_SERVICE_UNAVAILABLE);
    }
    *answered = convoy_respond_error(request, request->refusal, retry_after, request->refusal_reason.message);
    return NULL;
}

bool convoy_oip_model(struct convoy_request *request)
{
    struct convoy_text text = {0};
    struct convoy_model_view view;
    bool answered;
    struct convoy_model *model = convoy_oip_ready_model(request, &view, &answered);

    if (model == NULL)
        return answered;
    convoy_text_add(&text, "{\"name\":");
    convoy_text_string(&text, model->name);
    text.failed = !write_versions(convoy_app_of(request)->registry, model->name, &text) || text.failed;
    convoy_text_add(&text, ",\"platform\":");
    convoy_text_string(&text, view.shape.platform);
    write_input(&view.shape, &text);
    write_outputs(&view.shape, &text);
    convoy_text_add(&text, ",\"precision\":");
    convoy_text_string(&text, view.shape.precision);
    convoy_text_add(&text, "}\n");
    convoy_model_view_end(&view);
    return convoy_oip_respond(request, MHD_HTTP_OK, &text);
}

bool convoy_oip_model_ready(struct convoy_request *request)
{
    struct convoy_text text = {0};
    struct convoy_model_view view;
    bool answered;
    struct convoy_model *model = convoy_oip_ready_model(request, &view, &answered);

    if (model == NULL)
        return answered;
    convoy_model_view_end(&view);
    convoy_text_add(&text, "{\"name\":");
    convoy_text_string(&text, model->name);
    convoy_text_add(&text, ",\"ready\":true}\n");
    return convoy_oip_respond(request, MHD_HTTP_OK, &text);
}

bool convoy_metrics_page(struct convoy_request *request)
{
    struct convoy_text text = {0};

    text.bytes = convoy_metrics_render(convoy_app_of(request)->metrics, &text.length);
    if (text.bytes == NULL)
        return false;
    text.capacity = text.length;
    return convoy_respond(request, MHD_HTTP_OK, CONVOY_TYPE_METRICS, &text, CONVOY_RETRY_NONE);
}
