#include "server/http/unix_listener.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* The kernel cuts it down to net.core.somaxconn. */
#define BACKLOG 4096

/* What a process that was killed leaves: a socket that refuses. */
static bool is_abandoned(const char *path, const struct sockaddr_un *address)
{
    struct stat status;
    bool refused = false;

    if (lstat(path, &status) != 0 || !S_ISSOCK(status.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        refused =
            connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED;
        close(fd);
    }
    return refused;
}

static int bind_to(int fd, const char *path, mode_t mode, const struct sockaddr_un *address)
{
    /* The file gets the mode that the socket has, less the process's umask: so there is no moment at which
     * others may connect. */
    if (fchmod(fd, mode) != 0)
        return -errno;
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) == 0)
        return 0;
    if (errno != EADDRINUSE || !is_abandoned(path, address) || unlink(path) != 0)
        return errno == ECONNREFUSED ? -EADDRINUSE : -errno;
    return bind(fd, (const struct sockaddr *)address, sizeof *address) == 0 ? 0 : -errno;
}

int convoy_unix_listener_open(const char *option, const char *path, mode_t mode, int *fd,
                              struct convoy_unix_file *file, struct convoy_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    int code;

    if (strlen(path) >= sizeof address.sun_path)
        return convoy_fail(error, -ENAMETOOLONG,
                           "cannot listen on unix:%s: a socket's path has at most %zu bytes", path,
                           sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return convoy_fail(error, -errno, "cannot listen on unix:%s: %s", path, strerror(errno));
    code = bind_to(made, path, mode, &address);
    if (code == 0 && (chmod(path, mode) != 0 || listen(made, BACKLOG) != 0 || stat(path, &status) != 0))
        code = -errno;
    if (code != 0) {
        close(made);
        return convoy_fail(
            error, code, "cannot listen on unix:%s: %s; choose another path with %s", path,
            code == -EADDRINUSE ? "another process does, or a file lies there" : strerror(-code), option);
    }
    *file = (struct convoy_unix_file){status.st_dev, status.st_ino};
    *fd = made;
    return 0;
}

bool convoy_unix_listener_find(const char *path, struct convoy_unix_file *file)
{
    struct stat status;

    if (lstat(path, &status) != 0 || !S_ISSOCK(status.st_mode))
        return false;
    *file = (struct convoy_unix_file){status.st_dev, status.st_ino};
    return true;
}

void convoy_unix_listener_remove(const char *path, const struct convoy_unix_file *file)
{
    struct stat status;

    if (lstat(path, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode)
        unlink(path);
}
