#include "server/http/acceptor.h"

#include "engine/base/log.h"
#include "engine/base/log_limit.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How long to wait when descriptors or memory are out, if no connection closes meanwhile. */
#define EXHAUSTED_PAUSE_MS 100

/* How long to wait for a connection that was evicted to close: its HTTP thread does it at once. */
#define EVICTED_PAUSE_MS 100

struct convoy_acceptor {
    struct convoy_acceptor_options options;
    int wake;      /* eventfd */
    uint32_t turn; /* the thread's: the socket that it took a connection of last */
    pthread_t thread;
    bool joined;
    atomic_bool stopping, leaves;
    atomic_bool full;       /* the thread waits for a connection to close */
    _Atomic uint32_t count; /* open connections */
};

static void wake_up(struct convoy_acceptor *acceptor)
{
    uint64_t one = 1;
    ssize_t written = write(acceptor->wake, &one, sizeof one);
    (void)written; /* an eventfd that is not read yet wakes the thread all the same */
}

void convoy_acceptor_log_lost(void)
{
    static struct convoy_log_limit limit;
    uint64_t unwritten;

    if (convoy_log_limit_pass(&limit, &unwritten))
        convoy_log(CONVOY_LOG_WARNING, "a connection could not be taken on and was closed",
                   CONVOY_UINT("unwritten", unwritten));
}

enum accepted { ACCEPTED, NONE_WAITING, EXHAUSTED };

static enum accepted accept_one(struct convoy_acceptor *acceptor, int listener)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    int on = 1;
    int fd = accept4(listener, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return NONE_WAITING;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            static struct convoy_log_limit limit;
            uint64_t unwritten;
            int why = errno;
            if (convoy_log_limit_pass(&limit, &unwritten))
                convoy_log(CONVOY_LOG_WARNING, "cannot accept connections",
                           CONVOY_STR("error", strerror(why)), CONVOY_UINT("unwritten", unwritten));
            return EXHAUSTED;
        }
        return ACCEPTED; /* that one is gone already (ECONNABORTED and network errors, see accept(2)) */
    }
    /* An answer goes out at once, whatever the client has not acknowledged yet. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    atomic_fetch_add(&acceptor->count, 1);
    if (!acceptor->options.take(acceptor->options.context, fd, (struct sockaddr *)&address, size))
        atomic_fetch_sub(&acceptor->count, 1);
    return ACCEPTED;
}

/* One connection of the next socket that has one: each gets its turn, so that one cannot keep the others
 * waiting. */
static enum accepted accept_next(struct convoy_acceptor *acceptor)
{
    enum accepted last = NONE_WAITING;

    for (uint32_t i = 0; i < acceptor->options.fd_count && last == NONE_WAITING; i++) {
        acceptor->turn = (acceptor->turn + 1) % acceptor->options.fd_count;
        last = accept_one(acceptor, acceptor->options.fds[acceptor->turn]);
    }
    return last;
}

/* Waits for one to close, and for a connection where there is room for one, or one is evicted for it. Returns
 * whether a connection waits. */
static bool wait_for_work(struct convoy_acceptor *acceptor, bool listens, int timeout_ms)
{
    struct pollfd waits[1 + CONVOY_ACCEPTOR_SOCKETS] = {{.fd = acceptor->wake, .events = POLLIN}};
    uint32_t count = listens ? acceptor->options.fd_count : 0;
    bool comes = false;
    uint64_t rings;

    for (uint32_t i = 0; i < count; i++)
        waits[1 + i] = (struct pollfd){.fd = acceptor->options.fds[i], .events = POLLIN};
    if (poll(waits, 1 + count, timeout_ms) > 0 && (waits[0].revents & POLLIN)) {
        ssize_t got = read(acceptor->wake, &rings, sizeof rings);
        (void)got;
    }
    for (uint32_t i = 0; i < count; i++)
        comes = comes || (waits[1 + i].revents & POLLIN) != 0;
    return comes;
}

/* There is no room. */
static void wait_for_room(struct convoy_acceptor *acceptor)
{
    bool evicts = acceptor->options.evict != NULL;

    if (!wait_for_work(acceptor, evicts, -1) || !evicts ||
        atomic_load(&acceptor->count) < acceptor->options.limit || atomic_load(&acceptor->stopping))
        return;
    acceptor->options.evict(acceptor->options.context);
    wait_for_work(acceptor, false, EVICTED_PAUSE_MS);
}

static void *accept_all(void *context)
{
    struct convoy_acceptor *acceptor = context;

    while (!atomic_load(&acceptor->stopping)) {
        bool room = atomic_load(&acceptor->count) < acceptor->options.limit;
        if (!room) {
            /* Looked at again after the flag is up, so that no closing is missed. */
            atomic_store(&acceptor->full, true);
            room = atomic_load(&acceptor->count) < acceptor->options.limit;
        }
        if (room)
            atomic_store(&acceptor->full, false);
        enum accepted last = room ? accept_next(acceptor) : NONE_WAITING;
        if (last == EXHAUSTED)
            wait_for_work(acceptor, false, EXHAUSTED_PAUSE_MS);
        else if (!room)
            wait_for_room(acceptor);
        else if (last == NONE_WAITING)
            wait_for_work(acceptor, true, -1);
    }
    /* Bounded: clients that go on connecting must not keep a daemon alive that is to stop. */
    for (int i = 0; acceptor->options.drain && !atomic_load(&acceptor->leaves) &&
                    i < CONVOY_ACCEPTOR_DRAIN_MAX && accept_next(acceptor) == ACCEPTED;
         i++)
        ;
    return NULL;
}

int convoy_acceptor_start(const struct convoy_acceptor_options *options, struct convoy_acceptor **result,
                          struct convoy_error *error)
{
    struct convoy_acceptor *acceptor = calloc(1, sizeof *acceptor);

    if (acceptor == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the acceptor");
    acceptor->options = *options;
    acceptor->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *result = acceptor; /* before the thread: a connection may be taken and closed before this returns */
    int code = acceptor->wake < 0 ? errno : pthread_create(&acceptor->thread, NULL, accept_all, acceptor);
    if (code != 0) {
        *result = NULL;
        if (acceptor->wake >= 0)
            close(acceptor->wake);
        free(acceptor);
        return convoy_fail(error, -code, "cannot start the thread that accepts connections: %s",
                           strerror(code));
    }
    return 0;
}

void convoy_acceptor_closed(struct convoy_acceptor *acceptor)
{
    atomic_fetch_sub(&acceptor->count, 1);
    if (atomic_load(&acceptor->full))
        wake_up(acceptor);
}

uint32_t convoy_acceptor_open(const struct convoy_acceptor *acceptor)
{
    return atomic_load(&acceptor->count);
}

void convoy_acceptor_stop(struct convoy_acceptor *acceptor)
{
    if (acceptor->joined)
        return;
    atomic_store(&acceptor->stopping, true);
    wake_up(acceptor);
    pthread_join(acceptor->thread, NULL);
    acceptor->joined = true;
}

void convoy_acceptor_leave(struct convoy_acceptor *acceptor)
{
    atomic_store(&acceptor->leaves, true);
    convoy_acceptor_stop(acceptor);
}

void convoy_acceptor_free(struct convoy_acceptor *acceptor)
{
    convoy_acceptor_stop(acceptor);
    close(acceptor->wake);
    free(acceptor);
}
