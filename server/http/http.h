/* The HTTP side: it owns the listening socket, libmicrohttpd's threads, the threads that decode large images,
 * and every request from its first byte to its answer. See docs/http.md for what clients see.
 *
 * Life: start; close_listener when the drain begins; wait until open_requests is 0; stop. The functions below
 * are called from one thread at a time (open_requests and open_connections from any). */
#ifndef CONVOY_SERVER_HTTP_H
#define CONVOY_SERVER_HTTP_H

#include "engine/base/error.h"
#include "server/config/config.h"
#include "server/metrics/metrics.h"
#include "server/models/registry.h"
#include "server/repository/manager.h"
#include "server/workers/supervisor.h"

#include <stdint.h>

struct convoy_http;

/* Listens on config's address, or on inherited_fd (from systemd; -1 when there is none), and serves. Raises
 * the limit on open descriptors as far as it may. Everything given must outlive convoy_http_stop(). Errors:
 * those of convoy_listener_open(), -ENOMEM, -EINVAL; the sentence says what to change. */
int convoy_http_start(const struct convoy_config *config, struct convoy_registry *registry,
                      struct convoy_supervisor *supervisor, struct convoy_manager *manager,
                      struct convoy_metrics *metrics, int inherited_fd, struct convoy_http **http,
                      struct convoy_error *error);

/* Begins to take connections from an inherited socket; one that was opened here is served from the start.
 * Whoever connects before waits in the kernel's queue, which systemd's socket promised anyway: a request that
 * comes between two instances is answered by a model that is loaded. Call it once. */
int convoy_http_accept(struct convoy_http *http, struct convoy_error *error);

/* The port that is listened on (the kernel's choice where the configuration says 0). */
uint16_t convoy_http_port(const struct convoy_http *http);

/* Takes the connections that the kernel has completed already, then closes the socket (an inherited one stays
 * open for the next instance). From now on new requests get 503 and Connection: close; requests that were
 * accepted before are answered, their connections closed. */
void convoy_http_close_listener(struct convoy_http *http);

/* Requests whose first line was read and whose answer the kernel has not taken yet. */
uint64_t convoy_http_open_requests(const struct convoy_http *http);

/* Connections that are open, idle ones included. */
uint32_t convoy_http_open_connections(const struct convoy_http *http);

/* Answers 503 to what still waits, closes all connections and frees. Images that the batcher still holds may
 * have their done() called after this; the registry and metrics must live until then. */
void convoy_http_stop(struct convoy_http *http);

#endif
