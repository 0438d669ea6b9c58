/* The threads of the HTTP server. Each has connections of its own, which it alone reads, answers, suspends,
 * resumes and closes: an instance of libmicrohttpd that it drives itself. What other threads have for it, new
 * connections and suspended ones that are to be resumed, they put into its lists; they wake it only when it
 * sleeps, so a group of completions costs one wake-up and no lock of the library; of two threads that the
 * control loop has to wake one wakes the other. suspension.h is the rest of
 * this part. */
#ifndef CONVOY_SERVER_HTTP_THREAD_H
#define CONVOY_SERVER_HTTP_THREAD_H

#include "engine/base/error.h"
#include "engine/base/list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct MHD_Daemon;
struct pollfd;
struct convoy_http;

struct convoy_http_thread {
    struct convoy_http *http;
    struct MHD_Daemon *daemon;
    int library_fd; /* libmicrohttpd's epoll set */
    /* The same for Unix sockets, where TLS is on: they are plain, and an instance is either. Else NULL, and
     * -1. */
    struct MHD_Daemon *local_daemon;
    int local_fd;
    int wake_fd; /* an eventfd in the library's epoll set, never read: each ring is an edge */
    pthread_t handle;
    bool started;
    _Atomic uint32_t connections; /* open, and on the way here */

    pthread_mutex_t lock;       /* the four below */
    struct convoy_list arrived; /* connections that were accepted for this thread */
    struct convoy_list resumed; /* suspensions that are over */
    bool stopping;              /* no connection is suspended any more */
    bool ending;                /* the thread resumes what is suspended, and ends */
    /* Of the same server: it has work and sleeps, and this thread, which was woken, is to wake it. Or NULL.
     */
    struct convoy_http_thread *_Atomic to_ring;
    atomic_bool sleeps; /* it waits, or is about to: who puts something into a list wakes it */

    /* Of the thread that holds (convoy_resume_hold()). */
    struct convoy_list held;              /* suspensions that are over, and not in `resumed` yet */
    struct convoy_http_thread *next_held; /* another thread with some */

    /* The thread's own. */
    struct convoy_list suspended; /* suspensions, the oldest first */
    struct convoy_list senders;   /* struct convoy_unsent: answers to clients that half-closed */
    uint64_t looked_us;           /* when their clients were looked at */
    uint64_t closed;              /* connections, ever */
    struct pollfd *polls;         /* for that */
    uint32_t poll_capacity;
};

/* The thread does not sleep, and looks at its lists before it does: to ring for it would be for nothing.
 * Wakes the thread that it is to wake. On the thread itself. */
void convoy_http_thread_awake(struct convoy_http_thread *thread);

/* Makes the thread's instance of libmicrohttpd: sets daemon and
 * library_fd, and where TLS is on local_daemon and local_fd. 0, or -EINVAL with error set. */
typedef int convoy_http_open_library(struct convoy_http_thread *thread, struct convoy_error *error);

/* How many threads there will be: options.config->http.threads, or one for each core, less a
 * quarter where there are eight or more. */
uint32_t convoy_http_threads_wanted(const struct convoy_http *http);

/* The default on a machine of that many cores. */
uint32_t convoy_http_threads_for(uint32_t cores);

/* Makes the threads of http and starts them. On failure
 * what was started is left for convoy_http_threads_end(). Errors: -ENOMEM, -EINVAL, those of eventfd(2),
 * epoll_ctl(2) and pthread_create(). */
int convoy_http_threads_start(struct convoy_http *http, convoy_http_open_library *open_library,
                              struct convoy_error *error);

/* From now on convoy_suspend() refuses: a suspension is complete when this returns, or does not happen. */
void convoy_http_threads_refuse(struct convoy_http *http);

/* Resumes what is suspended, closes all connections, ends the threads and frees them. No thread of the
 * application may call convoy_resume() meanwhile, except for suspensions that this one resumes. */
void convoy_http_threads_end(struct convoy_http *http);

/* Takes over fd for the thread with the fewest connections. False, with fd closed, when memory is out. Any
 * thread. */
bool convoy_http_threads_take(struct convoy_http *http, int fd, const struct sockaddr *address,
                              socklen_t size);

#endif
