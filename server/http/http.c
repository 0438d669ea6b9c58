#include "server/http/http.h"

#include "engine/base/clock.h"
#include "engine/base/cores.h"
#include "engine/base/log.h"
#include "server/config/config.h"
#include "server/http/acceptor.h"
#include "server/http/connection_watch.h"
#include "server/http/http_state.h"
#include "server/http/linger.h"
#include "server/http/listener.h"
#include "server/http/request.h"
#include "server/http/response.h"
#include "server/http/route.h"
#include "server/http/suspension.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* libmicrohttpd's memory of a connection holds the header, its table of it, and the answer's header. */
#define HEADER_OVERHEAD 4096

static struct convoy_connection *record_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info == NULL ? NULL : info->socket_context;
}

/* A connection is opened, or is about to be closed: its descriptor is still open then. */
static void on_connection(void *context, struct MHD_Connection *mhd, void **record,
                          enum MHD_ConnectionNotificationCode what)
{
    struct convoy_http *http = context;
    struct convoy_connection *connection = *record;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        *record = info == NULL ? NULL : convoy_connection_watch_add(http->watch, info->connect_fd);
        return;
    }
    if (connection != NULL && connection->body_unread)
        convoy_linger_take(http->linger, connection->fd);
    convoy_connection_watch_remove(http->watch, connection);
    *record = NULL;
    convoy_acceptor_closed(http->acceptor);
}

/* The first line is complete: the request begins. What is returned becomes *context of on_access(). */
static void *on_target(void *context, const char *target, struct MHD_Connection *mhd)
{
    struct convoy_http *http = context;
    struct convoy_request *request = convoy_request_new(http, mhd, target);

    if (request == NULL)
        return NULL;
    request->connection = record_of(mhd);
    convoy_connection_receives(request->connection, request->begun_us);
    atomic_fetch_add_explicit(&http->open_requests, 1, memory_order_relaxed);
    return request;
}

/* The answer is out, or the client is gone: the request ends, whichever way. */
static void on_completed(void *context, struct MHD_Connection *mhd, void **request_context,
                         enum MHD_RequestTerminationCode why)
{
    struct convoy_http *http = context;
    struct convoy_request *request = *request_context;

    (void)mhd;
    (void)why;
    if (request == NULL)
        return;
    *request_context = NULL;
    convoy_connection_rests(request->connection);
    http->options.release(request);
    convoy_request_free(request);
    atomic_fetch_sub_explicit(&http->open_requests, 1, memory_order_relaxed);
}

static enum MHD_Result result(bool ok)
{
    return ok ? MHD_YES : MHD_NO;
}

/* The headers are complete. An answer from here closes the connection, whatever it says, so all answers that
 * can wait for the end of the body do. */
static enum MHD_Result on_headers(struct convoy_request *request, const char *method)
{
    bool at_once;

    convoy_request_headers(request, method, &at_once);
    if (!at_once)
        return MHD_YES;
    if (request->connection != NULL)
        request->connection->body_unread = true;
    return result(convoy_respond_refusal(request, CONVOY_RETRY_SOON));
}

/* libmicrohttpd's access handler: once for the headers, then for each piece of the body, at its end, and
 * again after each resumption. */
static enum MHD_Result on_access(void *context, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data, size_t *data_size,
                                 void **request_context)
{
    struct convoy_request *request = *request_context;

    (void)context;
    (void)mhd;
    (void)url;
    (void)version;
    if (request == NULL)
        return MHD_NO; /* memory was out when it began */
    if (!request->seen)
        return on_headers(request, method);
    if (*data_size > 0) {
        size_t size = *data_size;
        *data_size = 0;
        return result(convoy_request_body(request, data, size));
    }
    if (request->complete_us == 0) {
        request->complete_us = convoy_now_us();
        convoy_connection_works(request->connection);
    }
    return result(request->refusal != 0 ? convoy_respond_refusal(request, CONVOY_RETRY_SOON)
                                        : request->route->handle(request));
}

static void on_library_log(void *context, const char *format, va_list arguments)
{
    char line[256];

    (void)context;
    if (!convoy_log_enabled(CONVOY_LOG_DEBUG))
        return;
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\r\n")] = '\0';
    convoy_log(CONVOY_LOG_DEBUG, "libmicrohttpd", CONVOY_STR("says", line));
}

static bool on_accepted(void *context, int fd, const struct sockaddr *address, socklen_t size)
{
    struct convoy_http *http = context;

    return MHD_add_connection(http->daemon, fd, address, size) == MHD_YES;
}

/* Each connection takes a descriptor; a shell gives 1024. */
static void raise_descriptor_limit(uint32_t connections)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < connections)
        convoy_log(CONVOY_LOG_INFO, "fewer descriptors than http.connections: raise LimitNOFILE or ulimit -n",
                   CONVOY_UINT("descriptors", limit.rlim_cur), CONVOY_UINT("connections", connections));
}

