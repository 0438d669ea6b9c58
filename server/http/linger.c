#include "server/http/linger.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MAX   CONVOY_LINGER_DESCRIPTORS
#define LINGER_US    2000000u
#define LINGER_BYTES (256u << 20)

struct lingering {
    int fd;
    uint64_t until_us;
    uint64_t bytes_left;
};

struct convoy_linger {
    pthread_mutex_t lock; /* of what follows, up to the thread; never held over a system call on a socket */
    uint32_t held;        /* connections in arrived and in list, or on their way there */
    int arrived[LINGER_MAX]; /* descriptors that the thread has not seen yet */
    uint32_t arrived_count;
    bool stopping;
    int wake; /* eventfd */
    pthread_t thread;

    /* The thread's alone. The descriptors are duplicates that this thread alone closes, so none is closed,
     * and its number used again, while it is read without the lock. */
    struct lingering list[LINGER_MAX];
    uint32_t count;
    char nowhere[65536]; /* what was read, which is thrown away */
};

/* Reads what is there; false when the connection is over. */
static bool read_on(struct convoy_linger *linger, struct lingering *one)
{
    for (int i = 0; i < 16; i++) {
        ssize_t got = recv(one->fd, linger->nowhere, sizeof linger->nowhere, MSG_DONTWAIT);
        if (got < 0)
            return errno == EAGAIN || errno == EINTR;
        if (got == 0 || (uint64_t)got > one->bytes_left)
            return false;
        one->bytes_left -= (uint64_t)got;
    }
    return true;
}

/* Takes the descriptors that have arrived into the list; false when the thread is to stop. */
static bool take_arrived(struct convoy_linger *linger)
{
    uint64_t until_us = convoy_now_us() + LINGER_US;

    pthread_mutex_lock(&linger->lock);
    for (uint32_t i = 0; i < linger->arrived_count; i++)
        linger->list[linger->count++] = (struct lingering){linger->arrived[i], until_us, LINGER_BYTES};
    linger->arrived_count = 0;
    bool stopping = linger->stopping;
    pthread_mutex_unlock(&linger->lock);
    return !stopping;
}

/* Gives back the room of count connections. */
static void give_back(struct convoy_linger *linger, uint32_t count)
{
    pthread_mutex_lock(&linger->lock);
    linger->held -= count;
    pthread_mutex_unlock(&linger->lock);
}

/* Reads from all and closes those that are over; returns until when the others may wait. */
static uint64_t read_all(struct convoy_linger *linger, bool stopping)
{
    uint64_t now_us = convoy_now_us(), until_us = UINT64_MAX;
    uint32_t closed = 0;

    for (uint32_t i = linger->count; i-- > 0;) {
        struct lingering *one = &linger->list[i];
        if (stopping || now_us >= one->until_us || !read_on(linger, one)) {
            close(one->fd);
            *one = linger->list[--linger->count];
            closed++;
            continue;
        }
        if (one->until_us < until_us)
            until_us = one->until_us;
    }
    if (closed > 0)
        give_back(linger, closed);
    return until_us;
}

static int poll_timeout_ms(uint64_t until_us)
{
    uint64_t now_us = convoy_now_us();

    if (until_us == UINT64_MAX)
        return -1;
    return until_us <= now_us ? 0 : (int)((until_us - now_us) / 1000 + 1);
}

static void *linger_on(void *context)
{
    struct convoy_linger *linger = context;
    struct pollfd waits[LINGER_MAX + 1];
    uint64_t rings;

    for (;;) {
        bool stopping = !take_arrived(linger);
        uint64_t until_us = read_all(linger, stopping);
        if (stopping)
            return NULL;
        nfds_t count = 0;
        waits[count++] = (struct pollfd){.fd = linger->wake, .events = POLLIN};
        for (uint32_t i = 0; i < linger->count; i++)
            waits[count++] = (struct pollfd){.fd = linger->list[i].fd, .events = POLLIN};
        if (poll(waits, count, poll_timeout_ms(until_us)) > 0 && (waits[0].revents & POLLIN)) {
            ssize_t got = read(linger->wake, &rings, sizeof rings);
            (void)got;
        }
    }
}

int convoy_linger_start(struct convoy_linger **result, struct convoy_error *error)
{
    struct convoy_linger *linger = calloc(1, sizeof *linger);

    if (linger == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for connections that end");
    pthread_mutex_init(&linger->lock, NULL);
    linger->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int code = linger->wake < 0 ? errno : pthread_create(&linger->thread, NULL, linger_on, linger);
    if (code != 0) {
        if (linger->wake >= 0)
            close(linger->wake);
        pthread_mutex_destroy(&linger->lock);
        free(linger);
        return convoy_fail(error, -code, "cannot start the thread that ends connections: %s", strerror(code));
    }
    *result = linger;
    return 0;
}

static void wake_up(struct convoy_linger *linger)
{
    uint64_t one = 1;
    ssize_t written = write(linger->wake, &one, sizeof one);
    (void)written; /* an eventfd that is not read yet wakes the thread all the same */
}

/* Reserves room for a connection. */
static bool reserve(struct convoy_linger *linger)
{
    pthread_mutex_lock(&linger->lock);
    bool room = linger->held < LINGER_MAX && !linger->stopping;
    linger->held += room;
    pthread_mutex_unlock(&linger->lock);
    return room;
}

void convoy_linger_take(struct convoy_linger *linger, int fd)
{
    if (!reserve(linger))
        return;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) {
        give_back(linger, 1);
        return;
    }
    shutdown(copy, SHUT_WR);
    pthread_mutex_lock(&linger->lock);
    linger->arrived[linger->arrived_count++] = copy;
    pthread_mutex_unlock(&linger->lock);
    wake_up(linger);
}

void convoy_linger_free(struct convoy_linger *linger)
{
    if (linger == NULL)
        return;
    pthread_mutex_lock(&linger->lock);
    linger->stopping = true;
    wake_up(linger);
    pthread_mutex_unlock(&linger->lock);
    pthread_join(linger->thread, NULL);
    close(linger->wake);
    pthread_mutex_destroy(&linger->lock);
    free(linger);
}
