/* A worker's process that is left before it is dead: no thread of it runs any more, and the driver takes down
 * what it had opened. Another one has taken its place; how it ended is logged when the master tells it. The
 * master holds it under a label of its own, so that a front that takes over adopts it as what it is.
 *
 * Threads: the control loop alone. */
#ifndef CONVOY_SERVER_WORKER_LEFT_H
#define CONVOY_SERVER_WORKER_LEFT_H

#include "server/master/link.h"
#include "server/workers/worker_settings.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Called when it is dead. */
typedef void convoy_worker_left_gone(void *context);

/* That of one worker, which has at most one at a time. All zero: there is none. */
struct convoy_worker_left {
    bool exists;
    pid_t pid;
    uint64_t since_us;
    bool overdue; /* the supervisor's: its end is not waited for any more */
    convoy_worker_left_gone *gone;
    void *context;
};

/* The process with this number, of which no thread runs any more, is left. There is no other one. gone may be
 * NULL. `left` must outlive the link's dispatching. */
void convoy_worker_left_begin(struct convoy_worker_left *left, struct convoy_link *link,
                              const struct convoy_worker_settings *settings, uint32_t number, pid_t pid,
                              convoy_worker_left_gone *gone, void *context);
/* Takes on what the front before has left of the worker with these settings, if there is something. */
void convoy_worker_left_adopt(struct convoy_worker_left *left, struct convoy_link *link,
                              const struct convoy_worker_settings *settings, convoy_worker_left_gone *gone,
                              void *context);

#endif
