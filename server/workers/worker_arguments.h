/* The command line of a worker process. Threads: any. */
#ifndef CONVOY_SERVER_WORKER_ARGUMENTS_H
#define CONVOY_SERVER_WORKER_ARGUMENTS_H

#include "engine/base/error.h"
#include "server/workers/worker_settings.h"

#include <limits.h>

#define CONVOY_WORKER_ARGUMENTS (32 + 2 * CONVOY_MOST_READABLE) /* the end included */
#define CONVOY_WORKER_NUMBERS   8                               /* of arguments that are numbers */

/* `list` ends with NULL and points into this record, which must not be copied, and to texts of others, which
 * must live as long. All zero: there is none yet. */
struct convoy_worker_arguments {
    char program[PATH_MAX], numbers[CONVOY_WORKER_NUMBERS][16];
    char *list[CONVOY_WORKER_ARGUMENTS];
    uint32_t count, number_count;
};

/* The program comes first; then options with a text or a number each, as many as there is room for. */
void convoy_worker_arguments_add(struct convoy_worker_arguments *arguments, const char *text);
void convoy_worker_arguments_add_text(struct convoy_worker_arguments *arguments, const char *option,
                                      const char *text);
void convoy_worker_arguments_add_number(struct convoy_worker_arguments *arguments, const char *option,
                                        uint32_t number);
/* --sandbox, --user, --confine-files and --read. Where models come while the worker runs, files are not
 * confined by its own choice: a link that is made then leads where the worker may not read. */
void convoy_worker_arguments_confine(struct convoy_worker_arguments *arguments,
                                     const struct convoy_worker_sandbox *sandbox);

/* All of a worker that serves. -ENOENT and others when the program is not there. */
int convoy_worker_arguments_make(struct convoy_worker_arguments *arguments,
                                 const struct convoy_worker_settings *settings, const char *backend,
                                 const char *tune, struct convoy_error *error);

#endif
