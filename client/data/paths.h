/* Lists the files below a folder. */
#ifndef CONVOY_CLIENT_PATHS_H
#define CONVOY_CLIENT_PATHS_H

#include <stddef.h>

#include "client/lib/convoy.h"

struct client_paths {
    char **paths;
    size_t count, capacity;
};

/* Adds path itself if it is a file, else every regular file below it (follows symbolic links to files, not to
 * folders; skips names that begin with a dot), then sorts the list. paths starts zeroed; call
 * client_paths_clear also after an error. Returns 0, or a negative errno with a message that names the path.
 */
int client_paths_add(struct client_paths *paths, const char *path, struct convoy_failure *failure);

void client_paths_clear(struct client_paths *paths);

#endif
