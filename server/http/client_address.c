#include "server/http/client_address.h"

#include "server/http/request.h"

#include <microhttpd.h>

const struct sockaddr *convoy_client_address(const struct convoy_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info == NULL ? NULL : info->client_addr;
}
