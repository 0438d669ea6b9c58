/* The supervisor: starts one convoy-worker per device, tracks what each has loaded, and replaces those that
 * die or hang.
 *
 * It runs on the control loop (libuv, one thread). Worker 0 is started first and reports how many devices
 * there are. The channel's slots are sized once, when it is known of every model found at start how large its
 * rows and outputs are: of several, a worker is asked before they are loaded. Then they are loaded one after
 * the other, the default model first, and each is served as soon as it is loaded. */
#ifndef CONVOY_SERVER_SUPERVISOR_H
#define CONVOY_SERVER_SUPERVISOR_H

#include "engine/base/error.h"
#include "server/batching/batcher.h"
#include "server/config/config.h"
#include "server/master/link.h"
#include "server/metrics/metrics.h"
#include "server/models/registry.h"

#include <uv.h>

struct convoy_supervisor;

/* Prepares a supervisor; nothing is started. config, registry and metrics must outlive the supervisor. */
int convoy_supervisor_new(uv_loop_t *loop, const struct convoy_config *config,
                          struct convoy_registry *registry, struct convoy_metrics *metrics,
                          struct convoy_supervisor **supervisor, struct convoy_error *error);
/* Starts worker 0; the other workers follow on the loop. Workers that the master holds from a front before
 * are taken over. link must outlive the loop. */
void convoy_supervisor_start(struct convoy_supervisor *supervisor, struct convoy_link *link);
/* Whether some worker of a front before, which lives, does not serve yet. On the control loop. */
bool convoy_supervisor_adopts(const struct convoy_supervisor *supervisor);
/* Whether workers are left to the next start when the daemon ends in order. */
bool convoy_supervisor_keeps(const struct convoy_supervisor *supervisor);
/* Ends the workers and calls stopped() on the loop when all are gone. No item may be pending. */
void convoy_supervisor_stop(struct convoy_supervisor *supervisor, void (*stopped)(void *context),
                            void *context);
/* After the loop ended. */
void convoy_supervisor_free(struct convoy_supervisor *supervisor);

/* Draining began: convoy_supervisor_health() reports it from now on. On the control loop. */
void convoy_supervisor_drain(struct convoy_supervisor *supervisor);
/* Asks every worker to load the model, whose state is LOADING. Its images are accepted when the first worker
 * has loaded it, which changed() reports. What was known under its number is forgotten. */
void convoy_supervisor_load(struct convoy_supervisor *supervisor, struct convoy_model_record *model);
/* Whether no image of the model waits or runs, and no worker is about to load it. */
bool convoy_supervisor_released(struct convoy_supervisor *supervisor,
                                const struct convoy_model_record *model);
/* Asks every worker to unload the model, which is released and gets no new images. */
void convoy_supervisor_unload(struct convoy_supervisor *supervisor, const struct convoy_model_record *model);
/* changed() is called on the loop after models became READY or FAILED, from within the supervisor, whose
 * functions it must not call. */
void convoy_supervisor_on_change(struct convoy_supervisor *supervisor, void (*changed)(void *context),
                                 void *context);

/* Gives the batcher the models' current batching limits (after SIGHUP). */
void convoy_supervisor_new_limits(struct convoy_supervisor *supervisor);

/* How long a worker may take to load a model: worker.hang_timeout_ms, or a minute if that is less. */
uint64_t convoy_supervisor_load_limit_us(const struct convoy_config *config);

struct convoy_health {
    bool live;     /* the control loop turned in the last second */
    bool settled;  /* every model found at start is READY or FAILED, and one is READY */
    bool worker;   /* a worker is up, or was within ready_grace_ms */
    bool draining; /* SIGTERM came */
};
/* Any thread. */
void convoy_supervisor_health(struct convoy_supervisor *supervisor, struct convoy_health *health);

/* Whether some worker that runs and has said HELLO has not answered for all models yet. On the control loop.
 */
bool convoy_supervisor_loads(const struct convoy_supervisor *supervisor);

/* Whether a worker has been started that has not said HELLO. On the control loop. */
bool convoy_supervisor_starts(const struct convoy_supervisor *supervisor);

/* The batcher that the workers take slots from. Any thread. */
struct convoy_batcher *convoy_supervisor_batcher(struct convoy_supervisor *supervisor);

#endif
