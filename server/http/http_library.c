#include "server/http/http_library.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/config/config.h"
#include "server/http/acceptor.h"
#include "server/http/access_log.h"
#include "server/http/address_counts.h"
#include "server/http/client_address.h"
#include "server/http/connection_watch.h"
#include "server/http/early_answer.h"
#include "server/http/http_state.h"
#include "server/http/http_thread.h"
#include "server/http/linger.h"
#include "server/http/request.h"
#include "server/http/response.h"
#include "server/http/route.h"
#include "server/http/socket_send.h"
#include "server/http/status.h"
#include "server/http/tls_hooks.h"
#include "server/metrics/metrics.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* libmicrohttpd's memory of a connection holds the header, its table of it, and the answer's header. */
#define HEADER_OVERHEAD 4096

static struct convoy_connection *record_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info == NULL ? NULL : info->socket_context;
}

/* The status under which a request counts that ends without an answer of this server's; 0: it does not. */
static int status_of_end(const struct convoy_request *request, enum MHD_RequestTerminationCode why)
{
    int cut = atomic_load_explicit(&request->connection->cut_status, memory_order_relaxed);

    if (request->complete_us != 0)
        return CONVOY_HTTP_CLIENT_GONE; /* it left while it waited, and the library did not ask for an answer
                                         */
    if (!request->seen) /* a header that the library refuses looks like one that its client did not end */
        return cut == CONVOY_HTTP_CLIENT_GONE ? 0 : cut;
    if (cut != 0)
        return cut;
    if (request->refusal != 0)
        return request->refusal; /* for which the client did not wait, or did not stop sending */
    if (why == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED)
        return CONVOY_HTTP_REQUEST_TIMEOUT;
    /* In the middle of a body the library refuses a chunk that is none. */
    return why == MHD_REQUEST_TERMINATED_WITH_ERROR ? CONVOY_HTTP_BAD_REQUEST : CONVOY_HTTP_CLIENT_GONE;
}

/* Ends the request that the connection is at, if there is one. */
static void end_request(struct convoy_http *http, struct convoy_connection *connection,
                        enum MHD_RequestTerminationCode why)
{
    struct convoy_request *request = connection->request;

    if (request == NULL)
        return;
    connection->request = NULL;
    connection->cut_off = request->seen && !request->answered;
    convoy_connection_rests(connection);
    int status = request->answered ? 0 : status_of_end(request, why);
    if (status != 0 && !atomic_load_explicit(&http->stopping, memory_order_relaxed))
        convoy_answer_count(http, &(struct convoy_access){request->mhd, request, status, 0});
    http->options.release(request);
    if (http->options.leave != NULL)
        http->options.leave(request);
    convoy_part_count_add(request->complete_us != 0 ? &http->open_requests : &http->receiving, UINT64_MAX);
    convoy_request_free(request);
}

/* libmicrohttpd 0.9.75 has room for some 300 query arguments beside a header of 16 KiB, and does not answer a
 * client that sends more, nor one whose target fills its memory. No request here has more than a few
 * arguments. (What else does not fit, headers and cookies, it answers itself: 431.) */
#define MOST_ARGUMENTS 64

static bool too_many_arguments(const char *target)
{
    unsigned count = 0;

    for (const char *at = strchr(target, '?'); at != NULL && count <= MOST_ARGUMENTS;
         at = strchr(at + 1, '&'))
        count++;
    return count > MOST_ARGUMENTS;
}

/* The connection is then closed; linger takes its unread bytes. */
static void answer_early(struct convoy_http *http, struct MHD_Connection *mhd,
                         struct convoy_connection *connection, const char *sentence)
{
    uint64_t sent = convoy_early_answer(http, connection, sentence);
    connection->body_unread = true;
    convoy_answer_count(http, &(struct convoy_access){mhd, NULL, CONVOY_HTTP_URI_TOO_LONG, sent});
}

/* Over a Unix socket, which is plain. */
static bool is_local(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info != NULL && info->client_addr != NULL && info->client_addr->sa_family == AF_UNIX;
}

static void begin_tls(const struct convoy_tls_hooks *tls, struct MHD_Connection *mhd,
                      struct convoy_connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    connection->tls = info == NULL ? NULL : tls->open(tls->context, info->tls_session, connection);
    if (connection->tls == NULL)
        shutdown(connection->fd, SHUT_RDWR);
}

/* May closing the connection reset it, and with it answers that the client has not read yet? The library
 * refuses what is not HTTP without reading what stands behind it. */
static bool lingers(const struct convoy_connection *connection)
{
    int waiting = 0;

    return connection->body_unread ||
           (!connection->cut_off && ioctl(connection->fd, FIONREAD, &waiting) == 0 && waiting > 0);
}

