#include "server/http/connection_watch.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/log_limit.h"
#include "server/http/status.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define RESTING UINT64_C(0)
#define WORKING UINT64_MAX

/* Records passed over before other threads may take the lock: some 10 us. */
#define SWEEP_STEP 256

#define BODY_GRACE_US 2000000u

/* TCP_CLOSE_WAIT of netinet/tcp.h, which cannot stand beside linux/tcp.h: the other end is closed, ours is
 * not. */
#define CLOSE_WAIT 8

struct convoy_connection_watch {
    pthread_mutex_t
        lock; /* all below but the thread; never held over a system call on a socket, nor a log line */
    pthread_cond_t stop;
    bool stopping;
    /* The record that a thread examines without the lock, or NULL. It stays listed meanwhile: remove()
     * waits until the thread has let go of it, so that its descriptor is not closed, and its number used
     * again. */
    struct convoy_connection *examined;
    pthread_cond_t let_go;
    struct convoy_connection **list;
    uint32_t count, capacity;
    uint64_t timeout_us;
    _Atomic uint32_t body_rate; /* bytes a second; 0: any */
    pthread_t thread;
};

struct traffic {
    uint64_t bytes; /* received since the connection was opened */
    bool gone;      /* the client will send no more */
};

/* Zeroes where the kernel does not tell. */
static struct traffic traffic_of(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof info;

    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
        return (struct traffic){0};
    return (struct traffic){info.tcpi_bytes_received, info.tcpi_state == CLOSE_WAIT};
}

/* When a header that is not complete began, by what has come in since the connection came to rest; 0 when
 * nothing has. */
static uint64_t header_began(struct convoy_connection *connection, uint64_t bytes, uint64_t now_us)
{
    uint32_t turns = atomic_load_explicit(&connection->turns, memory_order_acquire);

    if (turns != connection->seen_turns) {
        connection->seen_turns = turns;
        connection->resting_bytes = bytes;
        atomic_store_explicit(&connection->first_byte_us, 0, memory_order_relaxed);
        return 0;
    }
    if (bytes == connection->resting_bytes)
        return 0;
    uint64_t first = atomic_load_explicit(&connection->first_byte_us, memory_order_relaxed);
    if (first == 0) {
        first = now_us;
        atomic_store_explicit(&connection->first_byte_us, first, memory_order_relaxed);
    }
    return first;
}

/* Its body comes more slowly than rate, and it is the client that this is due to: nothing waits to be read.
 */
static bool dribbles(const struct convoy_connection *connection, uint32_t rate, uint64_t now_us)
{
    uint64_t since = atomic_load_explicit(&connection->body_since_us, memory_order_acquire);
    int unread = 0;

    if (rate == 0 || since == 0 || now_us < since + BODY_GRACE_US)
        return false;
    double wanted = (double)(now_us - since - BODY_GRACE_US) / 1e6 * rate;
    if ((double)atomic_load_explicit(&connection->body_bytes, memory_order_relaxed) >= wanted)
        return false;
    return ioctl(connection->fd, FIONREAD, &unread) == 0 && unread == 0;
}

/* The client is gone, and was gone at the last sweep: what it sent before its end has been read since. */
static bool gone_for_good(struct convoy_connection *connection, const struct traffic *traffic)
{
    bool before = connection->gone_bytes == traffic->bytes + 1;

    connection->gone_bytes = traffic->gone ? traffic->bytes + 1 : 0;
    return traffic->gone && before;
}

/* libmicrohttpd sees the end of the stream and closes by its own rules. */
static void cut(struct convoy_connection *connection, int status)
{
    atomic_store_explicit(&connection->cut_status, status, memory_order_relaxed);
    shutdown(connection->fd, SHUT_RDWR);
    connection->cut = true;
}

/* Under the lock: has the client anything to do now, so that the kernel has to be asked? */
static bool concerns(struct convoy_connection *connection)
{
    if (!connection->cut && atomic_load_explicit(&connection->busy_since_us, memory_order_acquire) != WORKING)
        return true;
    connection->gone_bytes = 0;
    return false;
}

/* Cuts off the client if it is gone, or too slow. Without the lock, while the record is examined. Returns the
 * milliseconds that a slow client took, else 0. */
