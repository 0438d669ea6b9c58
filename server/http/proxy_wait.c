#include "server/http/proxy_wait.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/log_limit.h"
#include "server/http/proxy_header.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct waiting {
    int fd;
    uint64_t until_us;
    socklen_t size;
    struct sockaddr_storage address;
    size_t have;
    uint8_t bytes[CONVOY_PROXY_HEADER_MAX];
};

struct convoy_proxy_wait {
    struct convoy_proxy_wait_options options;
    int wake; /* eventfd */
    pthread_t thread;

    pthread_mutex_t lock;                           /* the four below */
    struct waiting *arrived[CONVOY_PROXY_WAIT_MAX]; /* that the thread has not seen yet */
    uint32_t arrived_count;
    uint32_t held; /* connections, arrived and in the list */
    bool stopping;

    /* The thread's. */
    struct waiting *list[CONVOY_PROXY_WAIT_MAX];
    uint32_t count;
};

enum state { WAITS, COMPLETE, BROKEN };

/* Reads what there is of the header. */
static enum state read_on(struct waiting *one)
{
    for (;;) {
        size_t more = convoy_proxy_header_more(one->bytes, one->have);
        if (more == 0)
            return COMPLETE;
        if (more == CONVOY_PROXY_HEADER_BAD || more > sizeof one->bytes - one->have)
            return BROKEN;
        ssize_t got = recv(one->fd, one->bytes + one->have, more, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return WAITS;
        if (got <= 0)
            return BROKEN;
        one->have += (size_t)got;
    }
}

static void end_lost(struct convoy_proxy_wait *wait, const struct waiting *one)
{
    static struct convoy_log_limit limit;
    uint64_t unwritten;

    close(one->fd);
    if (convoy_log_limit_pass(&limit, &unwritten))
        convoy_log(CONVOY_LOG_INFO, "a trusted proxy sent no PROXY header and was cut off",
                   CONVOY_UINT("unwritten", unwritten));
    wait->options.lost(wait->options.context);
}

/* Hands the connection over. */
static void end_complete(struct convoy_proxy_wait *wait, const struct waiting *one)
{
    union convoy_proxy_address client;

    if (!convoy_proxy_header_read(one->bytes, one->have, &client))
        end_lost(wait, one);
    else if (client.any.sa_family == AF_UNSPEC)
        wait->options.ready(wait->options.context, one->fd, (const struct sockaddr *)&one->address,
                            one->size);
    else
        wait->options.ready(wait->options.context, one->fd, &client.any,
                            client.any.sa_family == AF_INET ? sizeof client.four : sizeof client.six);
}

/* Reads from all; returns until when the others may wait. */
static uint64_t read_all(struct convoy_proxy_wait *wait)
{
    uint64_t now_us = convoy_now_us(), until_us = UINT64_MAX;
    uint32_t ended = 0;

    for (uint32_t i = wait->count; i-- > 0;) {
        struct waiting *one = wait->list[i];
        enum state state = read_on(one);
        if (state == WAITS && now_us < one->until_us) {
            until_us = one->until_us < until_us ? one->until_us : until_us;
            continue;
        }
        if (state == COMPLETE)
            end_complete(wait, one);
        else
            end_lost(wait, one);
        free(one);
        wait->list[i] = wait->list[--wait->count];
        ended++;
    }
    pthread_mutex_lock(&wait->lock);
    wait->held -= ended;
    pthread_mutex_unlock(&wait->lock);
    return until_us;
}

/* False when the thread is to stop. */
static bool take_arrived(struct convoy_proxy_wait *wait)
{
    pthread_mutex_lock(&wait->lock);
    for (uint32_t i = 0; i < wait->arrived_count; i++)
        wait->list[wait->count++] = wait->arrived[i];
    wait->arrived_count = 0;
    bool stopping = wait->stopping;
    pthread_mutex_unlock(&wait->lock);
    return !stopping;
}

static void *wait_on(void *context)
{
    struct convoy_proxy_wait *wait = context;
    struct pollfd waits[CONVOY_PROXY_WAIT_MAX + 1];
    uint64_t rings;

    while (take_arrived(wait)) {
        uint64_t until_us = read_all(wait), now_us = convoy_now_us();
        int timeout_ms = until_us == UINT64_MAX ? -1
                         : until_us <= now_us   ? 0
                                                : (int)((until_us - now_us) / 1000 + 1);
        waits[0] = (struct pollfd){.fd = wait->wake, .events = POLLIN};
        for (uint32_t i = 0; i < wait->count; i++)
            waits[1 + i] = (struct pollfd){.fd = wait->list[i]->fd, .events = POLLIN};
        if (poll(waits, 1 + wait->count, timeout_ms) > 0 && (waits[0].revents & POLLIN)) {
            ssize_t got = read(wait->wake, &rings, sizeof rings);
            (void)got;
        }
    }
    for (uint32_t i = 0; i < wait->count; i++) {
        close(wait->list[i]->fd);
        free(wait->list[i]);
    }
    return NULL;
}

int convoy_proxy_wait_start(const struct convoy_proxy_wait_options *options,
                            struct convoy_proxy_wait **result, struct convoy_error *error)
{
    struct convoy_proxy_wait *wait = calloc(1, sizeof *wait);

    if (wait == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for connections of proxies");
    wait->options = *options;
    pthread_mutex_init(&wait->lock, NULL);
    wait->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int code = wait->wake < 0 ? errno : pthread_create(&wait->thread, NULL, wait_on, wait);
    if (code != 0) {
        if (wait->wake >= 0)
            close(wait->wake);
        pthread_mutex_destroy(&wait->lock);
        free(wait);
        return convoy_fail(error, -code, "cannot start the thread that reads PROXY headers: %s",
                           strerror(code));
    }
    *result = wait;
    return 0;
}

static void wake_up(struct convoy_proxy_wait *wait)
{
    ssize_t written = write(wait->wake, &(uint64_t){1}, sizeof(uint64_t));
    (void)written; /* an eventfd that is not read yet wakes the thread all the same */
}

bool convoy_proxy_wait_take(struct convoy_proxy_wait *wait, int fd, const struct sockaddr *address,
                            socklen_t size)
{
    struct waiting *one = malloc(sizeof *one);
    bool taken = false;

    if (one != NULL) {
        one->fd = fd;
        one->until_us = convoy_now_us() + wait->options.timeout_us;
        one->size = size < sizeof one->address ? size : sizeof one->address;
        memset(&one->address, 0, sizeof one->address);
        memcpy(&one->address, address, one->size);
        one->have = 0;
        pthread_mutex_lock(&wait->lock);
        taken = wait->held < CONVOY_PROXY_WAIT_MAX && !wait->stopping;
        if (taken) {
            wait->held++;
            wait->arrived[wait->arrived_count++] = one;
        }
        pthread_mutex_unlock(&wait->lock);
    }
    if (taken) {
        wake_up(wait);
        return true;
    }
    free(one);
    close(fd);
    return false;
}

void convoy_proxy_wait_free(struct convoy_proxy_wait *wait)
{
    if (wait == NULL)
        return;
    pthread_mutex_lock(&wait->lock);
    wait->stopping = true;
    pthread_mutex_unlock(&wait->lock);
    wake_up(wait);
    pthread_join(wait->thread, NULL);
    for (uint32_t i = 0; i < wait->arrived_count; i++) {
        close(wait->arrived[i]->fd);
        free(wait->arrived[i]);
    }
    close(wait->wake);
    pthread_mutex_destroy(&wait->lock);
    free(wait);
}