/* A connection is opened, or is about to be closed: its descriptor is still open then. */
static void on_connection(void *context, struct MHD_Connection *mhd, void **record,
                          enum MHD_ConnectionNotificationCode what)
{
    struct convoy_http_thread *thread = context;
    struct convoy_http *http = thread->http;
    struct convoy_connection *connection = *record;

    thread->closed += what == MHD_CONNECTION_NOTIFY_CLOSED;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        *record = info == NULL ? NULL : convoy_connection_watch_add(http->watch, info->connect_fd);
        if (http->options.tls != NULL && *record != NULL && !is_local(mhd))
            begin_tls(http->options.tls, mhd, *record);
        convoy_metrics_connections_add(http->options.metrics, 1);
        return;
    }
    if (connection != NULL) {
        /* The library tells of the end of a request only when it called on_access() for it, which it does not
         * when the headers are too large. */
        end_request(http, connection, MHD_REQUEST_TERMINATED_CLIENT_ABORT);
        if (lingers(connection))
            convoy_linger_take(http->linger, connection->fd);
        struct convoy_tls_connection *tls = connection->tls;
        if (tls != NULL)
            http->options.tls->close(tls);
        convoy_connection_watch_remove(http->watch, connection);
    }
    *record = NULL;
    const union MHD_ConnectionInfo *client = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (client != NULL)
        convoy_address_counts_give(http->clients, client->client_addr);
    convoy_metrics_connections_add(http->options.metrics, -1);
    atomic_fetch_sub_explicit(&thread->connections, 1, memory_order_relaxed);
    convoy_acceptor_closed(http->acceptor);
}

/* The first line is complete: the request begins. What is returned becomes *context of on_access(). */
static void *on_target(void *context, const char *target, struct MHD_Connection *mhd)
{
    struct convoy_http_thread *thread = context;
    struct convoy_http *http = thread->http;
    struct convoy_connection *connection = record_of(mhd);

    if (connection == NULL)
        return NULL; /* memory was out when it was opened */
    end_request(http, connection, MHD_REQUEST_TERMINATED_CLIENT_ABORT);
    const char *why = NULL;
    if (too_many_arguments(target))
        why = "the query has more than 64 arguments: those that are known are few";
    else if (strlen(target) > http->options.config->http.max_header_bytes)
        why = "the path and the query are longer than http.max_header_bytes: send less in them";
    if (why != NULL) {
        answer_early(http, mhd, connection, why);
        shutdown(connection->fd,
                 SHUT_RDWR); /* the library sees the end, adds no answer of its own, and closes */
        return NULL;
    }
    struct convoy_request *request = convoy_request_new(http, thread, mhd, target);
    if (request == NULL)
        return NULL;
    request->connection = connection;
    connection->request = request;
    convoy_connection_receives(connection, request->begun_us);
    convoy_part_count_add(&http->receiving, 1);
    return request;
}

/* The answer is out, or the client is gone: the request ends, either way. */
static void on_completed(void *context, struct MHD_Connection *mhd, void **request_context,
                         enum MHD_RequestTerminationCode why)
{
    const struct convoy_http_thread *thread = context;
    const struct convoy_request *request = *request_context;

    (void)mhd;
    *request_context = NULL;
    if (request != NULL)
        end_request(thread->http, request->connection, why);
}

static enum MHD_Result result(bool ok)
{
    return ok ? MHD_YES : MHD_NO;
}

/* The headers are complete. An answer from here closes the connection, whatever it says, so all answers that
 * can wait for the end of the body do. */
static enum MHD_Result on_headers(struct convoy_request *request, const char *method, const char *version)
{
    bool at_once;

    convoy_client_address_read(request); /* the gate's limits are for the client, not for its proxy */
    convoy_request_headers(request, method, version, &at_once);
    if (!at_once)
        return MHD_YES;
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

    (void)url;
    convoy_http_thread_awake(context);
    if (request == NULL)
        return MHD_NO;        /* memory was out when it began */
    if (request->half_closed) /* it was answered past the library */
        return MHD_NO;
    if (!request->seen)
        return on_headers(request, method, version);
    if (*data_size > 0) {
        size_t size = *data_size;
        *data_size = 0;
        if (atomic_load_explicit(&request->http->closing, memory_order_relaxed))
            atomic_store_explicit(&request->http->received_us, convoy_now_us(), memory_order_relaxed);
        if (convoy_request_body(request, data, size))
            return MHD_YES;
        if (request->refusal == 0) /* memory is out */
            (void)convoy_request_refuse(request, CONVOY_HTTP_INTERNAL_SERVER_ERROR);
        return MHD_NO;
    }
    if (request->complete_us == 0) {
        request->complete_us = convoy_now_us();
        /* A line that begins with a colon ends a trailer for the library, too (request.c), and nothing shows
         * where: what follows is then not taken for a request. */
        request->trailed = MHD_get_connection_values(mhd, MHD_FOOTER_KIND, NULL, NULL) > 0;
        convoy_part_count_add(&request->http->open_requests, 1);
        convoy_part_count_add(&request->http->receiving, UINT64_MAX);
        convoy_connection_works(request->connection);
    }
    return result(convoy_answer(request));
}

