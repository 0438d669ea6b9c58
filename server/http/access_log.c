#include "server/http/access_log.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/log_limit.h"
#include "server/http/address_text.h"
#include "server/http/request.h"

#include <microhttpd.h>
#include <stdatomic.h>

static _Atomic(enum convoy_access_log) configured;

void convoy_access_log_configure(enum convoy_access_log which)
{
    atomic_store(&configured, which);
}

static const struct sockaddr *client_of(const struct convoy_access *access)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(access->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info == NULL ? NULL : info->client_addr;
}

static void write_line(enum convoy_log_level level, const struct convoy_access *access, uint64_t unwritten)
{
    const struct convoy_request *request = access->request;
    const struct convoy_route *route = request == NULL ? NULL : request->route;
    char client[INET6_ADDRSTRLEN];

    if (!convoy_log_enabled(level))
        return;
    convoy_address_text(client_of(access), client);
    convoy_log(
        level, "request", CONVOY_STR("request_id", request == NULL ? "" : request->id),
        CONVOY_STR("client", client), CONVOY_STR("method", request == NULL ? "" : request->method),
        CONVOY_STR("route", route == NULL ? "" : route->template),
        CONVOY_STR("model", request == NULL ? "" : request->model), CONVOY_INT("status", access->status),
        CONVOY_UINT("bytes", request == NULL ? 0 : request->received), CONVOY_UINT("sent", access->sent),
        CONVOY_UINT("total_us", request == NULL ? 0 : convoy_now_us() - request->begun_us),
        CONVOY_UINT("unwritten", unwritten));
}

void convoy_access_log(const struct convoy_access *access)
{
    static struct convoy_log_limit limits[6]; /* by the first digit of the status */
    enum convoy_access_log which = atomic_load_explicit(&configured, memory_order_relaxed);
    enum convoy_log_level level =
        access->status == MHD_HTTP_INTERNAL_SERVER_ERROR ? CONVOY_LOG_WARNING : CONVOY_LOG_DEBUG;
    uint64_t unwritten = 0;

    if (level == CONVOY_LOG_DEBUG && (which == CONVOY_ACCESS_ALL ||
                                      (which == CONVOY_ACCESS_SAMPLED &&
                                       convoy_log_limit_pass(&limits[access->status / 100 % 6], &unwritten))))
        level = CONVOY_LOG_INFO;
    write_line(level, access, unwritten);
}
