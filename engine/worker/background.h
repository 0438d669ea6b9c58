/* Long work on a thread of its own, while the calling thread goes on serving. Nothing polls by time: the
 * caller sleeps until there is something to serve or the work has ended. */
#ifndef CONVOY_ENGINE_WORKER_BACKGROUND_H
#define CONVOY_ENGINE_WORKER_BACKGROUND_H

#include "engine/base/error.h"
#include "engine/ipc/channel.h"

#include <stdbool.h>

struct convoy_background {
    /* Serves once, on the calling thread; false if there was nothing to do. */
    bool (*serve)(void *context);
    void *context;
    struct convoy_channel *channel; /* its doorbell rings when serve() has something to do again */
    int done_fd;                    /* a wake_fd of this struct: the work has ended */
};

/* Fills in background; the channel, which need not be attached yet, stays the caller's. Returns 0 or a
 * negative errno with error filled in. */
int convoy_background_open(struct convoy_background *background, bool (*serve)(void *context), void *context,
                           struct convoy_channel *channel, struct convoy_error *error);
void convoy_background_close(struct convoy_background *background);

/* Calls work(argument) on a thread of its own and serves until it has returned; without serving, on the
 * calling thread, if no thread can be started. What work() wrote is visible afterwards. One thread at a time
 * calls this, and neither work() nor serve() does. */
void convoy_background_run(const struct convoy_background *background, void (*work)(void *argument),
                           void *argument);

#endif
