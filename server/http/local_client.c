#include "server/http/local_client.h"

#include "server/config/config.h"
#include "server/http/connection_watch.h"
#include "server/http/http_state.h"
#include "server/http/loopback.h"
#include "server/http/request.h"

#include <microhttpd.h>
#include <sys/socket.h>

bool convoy_client_is_direct(const struct convoy_request *request)
{
    static const char *const forwarding[] = {"X-Forwarded-For", MHD_HTTP_HEADER_FORWARDED,
                                             MHD_HTTP_HEADER_VIA, "X-Real-IP"};
    /* The connection's own end: the library knows the address that a PROXY header claims, and that may be a
     * loopback address of the proxy's machine. */
    struct sockaddr_storage storage = {.ss_family = AF_UNSPEC};
    const struct sockaddr *peer = (const struct sockaddr *)&storage;
    socklen_t size = sizeof storage;

    if (getpeername(request->connection->fd, (struct sockaddr *)&storage, &size) != 0 ||
        (peer->sa_family != AF_UNIX && !convoy_loopback(peer)) ||
        convoy_proxy_trusted(&request->http->options.config->http.proxy, peer))
        return false;
    for (size_t i = 0; i < sizeof forwarding / sizeof forwarding[0]; i++)
        if (convoy_request_header(request, forwarding[i]) != NULL)
            return false;
    return true;
}

bool convoy_client_is_local(const struct convoy_request *request)
{
    return convoy_client_is_direct(request) && convoy_request_header(request, MHD_HTTP_HEADER_ORIGIN) == NULL;
}
