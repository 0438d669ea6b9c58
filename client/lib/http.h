/* One kept HTTP connection: the only file that performs requests. A struct convoy_http is for one thread at
 * a time. */
#ifndef CONVOY_CLIENT_HTTP_H
#define CONVOY_CLIENT_HTTP_H

#include "client/lib/convoy.h"
#include "client/lib/form.h"

struct convoy_http;

/* What came back; text belongs to the connection and holds until its next exchange. */
struct convoy_response {
    const char *text; /* NUL-terminated */
    size_t size;
    int status;
    int retry_after_s;
    char request_id[65];
};

/* url as for convoy_client_open. */
int convoy_http_open(const char *url, struct convoy_http **http, struct convoy_failure *failure);
void convoy_http_close(struct convoy_http *http);

/* POSTs a request, waiting at most timeout_ms for the whole answer. Any HTTP status is a success here;
 * otherwise -ECONNREFUSED, -ETIMEDOUT, -EPROTO or -ENOMEM. */
int convoy_http_post(struct convoy_http *http, const struct convoy_request *request, long timeout_ms,
                     struct convoy_response *response, struct convoy_failure *failure);

int convoy_http_get(struct convoy_http *http, const char *path, long timeout_ms,
                    struct convoy_response *response, struct convoy_failure *failure);

/* Asks stop(context) about once a second, and whenever a signal came, while an exchange goes on; when it says
 * true, the exchange ends with -ECANCELED. */
void convoy_http_abort_when(struct convoy_http *http, bool (*stop)(void *context), void *context);

/* How long to wait for an answer whose request gives the server these milliseconds (0: its default). */
long convoy_http_patience_ms(int timeout_ms);

#endif