static int open_listener(struct convoy_http *http, struct convoy_error *error)
{
    const struct convoy_config *config = http->options.config;
    int inherited_fd = http->options.inherited_fd;
    int code;

    if (inherited_fd >= 0) {
        http->inherited = true;
        http->listener = inherited_fd;
        code = convoy_listener_adopt(inherited_fd, error);
    } else {
        code = convoy_listener_open(config->listen_host, config->listen_port, &http->listener, error);
    }
    if (code == 0)
        http->port = convoy_listener_port(http->listener);
    return code;
}

static int start_library(struct convoy_http *http, struct convoy_error *error)
{
    const struct convoy_config *config = http->options.config;
    uint32_t threads = config->http.threads > 0 ? config->http.threads : convoy_cores();
    /* libmicrohttpd takes whole seconds; at least one. */
    unsigned idle_s = (config->http.idle_timeout_ms + 999) / 1000;
    /* The acceptor keeps the limit; the library divides its own among its threads, which may be filled
     * unevenly. */
    unsigned connections = config->http.connections * 2 + threads * 64;
    struct MHD_OptionItem pool[] = {{MHD_OPTION_THREAD_POOL_SIZE, threads, NULL}, {MHD_OPTION_END, 0, NULL}};

    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET |
            MHD_USE_ERROR_LOG,
        0, NULL, NULL, on_access, http, MHD_OPTION_EXTERNAL_LOGGER, on_library_log, http,
        MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT, idle_s,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)config->http.max_header_bytes + HEADER_OVERHEAD,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
        MHD_OPTION_URI_LOG_CALLBACK, on_target, http, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
        threads > 1 ? pool : pool + 1, MHD_OPTION_END);
    if (http->daemon == NULL)
        return convoy_fail(error, -EINVAL,
                           "libmicrohttpd does not start (%s): look at the http section of the configuration",
                           strerror(errno));
    return 0;
}

/* The reverse of starting, as far as that came. */
static void tear_down(struct convoy_http *http)
{
    if (http->acceptor != NULL)
        convoy_acceptor_stop(http->acceptor);
    if (http->daemon != NULL) {
        convoy_resume_all(http);
        MHD_stop_daemon(http->daemon);
    }
    if (http->acceptor != NULL)
        convoy_acceptor_free(http->acceptor);
    convoy_linger_free(http->linger);
    if (http->watch != NULL)
        convoy_connection_watch_free(http->watch);
    if (http->listener >= 0 && !http->inherited)
        close(http->listener);
    pthread_cond_destroy(&http->none_suspended);
    pthread_mutex_destroy(&http->suspended_lock);
    free(http);
}

int convoy_http_accept(struct convoy_http *http, struct convoy_error *error)
{
    /* An inherited socket's waiting connections are left to the next instance. */
    const struct convoy_acceptor_options options = {.fd = http->listener,
                                                    .drain = !http->inherited,
                                                    .limit = http->options.config->http.connections,
                                                    .take = on_accepted,
                                                    .context = http};

    return convoy_acceptor_start(&options, &http->acceptor, error);
}

int convoy_http_start(const struct convoy_http_options *options, struct convoy_http **result,
                      struct convoy_error *error)
{
    struct convoy_http *http = calloc(1, sizeof *http);

    if (http == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the HTTP side");
    http->options = *options;
    http->listener = -1;
    convoy_list_init(&http->suspended);
    pthread_mutex_init(&http->suspended_lock, NULL);
    pthread_cond_init(&http->none_suspended, NULL);
    raise_descriptor_limit(options->config->http.connections);

    int code = open_listener(http, error);
    if (code == 0)
        code = convoy_connection_watch_start((uint64_t)options->config->http.request_timeout_ms * 1000,
                                             &http->watch, error);
    if (code == 0)
        code = convoy_linger_start(&http->linger, error);
    if (code == 0)
        code = start_library(http, error);
    if (code == 0 && !http->inherited)
        code = convoy_http_accept(http, error);
    if (code != 0) {
        tear_down(http);
        return code;
    }
    *result = http;
    return 0;
}

uint16_t convoy_http_port(const struct convoy_http *http)
{
    return http->port;
}

void convoy_http_close_listener(struct convoy_http *http)
{
    atomic_store(&http->closing, true);
    if (http->acceptor != NULL)
        convoy_acceptor_stop(http->acceptor);
    if (http->listener >= 0 && !http->inherited)
        close(http->listener);
    http->listener = -1;
}

uint64_t convoy_http_open_requests(const struct convoy_http *http)
{
    return atomic_load_explicit(&http->open_requests, memory_order_relaxed);
}

uint32_t convoy_http_open_connections(const struct convoy_http *http)
{
    return http->acceptor != NULL ? convoy_acceptor_open(http->acceptor) : 0;
}

void convoy_http_stop(struct convoy_http *http)
{
    atomic_store(&http->closing, true);
    pthread_mutex_lock(&http->suspended_lock); /* a suspension is complete before this, or refused after */
    atomic_store(&http->stopping, true);
    pthread_mutex_unlock(&http->suspended_lock);
    if (http->acceptor != NULL)
        convoy_acceptor_stop(http->acceptor);
    http->options.end_work(http->options.app);
    tear_down(http);
}