/* libmicrohttpd 0.9.75 answers some requests by itself, before they are one here, and says so in its log
 * alone: those are counted without a client. One that is 400 may be counted as a request already, in
 * mid-body. */
static void count_refusal(struct convoy_http *http, const char *format, va_list arguments)
{
    static const char refusal[] = "Error processing request (HTTP response code is %u";

    if (strncmp(format, refusal, sizeof refusal - 1) != 0)
        return;
    int status = (int)va_arg(arguments, unsigned);
    if (status != CONVOY_HTTP_BAD_REQUEST)
        convoy_answer_count(http, &(struct convoy_access){NULL, NULL, status, 0});
}

/* libmicrohttpd 0.9.75 says of a handshake that failed this alone. */
static bool is_failed_handshake(const char *format)
{
    static const char failed[] = "Error: received handshake message out of context";

    return strncmp(format, failed, sizeof failed - 1) == 0;
}

static void on_library_log(void *context, const char *format, va_list arguments)
{
    const struct convoy_http_thread *thread = context;
    char line[256];
    va_list copy;

    va_copy(copy, arguments);
    count_refusal(thread->http, format, copy);
    va_end(copy);
    if (thread->http->options.tls != NULL && is_failed_handshake(format)) {
        thread->http->options.tls->failed();
        return;
    }
    if (!convoy_log_enabled(CONVOY_LOG_DEBUG))
        return;
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\r\n")] = '\0';
    convoy_log(CONVOY_LOG_DEBUG, "libmicrohttpd", CONVOY_STR("says", line));
}

/* tls: NULL where its connections are plain. */
static int open_instance(struct convoy_http_thread *thread, const struct convoy_tls_hooks *tls,
                         struct MHD_Daemon **daemon, int *fd, struct convoy_error *error)
{
    const struct convoy_config *config = thread->http->options.config;
    /* libmicrohttpd takes whole seconds; at least one. */
    unsigned idle_s = (config->http.idle_timeout_ms + 999) / 1000;
    /* The acceptor keeps the limit of all threads together. Not strict: libmicrohttpd 0.9.75 sends the header
     * of its own answer to a request without Host twice, so that is refused in request.c. */
    /* Where there is no TLS the list of options for it is empty. */
    const struct MHD_OptionItem of_tls[] = {{tls != NULL ? MHD_OPTION_HTTPS_CERT_CALLBACK : MHD_OPTION_END, 0,
                                             tls != NULL ? (void *)tls->no_certificate : NULL},
                                            {MHD_OPTION_END, 0, NULL}};
    *daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG |
            (tls != NULL ? MHD_USE_TLS : 0),
        0, NULL, NULL, on_access, thread, MHD_OPTION_EXTERNAL_LOGGER, on_library_log, thread,
        MHD_OPTION_ARRAY, of_tls, MHD_OPTION_CONNECTION_LIMIT, (unsigned)config->http.connections + 64,
        MHD_OPTION_CONNECTION_TIMEOUT, idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)config->http.max_header_bytes + HEADER_OVERHEAD, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        thread, MHD_OPTION_NOTIFY_COMPLETED, on_completed, thread, MHD_OPTION_URI_LOG_CALLBACK, on_target,
        thread, MHD_OPTION_STRICT_FOR_CLIENT, 0, MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        *daemon != NULL ? MHD_get_daemon_info(*daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (info == NULL)
        return convoy_fail(error, -EINVAL,
                           "libmicrohttpd does not start (%s): look at the http section of the configuration",
                           strerror(errno));
    *fd = info->epoll_fd;
    return 0;
}

int convoy_http_library_open(struct convoy_http_thread *thread, struct convoy_error *error)
{
    const struct convoy_tls_hooks *tls = thread->http->options.tls;
    int code = open_instance(thread, tls, &thread->daemon, &thread->library_fd, error);

    if (code == 0 && tls != NULL)
        code = open_instance(thread, NULL, &thread->local_daemon, &thread->local_fd, error);
    return code;
}
