#include "server/http/listeners.h"

#include "server/config/config.h"
#include "server/http/held_sockets.h"
#include "server/http/http_options.h"
#include "server/http/listener.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Under which key the socket of this address is held. Of the same address twice the first differs from the
 * second. NULL when memory is out. */
static char *key_of(const struct convoy_http_options *options, uint32_t index)
{
    const struct convoy_listen_address *list = options->config->listen.list;
    const char *text = list[index].path != NULL ? list[index].path : list[index].written;
    uint32_t same = 0;
    char *key = NULL;

    for (uint32_t i = 0; i < index; i++)
        same += strcmp(list[i].path != NULL ? list[i].path : list[i].written, text) == 0;
    if (asprintf(&key, "%s %u %s", options->listen_option, same, text) < 0)
        return NULL;
    return key;
}

/* Takes the sockets that are held, and has the others of this server dropped before some are opened: they may
 * have the same ports. */
static void take_held(const struct convoy_http_options *options, struct convoy_listeners *listeners)
{
    char prefix[64];

    for (uint32_t i = 0; i < listeners->count; i++) {
        listeners->keys[i] = key_of(options, i);
        if (listeners->keys[i] == NULL)
            continue;
        listeners->fds[i] = options->held->take(options->held->context, listeners->keys[i]);
        if (listeners->fds[i] < 0 || listeners->paths[i] == NULL ||
            convoy_unix_listener_find(listeners->paths[i], &listeners->files[i]))
            continue;
        close(listeners->fds[i]); /* its file is gone, so that clients would not find it */
        listeners->fds[i] = -1;
    }
    snprintf(prefix, sizeof prefix, "%s ", options->listen_option);
    options->held->drop_rest(options->held->context, prefix);
}

static int open_one(const struct convoy_http_options *options, struct convoy_listeners *listeners,
                    uint32_t index, struct convoy_error *error)
{
    const struct convoy_listen_address *address = &options->config->listen.list[index];
    int *fd = &listeners->fds[index];
    int code =
        address->path != NULL
            ? convoy_unix_listener_open(options->listen_option, address->path, options->config->listen_mode,
                                        fd, &listeners->files[index], error)
            : convoy_listener_open(options->listen_option, address->host, address->port, fd, error);

    if (code != 0)
        *fd = -1;
    else if (options->held != NULL && listeners->keys[index] != NULL)
        options->held->hold(options->held->context, listeners->keys[index], *fd);
    return code;
}

int convoy_listeners_open(const struct convoy_http_options *options, struct convoy_listeners *listeners,
                          struct convoy_error *error)
{
    const struct convoy_listen_addresses *addresses = &options->config->listen;
    int code = 0;

    *listeners = (struct convoy_listeners){0};
    if (options->inherited_count > 0)
        return adopt(options, listeners, error);
    listeners->count = addresses->count;
    listeners->held = options->held;
    for (uint32_t i = 0; i < addresses->count; i++) {
        listeners->fds[i] = -1;
        listeners->paths[i] = addresses->list[i].path;
    }
    if (options->held != NULL)
        take_held(options, listeners);
    for (uint32_t i = 0; i < addresses->count && code == 0; i++)
        if (listeners->fds[i] < 0)
            code = open_one(options, listeners, i, error);
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

void convoy_listeners_drop(struct convoy_listeners *listeners)
{
    for (uint32_t i = 0; i < listeners->count; i++) {
        if (listeners->keys[i] == NULL)
            continue;
        listeners->held->drop(listeners->held->context, listeners->keys[i]);
        free(listeners->keys[i]);
        listeners->keys[i] = NULL;
    }
}

void convoy_listeners_leave(struct convoy_listeners *listeners)
{
    for (uint32_t i = 0; i < listeners->count; i++) {
        free(listeners->keys[i]);
        listeners->keys[i] = NULL;
        listeners->paths[i] = NULL; /* the file stays */
    }
    convoy_listeners_close(listeners);
}

void convoy_listeners_close(struct convoy_listeners *listeners)
{
    convoy_listeners_drop(listeners);
    for (uint32_t i = 0; i < listeners->count && !listeners->inherited; i++) {
        if (listeners->fds[i] < 0)
            continue;
        if (listeners->paths[i] != NULL)
            convoy_unix_listener_remove(listeners->paths[i], &listeners->files[i]);
        close(listeners->fds[i]);
    }
    listeners->count = 0;
}
