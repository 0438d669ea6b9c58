#include "server/workers/environment.h"

#include "server/master/child.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static bool is_for_front(const char *variable)
{
    for (const char *const *name = convoy_front_variables; *name != NULL; name++) {
        size_t length = strlen(*name);
        if (strncmp(variable, *name, length) == 0 && variable[length] == '=')
            return true;
    }
    return false;
}

char **convoy_worker_environment(void)
{
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **result = calloc(count + 1, sizeof *result);
    for (size_t i = 0; result != NULL && i < count; i++)
        if (!is_for_front(environ[i]))
            result[kept++] = environ[i];
    return result;
}

int convoy_worker_program(char *path, size_t capacity, struct convoy_error *error)
{
    static const char name[] = "convoy-worker";
    ssize_t length = readlink("/proc/self/exe", path, capacity - 1);
    char *slash = length > 0 ? memrchr(path, '/', (size_t)length) : NULL;
    if (slash == NULL || (size_t)(slash + 1 - path) + sizeof name > capacity)
        return convoy_fail(error, -ENOENT, "cannot find the daemon's own folder, where convoy-worker lies");
    memcpy(slash + 1, name, sizeof name);
    if (access(path, X_OK) != 0)
        return convoy_fail(error, -errno, "cannot start %s: %s", path, strerror(errno));
    return 0;
}
