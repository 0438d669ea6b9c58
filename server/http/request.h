/* One HTTP request, from its first line to the end of its answer. It belongs to the HTTP thread of its
 * connection; threads of the application may read it while the connection is suspended (suspension.h). */
#ifndef CONVOY_SERVER_REQUEST_H
#define CONVOY_SERVER_REQUEST_H

#include "engine/base/error.h"
#include "server/config/role.h"
#include "server/http/connection_watch.h"
#include "server/http/forwarded.h"
#include "server/http/request_id.h"
#include "server/http/route.h"
#include "server/http/traceparent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct MHD_Connection;
struct convoy_http;
struct convoy_http_thread;
struct convoy_unsent;

struct convoy_request {
    struct convoy_http_thread *thread; /* the connection's */
    struct convoy_http *http;
    struct MHD_Connection *mhd;
    struct convoy_connection *connection; /* its request is this one */
    const struct convoy_route *route;     /* NULL: no route fits */
    struct convoy_path path;
    char method[12];                  /* for the log */
    char id[CONVOY_REQUEST_ID_BYTES]; /* "" until the headers are complete */
    bool seen;                        /* convoy_request_headers() was called */
    bool answered;
    bool preflight;   /* of a browser (cors.h): no route answers it */
    bool trailed;     /* the chunked body had a trailer: the answer closes the connection */
    bool target_torn; /* the request line has more than three words */
    bool half_closed; /* the client sends no more and waits: half_closed.h answers, not the library */
    struct convoy_unsent *unsent; /* the answer, then; else NULL */

    uint64_t begun_us;    /* the first line was complete */
    uint64_t complete_us; /* the body's last byte came; 0 before */

    uint8_t *body;
    size_t body_length, body_capacity;
    uint64_t promised;  /* what Content-Length says; 0 without one */
    uint64_t received;  /* bytes of the body */
    size_t packed;      /* these, where they were compressed and are unpacked; else 0 */
    uint64_t discarded; /* bytes of a body that is not kept, because the answer is known already */

    struct convoy_forwarded forwarded; /* client_address.h */

    int refusal;         /* the status of an answer that was known before the body; 0: none */
    int refusal_retry_s; /* Retry-After of a 429 */
    struct convoy_error refusal_reason;

    struct convoy_trace_context trace; /* of a client that sends traceparent */

    /* The gate's (convoy_http_options.admit). */
    char key_name[CONVOY_KEY_NAME_BYTES]; /* of the client's key, for the log; "" without one */
    uint64_t limit_ticket;                /* 0: none */

    /* The application's (convoy_http_options). */
    void *app;
    const char *model;   /* the name of the model for log and metrics, "" where there is none; not owned */
    max_align_t state[]; /* state_bytes, zero at first; release() frees what it holds */
};

/* NULL when memory is out. target is the request line's, before decoding; it is not kept. */
struct convoy_request *convoy_request_new(struct convoy_http *http, struct convoy_http_thread *thread,
                                          struct MHD_Connection *mhd, const char *target);
void convoy_request_free(struct convoy_request *request);

/* Reads the headers: the id, the method, the length of the body. Sets refusal when the answer is known
 * already. *at_once: the answer has to be sent before the body is read, which closes the connection: the body
 * is too large, the client waits for permission to send it, or its framing cannot be trusted. */
void convoy_request_headers(struct convoy_request *request, const char *method, const char *version,
                            bool *at_once);

/* The first header of that name, NULL when there is none. */
const char *convoy_request_header(const struct convoy_request *request, const char *name);

/* The value of a query parameter and its length; NULL when it is absent or has no value (*present tells). */
const char *convoy_request_query(const struct convoy_request *request, const char *name, size_t *length,
                                 bool *present);

/* Sets the status of the refusal; the caller sets refusal_reason. Returns false. */
static inline bool convoy_request_refuse(struct convoy_request *request, int status)
{
    request->refusal = status;
    return false;
}

/* Keeps a piece of the body. Past http.max_body_bytes, refusal becomes 413 and the rest is discarded. False
 * when the connection should be closed: memory is out, or the client goes on far beyond the limit. */
bool convoy_request_body(struct convoy_request *request, const char *bytes, size_t length);

#endif
