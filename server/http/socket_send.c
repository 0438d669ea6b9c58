#include "server/http/socket_send.h"

#include "server/http/connection_watch.h"
#include "server/http/http_state.h"
#include "server/http/tls_hooks.h"

#include <sys/socket.h>

ssize_t convoy_socket_send(const struct convoy_http *http, const struct convoy_connection *connection,
                           const void *bytes, size_t length)
{
    if (connection->tls != NULL)
        return http->options.tls->send(connection->tls, bytes, length);
    return send(connection->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}
