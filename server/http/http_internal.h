/* What the files of the HTTP side share. */
#ifndef CONVOY_SERVER_HTTP_INTERNAL_H
#define CONVOY_SERVER_HTTP_INTERNAL_H

#include "server/http/acceptor.h"
#include "server/http/connections.h"
#include "server/http/http.h"
#include "server/http/linger.h"
#include "server/inference/decode_pool.h"

#include <pthread.h>
#include <stdatomic.h>

struct MHD_Daemon;
struct convoy_suspension;
struct convoy_shared_memory;
struct convoy_trace;
struct convoy_response_cache;
struct convoy_manager;

struct convoy_http {
    const struct convoy_config *config;
    struct convoy_registry *registry;
    struct convoy_supervisor *supervisor;
    struct convoy_manager *manager;
    struct convoy_metrics *metrics;

    struct MHD_Daemon *daemon;
    struct convoy_connections *connections;
    struct convoy_acceptor *acceptor;
    struct convoy_linger *linger;
    struct convoy_decode_pool *decode_pool;
    struct convoy_shared_memory *shared_memory; /* the regions that clients registered */
    struct convoy_trace *trace;
    struct convoy_response_cache *response_cache; /* NULL: off */
    int listener;
    bool inherited; /* the listener is systemd's and is left open */
    uint16_t port;

    atomic_bool closing;            /* the listener is closed: new requests get 503 */
    atomic_bool stopping;           /* what still waits is answered 503 at once */
    _Atomic uint64_t open_requests; /* begun and not answered yet */

    /* Connections that are suspended, so that a stop can resume what never finished. */
    pthread_mutex_t suspended_lock;
    pthread_cond_t none_suspended;
    struct convoy_suspension *suspended;
};

#endif
