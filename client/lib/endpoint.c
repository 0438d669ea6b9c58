#include "client/lib/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

const char *client_endpoint_unix(const char *url)
{
    static const char prefix[] = "unix:";
    return strncmp(url, prefix, sizeof prefix - 1) == 0 ? url + sizeof prefix - 1 : NULL;
}

bool client_endpoint_is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "[::1]") == 0;
}

/* A process listens there; a socket that was left behind refuses. */
static bool answers(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool connected = fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return connected;
}

static bool try_folder(const char *folder, const char *below, unsigned port, char path[CLIENT_SOCKET_BYTES])
{
    int length = snprintf(path, CLIENT_SOCKET_BYTES, "%s%s/admin-%u.sock", folder, below, port);
    return length > 0 && length < CLIENT_SOCKET_BYTES && answers(path);
}

bool client_endpoint_admin(unsigned port, char path[CLIENT_SOCKET_BYTES])
{
    const char *user = getenv("XDG_RUNTIME_DIR");
    return (user && *user && try_folder(user, "/convoyd", port, path)) ||
           try_folder("/run/convoyd", "", port, path);
}
