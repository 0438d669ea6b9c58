#include "server/config/config_search.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOCAL_FILE     "config/convoyd.json"
#define INSTALLED_FILE "etc/convoyd/convoyd.json" /* below PREFIX */

#define USR "/usr/" /* the only PREFIX whose configuration is not below it but below / */

/* True also for a file that exists but cannot be read: loading it then says why. */
static bool exists(const char *path)
{
    return access(path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool convoy_config_search(const char *program, char *path, size_t capacity)
{
    if (exists(LOCAL_FILE))
        return (size_t)snprintf(path, capacity, "%s", LOCAL_FILE) < capacity;
    const char *slash = strrchr(program, '/');
    if (slash == NULL)
        return false;
    int folder = (int)(slash - program); /* .../bin */
    while (folder > 0 && program[folder - 1] != '/')
        folder--;
    /* What belongs to the system has its configuration in /etc (Filesystem Hierarchy Standard, 3.7). */
    if (folder == sizeof USR - 1 && memcmp(program, USR, sizeof USR - 1) == 0)
        folder = 1;
    int length = snprintf(path, capacity, "%.*s%s", folder, program, INSTALLED_FILE);
    return length > 0 && (size_t)length < capacity && exists(path);
}

static bool running_program(char *path, size_t capacity)
{
    ssize_t length = readlink("/proc/self/exe", path, capacity - 1);
    if (length < 0)
        return false;
    path[length] = '\0';
    return true;
}

bool convoy_config_found(char path[PATH_MAX])
{
    char program[PATH_MAX];
    if (!running_program(program, sizeof program))
        program[0] = '\0';
    return convoy_config_search(program, path, PATH_MAX);
}

int convoy_config_installed_models(const char *file, const char *models, char found[PATH_MAX],
                                   struct convoy_error *error)
{
    size_t length = strlen(file), suffix = strlen(INSTALLED_FILE);
    if (models[0] == '/' || length < suffix || strcmp(file + length - suffix, INSTALLED_FILE) != 0)
        return 0;
    bool system = length - suffix == 1; /* /etc/convoyd/convoyd.json */
    int needed = snprintf(found, PATH_MAX, "%.*sshare/convoyd/%s",
                          (int)(system ? sizeof USR - 1 : length - suffix), system ? USR : file, models);
    if (needed < 0 || needed >= PATH_MAX)
        return convoy_fail(error, -ENAMETOOLONG, "%s: the path of models is too long", file);
    return 1;
}
