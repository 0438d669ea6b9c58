/* A persistent HTTP connection; the only part that sends requests. Use a struct client_http from one thread
 * at a time. */
#ifndef CONVOY_CLIENT_HTTP_H
#define CONVOY_CLIENT_HTTP_H

#include "client/lib/convoy.h"
#include "client/lib/request.h"

struct client_http;

/* An HTTP response. text belongs to the connection and is valid until its next request. */
struct client_response {
    const char *text; /* NUL-terminated */
    size_t size;
    int status;
    int retry_after_s;
    char request_id[65];
};

/* How connections to https:// URLs are secured. Files are PEM; NULL: what libcurl has. */
struct client_tls {
    const char *authorities; /* whose servers are trusted, in place of the system's */
    const char *certificate; /* the client's own ... */
    const char *key;         /* ... and its key, where it is not in the same file */
    bool insecure;           /* any server is trusted */
};

/* For all connections that are opened later. Before there are threads; the strings must live as long as the
 * process. */
void client_http_secure(const struct client_tls *tls);

/* url and errors as in convoy_client_open; "unix:PATH" is a server's Unix socket. The key in $CONVOY_KEY is
 * sent with every request. The caller owns *http, for client_http_close, which accepts NULL.
 */
int client_http_open(const char *url, struct client_http **http, struct convoy_failure *failure);
void client_http_close(struct client_http *http);

/* For requests that change the server: from now on they go over its admin socket, where the URL leads to this
 * machine, the socket is there and this user may use it, and no key is set. */
void client_http_prefer_admin_socket(struct client_http *http);

/* Sends a POST request and waits at most timeout_ms for the whole answer. Returns 0 for any HTTP status;
 * otherwise -ECONNREFUSED, -ETIMEDOUT, -EPROTO, -ENOMEM or, after client_http_abort_when, -ECANCELED. */
int client_http_post(struct client_http *http, const struct client_request *request, long timeout_ms,
                     struct client_response *response, struct convoy_failure *failure);

/* The same with GET and no body. */
int client_http_get(struct client_http *http, const char *path, long timeout_ms,
                    struct client_response *response, struct convoy_failure *failure);

/* From now on calls stop(context) during each request, about once a second and after each signal. When it
 * returns true, the request ends with -ECANCELED. */
void client_http_abort_when(struct client_http *http, bool (*stop)(void *context), void *context);

/* Returns how long to wait for the answer to a request whose time limit at the server is timeout_ms (0: the
 * server's default). */
long client_http_patience_ms(int timeout_ms);

#endif
