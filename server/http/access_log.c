#include "server/http/access_log.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/log_limit.h"
#include "server/http/address_text.h"
#include "server/http/client_address.h"
#include "server/http/request.h"
#include "server/http/status.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <string.h>

static _Atomic(enum convoy_access_log) configured;

void convoy_access_log_configure(enum convoy_access_log which)
{
    atomic_store(&configured, which);
}

static const struct sockaddr *client_of(const struct convoy_access *access)
{
    if (access->request != NULL)
        return convoy_client_address(access->request);
    const union MHD_ConnectionInfo *info =
        access->mhd == NULL ? NULL : MHD_get_connection_info(access->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info == NULL ? NULL : info->client_addr;
}

/* A client may make up a method: of those that are not known none is shown. */
static const char *method_of(const struct convoy_request *request)
{
    static const char *const known[] = {"GET",   "HEAD",    "POST",  "PUT",    "DELETE",
                                        "PATCH", "OPTIONS", "TRACE", "CONNECT"};

    if (request == NULL || request->method[0] == '\0')
        return "";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(request->method, known[i]) == 0)
            return known[i];
    return "other";
}

/* False when the log has no room for it. */
static bool write_line(enum convoy_log_level level, const struct convoy_access *access, uint64_t unwritten)
{
    const struct convoy_request *request = access->request;
    const struct convoy_route *route = request == NULL ? NULL : request->route;
    char client[INET6_ADDRSTRLEN];

    convoy_address_text(client_of(access), client);
    return convoy_log_at_once(
        level, (const struct convoy_log_field[]){
                   CONVOY_STR("msg", "request"),
                   CONVOY_STR("request_id", request == NULL ? "" : request->id),
                   CONVOY_STR("client", client),
                   CONVOY_STR("method", method_of(request)),
                   CONVOY_STR("route", route == NULL ? "" : route->template),
                   CONVOY_STR("model", request == NULL ? "" : request->model),
                   CONVOY_INT("status", access->status),
                   CONVOY_UINT("bytes", request == NULL ? 0 : request->received),
                   CONVOY_UINT("sent", access->sent),
                   CONVOY_UINT("total_us", request == NULL ? 0 : convoy_now_us() - request->begun_us),
                   CONVOY_UINT("unwritten", unwritten),
                   {.kind = CONVOY_LOG_FIELD_END}});
}

void convoy_access_log(const struct convoy_access *access)
{
    static struct convoy_log_limit classes[6] /* by the first digit of the status */, failures;
    enum convoy_access_log which = atomic_load_explicit(&configured, memory_order_relaxed);
    bool failure = access->status == CONVOY_HTTP_INTERNAL_SERVER_ERROR;
    struct convoy_log_limit *limit = failure ? &failures : &classes[access->status / 100 % 6];
    enum convoy_log_level level = failure ? CONVOY_LOG_WARNING : CONVOY_LOG_INFO;
    uint64_t unwritten = 0;

    if (which == CONVOY_ACCESS_ALL)
        unwritten = convoy_log_limit_take(limit);
    else if ((which == CONVOY_ACCESS_OFF && !failure) || !convoy_log_limit_pass(limit, &unwritten))
        level = CONVOY_LOG_DEBUG;
    if (!convoy_log_enabled(level))
        return;
    if (!write_line(level, access, unwritten) && level != CONVOY_LOG_DEBUG)
        convoy_log_limit_lost(limit, unwritten + 1);
}
