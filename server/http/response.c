#include "server/http/response.h"

#include "engine/base/clock.h"
#include "server/config/config.h"
#include "server/http/access_log.h"
#include "server/http/cors.h"
#include "server/http/half_closed.h"
#include "server/http/http_state.h"
#include "server/http/route.h"
#include "server/http/status.h"
#include "server/metrics/metrics.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool add_headers(struct convoy_request *request, struct MHD_Response *response, int status,
                        const char *type, int retry_after)
{
    char seconds[12];
    bool ok = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
              MHD_add_response_header(response, "X-Request-Id", request->id) == MHD_YES;

    if (retry_after != CONVOY_RETRY_NONE) {
        snprintf(seconds, sizeof seconds, "%d", retry_after);
        ok = ok && MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds) == MHD_YES;
    }
    if (request->trace.trace_id[0] != '\0') {
        char traceparent[CONVOY_TRACEPARENT_BYTES];
        convoy_traceparent_write(&request->trace, traceparent);
        ok = ok && MHD_add_response_header(response, CONVOY_TRACEPARENT, traceparent) == MHD_YES;
    }
    if (status == CONVOY_HTTP_UNAUTHORIZED)
        ok = ok && MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer") == MHD_YES;
    if (status == CONVOY_HTTP_METHOD_NOT_ALLOWED && request->route != NULL)
        ok = ok && MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW,
                                           convoy_route_allow(request->route)) == MHD_YES;
    ok = ok &&
         convoy_cors_add_headers(request->http->options.config->access.cors_origins,
                                 convoy_request_header(request, MHD_HTTP_HEADER_ORIGIN),
                                 request->preflight ? convoy_route_allow(request->route) : NULL, response);
    if (request->trailed || atomic_load_explicit(&request->http->closing, memory_order_relaxed))
        ok = ok && MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES;
    return ok;
}

void convoy_answer_count(struct convoy_http *http, const struct convoy_access *access)
{
    const struct convoy_request *request = access->request;
    struct convoy_metrics *metrics = http->options.metrics;

    convoy_metrics_request(metrics, request == NULL ? "" : request->model,
                           request == NULL || request->route == NULL ? "" : request->route->template,
                           access->status);
    if (request != NULL && request->received > 0)
        convoy_metrics_received(metrics, request->received);
    convoy_metrics_sent(metrics, access->sent);
    convoy_access_log(access);
}

bool convoy_respond_with(struct convoy_request *request, int status, const char *type,
                         struct convoy_json_writer *json, int retry_after,
                         const struct convoy_response_header *headers, size_t header_count)
{
    struct MHD_Response *response = NULL;
    bool ok = false;

    if (!json->failed)
        response = MHD_create_response_from_buffer(json->length, json->bytes, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) {
        convoy_json_writer_free(json);
        return false;
    }
    const char *body = json->bytes;
    size_t length = json->length;
    uint64_t sent = strcmp(request->method, MHD_HTTP_METHOD_HEAD) == 0 ? 0 : length;
    *json = (struct convoy_json_writer){0}; /* the response frees the bytes */
    bool complete = add_headers(request, response, status, type, retry_after);
    for (size_t i = 0; i < header_count; i++)
        complete =
            complete && MHD_add_response_header(response, headers[i].name, headers[i].value) == MHD_YES;
    if (complete) {
        request->answered = true;
        convoy_answer_count(request->http, &(struct convoy_access){request->mhd, request, status, sent});
        convoy_connection_sends(request->connection, convoy_now_us());
        ok = request->half_closed ? convoy_half_closed_answer(request, status, response, body, length)
                                  : MHD_queue_response(request->mhd, (unsigned)status, response) == MHD_YES;
    }
    MHD_destroy_response(response);
    return ok;
}

bool convoy_respond(struct convoy_request *request, int status, const char *type,
                    struct convoy_json_writer *json, int retry_after)
{
    return convoy_respond_with(request, status, type, json, retry_after, NULL, 0);
}

bool convoy_respond_error(struct convoy_request *request, int status, int retry_after, const char *sentence)
{
    struct convoy_json_writer json = {0};

    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "error");
    convoy_json_write_string(&json, sentence);
    convoy_json_write_end_object(&json);
    convoy_json_writer_append(&json, "\n", 1);
    return convoy_respond(request, status, CONVOY_TYPE_JSON, &json, retry_after);
}

bool convoy_respond_refusal(struct convoy_request *request, int retry_after)
{
    if (request->refusal == 0)
        return false;
    if (request->refusal == CONVOY_HTTP_TOO_MANY_REQUESTS)
        retry_after = request->refusal_retry_s;
    else if (request->refusal != CONVOY_HTTP_SERVICE_UNAVAILABLE)
        retry_after = CONVOY_RETRY_NONE;
    return convoy_respond_error(request, request->refusal, retry_after, request->refusal_reason.message);
}

bool convoy_answer(struct convoy_request *request)
{
    if (request->refusal != 0)
        return convoy_respond_refusal(request, CONVOY_RETRY_SOON);
    if (request->preflight) {
        struct convoy_json_writer nothing = {0};
        return convoy_respond(request, CONVOY_HTTP_NO_CONTENT, CONVOY_TYPE_JSON, &nothing, CONVOY_RETRY_NONE);
    }
    return request->route->handle(request);
}