static uint64_t examine(struct convoy_connection *connection, uint64_t timeout_us, uint32_t body_rate,
                        uint64_t now_us)
{
    uint64_t since = atomic_load_explicit(&connection->busy_since_us, memory_order_acquire);

    if (since == WORKING) {
        connection->gone_bytes = 0;
        return 0;
    }
    if (since == RESTING || !atomic_load_explicit(&connection->sending, memory_order_relaxed)) {
        struct traffic traffic = traffic_of(connection->fd);
        if (gone_for_good(connection, &traffic)) {
            cut(connection, CONVOY_HTTP_CLIENT_GONE);
            return 0;
        }
        if (since == RESTING)
            since = header_began(connection, traffic.bytes, now_us);
    }
    if (since == 0 || now_us < since ||
        (now_us - since < timeout_us && !dribbles(connection, body_rate, now_us)))
        return 0;
    cut(connection, CONVOY_HTTP_REQUEST_TIMEOUT);
    return (now_us - since) / 1000;
}

/* Under the lock, which is given up for the time of the system calls. */
static void look_at(struct convoy_connection_watch *watch, struct convoy_connection *connection)
{
    watch->examined = connection;
    pthread_mutex_unlock(&watch->lock);
    uint64_t slow_ms =
        examine(connection, watch->timeout_us, atomic_load_explicit(&watch->body_rate, memory_order_relaxed),
                convoy_now_us());
    pthread_mutex_lock(&watch->lock);
    watch->examined = NULL;
    pthread_cond_broadcast(&watch->let_go);
    if (slow_ms == 0)
        return;
    static struct convoy_log_limit limit;
    uint64_t unwritten;
    if (!convoy_log_limit_pass(&limit, &unwritten))
        return;
    pthread_mutex_unlock(&watch->lock);
    convoy_log(CONVOY_LOG_INFO, "slow client cut off", CONVOY_UINT("after_ms", slow_ms),
               CONVOY_UINT("unwritten", unwritten));
    pthread_mutex_lock(&watch->lock);
}

