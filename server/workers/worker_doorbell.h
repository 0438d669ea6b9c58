/* How the control loop hears that a worker has finished slots: by its doorbell while the loop sleeps. While
 * it is awake it looks at the channel before it sleeps, and the worker does not ring
 * (convoy_channel_attend()). Everything runs on the control loop. */
#ifndef CONVOY_SERVER_WORKER_DOORBELL_H
#define CONVOY_SERVER_WORKER_DOORBELL_H

#include "engine/ipc/channel.h"

#include <uv.h>

#define CONVOY_WORKER_DOORBELL_HANDLES 3

struct convoy_worker_doorbell {
    struct convoy_channel *channel;
    /* There are finished slots, or it rang. False: they are not taken, until it rings again. */
    bool (*finished)(void *context);
    void *context;
    uint32_t cores; /* of the front */
    uv_poll_t rings;
    uv_prepare_t before_sleep; /* the loop is about to sleep: are there more? */
    uv_idle_t stays_awake;     /* while this is active the loop does not sleep */
    bool attends;              /* the channel is looked at before the loop sleeps */
    bool waits_briefly;        /* the next slot is expected soon (brief_wait.h) */
    uint64_t finished_us;      /* when slots were last taken */
};

/* Begins to listen. channel and context must outlive the doorbell; the channel's doorbell must not be renewed
 * before it is closed. */
void convoy_worker_doorbell_listen(struct convoy_worker_doorbell *doorbell, uv_loop_t *loop,
                                   struct convoy_channel *channel, bool (*finished)(void *context),
                                   void *context);
/* Calls closed() for each of the CONVOY_WORKER_DOORBELL_HANDLES handles, whose data is `context` by then. */
void convoy_worker_doorbell_close(struct convoy_worker_doorbell *doorbell, uv_close_cb closed);

#endif
