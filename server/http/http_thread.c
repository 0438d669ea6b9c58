#include "server/http/http_thread.h"

#include "engine/base/clock.h"
#include "engine/base/wake_fd.h"
#include "server/config/config.h"
#include "server/http/acceptor.h"
#include "server/http/address_counts.h"
#include "server/http/half_closed.h"
#include "server/http/http_state.h"
#include "server/http/request.h"
#include "server/http/response.h"
#include "server/http/suspension.h"

#include <errno.h>
#include <limits.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* How often clients that wait are looked at, and how long they wait at least before they are: one that leaves
 * is noticed within twice that, and what it waited for ends within 100 ms. */
#define LOOK_US 25000u

/* Events that the library takes from its epoll set at once, and those that can be of no connection: its own
 * eventfd and the thread's. */
#define LIBRARY_EVENTS 128u
#define OTHER_EVENTS   2u

/* A connection that was accepted and is on the way to its thread. */
struct arrival {
    struct convoy_list link;
    int fd;
    socklen_t size;
    struct sockaddr_storage address;
};

/* Puts link into one of the thread's lists. Its sleep is announced before it looks at them for the last time,
 * under the same lock, so either it sees the link or this sees that it sleeps. */
static void put(struct convoy_http_thread *thread, struct convoy_list *list, struct convoy_list *link)
{
    pthread_mutex_lock(&thread->lock);
    convoy_list_add_last(list, link);
    bool sleeps = atomic_exchange_explicit(&thread->sleeps, false, memory_order_relaxed);
    pthread_mutex_unlock(&thread->lock);
    if (sleeps)
        convoy_wake_fd_ring(thread->wake_fd);
}

void convoy_suspension_init(struct convoy_suspension *suspension, struct convoy_request *request)
{
    suspension->thread = request->thread;
    suspension->request = request;
    suspension->look = NULL;
    suspension->deadline_us = 0;
    atomic_init(&suspension->over, false);
}

/* All under one lock, so that a stop finds either nothing or the whole. */
bool convoy_suspend(struct convoy_suspension *suspension, void (*begin)(void *context), void *context)
{
    struct convoy_http_thread *thread = suspension->thread;
    pthread_mutex_lock(&thread->lock);
    bool stopping = thread->stopping;
    if (!stopping) {
        suspension->since_us = convoy_now_us();
        convoy_list_add_last(&thread->suspended, &suspension->link);
        if (!suspension->request->half_closed) /* else it is still suspended for the library */
            MHD_suspend_connection(suspension->request->mhd);
        if (begin != NULL)
            begin(context);
    }
    pthread_mutex_unlock(&thread->lock);
    return !stopping;
}

/* The threads whose `held` has entries, while the control loop holds. */
static _Thread_local struct {
    bool holds;
    struct convoy_http_thread *first;
} holder;

static void hold(struct convoy_http_thread *thread, struct convoy_suspension *suspension)
{
    if (convoy_list_empty(&thread->held)) {
        thread->next_held = holder.first;
        holder.first = thread;
    }
    convoy_list_add_last(&thread->held, &suspension->resumed);
}

void convoy_resume(struct convoy_suspension *suspension)
{
    struct convoy_http_thread *thread = suspension->thread;
    if (atomic_exchange(&suspension->over, true))
        return;
    if (holder.holds)
        hold(thread, suspension);
    else
        put(thread, &thread->resumed, &suspension->resumed);
}

void convoy_resume_hold(void)
{
    holder.holds = true;
}

/* Hands the thread what was held for it. Where it sleeps it rings for `before`, which slept, too, and was not
 * rung yet (NULL: none is). Returns the one that is to be rung now; NULL: none. */
