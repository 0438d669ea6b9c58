/* The command line of a worker process. Threads: any. */
#ifndef CONVOY_SERVER_WORKER_ARGUMENTS_H
#define CONVOY_SERVER_WORKER_ARGUMENTS_H

#include "engine/base/error.h"
#include "server/workers/worker_settings.h"

#include <limits.h>

#define CONVOY_WORKER_ARGUMENTS 24 /* the end included */

/* `list` ends with NULL and points into this record, which must not be copied, and into what `settings`,
 * `backend` and `tune` are. */
struct convoy_worker_arguments {
    char program[PATH_MAX], device[16], streams[16], canary_ms[16], orphan_ms[16];
    char *list[CONVOY_WORKER_ARGUMENTS];
    uint32_t count;
};

/* -ENOENT and others when the program
 * is not there. */
int convoy_worker_arguments_make(struct convoy_worker_arguments *arguments,
                                 const struct convoy_worker_settings *settings, const char *backend,
                                 const char *tune, struct convoy_error *error);

#endif
