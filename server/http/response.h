/* Sending answers, and those that report errors.
 *
 * Every answer carries Content-Type and X-Request-Id, is counted in the metrics and logged (access_log.h).
 * Called on the HTTP thread of the request's connection, once per request. All return false when memory is
 * out: the connection should then be closed. */
#ifndef CONVOY_SERVER_RESPONSE_H
#define CONVOY_SERVER_RESPONSE_H

#include "engine/base/error.h"
#include "engine/base/json_writer.h"
#include "server/http/request.h"

#include <stdbool.h>

#define CONVOY_RETRY_NONE   0
#define CONVOY_RETRY_SOON   1 /* Retry-After, in seconds */
#define CONVOY_TYPE_JSON    "application/json"
#define CONVOY_TYPE_BYTES   "application/octet-stream"
#define CONVOY_TYPE_METRICS "text/plain; version=0.0.4; charset=utf-8"

/* The body is what json holds (JSON or other bytes), which is taken over, also on failure. retry_after:
 * seconds, or CONVOY_RETRY_NONE. */
bool convoy_respond(struct convoy_request *request, int status, const char *type,
                    struct convoy_json_writer *json, int retry_after);

struct convoy_response_header {
    const char *name, *value;
};

/* The same with headers of its own. */
bool convoy_respond_with(struct convoy_request *request, int status, const char *type,
                         struct convoy_json_writer *json, int retry_after,
                         const struct convoy_response_header *headers, size_t header_count);

struct convoy_access;
struct convoy_http;

/* Counts and logs an answer that was given in another way, or not at all. */
void convoy_answer_count(struct convoy_http *http, const struct convoy_access *access);

/* {"error": sentence}. */
bool convoy_respond_error(struct convoy_request *request, int status, int retry_after, const char *sentence);

/* Answers with the refusal that is set; false as well when none is set, which means that memory is out.
 * retry_after is sent with a 503 only; a 429 has its own. */
bool convoy_respond_refusal(struct convoy_request *request, int retry_after);

/* For a request that is complete, or resumed: answers with the refusal if one is set, else calls the route's
 * handler. False when the connection is to be closed without an answer. */
bool convoy_answer(struct convoy_request *request);

#endif
