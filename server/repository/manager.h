/* The model manager: which models and versions are on the devices, when that changes while requests come.
 *
 * It compares three things: what the repository's folder holds (look.h), which of that is to be served (each
 * model's version_policy; with "model_control": "explicit" the names that were asked for), and what workers
 * have loaded. From the difference follow loads and unloads:
 *
 * - A version that is new, or whose files changed, is loaded beside those that serve. Requests are bound to a
 *   model's record when their body is complete, so they go to the new one from the moment that it is READY,
 *   between two batches, and none sees both.
 * - What is no longer to be served is UNLOADING from the moment that all that is to be served of its name is
 *   READY: a broken new version leaves the old one where it is. It leaves the devices when nobody is bound to
 *   it and none of its images waits or runs.
 * - repository.device_bytes bounds the weights of what is loaded, by the size of the files until a worker has
 *   said what they became. With repository.unload_idle the model that was asked for least recently is put to
 *   rest for a new one, and loaded again when somebody asks for it.
 *
 * Threads: everything runs on the control loop, but convoy_manager_send() and looking through the folder,
 * which libuv's pool does. */
#ifndef CONVOY_SERVER_MANAGER_H
#define CONVOY_SERVER_MANAGER_H

#include "engine/base/error.h"
#include "server/config/config.h"
#include "server/models/registry.h"
#include "server/workers/supervisor.h"

#include <uv.h>

struct convoy_manager;

enum convoy_errand_kind {
    CONVOY_ERRAND_LOAD,   /* look again, and serve this name from now on */
    CONVOY_ERRAND_UNLOAD, /* do not serve this name any more */
    CONVOY_ERRAND_WAKE    /* somebody asks for this version, which rests */
};

/* Something that is asked of the manager. It stays the asker's, untouched, until done() was called. */
struct convoy_errand {
    enum convoy_errand_kind kind;
    char name[CONVOY_MODEL_NAME_BYTES + 1];
    uint32_t version; /* WAKE */
    /* Called once, on the control loop. code: 0: what is to be served of the name is READY, or nothing is
     * served any more; -ENOENT: no such model; -EINVAL: it could not be loaded; -EPERM: model_control has it
     * otherwise; -ECANCELED: the daemon stops. */
    void (*done)(struct convoy_errand *errand, int code, const struct convoy_error *error);
    struct convoy_model
        *model; /* WAKE, when it is done with 0: READY at that moment, and held for the asker */
    struct convoy_errand *next; /* the manager's */
    uint64_t look;              /* the manager's: the look that it waits for; 0: none */
};

/* Looks through the folder and has what is to be served loaded; blocks for that look. -ENOENT and others: the
 * folder cannot be read. registry, supervisor and config must outlive the manager. */
int convoy_manager_new(uv_loop_t *loop, const struct convoy_config *config, struct convoy_registry *registry,
                       struct convoy_supervisor *supervisor, struct convoy_manager **manager,
                       struct convoy_error *error);
/* From now on it follows the folder, and errands. */
void convoy_manager_start(struct convoy_manager *manager);
/* Looks now rather than at the next turn, where the folder is watched. */
void convoy_manager_look(struct convoy_manager *manager);
/* Closes what is on the loop, which has to turn until a look that is under way has come back; open errands
 * are done with -ECANCELED, and so are those that come later. Twice is once. */
void convoy_manager_stop(struct convoy_manager *manager);
/* After the loop ended. NULL is allowed. */
void convoy_manager_free(struct convoy_manager *manager);

/* Any thread. */
void convoy_manager_send(struct convoy_manager *manager, struct convoy_errand *errand);

#endif
