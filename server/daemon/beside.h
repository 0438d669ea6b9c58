/* A new front whose channels have another ABI than the workers that run (packet.h: BESIDE): it loads its
 * models into workers of its own while the front before serves. When they are loaded it says so, and is told
 * to go on when the front before has gone. A model that cannot be loaded here, and is served there, ends this
 * front: the one before serves on.
 *
 * Threads: the control loop. */
#ifndef CONVOY_SERVER_BESIDE_H
#define CONVOY_SERVER_BESIDE_H

#include "server/master/link.h"
#include "server/models/registry.h"
#include "server/repository/manager.h"
#include "server/workers/supervisor.h"

#include <uv.h>

struct convoy_beside {
    /* Filled in by the caller. */
    uv_loop_t *loop;
    struct convoy_registry *registry;
    struct convoy_supervisor *supervisor;
    struct convoy_manager *manager;
    struct convoy_link *link;
    void (*on_go)(void *context); /* the front before has gone; after convoy_beside_start(), once */
    void *context;

    uv_check_t turn;   /* after each turn of the loop, until the models are loaded */
    uv_timer_t beat;   /* tells the master that there is progress */
    uint32_t answered; /* models READY or FAILED at the last beat */
};

/* The manager and the supervisor were started. */
void convoy_beside_start(struct convoy_beside *beside);

#endif
