/* What a worker is started with: the program and its environment. */
#ifndef CONVOY_SERVER_ENVIRONMENT_H
#define CONVOY_SERVER_ENVIRONMENT_H

#include "engine/base/error.h"

#include <stddef.h>

/* The daemon's own environment without the service manager's variables (sd_listen_fds(3), sd_notify(3),
 * sd_watchdog_enabled(3)), which are for the daemon's process alone. The caller frees the array with free();
 * the strings belong to the environment. NULL when memory is out. The environment must not be changed
 * meanwhile. */
char **convoy_worker_environment(void);

/* The path of convoy-worker, which lies beside the running program. -ENOENT, or why it cannot be executed. */
int convoy_worker_program(char *path, size_t capacity, struct convoy_error *error);

#endif
