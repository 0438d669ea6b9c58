#include "server/http/local_client.h"

#include "server/config/config.h"
#include "server/http/http_state.h"
#include "server/http/loopback.h"
#include "server/http/request.h"

#include <microhttpd.h>
#include <sys/socket.h>

bool convoy_client_is_direct(const struct convoy_request *request)
{
    static const char *const forwarding[] = {"X-Forwarded-For", MHD_HTTP_HEADER_FORWARDED,
                                             MHD_HTTP_HEADER_VIA, "X-Real-IP"};
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    if (info == NULL || info->client_addr == NULL ||
        (info->client_addr->sa_family != AF_UNIX && !convoy_loopback(info->client_addr)) ||
        convoy_proxy_trusted(&request->http->options.config->http.proxy, info->client_addr))
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
