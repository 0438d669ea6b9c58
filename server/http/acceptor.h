/* Accepts connections and hands them to libmicrohttpd's threads.
 *
 * libmicrohttpd can accept by itself, but its way of stopping (MHD_quiesce_daemon) races with its own threads
 * in 0.9.75: both take the socket out of the same epoll set, and the second one aborts the process. A
 * drain under load would then end the daemon now and then. A thread of its own can also take every connection
 * that the kernel has completed before the socket is closed, so that none of them is reset, and wait where
 * descriptors run out. */
#ifndef CONVOY_SERVER_ACCEPTOR_H
#define CONVOY_SERVER_ACCEPTOR_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Connections taken after the stop, past the limit: as many as the kernel's queue may hold. */
#define CONVOY_ACCEPTOR_DRAIN_MAX 4096

/* Listening sockets. */
#define CONVOY_ACCEPTOR_SOCKETS 16

struct convoy_acceptor;

struct convoy_acceptor_options {
    const int *fds;    /* listening, non-blocking; stay the caller's */
    uint32_t fd_count; /* 1 to CONVOY_ACCEPTOR_SOCKETS */
    bool drain;        /* when stopped, take what the kernel has completed already */
    uint32_t limit;    /* connections open at a time; more wait in the kernel's queue */
    /* Takes over fd, always; false when it was closed at once. Called on the acceptor's thread. */
    bool (*take)(void *context, int fd, const struct sockaddr *address, socklen_t size);
    /* There is no room for a connection that waits: closes one that is open. NULL: it waits. On the
     * acceptor's thread. */
    void (*evict)(void *context);
    void *context;
};

/* Starts the thread; *acceptor is set before take() is called for the first time. */
int convoy_acceptor_start(const struct convoy_acceptor_options *options, struct convoy_acceptor **acceptor,
                          struct convoy_error *error);

/* A connection that take() got was closed. Any thread. */
void convoy_acceptor_closed(struct convoy_acceptor *acceptor);

/* Logs that a connection was closed because memory is out, at most once a second. Any thread. */
void convoy_acceptor_log_lost(void);

/* Connections that take() got and that are open still. Any thread. */
uint32_t convoy_acceptor_open(const struct convoy_acceptor *acceptor);

/* Stops accepting; returns when take() will not be called any more. A second call does nothing. */
void convoy_acceptor_stop(struct convoy_acceptor *acceptor);

/* The same, and leaves what the kernel has completed to another process. */
void convoy_acceptor_leave(struct convoy_acceptor *acceptor);

/* Stops and frees; no convoy_acceptor_closed() may follow. */
void convoy_acceptor_free(struct convoy_acceptor *acceptor);

#endif
