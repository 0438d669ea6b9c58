/* One kept HTTP connection: the only file that performs requests. A struct client_http is for one thread at
 * a time. */
#ifndef CONVOY_CLIENT_HTTP_H
#define CONVOY_CLIENT_HTTP_H

#include "client/lib/convoy.h"
#include "client/lib/request.h"

struct client_http;

/* What came back; text belongs to the connection and holds until its next exchange. */
struct client_response {
    const char *text; /* NUL-terminated */
    size_t size;
    int status;
    int retry_after_s;
    char request_id[65];
};

/* url as for convoy_client_open. */
int client_http_open(const char *url, struct client_http **http, struct convoy_failure *failure);
void client_http_close(struct client_http *http);

/* POSTs a request, waiting at most timeout_ms for the whole answer. Any HTTP status is a success here;
 * otherwise -ECONNREFUSED, -ETIMEDOUT, -EPROTO or -ENOMEM. */
int client_http_post(struct client_http *http, const struct client_request *request, long timeout_ms,
                     struct client_response *response, struct convoy_failure *failure);

int client_http_get(struct client_http *http, const char *path, long timeout_ms,
                    struct client_response *response, struct convoy_failure *failure);

/* Asks stop(context) about once a second, and whenever a signal came, while an exchange goes on; when it says
 * true, the exchange ends with -ECANCELED. */
void client_http_abort_when(struct client_http *http, bool (*stop)(void *context), void *context);

/* How long to wait for an answer whose request gives the server these milliseconds (0: its default). */
long client_http_patience_ms(int timeout_ms);

#endif
