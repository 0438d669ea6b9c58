#include "server/http/client_address.h"

#include "server/config/config.h"
#include "server/http/http_state.h"
#include "server/http/request.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>

static const struct sockaddr *peer(const struct convoy_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info == NULL ? NULL : info->client_addr;
}

const struct sockaddr *convoy_client_address(const struct convoy_request *request)
{
    const struct sockaddr *forwarded = &request->forwarded.client.any;

    return forwarded->sa_family != AF_UNSPEC ? forwarded : peer(request);
}

static enum MHD_Result read_line(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    static const char *const names[] = {
        [CONVOY_X_FORWARDED_FOR] = "X-Forwarded-For", [CONVOY_FORWARDED] = MHD_HTTP_HEADER_FORWARDED};
    struct convoy_request *request = context;
    const struct convoy_proxy_config *proxy = &request->http->options.config->http.proxy;

    (void)kind;
    if (value != NULL && strcasecmp(name, names[proxy->header]) == 0)
        convoy_forwarded_line(&request->forwarded, proxy, value, strlen(value));
    return MHD_YES;
}

void convoy_client_address_read(struct convoy_request *request)
{
    const struct convoy_proxy_config *proxy = &request->http->options.config->http.proxy;

    if (proxy->header != CONVOY_PROXY_PROTOCOL && (proxy->count > 0 || proxy->local) &&
        convoy_proxy_trusted(proxy, peer(request)))
        MHD_get_connection_values(request->mhd, MHD_HEADER_KIND, read_line, request);
}
