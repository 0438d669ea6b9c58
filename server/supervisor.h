/* The control loop (libuv, one thread): child processes, control sockets, timers, completions.
 *
 * It starts one convoy-worker per device, feeds them models, hands the batcher's slots over, and replaces a
 * worker that died or hangs. */
#ifndef CONVOY_SERVER_SUPERVISOR_H
#define CONVOY_SERVER_SUPERVISOR_H

#include "engine/base/error.h"
#include "server/batcher.h"
#include "server/config.h"
#include "server/metrics.h"
#include "server/model.h"

struct convoy_supervisor;

/* Health as the HTTP side asks for it; any thread. */
struct convoy_health {
    bool live;     /* the control loop turned in the last second */
    bool settled;  /* every model found at start is READY or FAILED, and one is READY */
    bool worker;   /* a worker is up, or was within ready_grace_ms */
    bool draining; /* SIGTERM was seen */
};
void convoy_supervisor_health(struct convoy_supervisor *supervisor, struct convoy_health *health);

struct convoy_batcher *convoy_supervisor_batcher(struct convoy_supervisor *supervisor);

#endif
