/* The model manager: which models and versions are on the devices, and when that changes while requests come.
 *
 * It compares three things: what the repository's folder holds (repository_scan.h), which of that is to be
 * served (each model's version_policy; with "model_control": "explicit" the names that were loaded by
 * request), and what the workers have loaded. Loads and unloads follow from the difference:
 *
 * - A version that is new, or whose files changed, is loaded beside the versions that serve. A request is
 * bound to a model's record when its body is complete. New requests use the new record from the moment that
 * it is READY; no batch holds images of both records.
 * - A record that is no longer to be served becomes UNLOADING when every record of its name that is to be
 * served is READY: a broken new version leaves the old one in place. It leaves the devices when no request is
 * bound to it and none of its images waits or runs.
 * - repository.device_bytes bounds the weights of the loaded models. Until a worker has reported a model's
 * size, the size of its files counts. With repository.unload_idle the least recently used model is evicted to
 * make room, and loaded again on the next request for it.
 *
 * Threads: everything runs on the control loop, except convoy_manager_send() (any thread) and the scan of the
 * folder (libuv's thread pool). */
#ifndef CONVOY_SERVER_MANAGER_H
#define CONVOY_SERVER_MANAGER_H

#include "engine/base/error.h"
#include "engine/base/list.h"
#include "server/config/config.h"
#include "server/config/model_name.h"
#include "server/master/link.h"
#include "server/models/registry.h"
#include "server/workers/supervisor.h"

#include <uv.h>

struct convoy_manager;

enum convoy_control_request_kind {
    CONVOY_CONTROL_REQUEST_LOAD,    /* scan the folder, and serve this name from now on */
    CONVOY_CONTROL_REQUEST_UNLOAD,  /* stop serving this name */
    CONVOY_CONTROL_REQUEST_ACTIVATE /* load this version, which is evicted, again */
};

/* A request to the manager. It belongs to the sender, which does not touch it between convoy_manager_send()
 * and done(). */
struct convoy_control_request {
    enum convoy_control_request_kind kind;
    char name[CONVOY_MODEL_NAME_BYTES + 1];
    uint32_t version; /* ACTIVATE */
    /* Called once, on the control loop, or within convoy_manager_send() when the manager is stopped. code: 0:
     * every version to be served of the name is READY, or the name is no longer served; -ENOENT: no such
     * model; -EINVAL: it could not be loaded; -EPERM: model_control does not allow it; -ENOMEM; -ECANCELED:
     * the daemon stops. */
    void (*done)(struct convoy_control_request *request, int code, const struct convoy_error *error);
    struct convoy_model_record *model; /* ACTIVATE with code 0: the READY model, held for the sender */
    struct convoy_list link;           /* the manager's */
    uint64_t scan;                     /* the manager's: the number of the scan that it waits for; 0: none */
};

/* Scans the folder and begins to load what is to be served; blocks for that scan. Returns 0, or -ENOENT and
 * others when the folder cannot be read. registry, supervisor and config must outlive the manager. */
int convoy_manager_new(uv_loop_t *loop, const struct convoy_config *config, struct convoy_registry *registry,
                       struct convoy_supervisor *supervisor, struct convoy_manager **manager,
                       struct convoy_error *error);
/* Before convoy_manager_start(). Where models are loaded by request, those that a front before this one
 * served when it crashed are served again, and the master remembers what this one serves. link must outlive
 * the loop. */
void convoy_manager_follow(struct convoy_manager *manager, struct convoy_link *link);
/* This front has loaded its models beside one that served, and takes over now: what that one served by then,
 * where models are loaded by request, is to be served here. */
void convoy_manager_take_over(struct convoy_manager *manager);
/* Beside a front that serves: -EINVAL with a sentence when a version has FAILED here that is READY there, or
 * of which that is not known. */
int convoy_manager_check_ready(struct convoy_manager *manager, struct convoy_error *error);
/* Begins to follow the folder and to handle control requests. */
void convoy_manager_start(struct convoy_manager *manager);
/* With "model_control": "poll": scans now, not only at the next interval. */
void convoy_manager_scan(struct convoy_manager *manager);
/* Closes the manager's handles. The loop has to turn until a scan that is under way has come back. Open
 * control requests, and later ones, end with -ECANCELED. A second call does nothing. */
void convoy_manager_stop(struct convoy_manager *manager);
/* After the loop ended. NULL is allowed. */
void convoy_manager_free(struct convoy_manager *manager);

/* Any thread. Hands request to the control loop. */
void convoy_manager_send(struct convoy_manager *manager, struct convoy_control_request *request);

#endif
