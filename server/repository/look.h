/* A look at the model repository, which may be slow: it runs on any thread and touches nothing but itself and
 * files. The control loop takes what it found over with convoy_reconcile(). */
#ifndef CONVOY_SERVER_LOOK_H
#define CONVOY_SERVER_LOOK_H

#include "engine/base/error.h"
#include "server/config/config.h"
#include "server/config/model_config.h"
#include "server/models/registry.h"

/* What is read already and is not read again while it looks the same. */
struct convoy_known {
    char *name;
    uint32_t version;
    uint64_t stamp;
};

struct convoy_look {
    const struct convoy_config *config;
    struct convoy_known *known;
    uint32_t known_count;

    /* found: */
    int code; /* not 0: the folder could not be read, error says why */
    struct convoy_error error;
    struct convoy_repository repository;
    uint32_t entry_count;                 /* repository's */
    struct convoy_model_config **configs; /* by entry; NULL: it is known, or has a problem */
    char **problems;                      /* by entry; NULL: none, or it is known */
};

/* Prepares a look. On the control loop. NULL when memory is out. config must outlive it. */
struct convoy_look *convoy_look_new(const struct convoy_config *config, struct convoy_registry *registry);
/* Looks; blocks for as long as the file system takes. */
void convoy_look_run(struct convoy_look *look);
void convoy_look_free(struct convoy_look *look); /* NULL is allowed */

/* Makes the registry's records say what look found: one more for each version that is new or looks otherwise,
 * plan.present of each. A change is taken when it looked the same in the look before, so that files in the
 * middle of being written are left alone; previous NULL: at once. only: the one name that is taken over;
 * NULL: all. On the control loop. Returns how many records were added; what cannot be is logged. */
uint32_t convoy_reconcile(struct convoy_registry *registry, struct convoy_look *look,
                          const struct convoy_repository *previous, const char *only);

/* Which records are to be served, by the policies of their configurations: plan.newest, .wanted, .covered.
 * asked: whether a name is to be served at all. On the control loop. */
void convoy_choose(struct convoy_registry *registry, bool (*asked)(void *context, const char *name),
                   void *context);

#endif
