/* Where the configuration lies that nothing names, and what lies relative to it. Any thread. */
#ifndef CONVOY_SERVER_CONFIG_SEARCH_H
#define CONVOY_SERVER_CONFIG_SEARCH_H

#include "engine/base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Searches for the configuration file: writes its path and returns true, or returns false when there is none.
 * program is the path of the running program. */
bool convoy_config_search(const char *program, char *path, size_t capacity);

/* The same for the running program. */
bool convoy_config_found(char path[PATH_MAX]);

/* In the installed file a relative folder of models lies in PREFIX/share/convoyd, wherever PREFIX was moved
 * to and the daemon is started. Returns 1 with that folder in *found; 0: file is not the installed one, or
 * models is absolute; -ENAMETOOLONG. */
int convoy_config_installed_models(const char *file, const char *models, char found[PATH_MAX],
                                   struct convoy_error *error);

#endif
