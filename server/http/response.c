#include "server/http/response.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/http/http_state.h"
#include "server/metrics/metrics.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>

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
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED && request->route != NULL)
        ok = ok && MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW,
                                           convoy_route_allow(request->route)) == MHD_YES;
    if (atomic_load_explicit(&request->http->closing, memory_order_relaxed))
        ok = ok && MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close") == MHD_YES;
    return ok;
}

/* One line for each answer. Tens of thousands a second would drown everything else, so it takes level debug
 * to see them; what went wrong on our side shows by itself. */
static void log_answer(const struct convoy_request *request, int status, uint64_t now_us)
{
    enum convoy_log_level level =
        status == MHD_HTTP_INTERNAL_SERVER_ERROR ? CONVOY_LOG_WARNING : CONVOY_LOG_DEBUG;

    convoy_log(level, "request", CONVOY_STR("request_id", request->id), CONVOY_STR("method", request->method),
               CONVOY_STR("route", request->route == NULL ? "" : request->route->template),
               CONVOY_STR("model", request->model), CONVOY_INT("status", status),
               CONVOY_UINT("bytes", request->body_length),
               CONVOY_UINT("total_us", now_us - request->begun_us));
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
    *json = (struct convoy_json_writer){0}; /* the response frees the bytes */
    bool complete = add_headers(request, response, status, type, retry_after);
    for (size_t i = 0; i < header_count; i++)
        complete =
            complete && MHD_add_response_header(response, headers[i].name, headers[i].value) == MHD_YES;
    if (complete) {
        uint64_t now_us = convoy_now_us();
        request->answered = true;
        convoy_metrics_request(request->http->options.metrics, request->model,
                               request->route == NULL ? "" : request->route->template, status);
        log_answer(request, status, now_us);
        convoy_connection_sends(request->connection, now_us);
        ok = MHD_queue_response(request->mhd, (unsigned)status, response) == MHD_YES;
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
    if (request->refusal != MHD_HTTP_SERVICE_UNAVAILABLE)
        retry_after = CONVOY_RETRY_NONE;
    return convoy_respond_error(request, request->refusal, retry_after, request->refusal_reason.message);
}
