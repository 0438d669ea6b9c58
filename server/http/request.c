#include "server/http/request.h"

#include "engine/base/clock.h"
#include "server/config/config.h"
#include "server/http/body_quota.h"
#include "server/http/buffer_pool.h"
#include "server/http/cors.h"
#include "server/http/http_state.h"
#include "server/http/status.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The least room for a body. */
#define FIRST_BODY 4096

/* The last eighth of the memory for bodies is for those up to this size: large ones that come slowly do not
 * keep photographs of a few KB out. */

struct convoy_request *convoy_request_new(struct convoy_http *http, struct convoy_http_thread *thread,
                                          struct MHD_Connection *mhd, const char *target)
{
    struct convoy_request *request = calloc(1, sizeof *request + http->options.state_bytes);

    if (request == NULL)
        return NULL;
    request->thread = thread;
    request->http = http;
    request->mhd = mhd;
    request->app = http->options.app;
    request->model = "";
    request->begun_us = convoy_now_us();
    request->target_torn = strchr(target, ' ') != NULL;
    request->route =
        convoy_route_find(http->options.routes, http->options.route_count, target, &request->path);
    return request;
}

static void drop_body(struct convoy_request *request)
{
    convoy_buffer_pool_free(request->body);
    convoy_body_quota_give(request->body_capacity);
    request->body = NULL;
    request->body_length = request->body_capacity = 0;
}

/* Makes room for capacity bytes; false with refusal set when all bodies together take too much, or without
 * when memory is out. */
static bool grow_body(struct convoy_request *request, size_t capacity)
{
    size_t more = capacity - request->body_capacity;
    size_t limit = convoy_body_quota_limit(request->http->options.config->http.max_body_bytes, capacity);

    if (!convoy_body_quota_take(more, limit)) {
        convoy_request_refuse(request, CONVOY_HTTP_SERVICE_UNAVAILABLE);
        convoy_fail(
            &request->refusal_reason, 0,
            "the requests that are being received take all the memory that is set aside for them: try again "
            "later");
        drop_body(request);
        return false;
    }
    uint8_t *body = convoy_buffer_pool_grow(request->body, capacity);
    if (body == NULL) {
        convoy_body_quota_give(more);
        return false;
    }
    request->body = body;
    request->body_capacity = capacity;
    return true;
}

void convoy_request_free(struct convoy_request *request)
{
    drop_body(request);
    free(request->unsent);
    free(request);
}

