/* The object "shared_memory" of the daemon's configuration: which objects of shared memory clients on this
 * machine may register; docs/configuration.md describes each key. */
#ifndef CONVOY_SERVER_SHARED_MEMORY_CONFIG_H
#define CONVOY_SERVER_SHARED_MEMORY_CONFIG_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <sys/types.h>

struct convoy_json;

/* Member names are the keys. */
struct convoy_shared_memory_config {
    bool enabled;
    char *prefix;  /* of an object's key, which begins with a slash; NULL: "/" */
    char **owners; /* users' names or numbers, ends with NULL; NULL: the daemon's own user */
};

/* Reads the object over *shared_memory. -EINVAL, -ENOMEM. */
int convoy_shared_memory_config_read(const struct convoy_json *root,
                                     struct convoy_shared_memory_config *shared_memory,
                                     struct convoy_error *error);
void convoy_shared_memory_config_clear(struct convoy_shared_memory_config *shared_memory);

/* Whether the key of an object begins with the prefix. key: with its slash. Any thread. */
bool convoy_shared_memory_config_takes(const struct convoy_shared_memory_config *shared_memory,
                                       const char *key);

/* The users whose objects are taken, as numbers: a list of *count, for free(). Looks names up in the system's
 * list of users, which may take long. -EINVAL: there is no such user; -ENOMEM. */
int convoy_shared_memory_config_owners(const struct convoy_shared_memory_config *shared_memory,
                                       uid_t **owners, size_t *count, struct convoy_error *error);

#endif
