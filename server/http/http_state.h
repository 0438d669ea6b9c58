/* The state of the HTTP server, shared by the files of this room. */
#ifndef CONVOY_SERVER_HTTP_STATE_H
#define CONVOY_SERVER_HTTP_STATE_H

#include "engine/base/list.h"
#include "server/http/http_options.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct MHD_Daemon;
struct convoy_acceptor;
struct convoy_connection_watch;
struct convoy_linger;
struct convoy_suspension;

struct convoy_http {
    struct convoy_http_options options;

    struct MHD_Daemon *daemon;
    struct convoy_connection_watch *watch;
    struct convoy_acceptor *acceptor;
    struct convoy_linger *linger;
    int listener;
    bool inherited; /* the listener is systemd's and is left open */
    uint16_t port;

    atomic_bool closing;            /* the listener is closed: new requests get 503 */
    atomic_bool stopping;           /* no request is suspended any more; set under suspended_lock */
    _Atomic uint64_t open_requests; /* begun and not answered yet */

    /* The suspended connections, so that a stop can resume them. */
    pthread_mutex_t suspended_lock;
    pthread_cond_t none_suspended;
    struct convoy_list suspended;
};

#endif