static struct convoy_http_thread *hand_over(struct convoy_http_thread *thread,
                                            struct convoy_http_thread *before, bool *pairs)
{
    pthread_mutex_lock(&thread->lock);
    convoy_list_move_all(&thread->held, &thread->resumed);
    bool sleeps = atomic_exchange_explicit(&thread->sleeps, false, memory_order_relaxed);
    *pairs = sleeps && before != NULL && before->http == thread->http;
    if (*pairs)
        atomic_store_explicit(&thread->to_ring, before, memory_order_release);
    pthread_mutex_unlock(&thread->lock);
    return sleeps ? thread : NULL;
}

void convoy_resume_let_go(void)
{
    struct convoy_http_thread *before = NULL;
    holder.holds = false;
    while (holder.first != NULL) {
        struct convoy_http_thread *thread = holder.first;
        bool pairs;
        holder.first = thread->next_held;
        struct convoy_http_thread *sleeper = hand_over(thread, before, &pairs);
        if (sleeper == NULL)
            continue;
        if (before != NULL)
            convoy_wake_fd_ring((pairs ? sleeper : before)->wake_fd);
        before = pairs ? NULL : sleeper;
    }
    if (before != NULL)
        convoy_wake_fd_ring(before->wake_fd);
}

bool convoy_suspension_over(const struct convoy_suspension *suspension)
{
    return atomic_load(&suspension->over);
}

bool convoy_suspension_stopping(const struct convoy_suspension *suspension)
{
    return atomic_load(&suspension->thread->http->stopping);
}

/* The library gets the connection back: the request may end as soon as it runs. */
static void give_back(struct convoy_request *request)
{
    MHD_resume_connection(request->mhd);
}

/* Does what the library would do after a resumption, whose connection stays suspended until the answer is
 * sent. */
static void answer_half_closed(struct convoy_http_thread *thread, struct convoy_request *request)
{
    request->half_closed = true;
    bool goes_on = convoy_answer(request);
    if (goes_on && request->unsent == NULL)
        return; /* it is suspended again */
    if (!goes_on || convoy_half_closed_send(request->unsent))
        give_back(request);
    else
        convoy_list_add_last(&thread->senders, &request->unsent->link);
}

static void resume(struct convoy_suspension *suspension)
{
    struct convoy_request *request = suspension->request;
    convoy_list_remove(&suspension->link);
    if (convoy_half_closed(request))
        answer_half_closed(suspension->thread, request);
    else
        give_back(request);
}

/* Sends on; all: gives up what cannot be sent now. */
static void send_on(struct convoy_http_thread *thread, bool all)
{
    convoy_list_for_each(at, following, &thread->senders) {
        struct convoy_unsent *unsent = convoy_list_entry(at, struct convoy_unsent, link);
        if (convoy_half_closed_send(unsent) || all) {
            convoy_list_remove(at);
            give_back(unsent->request);
        }
    }
}

static void open_connection(struct convoy_http_thread *thread, struct arrival *arrival)
{
    uint64_t closed = thread->closed;
    bool local = arrival->address.ss_family == AF_UNIX && thread->local_daemon != NULL;
    if (MHD_add_connection(local ? thread->local_daemon : thread->daemon, arrival->fd,
                           (struct sockaddr *)&arrival->address, arrival->size) != MHD_YES &&
        thread->closed == closed) {
        /* libmicrohttpd 0.9.75 also fails after it opened and closed the connection (epoll_ctl() failed):
         * then on_connection() has counted it. */
        atomic_fetch_sub_explicit(&thread->connections, 1, memory_order_relaxed);
        convoy_address_counts_give(thread->http->clients, (struct sockaddr *)&arrival->address);
        convoy_acceptor_closed(thread->http->acceptor);
        convoy_acceptor_log_lost();
    }
    free(arrival);
}

/* Takes what other threads put into the lists. When there is nothing, and may_sleep, it announces that the
 * thread sleeps. Returns whether there was something. */
