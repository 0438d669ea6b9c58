/* What manager.c, errands.c and transition.c share; all of it is the control loop's but what the lock guards.
 */
#ifndef CONVOY_SERVER_MANAGER_INTERNAL_H
#define CONVOY_SERVER_MANAGER_INTERNAL_H

#include "server/repository/look.h"
#include "server/repository/manager.h"

#include <pthread.h>

struct convoy_manager {
    uv_loop_t *loop;
    const struct convoy_config *config;
    struct convoy_registry *registry;
    struct convoy_supervisor *supervisor;

    uv_timer_t poll;                       /* when the folder is looked at again */
    uv_timer_t again;                      /* while something is under way that nobody tells of */
    uv_async_t called;                     /* errands came, or models became READY or FAILED */
    uv_work_t work;                        /* the look under way */
    struct convoy_look *look;              /* NULL: none is under way */
    struct convoy_repository previous;     /* what the last look found */
    uint64_t looks;                        /* begun */
    bool look_again;                       /* errands came that the look under way does not answer */
    char scan_problem[CONVOY_ERROR_BYTES]; /* why the folder could not be read the last time, or empty */

    char **asked; /* names that are to be served, where that is explicit */
    uint32_t asked_count;
    struct convoy_errand *open; /* errands that are not done */

    pthread_mutex_t lock;
    struct convoy_errand *sent; /* newest first; under the lock, and so are started and stopped */
    bool started, stopped;
};

/* ---- transition.c ---- */

/* From what is to be served to what is: begins loads and unloads, ends those that can end. Returns whether
 * there is something under way that only another look at it will show. */
bool convoy_manager_move(struct convoy_manager *manager);

/* ---- errands.c ---- */

/* Takes over what was sent. */
void convoy_errands_take(struct convoy_manager *manager);
/* The look that has come back was for those that wait for one: takes the changes of their names over. */
void convoy_errands_looked(struct convoy_manager *manager, struct convoy_look *look);
/* Ends those that can end, or those alone that wake; all of them when the manager is stopped. */
void convoy_errands_end(struct convoy_manager *manager, bool wakes_alone);
/* Is the name to be served? As convoy_choose() asks. */
bool convoy_errands_asked(void *manager, const char *name);
/* The name is asked for from now on, or not any more. False when memory is out. */
bool convoy_errands_ask(struct convoy_manager *manager, const char *name, bool serve);
/* Begins a look, or has another one follow that which is under way; without memory there is none. */
void convoy_manager_begin_look(struct convoy_manager *manager);

#endif
