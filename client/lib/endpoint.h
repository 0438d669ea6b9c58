/* Where a URL leads: a host, or a Unix socket. */
#ifndef CONVOY_CLIENT_ENDPOINT_H
#define CONVOY_CLIENT_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#define CLIENT_SOCKET_BYTES 108 /* the most that a path of a Unix socket has, with its NUL (unix(7)) */

/* The path behind "unix:", NULL where url is another one. */
const char *client_endpoint_unix(const char *url);

/* host as a URL has it: localhost, 127.x.x.x, [::1]. */
bool client_endpoint_is_loopback(const char *host);

/* Finds the admin socket of the convoyd of this machine that listens on port: in $XDG_RUNTIME_DIR/convoyd,
 * else in /run/convoyd. False where there is none that this user may use. Not thread-safe beside setenv(). */
bool client_endpoint_admin(unsigned port, char path[CLIENT_SOCKET_BYTES]);

#endif
