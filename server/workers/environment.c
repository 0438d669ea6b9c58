#include "server/workers/environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static bool is_service_managers(const char *variable)
{
    static const char *const names[] = {
        "NOTIFY_SOCKET=", "WATCHDOG_USEC=", "WATCHDOG_PID=", "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES="};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

char **convoy_worker_environment(void)
{
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **result = calloc(count + 1, sizeof *result);
    for (size_t i = 0; result != NULL && i < count; i++)
        if (!is_service_managers(environ[i]))
            result[kept++] = environ[i];
    return result;
}
