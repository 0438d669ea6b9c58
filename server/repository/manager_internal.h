/* What manager.c, manager_requests.c and manager_apply.c share. All of it belongs to the control loop, except
 * the members that the lock guards. */
#ifndef CONVOY_SERVER_MANAGER_INTERNAL_H
#define CONVOY_SERVER_MANAGER_INTERNAL_H

#include "server/repository/manager.h"
#include "server/repository/reconcile.h"

#include <pthread.h>

struct convoy_manager {
    uv_loop_t *loop;
    const struct convoy_config *config;
    struct convoy_registry *registry;
    struct convoy_supervisor *supervisor;

    uv_timer_t poll;                       /* interval of scans */
    uv_timer_t again;                      /* until something is over that is not reported by an event */
    uv_async_t called;                     /* control requests came, or models became READY or FAILED */
    uv_work_t work;                        /* the scan under way */
    struct convoy_repository_scan *scan;   /* NULL: none is under way */
    struct convoy_repository previous;     /* what the last scan found */
    uint64_t scans;                        /* begun */
    bool scan_again;                       /* requests came that the scan under way does not answer */
    char scan_problem[CONVOY_ERROR_BYTES]; /* why the last scan failed, or empty */

    char **asked; /* names that were loaded by request; model_control "explicit" */
    uint32_t asked_count;
    struct convoy_link *link;  /* the master remembers these names; NULL: it does not yet, or need not */
    struct convoy_link *tells; /* the master remembers which versions are READY; NULL: it does not */
    bool marked;               /* it was told that it is told */
    struct convoy_list open;   /* requests that were begun and are not done, the oldest first */

    pthread_mutex_t lock;
    struct convoy_list
        sent; /* requests that are not begun, the oldest first; under lock, as the flags below */
    bool started, stopped;
};

/* ---- manager_apply.c ---- */

/* Compares what is to be served with what is loaded: begins loads and unloads, and completes those that can
 * complete. Returns whether it must be called again although no event will report the change it waits for. */
bool convoy_manager_apply(struct convoy_manager *manager);

/* ---- manager_requests.c ---- */

/* Takes over the requests in manager->sent. */
void convoy_manager_requests_take(struct convoy_manager *manager);
/* Applies a finished scan to the requests that waited for it: changes of their names are taken over at once.
 */
void convoy_manager_requests_scanned(struct convoy_manager *manager, struct convoy_repository_scan *scan);
/* Ends the requests that can end; activations_only: only those of kind ACTIVATE. All of them when the manager
 * is stopped. */
void convoy_manager_requests_end(struct convoy_manager *manager, bool activations_only);
/* Is the name to be served? For convoy_select_versions(); context is the manager. */
bool convoy_manager_serves_name(void *context, const char *name);
/* Adds the name to those loaded by request, or removes it. False when memory is out. */
bool convoy_manager_set_served(struct convoy_manager *manager, const char *name, bool serve);

/* The names that are to be served are those that the front before served, and the master remembers them from
 * now on. */
void convoy_manager_requests_follow(struct convoy_manager *manager, struct convoy_link *link);

/* ---- manager_ready.c: the master remembers which versions are READY ---- */

/* Tells it what is another since the last call. */
void convoy_manager_ready_tell(struct convoy_manager *manager);
/* Takes over what it remembers of the front before. */
void convoy_manager_ready_follow(struct convoy_manager *manager);

/* ---- manager.c ---- */

/* Begins a scan, or notes that another one follows the scan under way. Without memory there is none (logged).
 */
void convoy_manager_begin_scan(struct convoy_manager *manager);

#endif