static void *watch_all(void *context)
{
    struct convoy_connection_watch *watch = context;
    /* A tenth of the timeout is how late the cut may come. */
    uint64_t pause_us = watch->timeout_us / 10;
    if (pause_us > 1000000)
        pause_us = 1000000;
    if (pause_us < 10000)
        pause_us = 10000;

    pthread_mutex_lock(&watch->lock);
    while (!watch->stopping) {
        uint64_t wake_us = convoy_now_us() + pause_us;
        struct timespec wake = {.tv_sec = (time_t)(wake_us / 1000000),
                                .tv_nsec = (long)(wake_us % 1000000) * 1000};
        if (pthread_cond_timedwait(&watch->stop, &watch->lock, &wake) != ETIMEDOUT)
            continue;
        /* Downwards: a record that is removed meanwhile is replaced by the last one, so none is skipped. */
        for (uint32_t at = watch->count; !watch->stopping;) {
            while (watch->examined != NULL) /* by convoy_connection_watch_evict() */
                pthread_cond_wait(&watch->let_go, &watch->lock);
            if (at > watch->count)
                at = watch->count;
            if (at == 0)
                break;
            struct convoy_connection *connection = watch->list[--at];
            if (concerns(connection)) {
                look_at(watch, connection);
            } else if (at % SWEEP_STEP == 0) {
                pthread_mutex_unlock(&watch->lock);
                pthread_mutex_lock(&watch->lock);
            }
        }
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

int convoy_connection_watch_start(uint64_t timeout_us, struct convoy_connection_watch **result,
                                  struct convoy_error *error)
{
    struct convoy_connection_watch *watch = calloc(1, sizeof *watch);
    pthread_condattr_t monotonic;

    if (watch == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the table of connections");
    watch->timeout_us = timeout_us;
    pthread_mutex_init(&watch->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->stop, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&watch->let_go, NULL);
    int code = pthread_create(&watch->thread, NULL, watch_all, watch);
    if (code != 0) {
        pthread_cond_destroy(&watch->let_go);
        pthread_cond_destroy(&watch->stop);
        pthread_mutex_destroy(&watch->lock);
        free(watch);
        return convoy_fail(error, -code, "cannot start the thread that watches connections: %s",
                           strerror(code));
    }
    *result = watch;
    return 0;
}

void convoy_connection_watch_free(struct convoy_connection_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->stopping = true;
    pthread_cond_signal(&watch->stop);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->let_go);
    pthread_cond_destroy(&watch->stop);
    pthread_mutex_destroy(&watch->lock);
    free(watch->list);
    free(watch);
}

void convoy_connection_watch_body_rate(struct convoy_connection_watch *watch, uint32_t bytes_per_second)
{
    atomic_store_explicit(&watch->body_rate, bytes_per_second, memory_order_relaxed);
}

/* Under the lock. */
static bool make_room(struct convoy_connection_watch *watch)
{
    if (watch->count < watch->capacity)
        return true;
    uint32_t capacity = watch->capacity > 0 ? watch->capacity * 2 : 64;
    struct convoy_connection **list = realloc(watch->list, capacity * sizeof *list);
    if (list == NULL)
        return false;
    watch->list = list;
    watch->capacity = capacity;
    return true;
}

struct convoy_connection *convoy_connection_watch_add(struct convoy_connection_watch *watch, int fd)
{
    struct convoy_connection *connection = calloc(1, sizeof *connection);

    if (connection == NULL)
        return NULL;
    connection->fd = fd;
    connection->opened_us = convoy_now_us();
    pthread_mutex_lock(&watch->lock);
    bool room = make_room(watch);
    if (room) {
        connection->position = watch->count;
        watch->list[watch->count++] = connection;
    }
    pthread_mutex_unlock(&watch->lock);
    if (!room) {
        free(connection);
        return NULL;
    }
    return connection;
}

void convoy_connection_watch_remove(struct convoy_connection_watch *watch,
                                    struct convoy_connection *connection)
{
    if (connection == NULL)
        return;
    pthread_mutex_lock(&watch->lock);
    while (watch->examined == connection)
        pthread_cond_wait(&watch->let_go, &watch->lock);
    struct convoy_connection *last = watch->list[--watch->count];
    watch->list[connection->position] = last;
    last->position = connection->position;
    pthread_mutex_unlock(&watch->lock);
    free(connection);
}

uint32_t convoy_connection_watch_used(struct convoy_connection_watch *watch)
{
    uint32_t used = 0;

    pthread_mutex_lock(&watch->lock);
    for (uint32_t i = 0; i < watch->count; i++)
        used += atomic_load_explicit(&watch->list[i]->turns, memory_order_relaxed) > 0;
    pthread_mutex_unlock(&watch->lock);
    return used;
}

/* Under the lock. The oldest that no answer is made or sent for, or else the oldest whose answer is sent: its
 * client may never take it. NULL: there is neither. */
static struct convoy_connection *oldest_idle(const struct convoy_connection_watch *watch)
{
    struct convoy_connection *oldest = NULL, *sender = NULL;

    for (uint32_t i = 0; i < watch->count; i++) {
        struct convoy_connection *connection = watch->list[i];
        uint64_t since = atomic_load_explicit(&connection->busy_since_us, memory_order_acquire);
        bool sends = since != RESTING && atomic_load_explicit(&connection->sending, memory_order_relaxed);
        struct convoy_connection **of_its_kind = sends ? &sender : &oldest;
        if (!connection->cut && since != WORKING &&
            (*of_its_kind == NULL || connection->opened_us < (*of_its_kind)->opened_us))
            *of_its_kind = connection;
    }
    return oldest != NULL ? oldest : sender;
}

void convoy_connection_watch_evict(struct convoy_connection_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    while (watch->examined != NULL)
        pthread_cond_wait(&watch->let_go, &watch->lock);
    struct convoy_connection *oldest = oldest_idle(watch);
    if (oldest != NULL) {
        watch->examined = oldest;
        pthread_mutex_unlock(&watch->lock);
        cut(oldest, CONVOY_HTTP_SERVICE_UNAVAILABLE);
        pthread_mutex_lock(&watch->lock);
        watch->examined = NULL;
        pthread_cond_broadcast(&watch->let_go);
    }
    pthread_mutex_unlock(&watch->lock);
}

void convoy_connection_receives(struct convoy_connection *connection, uint64_t now_us)
{
    /* The time of bytes that came before the first line was complete counts, too. */
    uint64_t first = atomic_load_explicit(&connection->first_byte_us, memory_order_relaxed);
    atomic_store_explicit(&connection->sending, false, memory_order_relaxed);
    atomic_store_explicit(&connection->busy_since_us, first != 0 ? first : now_us, memory_order_release);
}

void convoy_connection_body(struct convoy_connection *connection, uint64_t now_us)
{
    atomic_store_explicit(&connection->body_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->body_since_us, now_us, memory_order_release);
}

void convoy_connection_works(struct convoy_connection *connection)
{
    atomic_store_explicit(&connection->body_since_us, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->busy_since_us, WORKING, memory_order_release);
}

void convoy_connection_sends(struct convoy_connection *connection, uint64_t now_us)
{
    atomic_store_explicit(&connection->sending, true, memory_order_relaxed);
    atomic_store_explicit(&connection->busy_since_us, now_us, memory_order_release);
}

void convoy_connection_rests(struct convoy_connection *connection)
{
    atomic_store_explicit(&connection->first_byte_us, 0, memory_order_relaxed);
    atomic_store_explicit(&connection->body_since_us, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&connection->turns, 1, memory_order_release);
    atomic_store_explicit(&connection->busy_since_us, RESTING, memory_order_release);
}
