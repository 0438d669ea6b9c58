/* The state of the HTTP server, shared by the files of this room. */
#ifndef CONVOY_SERVER_HTTP_STATE_H
#define CONVOY_SERVER_HTTP_STATE_H

#include "engine/base/part_count.h"
#include "server/http/http_options.h"
#include "server/http/listeners.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct convoy_acceptor;
struct convoy_address_counts;
struct convoy_connection_watch;
struct convoy_http_thread;
struct convoy_linger;
struct convoy_proxy_wait;

struct convoy_http {
    struct convoy_http_options options;

    struct convoy_http_thread *threads;
    uint32_t thread_count;
    struct convoy_connection_watch *watch;
    struct convoy_acceptor *acceptor;
    struct convoy_address_counts *clients;
    struct convoy_linger *linger;
    struct convoy_proxy_wait *proxies; /* NULL: the PROXY protocol is not spoken */
    struct convoy_listeners listeners;
    uint32_t connection_limit, client_limit; /* of one address */

    atomic_bool closing;  /* the listener is closed: new requests get 503 */
    atomic_bool leaving;  /* and yet they are served: another process has the listener */
    atomic_bool stopping; /* work for requests that wait is useless */
    /* Since the listener was closed: when that was, and when something of a request's body came last. */
    _Atomic uint64_t closed_us, received_us;

    /* Each falls on the thread on which it rose, so no part of it is below 0. A stop may end a request on
     * another thread. */
    struct convoy_part_count open_requests; /* complete and not answered yet */
    struct convoy_part_count receiving;     /* begun and not complete */
};

#endif