static bool take_work(struct convoy_http_thread *thread, bool may_sleep, bool *ending)
{
    struct convoy_list arrived, resumed, *link;
    convoy_list_init(&arrived);
    convoy_list_init(&resumed);
    pthread_mutex_lock(&thread->lock);
    bool some = !convoy_list_empty(&thread->arrived) || !convoy_list_empty(&thread->resumed);
    *ending = thread->ending;
    convoy_list_move_all(&thread->arrived, &arrived);
    convoy_list_move_all(&thread->resumed, &resumed);
    atomic_store_explicit(&thread->sleeps, !some && !*ending && may_sleep, memory_order_relaxed);
    pthread_mutex_unlock(&thread->lock);
    while ((link = convoy_list_take_first(&resumed)) != NULL)
        resume(convoy_list_entry(link, struct convoy_suspension, resumed));
    while ((link = convoy_list_take_first(&arrived)) != NULL)
        open_connection(thread, convoy_list_entry(link, struct arrival, link));
    return some;
}

/* Milliseconds until the library has to look at its connections' timeouts; -1: for ever. */
static int library_timeout(const struct convoy_http_thread *thread)
{
    struct MHD_Daemon *const daemons[] = {thread->daemon, thread->local_daemon};
    int least = -1;
    for (int i = 0; i < 2 && daemons[i] != NULL; i++) {
        MHD_UNSIGNED_LONG_LONG ms;
        if (MHD_get_timeout(daemons[i], &ms) == MHD_YES && (least < 0 || ms < (unsigned)least))
            least = ms > INT_MAX ? INT_MAX : (int)ms;
    }
    return least;
}

/* The suspensions that are old enough to be looked at; *last is behind the last of them. */
static uint32_t count_waiting(const struct convoy_http_thread *thread, uint64_t now_us,
                              const struct convoy_list **last)
{
    uint32_t count = 0;
    const struct convoy_list *at = thread->suspended.next;
    for (; at != &thread->suspended; at = at->next, count++)
        if (convoy_list_entry(at, const struct convoy_suspension, link)->since_us + LOOK_US > now_us)
            break;
    *last = at;
    return count;
}

static bool make_polls(struct convoy_http_thread *thread, uint32_t count)
{
    if (count <= thread->poll_capacity)
        return true;
    struct pollfd *polls = realloc(thread->polls, count * sizeof *polls);
    if (polls == NULL)
        return false;
    thread->polls = polls;
    thread->poll_capacity = count;
    return true;
}

/* Tells the application of suspended connections whose client is gone, or whose deadline has passed: one
 * system call for all of them. */
static void look_at_waiting(struct convoy_http_thread *thread, uint64_t now_us)
{
    const struct convoy_list *last;
    uint32_t count = count_waiting(thread, now_us, &last), i = 0;
    thread->looked_us = now_us;
    if (count == 0 || !make_polls(thread, count))
        return;
    for (const struct convoy_list *at = thread->suspended.next; at != last; at = at->next)
        thread->polls[i++] = (struct pollfd){
            .fd = convoy_list_entry(at, const struct convoy_suspension, link)->request->connection->fd,
            .events = thread->http->options.config->http.half_close ? 0 : POLLRDHUP};
    if (poll(thread->polls, count, 0) < 0)
        return;
    i = 0;
    for (struct convoy_list *at = thread->suspended.next; at != last; at = at->next, i++) {
        struct convoy_suspension *suspension = convoy_list_entry(at, struct convoy_suspension, link);
        bool gone = thread->polls[i].revents != 0;
        bool late = suspension->deadline_us != 0 && now_us >= suspension->deadline_us;
        if (suspension->look != NULL && (gone || late))
            suspension->look(suspension, gone);
    }
}

static bool has_waiting(const struct convoy_http_thread *thread)
{
    return !convoy_list_empty(&thread->suspended) || !convoy_list_empty(&thread->senders);
}

