/* A record for every open connection, and a thread that cuts off slow and vanished clients.
 *
 * libmicrohttpd's idle timeout starts again with every byte, so a client that sends a byte a second would
 * hold its connection for ever. The thread examines all connections periodically and shuts down those whose
 * request is not complete timeout_us after its first byte, or whose answer is not taken within the same time.
 * The first byte is seen in the kernel's count of received bytes (TCP_INFO), because libmicrohttpd says
 * nothing of a header that is not complete.
 *
 * A minimum rate of bodies can be set besides.
 *
 * It also ends connections whose client has gone away in the middle of a request: where the last bytes and
 * the end of the stream come together, libmicrohttpd 0.9.75 sees the bytes alone and would wait for more.
 *
 * Threads: each record belongs to the HTTP thread of its connection, which calls the functions on it. */
#ifndef CONVOY_SERVER_CONNECTION_WATCH_H
#define CONVOY_SERVER_CONNECTION_WATCH_H

#include "engine/base/error.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct convoy_connection_watch;
struct convoy_request;
struct convoy_tls_connection;

struct convoy_connection {
    int fd;             /* libmicrohttpd's; open as long as the record is */
    uint64_t opened_us; /* when it was added */
    uint32_t position;  /* in the list of all */
    /* When the request, or the sending of its answer, began; RESTING (idle) or WORKING (being answered). */
    _Atomic uint64_t busy_since_us;
    _Atomic uint64_t
        first_byte_us;      /* of a header that is not complete yet, when the watch noticed it; else 0 */
    _Atomic uint32_t turns; /* requests that ended here */
    /* When the body that is being received began, 0: none is; and what has come of it. */
    _Atomic uint64_t body_since_us, body_bytes;
    atomic_bool sending; /* the answer is being sent, not the request received */
    /* Once the watch has ended the connection, the status under which a request in it counts: 408 (slow), 499
     * (its client is gone) or 503 (its place was needed). 0 before. */
    _Atomic int cut_status;
    /* The HTTP thread's. */
    bool body_unread;                  /* answered before the body was read: for when it closes */
    bool cut_off;                      /* its last request ended without an answer */
    struct convoy_request *request;    /* begun and not ended; NULL: none */
    struct convoy_tls_connection *tls; /* NULL: plain HTTP */
    /* The watch's own. */
    uint32_t seen_turns;
    uint64_t resting_bytes; /* received when the connection became idle */
    uint64_t gone_bytes;    /* received when the client was first seen to be gone, plus one; else 0 */
    bool cut;
};

/* Starts the thread. Every record must be removed before convoy_connection_watch_free(). Errors: -ENOMEM, and
 * those of pthread_create(). */
int convoy_connection_watch_start(uint64_t timeout_us, struct convoy_connection_watch **watch,
                                  struct convoy_error *error);
void convoy_connection_watch_free(struct convoy_connection_watch *watch);

/* From now on bodies that come more slowly than that are cut off, too: measured from a body's beginning, of
 * which the first two seconds are free, and only while nothing of it waits to be read here. 0: none. */
void convoy_connection_watch_body_rate(struct convoy_connection_watch *watch, uint32_t bytes_per_second);

/* NULL when memory is out: the connection is then not watched, and takes no request. */
struct convoy_connection *convoy_connection_watch_add(struct convoy_connection_watch *watch, int fd);
/* Before fd is closed; NULL is allowed. Waits while the thread examines this connection, a few microseconds:
 * when it returns, the watch no longer touches fd. */
void convoy_connection_watch_remove(struct convoy_connection_watch *watch,
                                    struct convoy_connection *connection);

/* How many connections are open on which a request was answered. Takes time by their number. Any thread. */
uint32_t convoy_connection_watch_used(struct convoy_connection_watch *watch);

/* Cuts off the connection that was opened first of those that no answer is being made or sent for: the ones
 * that idle, and those whose request is not complete; where there is none, the oldest whose answer is being
 * sent, which a client may refuse to take. Takes time by the number of connections: for servers
 * with few. Any thread. */
void convoy_connection_watch_evict(struct convoy_connection_watch *watch);

/* The phases of a request. */
void convoy_connection_receives(struct convoy_connection *connection, uint64_t now_us); /* header has begun */
void convoy_connection_body(struct convoy_connection *connection, uint64_t now_us);     /* header complete */
void convoy_connection_works(struct convoy_connection *connection);                     /* request complete */
void convoy_connection_sends(struct convoy_connection *connection, uint64_t now_us);    /* answer queued */
void convoy_connection_rests(struct convoy_connection *connection);                     /* answer taken */

#endif
