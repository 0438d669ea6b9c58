#include "server/http/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The kernel cuts it down to net.core.somaxconn. */
#define BACKLOG 4096

static int try_address(const struct addrinfo *address, bool every, int *fd)
{
    int on = 1, off = 0;
    int made = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (made < 0)
        return -errno;
    /* Without it a restart has to wait for connections of the last run to be forgotten. */
    int code = setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    /* "Every address" means those of IPv4 as well, whatever the machine's default is. */
    if (code == 0 && every && address->ai_family == AF_INET6)
        code = setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (code == 0)
        code = bind(made, address->ai_addr, address->ai_addrlen);
    if (code == 0)
        code = listen(made, BACKLOG);
    if (code != 0) {
        code = -errno;
        close(made);
        return code;
    }
    *fd = made;
    return 0;
}

static const char *advice(int code)
{
    switch (code) {
    case -EADDRINUSE:
        return "another program listens there: stop it, or choose another port";
    case -EACCES:
        return "ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one";
    case -EADDRNOTAVAIL:
        return "this machine has no such address: choose one that it has";
    default:
        return "choose another address";
    }
}

int convoy_listener_open(const char *option, const char *host, uint16_t port, int *fd,
                         struct convoy_error *error)
{
    bool every = host[0] == '\0';
    bool colons = strchr(host, ':') != NULL;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *addresses;
    char service[8];
    int code = -EADDRNOTAVAIL;

    snprintf(service, sizeof service, "%u", (unsigned)port);
    int resolved = getaddrinfo(every ? NULL : host, service, &hints, &addresses);
    if (resolved != 0)
        return convoy_fail(error, -ENOENT,
                           "cannot listen on %s:%u: %s; write an address or a known host name", host,
                           (unsigned)port, gai_strerror(resolved));
    /* For every address the IPv6 socket comes first, as it takes both families. */
    for (int pass = every ? 0 : 1; pass < 2 && code != 0; pass++)
        for (const struct addrinfo *at = addresses; at != NULL && code != 0; at = at->ai_next)
            if (pass == 1 || at->ai_family == AF_INET6)
                code = try_address(at, every, fd);
    freeaddrinfo(addresses);
    if (code != 0)
        return convoy_fail(error, code, "cannot listen on %s%s%s:%u: %s; %s with %s", colons ? "[" : "", host,
                           colons ? "]" : "", (unsigned)port, strerror(-code), advice(code), option);
    return 0;
}

int convoy_listener_adopt(int fd, struct convoy_error *error)
{
    int listening = 0;
    socklen_t size = sizeof listening;

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || !listening)
        return convoy_fail(
            error, -EINVAL,
            "the descriptor handed over by systemd is no listening socket: look at ListenStream in "
            "convoyd.socket, and for Accept=no");
    int protocol = 0, domain = 0, type = 0;
    size = sizeof protocol;
    bool known = getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 &&
                 getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
                 getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
    if (!known || (protocol != IPPROTO_TCP && (domain != AF_UNIX || type != SOCK_STREAM)))
        return convoy_fail(error, -EINVAL,
                           "the socket handed over by systemd is neither TCP nor a stream: ListenStream in "
                           "convoyd.socket must "
                           "name an address and a port, a port, or a path");
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return convoy_fail(error, -errno, "cannot prepare the socket handed over by systemd: %s",
                           strerror(errno));
    return 0;
}

void convoy_listener_host(int fd, char *text, size_t capacity)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;

    int code = getsockname(fd, (struct sockaddr *)&address, &size);
    if (code == 0 && address.ss_family == AF_UNIX) {
        const struct sockaddr_un *local = (const struct sockaddr_un *)&address;
        int length = (int)(size - offsetof(struct sockaddr_un, sun_path));
        bool abstract = length > 0 && local->sun_path[0] == '\0'; /* shown as systemd writes it */
        snprintf(text, capacity, "unix:%s%.*s", abstract ? "@" : "", length - abstract,
                 local->sun_path + abstract);
        return;
    }
    if (code != 0 || getnameinfo((struct sockaddr *)&address, size, text, (socklen_t)capacity, NULL, 0,
                                 NI_NUMERICHOST) != 0)
        snprintf(text, capacity, "?");
}

uint16_t convoy_listener_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;

    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        return 0;
    if (address.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)&address)->sin_port);
    if (address.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&address)->sin6_port);
    return 0;
}