/* Every LOOK_US: before the library runs, which closes connections that were given back. */
static void look(struct convoy_http_thread *thread, bool ending)
{
    if (!has_waiting(thread))
        return;
    uint64_t now_us = convoy_now_us();
    if (now_us < thread->looked_us + LOOK_US && !ending)
        return;
    look_at_waiting(thread, now_us);
    send_on(thread, ending);
}

/* The thread sleeps in the library, whose epoll set has wake_fd, too: the library passes by an event without
 * a pointer. The set itself must not lie in another one: each connection that is resumed would take a lock of
 * the whole system, when it is added again. On 32 cores with 256 connections epoll_ctl() took 18 % of the
 * front's processor time so, and 2 % since. A poll() of the set and wake_fd before each round, which needs
 * neither, answered 0.75 of the bare server there, this 0.82 (medians of three rounds in turns). */
static int watch_wake_fd(struct convoy_http_thread *thread)
{
    struct epoll_event edge = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    thread->wake_fd = convoy_wake_fd_new();
    if (thread->wake_fd < 0)
        return -thread->wake_fd;
    return epoll_ctl(thread->library_fd, EPOLL_CTL_ADD, thread->wake_fd, &edge) == 0 ? 0 : errno;
}

/* Resumes what is suspended and not over; what is over comes by the list. */
static void resume_all(struct convoy_http_thread *thread)
{
    convoy_list_for_each(at, following, &thread->suspended) {
        struct convoy_suspension *suspension = convoy_list_entry(at, struct convoy_suspension, link);
        if (!atomic_exchange(&suspension->over, true))
            resume(suspension);
    }
}

void convoy_http_thread_awake(struct convoy_http_thread *thread)
{
    atomic_store_explicit(&thread->sleeps, false, memory_order_relaxed);
    if (atomic_load_explicit(&thread->to_ring, memory_order_relaxed) == NULL)
        return;
    struct convoy_http_thread *other = atomic_exchange_explicit(&thread->to_ring, NULL, memory_order_acquire);
    convoy_wake_fd_ring(other->wake_fd);
}

/* Whether the thread can sleep in the library: not in one of two epoll sets; and the library sleeps once
 * more, before it serves anything, where LIBRARY_EVENTS are ready at once (MHD_epoll() of 0.9.75). */
static bool sleeps_in_library(const struct convoy_http_thread *thread)
{
    return thread->local_daemon == NULL &&
           atomic_load_explicit(&thread->connections, memory_order_relaxed) < LIBRARY_EVENTS - OTHER_EVENTS;
}

/* Lets the library serve what is ready, or what is after timeout_ms at most. */
static void run_library(struct convoy_http_thread *thread, int timeout_ms)
{
    const struct convoy_http_options *options = &thread->http->options;
    if (options->begin_round != NULL)
        options->begin_round();
    if (timeout_ms != 0 && !sleeps_in_library(thread)) {
        struct pollfd sets[] = {{.fd = thread->library_fd, .events = POLLIN},
                                {.fd = thread->local_fd, .events = POLLIN}}; /* -1 is passed by */
        (void)poll(sets, 2, timeout_ms);
        convoy_http_thread_awake(thread);
        timeout_ms = 0;
    }
    MHD_run_wait(thread->daemon, timeout_ms);
    if (thread->local_daemon != NULL)
        MHD_run(thread->local_daemon);
    convoy_http_thread_awake(thread);
    if (options->end_round != NULL)
        options->end_round();
}

static void *run(void *context)
{
    struct convoy_http_thread *thread = context;
    bool ending = false;
    while (!ending || !convoy_list_empty(&thread->suspended)) {
        int timeout_ms = library_timeout(thread);
        if (has_waiting(thread) && (timeout_ms < 0 || timeout_ms > (int)LOOK_US / 1000))
            timeout_ms = LOOK_US / 1000;
        if (take_work(thread, timeout_ms != 0, &ending) || ending)
            timeout_ms = 0;
        if (ending)
            resume_all(thread);
        look(thread, ending);
        run_library(thread, timeout_ms);
    }
    return NULL;
}

