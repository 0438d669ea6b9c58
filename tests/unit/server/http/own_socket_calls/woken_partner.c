/* Of two HTTP threads that sleep while the control loop has work for both, the loop rings one, which rings
 * the other. epoll_wait() is replaced by one that tells when a thread that has a suspended request sleeps,
 * and sleeps on for longer than the test waits: a thread that is not rung looks at its clients 25 ms later,
 * and would find the work that it was not told of. */
#include "server/http/request.h"
#include "server/http/status.h"
#include "server/http/suspension.h"
#include "tests/unit/server/http/own_socket_calls/http_server.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>

#define ANSWER_S 10 /* for what takes microseconds */
#define SLEEP_MS 60000

static _Thread_local bool suspended; /* this thread has suspended a request, and not slept since */
static sem_t asleep;
static _Thread_local bool counts;
static int rings; /* of the thread that counts */
static struct convoy_suspension suspensions[2];
static atomic_int begun;

int epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms);
__attribute__((visibility("default"))) int epoll_wait(int set, struct epoll_event *events, int most,
                                                      int timeout_ms)
{
    if (suspended && timeout_ms != 0) {
        int ready = (int)syscall(SYS_epoll_pwait, set, events, most, 0, NULL, 0);
        if (ready != 0)
            return ready;
        suspended = false;
        timeout_ms = SLEEP_MS;
        sem_post(&asleep);
    }
    return (int)syscall(SYS_epoll_pwait, set, events, most, timeout_ms, NULL, 0);
}

ssize_t write(int fd, const void *bytes, size_t length);
__attribute__((visibility("default"))) ssize_t write(int fd, const void *bytes, size_t length)
{
    rings += counts;
    return syscall(SYS_write, fd, bytes, length);
}

/* Suspends the request; when it is resumed, answers. */
static bool answer(struct convoy_request *request)
{
    bool *was_here = (bool *)(void *)request->state;
    if (*was_here)
        return convoy_respond_error(request, CONVOY_HTTP_NOT_FOUND, CONVOY_RETRY_NONE, "there is nothing");
    *was_here = suspended = true;
    struct convoy_suspension *suspension = &suspensions[atomic_fetch_add(&begun, 1)];
    convoy_suspension_init(suspension, request);
    return convoy_suspend(suspension, NULL, NULL);
}

static void wait_until_one_sleeps(void)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += ANSWER_S;
    cr_assert_eq(sem_timedwait(&asleep, &limit), 0, "no thread sleeps");
}

Test(woken_partner, is_woken_by_the_one_that_was_rung, .timeout = 60)
{
    struct http_server server;
    int clients[2];
    sem_init(&asleep, 0, 0);
    start_server(&server, answer, 2, sizeof(bool));
    for (int i = 0; i < 2; i++) {
        clients[i] = connect_to(&server, ANSWER_S);
        cr_assert(ask(clients[i]));
    }
    for (int i = 0; i < 2; i++)
        wait_until_one_sleeps();
    cr_assert_neq(suspensions[0].thread, suspensions[1].thread);
    convoy_resume_hold();
    for (int i = 0; i < 2; i++)
        convoy_resume(&suspensions[i]);
    counts = true;
    convoy_resume_let_go();
    counts = false;
    cr_expect_eq(rings, 1, "the loop rang %d threads: this tests nothing", rings);
    for (int i = 0; i < 2; i++)
        cr_expect(is_answered(clients[i]), "client %d is not answered: its thread sleeps on", i);
    stop_server(&server);
}