const char *convoy_request_header(const struct convoy_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

const char *convoy_request_query(const struct convoy_request *request, const char *name, size_t *length,
                                 bool *present)
{
    const char *value = NULL;

    *length = 0;
    *present = MHD_lookup_connection_value_n(request->mhd, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value,
                                             length) == MHD_YES;
    return *present ? value : NULL;
}

/* The headers that say where the body ends, and for whom the request is. */
struct framing {
    const char *length, *encoding; /* NULL: absent */
    unsigned lengths, encodings;   /* how many of each there are */
    unsigned hosts, keys, traces;  /* Host, Authorization, traceparent */
    bool unclear;                  /* a name that another reader may take for one of these */
    const char *line; /* where the next header's line begins; NULL: the library is another (see below) */
    bool hidden;      /* there are bytes that the library does not show */
};

/* libmicrohttpd 0.9.75 takes a line that begins with a colon or a NUL for the empty line at the header's end:
 * what follows would be the next request. It shows a value up to its first NUL only, a folded line as a part
 * of the name, and takes a bare LF for a line's end. None of this is told, but it leaves a header where it
 * was received, with NULs in place of the colon and of CR and LF. So what it shows must lie there line behind
 * line, without a gap, and the last must be followed by the empty line and the end. Other versions are not
 * known to do so, and later ones check this by themselves. */
#define LIBRARY_THAT_HIDES "0.9.75"
#define LINE_END           2 /* CR LF */

/* The characters of a name (RFC 9110, 5.6.2). */
static bool is_token(const char *text)
{
    return text[0] != '\0' &&
           text[strspn(text, "!#$%&'*+-.^_`|~0123456789"
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")] == '\0';
}

/* The name begins with that of a header, and is another. libmicrohttpd 0.9.75 shows "Content-Length : 41", or
 * one whose value stands on a line of its own, as the name "Content-Length41" or similar, without a value. */
static bool resembles(const char *name, const char *header)
{
    return strncasecmp(name, header, strlen(header)) == 0 && strlen(name) > strlen(header);
}

/* The first header's line follows the first line, whose end is the version. */
static const char *first_line(const char *version)
{
    return strcmp(MHD_get_version(), LIBRARY_THAT_HIDES) == 0 ? version + strlen(version) + LINE_END : NULL;
}

static void follow_lines(struct framing *framing, const char *key, size_t key_size, const char *value,
                         size_t value_size)
{
    if (framing->line == NULL)
        return;
    /* A colon and blanks stand between name and value; those of a folded line stand elsewhere. */
    if (key != framing->line || value <= key + key_size ||
        strspn(key + key_size + 1, " \t") != (size_t)(value - (key + key_size + 1)))
        framing->hidden = true;
    framing->line = value + value_size + LINE_END;
}

/* What follows the last line is the empty one and the header's end. */
static void end_lines(struct framing *framing, struct MHD_Connection *mhd, const char *method)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    if (framing->line != NULL && (info == NULL || framing->line + LINE_END != method + info->header_size))
        framing->hidden = true;
}

static enum MHD_Result read_framing(void *context, enum MHD_ValueKind kind, const char *key, size_t key_size,
                                    const char *value, size_t value_size)
{
    struct framing *framing = context;

    (void)kind;
    follow_lines(framing, key, key_size, value, value_size);
    if (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        framing->length = value;
        framing->lengths++;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        framing->encoding = value;
        framing->encodings++;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_HOST) == 0) {
        framing->hosts++;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_AUTHORIZATION) == 0) {
        framing->keys++;
    } else if (strcasecmp(key, CONVOY_TRACEPARENT) == 0) {
        framing->traces++;
    } else if (!is_token(key) || resembles(key, MHD_HTTP_HEADER_CONTENT_LENGTH) ||
               resembles(key, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        framing->unclear = true;
    }
    return MHD_YES;
}

/* Sets the refusal of a request that two readers could understand differently, a proxy and this server: one
 * may see another request in what the other takes for a body, which is how requests are smuggled (RFC
 * 9112, 11.2). True when there is one. */
static bool refuse_framing(struct convoy_request *request, const struct framing *framing, const char *version)
{
    const char *sentence = NULL;

    if (framing->lengths + framing->encodings > 1 ||
        (framing->encoding != NULL && strcasecmp(framing->encoding, "chunked") != 0))
        sentence = "send one Content-Length or Transfer-Encoding: chunked, and no other transfer encoding";
    else if (framing->encoding != NULL && strcasecmp(version, MHD_HTTP_VERSION_1_1) != 0)
        sentence = "Transfer-Encoding is of HTTP/1.1: send a Content-Length";
    else if (framing->hosts > 1)
        sentence = "send one Host";
    else if (framing->hosts == 0 && strcasecmp(version, MHD_HTTP_VERSION_1_0) != 0)
        sentence = "HTTP/1.1 needs a Host: send the name of the server";
    else if (framing->keys > 1)
        sentence = "send one Authorization";
    else if (request->target_torn)
        sentence = "the path has a space: send %20 in its place";
    else if (framing->unclear)
        sentence =
            "a header's name is no name: send NAME: VALUE, each on one line, with no space before the colon";
    else if (framing->hidden)
        sentence =
            "the header could be read in two ways: send NAME: VALUE, each on one line that ends in CR LF, "
            "without NUL";
    if (sentence == NULL)
        return false;
    convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
    convoy_fail(&request->refusal_reason, 0, "%s", sentence);
    return true;
}

/* Sets the refusal of a body that is too large; true when there is one. */
static bool refuse_length(struct convoy_request *request, const struct framing *framing)
{
    uint64_t most = request->http->options.config->http.max_body_bytes;

    if (framing->length != NULL && strtoull(framing->length, NULL, 10) > most) {
        convoy_request_refuse(request, CONVOY_HTTP_CONTENT_TOO_LARGE);
        convoy_fail(&request->refusal_reason, 0,
                    "the body of %s bytes is larger than http.max_body_bytes, which is %" PRIu64
                    ": send fewer or smaller images in one request",
                    framing->length, most);
        return true;
    }
    return false;
}

/* The drain refuses requests on kept connections. The first request of a connection was sent while the
 * socket was open, by a client that may not try again: it is served, however late it is read. */
static bool comes_too_late(const struct convoy_request *request)
{
    const struct convoy_connection *connection = request->connection;
    return atomic_load_explicit(&request->http->closing, memory_order_relaxed) &&
           !atomic_load_explicit(&request->http->leaving, memory_order_relaxed) &&
           atomic_load_explicit(&connection->turns, memory_order_relaxed) > 0;
}

/* Sets the refusal of a request that comes too late; true when it does. It is answered at the body's end,
 * like the others: that is better for a client than a connection that closes while it sends. */
static bool refuse_late(struct convoy_request *request)
{
    if (!comes_too_late(request))
        return false;
    convoy_request_refuse(request, CONVOY_HTTP_SERVICE_UNAVAILABLE);
    convoy_fail(&request->refusal_reason, 0, "the server is stopping: send the request again");
    return true;
}

/* Sets the refusal of a request that no route answers. */
static void refuse_route(struct convoy_request *request, enum convoy_method method)
{
    if (request->route == NULL) {
        convoy_request_refuse(request, CONVOY_HTTP_NOT_FOUND);
        convoy_fail(&request->refusal_reason, 0, "there is nothing at this path: %s",
                    request->http->options.unknown_path);
    } else if (convoy_cors_is_preflight(
                   request->http->options.config->access.cors_origins, request->method,
                   convoy_request_header(request, MHD_HTTP_HEADER_ORIGIN),
                   convoy_request_header(request, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_METHOD))) {
        request->preflight = true;
    } else if (!convoy_route_takes(request->route, method)) {
        convoy_request_refuse(request, CONVOY_HTTP_METHOD_NOT_ALLOWED);
        convoy_fail(&request->refusal_reason, 0, "%s takes %s only", request->route->template,
                    convoy_route_allow(request->route));
    }
}

/* The body of a client that may not ask is not read: the answer comes before it and the connection closes. A
 * small one of a client that asks too often is read and thrown away, which costs both sides less than a
 * connection. */
static bool keeps_body_out(const struct convoy_request *request, const struct framing *framing)
{
    if (framing->encoding != NULL)
        return true;
    uint64_t length = framing->length != NULL ? strtoull(framing->length, NULL, 10) : 0;
    return length > (request->refusal == CONVOY_HTTP_TOO_MANY_REQUESTS ? CONVOY_SMALL_BODY : 0);
}

void convoy_request_headers(struct convoy_request *request, const char *method, const char *version,
                            bool *at_once)
{
    const char *id = convoy_request_header(request, "X-Request-Id");
    const char *expect = convoy_request_header(request, MHD_HTTP_HEADER_EXPECT);
    struct framing framing = {.line = first_line(version)};

    request->seen = true;
    strncpy(request->method, method, sizeof request->method - 1);
    if (!convoy_request_id_keep(id, id == NULL ? 0 : strlen(id), request->id))
        convoy_request_id_make(request->id);

    MHD_get_connection_values_n(request->mhd, MHD_HEADER_KIND, read_framing, &framing);
    end_lines(&framing, request->mhd, method);
    if (framing.traces > 0)
        convoy_traceparent_take(convoy_request_header(request, CONVOY_TRACEPARENT), framing.traces == 1,
                                &request->trace);
    *at_once = refuse_framing(request, &framing, version) || refuse_length(request, &framing);
    if (*at_once)
        return;
    if (!refuse_late(request)) {
        refuse_route(request, convoy_method_of(method));
        if (request->http->options.admit != NULL && !request->http->options.admit(request))
            *at_once = keeps_body_out(request, &framing);
    }
    if (request->refusal != 0) {
        *at_once = *at_once || expect != NULL;
        return;
    }
    convoy_connection_body(request->connection, convoy_now_us());
    if (framing.length != NULL)
        request->promised = strtoull(framing.length, NULL, 10);
}

/* Throws bytes away; false once that has gone on for too long: then the connection is closed without an
 * answer, and counted as a body that is too large, where it was not refused before. */
static bool discard(struct convoy_request *request, size_t length)
{
    request->discarded += length;
    if (request->discarded <= request->http->options.config->http.max_body_bytes)
        return true;
    if (request->refusal == 0)
        convoy_request_refuse(request, CONVOY_HTTP_CONTENT_TOO_LARGE);
    return false;
}

/* Makes room for length bytes more: for twice what has come by then, so that memory is taken for bytes and
 * not for promises, and no more than was promised. */
static bool make_room(struct convoy_request *request, size_t length)
{
    uint64_t most = request->http->options.config->http.max_body_bytes;
    size_t needed = request->body_length + length, capacity = 2 * needed;

    if (needed <= request->body_capacity)
        return true;
    if (capacity < FIRST_BODY)
        capacity = FIRST_BODY;
    if (request->promised >= needed && capacity > request->promised)
        capacity = (size_t)request->promised;
    if (capacity > most)
        capacity = (size_t)most;
    if (request->body == NULL && request->promised > CONVOY_SMALL_BODY)
        request->body =
            convoy_buffer_pool_kept((size_t)request->promised); /* it is there, and counted as it fills */
    return grow_body(request, capacity);
}

bool convoy_request_body(struct convoy_request *request, const char *bytes, size_t length)
{
    uint64_t most = request->http->options.config->http.max_body_bytes;

    request->received += length;
    atomic_store_explicit(&request->connection->body_bytes, request->received, memory_order_relaxed);
    if (request->refusal == 0 && length > most - request->body_length) {
        convoy_request_refuse(request, CONVOY_HTTP_CONTENT_TOO_LARGE);
        convoy_fail(&request->refusal_reason, 0,
                    "the body is larger than http.max_body_bytes, which is %" PRIu64
                    ": send fewer or smaller images in one request",
                    most);
        drop_body(request);
    }
    if (request->refusal != 0 || !request->route->takes_body)
        return discard(request, length);

    if (!make_room(request, length))
        return request->refusal != 0 && discard(request, length);
    memcpy(request->body + request->body_length, bytes, length);
    request->body_length += length;
    return true;
}
