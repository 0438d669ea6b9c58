/* A request that waits for other threads: its connection is suspended, so that its HTTP thread serves its
 * other connections until some thread resumes it. The route's handler is then called again.
 *
 * This is the side of http_thread.c that the application sees.
 *
 * A client counts as gone when it has reset the connection or, unless http.half_close is set, closed its
 * sending side.
 *
 * Life: init and suspend on the connection's HTTP thread; resume once from any thread. The request may be
 * answered, and end, before that call returns, so the caller touches neither request nor suspension after it.
 * A stop resumes what is still suspended. */
#ifndef CONVOY_SERVER_SUSPENSION_H
#define CONVOY_SERVER_SUSPENSION_H

#include "engine/base/list.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct convoy_http_thread;
struct convoy_request;

struct convoy_suspension {
    struct convoy_http_thread *thread; /* the connection's */
    struct convoy_request *request;
    uint64_t since_us; /* when it was suspended */
    /* Set by the application before convoy_suspend(), or NULL. Called on the HTTP thread, some 25 ms apart,
     * while the connection is suspended and the client is gone, or deadline_us (0: none) has passed. It may
     * end the work early; the connection is resumed as always. */
    void (*look)(struct convoy_suspension *suspension, bool gone);
    uint64_t deadline_us;
    atomic_bool over;           /* the connection is, was or is about to be resumed */
    struct convoy_list link;    /* in convoy_http_thread.suspended */
    struct convoy_list resumed; /* in convoy_http_thread.resumed */
};

/* For the connection of request. */
void convoy_suspension_init(struct convoy_suspension *suspension, struct convoy_request *request);

/* Suspends the connection and then, where begin is not NULL, calls begin(context), which hands the work to
 * other threads. A stop comes either before both or after both, so that no work is handed over after
 * convoy_http_options.end_work was called. begin runs under a lock of the HTTP thread and takes at most a
 * lock of its own. False, with nothing done, when the daemon is stopping. */
bool convoy_suspend(struct convoy_suspension *suspension, void (*begin)(void *context), void *context);

/* Only the first call does something. After it, the HTTP server may be gone. */
void convoy_resume(struct convoy_suspension *suspension);

/* From hold to let_go() what the calling thread resumes is kept back, so that each HTTP thread is handed its
 * connections at once, with one lock and one ring, and rings for another HTTP thread that sleeps: a ring is a
 * system call, which for a sleeping thread takes longer than all else that the control loop does for an image
 * (tests/bench/finish_time.c). One thread of the process may do this: the control loop. Suspensions must stay
 * alive until let_go() returns. */
void convoy_resume_hold(void);
void convoy_resume_let_go(void);

/* True from the moment that the connection is resumed. */
bool convoy_suspension_over(const struct convoy_suspension *suspension);

/* True once the daemon is stopping, and work for the request is useless. Any thread, before the suspension is
 * over. */
bool convoy_suspension_stopping(const struct convoy_suspension *suspension);

#endif
