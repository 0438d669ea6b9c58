#include "server/http/local_client.h"

#include "server/http/loopback.h"
#include "server/http/request.h"

#include <microhttpd.h>

bool convoy_client_is_local(const struct convoy_request *request)
{
    static const char *const foreign[] = {MHD_HTTP_HEADER_ORIGIN, "X-Forwarded-For",
                                          MHD_HTTP_HEADER_FORWARDED, MHD_HTTP_HEADER_VIA, "X-Real-IP"};
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    if (info == NULL || !convoy_loopback(info->client_addr))
        return false;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (convoy_request_header(request, foreign[i]) != NULL)
            return false;
    return true;
}
