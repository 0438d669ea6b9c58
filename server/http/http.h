/* The HTTP server: the listening sockets, libmicrohttpd's threads, and every request from its first byte to
 * the end of its answer. It knows nothing of models: a table of routes says which function answers a request.
 * See docs/http.md for what clients see.
 *
 * Life: start; close_listener when the drain begins; wait until open_requests is 0; stop. The functions below
 * are called from one thread at a time (open_requests and open_connections from any thread). */
#ifndef CONVOY_SERVER_HTTP_H
#define CONVOY_SERVER_HTTP_H

#include "engine/base/error.h"
#include "server/http/http_options.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_http;

/* Starts to serve. Raises the limit on open descriptors as far as the process may. Errors: those of
 * convoy_listener_open(), -ENOMEM, -EINVAL; the sentence says what to change. */
int convoy_http_start(const struct convoy_http_options *options, struct convoy_http **http,
                      struct convoy_error *error);

/* Begins to take connections from an inherited socket, or where options->waits; a socket that was opened here
 * is served from the start. Connections made earlier wait in the kernel's queue, as systemd's socket
 * activation promises: a request that comes between two instances is answered by a model that is loaded. Call
 * it once. */
int convoy_http_accept(struct convoy_http *http, struct convoy_error *error);

/* The port of the first socket that is TCP (chosen by the kernel where the configuration says 0); 0: none is.
 */
uint16_t convoy_http_port(const struct convoy_http *http);

struct convoy_http_address {
    char text[128]; /* in numbers, or "unix:PATH" */
    uint16_t port;
    bool local; /* a Unix socket */
};

/* Where socket number index listens; false past the last. */
bool convoy_http_address(const struct convoy_http *http, uint32_t index, struct convoy_http_address *address);

/* Takes the connections that the kernel has completed already, then closes the socket (an inherited one stays
 * open for the next instance). From now on new requests get 503 and Connection: close; requests that were
 * accepted before are answered, and their connections closed. */
void convoy_http_close_listener(struct convoy_http *http);
/* Instead, when another process takes the socket over: connections that wait are left to it, requests on open
 * connections are served, and their answers say that the connection closes. */
void convoy_http_leave(struct convoy_http *http);
/* After that: whether connections are open on which a first request may be on its way. Its client would not
 * send it again, as it would on a connection that it has kept. Takes time by the number of connections. */
bool convoy_http_has_fresh(const struct convoy_http *http);

/* limits.body_bytes_per_second is another one from now on, also for bodies that come already. Any thread. */
void convoy_http_set_body_rate(struct convoy_http *http, uint32_t bytes_per_second);

/* Requests that were read to their end and whose answer the kernel has not taken yet. */
uint64_t convoy_http_open_requests(const struct convoy_http *http);

/* After convoy_http_close_listener(): true while there are such requests, or some whose rest is likely to
 * come: they were begun, and of their bodies something came within the last second, and the listener was
 * closed less than five seconds ago. */
bool convoy_http_busy(const struct convoy_http *http);

/* Open connections, including idle ones. */
uint32_t convoy_http_open_connections(const struct convoy_http *http);

/* Resumes the requests that are still suspended, so that they are answered (the application says 503), closes
 * all connections and frees. convoy_resume() of a suspension that was resumed here may come later. */
void convoy_http_stop(struct convoy_http *http);

#endif
