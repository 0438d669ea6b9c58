/* The files below a folder. */
#ifndef CONVOY_CLIENT_PATHS_H
#define CONVOY_CLIENT_PATHS_H

#include <stddef.h>

#include "client/lib/convoy.h"

struct client_paths {
    char **paths;
    size_t count, capacity;
};

/* Adds path itself if it is a file, else every regular file below it (links are followed to files, not to
 * folders; names that begin with a dot are left out) and sorts the lot. paths starts zeroed; give it to
 * client_paths_clear also after an error. 0 or a negative errno with a sentence that names the path. */
int client_paths_add(struct client_paths *paths, const char *path, struct convoy_failure *failure);

void client_paths_clear(struct client_paths *paths);

#endif
