/* A listening socket: opened here, or handed over by systemd. */
#ifndef CONVOY_SERVER_LISTENER_H
#define CONVOY_SERVER_LISTENER_H

#include "engine/base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Binds and listens (TCP, close-on-exec, non-blocking, SO_REUSEADDR). host is a name or an address of either
 * family;
 * "" is every address of the machine. Of a name's addresses the first one that can be bound is used. port
 * 0 lets the kernel choose. *fd is the caller's. The sentence names host and port; -EADDRINUSE, -EACCES,
 * -EADDRNOTAVAIL and others of bind(2), -ENOENT for a name that is not known. option: what the user chooses
 * the address with, for the sentence. */
int convoy_listener_open(const char *option, const char *host, uint16_t port, int *fd,
                         struct convoy_error *error);

/* Checks a descriptor that systemd handed over and prepares it alike. It stays the caller's. */
int convoy_listener_adopt(int fd, struct convoy_error *error);

/* The address that fd is bound to, in numbers, or "unix:PATH"; "?" when it cannot be told. */
void convoy_listener_host(int fd, char *text, size_t capacity);

/* The port that fd is bound to; 0 when it is no TCP socket. */
uint16_t convoy_listener_port(int fd);

#endif
