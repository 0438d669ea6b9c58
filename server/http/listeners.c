#include "server/http/listeners.h"

#include "server/config/config.h"
#include "server/http/http_options.h"
#include "server/http/listener.h"

#include <unistd.h>

static int adopt(const struct convoy_http_options *options, struct convoy_listeners *listeners,
                 struct convoy_error *error)
{
    int code = 0;

    listeners->inherited = true;
    for (uint32_t i = 0; i < options->inherited_count && code == 0; i++) {
        int fd = options->inherited_fd + (int)i;
        code = convoy_listener_adopt(fd, error);
        listeners->fds[listeners->count++] = fd;
    }
    return code;
}

int convoy_listeners_open(const struct convoy_http_options *options, struct convoy_listeners *listeners,
                          struct convoy_error *error)
{
    const struct convoy_config *config = options->config;
    int code = 0;

    *listeners = (struct convoy_listeners){0};
    if (options->inherited_count > 0)
        return adopt(options, listeners, error);
    for (uint32_t i = 0; i < config->listen.count && code == 0; i++) {
        const struct convoy_listen_address *address = &config->listen.list[i];
        int *fd = &listeners->fds[i];
        code = address->path != NULL
                   ? convoy_unix_listener_open(options->listen_option, address->path, config->listen_mode, fd,
                                               &listeners->files[i], error)
                   : convoy_listener_open(options->listen_option, address->host, address->port, fd, error);
        if (code != 0)
            break;
        listeners->paths[i] = address->path;
        listeners->count++;
    }
    if (code != 0)
        convoy_listeners_close(listeners);
    return code;
}

uint16_t convoy_listeners_port(const struct convoy_listeners *listeners)
{
    uint16_t port = 0;

    for (uint32_t i = 0; i < listeners->count && port == 0; i++)
        port = convoy_listener_port(listeners->fds[i]);
    return port;
}

void convoy_listeners_close(struct convoy_listeners *listeners)
{
    for (uint32_t i = 0; i < listeners->count && !listeners->inherited; i++) {
        if (listeners->paths[i] != NULL)
            convoy_unix_listener_remove(listeners->paths[i], &listeners->files[i]);
        close(listeners->fds[i]);
    }
    listeners->count = 0;
}