static int start_thread(struct convoy_http_thread *thread, convoy_http_open_library *open_library,
                        struct convoy_error *error)
{
    int code = open_library(thread, error);
    if (code != 0)
        return code;
    code = watch_wake_fd(thread);
    if (code == 0)
        code = pthread_create(&thread->handle, NULL, run, thread);
    if (code != 0)
        return convoy_fail(error, -code, "cannot start a thread that serves HTTP: %s", strerror(code));
    thread->started = true;
    pthread_setname_np(thread->handle, "convoyd-http");
    return 0;
}

int convoy_http_threads_start(struct convoy_http *http, convoy_http_open_library *open_library,
                              struct convoy_error *error)
{
    uint32_t count = convoy_http_threads_wanted(http);
    http->threads = calloc(count, sizeof *http->threads);
    if (http->threads == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the threads that serve HTTP");
    for (; http->thread_count < count; http->thread_count++) {
        struct convoy_http_thread *thread = &http->threads[http->thread_count];
        thread->http = http;
        thread->wake_fd = thread->local_fd = -1;
        pthread_mutex_init(&thread->lock, NULL);
        convoy_list_init(&thread->arrived);
        convoy_list_init(&thread->resumed);
        convoy_list_init(&thread->held);
        convoy_list_init(&thread->suspended);
        convoy_list_init(&thread->senders);
    }
    for (uint32_t i = 0; i < count; i++) {
        int code = start_thread(&http->threads[i], open_library, error);
        if (code != 0)
            return code;
    }
    return 0;
}

void convoy_http_threads_refuse(struct convoy_http *http)
{
    for (uint32_t i = 0; i < http->thread_count; i++) {
        pthread_mutex_lock(&http->threads[i].lock);
        http->threads[i].stopping = true;
        pthread_mutex_unlock(&http->threads[i].lock);
    }
}

static void end_thread(struct convoy_http_thread *thread)
{
    if (!thread->started)
        return;
    pthread_mutex_lock(&thread->lock);
    thread->ending = true;
    pthread_mutex_unlock(&thread->lock);
    convoy_wake_fd_ring(thread->wake_fd);
    pthread_join(thread->handle, NULL);
}

static void free_thread(struct convoy_http_thread *thread)
{
    if (thread->daemon != NULL)
        MHD_stop_daemon(thread->daemon);
    if (thread->local_daemon != NULL)
        MHD_stop_daemon(thread->local_daemon);
    if (thread->wake_fd >= 0)
        close(thread->wake_fd);
    pthread_mutex_destroy(&thread->lock);
    free(thread->polls);
}

void convoy_http_threads_end(struct convoy_http *http)
{
    for (uint32_t i = 0; i < http->thread_count; i++)
        end_thread(&http->threads[i]);
    for (uint32_t i = 0; i < http->thread_count; i++) /* none of them rings for another any more */
        free_thread(&http->threads[i]);
    free(http->threads);
    http->threads = NULL;
    http->thread_count = 0;
}

bool convoy_http_threads_take(struct convoy_http *http, int fd, const struct sockaddr *address,
                              socklen_t size)
{
    struct arrival *arrival = malloc(sizeof *arrival);
    struct convoy_http_thread *least = &http->threads[0];
    if (arrival == NULL) {
        close(fd);
        return false;
    }
    *arrival = (struct arrival){.fd = fd, .size = size};
    memcpy(&arrival->address, address, size < sizeof arrival->address ? size : sizeof arrival->address);
    for (uint32_t i = 1; i < http->thread_count; i++)
        if (atomic_load_explicit(&http->threads[i].connections, memory_order_relaxed) <
            atomic_load_explicit(&least->connections, memory_order_relaxed))
            least = &http->threads[i];
    atomic_fetch_add_explicit(&least->connections, 1, memory_order_relaxed);
    put(least, &least->arrived, &arrival->link);
    return true;
}
