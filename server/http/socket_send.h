/* Sends on a connection past libmicrohttpd. */
#ifndef CONVOY_SERVER_SOCKET_SEND_H
#define CONVOY_SERVER_SOCKET_SEND_H

#include <stddef.h>
#include <sys/types.h>

struct convoy_connection;
struct convoy_http;

/* As send(2) with MSG_DONTWAIT and MSG_NOSIGNAL; encrypted where the connection is. After EAGAIN the same
 * bytes have to be sent. On the connection's HTTP thread. */
ssize_t convoy_socket_send(const struct convoy_http *http, const struct convoy_connection *connection,
                           const void *bytes, size_t length);

#endif
