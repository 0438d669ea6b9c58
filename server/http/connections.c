#include "server/http/connections.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define RESTING UINT64_C(0)
#define WORKING UINT64_MAX

/* TCP_CLOSE_WAIT of netinet/tcp.h, which cannot stand beside linux/tcp.h: the other end is closed, ours is
 * not. */
#define CLOSE_WAIT 8

/* Records looked at before others may take the lock: some 100 us. */
#define SWEEP_STEP 256

struct convoy_connections {
    pthread_mutex_t lock; /* all below, and every shutdown(2): a record that is listed has its fd open */
    pthread_cond_t stop;
    bool stopping;
    struct convoy_connection **list;
    uint32_t count, capacity;
    uint64_t timeout_us;
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

/* The client is gone, and was at the last look: whatever came before its end has been read in between. */
static bool gone_for_good(struct convoy_connection *connection, const struct traffic *traffic)
{
    bool before = connection->gone_bytes == traffic->bytes + 1;

    connection->gone_bytes = traffic->gone ? traffic->bytes + 1 : 0;
    return traffic->gone && before;
}

/* libmicrohttpd sees the end of the stream and closes by its own rules. Under the lock. */
static void cut(struct convoy_connection *connection)
{
    shutdown(connection->fd, SHUT_RDWR);
    connection->cut = true;
}

/* Under the lock. */
static void look_at(struct convoy_connections *connections, struct convoy_connection *connection,
                    uint64_t now_us)
{
    uint64_t since = atomic_load_explicit(&connection->busy_since_us, memory_order_acquire);

    if (connection->cut || since == WORKING) {
        connection->gone_bytes = 0;
        return;
    }
    if (since == RESTING || !atomic_load_explicit(&connection->sending, memory_order_relaxed)) {
        struct traffic traffic = traffic_of(connection->fd);
        if (gone_for_good(connection, &traffic)) {
            cut(connection);
            return;
        }
        if (since == RESTING)
            since = header_began(connection, traffic.bytes, now_us);
    }
    if (since == 0 || now_us < since || now_us - since < connections->timeout_us)
        return;
    cut(connection);
    convoy_log(CONVOY_LOG_INFO, "slow client cut off", CONVOY_UINT("after_ms", (now_us - since) / 1000));
}

static void *watch(void *context)
{
    struct convoy_connections *connections = context;
    /* A tenth of the timeout is how late the cut may come. */
    uint64_t pause_us = connections->timeout_us / 10;
    if (pause_us > 1000000)
        pause_us = 1000000;
    if (pause_us < 10000)
        pause_us = 10000;

    pthread_mutex_lock(&connections->lock);
    while (!connections->stopping) {
        uint64_t wake_us = convoy_now_us() + pause_us;
        struct timespec wake = {.tv_sec = (time_t)(wake_us / 1000000),
                                .tv_nsec = (long)(wake_us % 1000000) * 1000};
        if (pthread_cond_timedwait(&connections->stop, &connections->lock, &wake) != ETIMEDOUT)
            continue;
        /* Downwards: a record that is removed meanwhile is replaced by the last one, so none is skipped. */
        uint32_t at = connections->count;
        while (at > 0 && !connections->stopping) {
            uint64_t now_us = convoy_now_us();
            for (uint32_t step = 0; step < SWEEP_STEP && at > 0; step++)
                look_at(connections, connections->list[--at], now_us);
            pthread_mutex_unlock(&connections->lock);
            pthread_mutex_lock(&connections->lock);
            if (at > connections->count)
                at = connections->count;
        }
    }
    pthread_mutex_unlock(&connections->lock);
    return NULL;
}

int convoy_connections_start(uint64_t timeout_us, struct convoy_connections **result,
                             struct convoy_error *error)
{
    struct convoy_connections *connections = calloc(1, sizeof *connections);
    pthread_condattr_t monotonic;

    if (connections == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the table of connections");
    connections->timeout_us = timeout_us;
    pthread_mutex_init(&connections->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&connections->stop, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int code = pthread_create(&connections->thread, NULL, watch, connections);
    if (code != 0) {
        pthread_cond_destroy(&connections->stop);
        pthread_mutex_destroy(&connections->lock);
        free(connections);
        return convoy_fail(error, -code, "cannot start the thread that watches connections: %s",
                           strerror(code));
    }
    *result = connections;
    return 0;
}

void convoy_connections_free(struct convoy_connections *connections)
{
    pthread_mutex_lock(&connections->lock);
    connections->stopping = true;
    pthread_cond_signal(&connections->stop);
    pthread_mutex_unlock(&connections->lock);
    pthread_join(connections->thread, NULL);
    pthread_cond_destroy(&connections->stop);
    pthread_mutex_destroy(&connections->lock);
    free(connections->list);
    free(connections);
}

/* Under the lock. */
static bool make_room(struct convoy_connections *connections)
{
    if (connections->count < connections->capacity)
        return true;
    uint32_t capacity = connections->capacity > 0 ? connections->capacity * 2 : 64;
    struct convoy_connection **list = realloc(connections->list, capacity * sizeof *list);
    if (list == NULL)
        return false;
    connections->list = list;
    connections->capacity = capacity;
    return true;
}

struct convoy_connection *convoy_connections_add(struct convoy_connections *connections, int fd)
{
    struct convoy_connection *connection = calloc(1, sizeof *connection);

    if (connection == NULL)
        return NULL;
    connection->fd = fd;
    pthread_mutex_lock(&connections->lock);
    bool room = make_room(connections);
    if (room) {
        connection->position = connections->count;
        connections->list[connections->count++] = connection;
    }
    pthread_mutex_unlock(&connections->lock);
    if (!room) {
        free(connection);
        return NULL;
    }
    return connection;
}

void convoy_connections_remove(struct convoy_connections *connections, struct convoy_connection *connection)
{
    if (connection == NULL)
        return;
    pthread_mutex_lock(&connections->lock);
    struct convoy_connection *last = connections->list[--connections->count];
    connections->list[connection->position] = last;
    last->position = connection->position;
    pthread_mutex_unlock(&connections->lock);
    free(connection);
}

void convoy_connection_receives(struct convoy_connection *connection, uint64_t now_us)
{
    if (connection == NULL)
        return;
    /* Bytes that dribbled in before the first line was complete count as well. */
    uint64_t first = atomic_load_explicit(&connection->first_byte_us, memory_order_relaxed);
    atomic_store_explicit(&connection->sending, false, memory_order_relaxed);
    atomic_store_explicit(&connection->busy_since_us, first != 0 ? first : now_us, memory_order_release);
}

void convoy_connection_works(struct convoy_connection *connection)
{
    if (connection != NULL)
        atomic_store_explicit(&connection->busy_since_us, WORKING, memory_order_release);
}

void convoy_connection_sends(struct convoy_connection *connection, uint64_t now_us)
{
    if (connection == NULL)
        return;
    atomic_store_explicit(&connection->sending, true, memory_order_relaxed);
    atomic_store_explicit(&connection->busy_since_us, now_us, memory_order_release);
}

void convoy_connection_rests(struct convoy_connection *connection)
{
    if (connection == NULL)
        return;
    atomic_store_explicit(&connection->first_byte_us, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&connection->turns, 1, memory_order_release);
    atomic_store_explicit(&connection->busy_since_us, RESTING, memory_order_release);
}
