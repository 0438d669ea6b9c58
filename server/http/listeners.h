/* All sockets that a server listens on: those of the configuration, or those that systemd handed over. */
#ifndef CONVOY_SERVER_LISTENERS_H
#define CONVOY_SERVER_LISTENERS_H

#include "engine/base/error.h"
#include "server/config/listen_address.h"
#include "server/http/unix_listener.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_held_sockets;
struct convoy_http_options;

struct convoy_listeners {
    int fds[CONVOY_LISTEN_MAX];
    const char *paths[CONVOY_LISTEN_MAX]; /* of Unix sockets that were made here; else NULL */
    struct convoy_unix_file files[CONVOY_LISTEN_MAX];
    char *keys[CONVOY_LISTEN_MAX]; /* under which a copy is held; NULL: none is */
    const struct convoy_held_sockets *held;
    uint32_t count;
    bool inherited; /* systemd's: they are left open */
};

/* Opens all, or takes those that are held from a process before; all or none. Errors: those of
 * convoy_listener_open(), convoy_unix_listener_open() and convoy_listener_adopt(). options->config must
 * outlive the listeners. */
int convoy_listeners_open(const struct convoy_http_options *options, struct convoy_listeners *listeners,
                          struct convoy_error *error);

/* The port of the first that is TCP; 0: none is. */
uint16_t convoy_listeners_port(const struct convoy_listeners *listeners);

/* The held copies are closed, so that closing the listeners ends them. */
void convoy_listeners_drop(struct convoy_listeners *listeners);

/* Closes those that were opened here and nothing else: another process goes on with the held copies. */
void convoy_listeners_leave(struct convoy_listeners *listeners);

/* Closes those that were opened here, also their held copies, and removes the files of Unix sockets. A second
 * call does nothing. */
void convoy_listeners_close(struct convoy_listeners *listeners);

#endif
