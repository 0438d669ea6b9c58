/* Connections of proxies that speak the PROXY protocol, until their header has come: a thread reads the
 * headers, and nothing behind them, so that libmicrohttpd sees the connection as its client made it. The
 * number of those that wait and the time that each may take are bounded. */
#ifndef CONVOY_SERVER_PROXY_WAIT_H
#define CONVOY_SERVER_PROXY_WAIT_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* As many connections, and so descriptors, wait at most. */
#define CONVOY_PROXY_WAIT_MAX 256u

struct convoy_proxy_wait;

struct convoy_proxy_wait_options {
    uint64_t timeout_us; /* that a header may take */
    /* The header has come: takes over fd. address is the client's, or the connection's own where the header
     * names none. On the thread. */
    void (*ready)(void *context, int fd, const struct sockaddr *address, socklen_t size);
    /* A connection was closed: its header is none, or did not come. On the thread. */
    void (*lost)(void *context);
    void *context;
};

/* Starts the thread. Errors: -ENOMEM, those of eventfd(2) and pthread_create(). */
int convoy_proxy_wait_start(const struct convoy_proxy_wait_options *options, struct convoy_proxy_wait **wait,
                            struct convoy_error *error);

/* Takes over fd, which is non-blocking. False, with fd closed, where there is no room. Any thread. */
bool convoy_proxy_wait_take(struct convoy_proxy_wait *wait, int fd, const struct sockaddr *address,
                            socklen_t size);

/* Closes what waits, without lost(), and frees. NULL is allowed. */
void convoy_proxy_wait_free(struct convoy_proxy_wait *wait);

#endif
