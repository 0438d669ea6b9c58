#include "server/http/http.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/log_limit.h"
#include "server/config/config.h"
#include "server/http/acceptor.h"
#include "server/http/address_counts.h"
#include "server/http/address_text.h"
#include "server/http/connection_watch.h"
#include "server/http/http_library.h"
#include "server/http/http_state.h"
#include "server/http/http_thread.h"
#include "server/http/linger.h"
#include "server/http/listener.h"
#include "server/http/proxy_wait.h"
#include "server/metrics/metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* See convoy_http_busy(). */
#define QUIET_US 1000000u
#define REST_US  5000000u

/* Takes over fd. */
static bool serve(void *context, int fd, const struct sockaddr *address, socklen_t size)
{
    struct convoy_http *http = context;

    if (!convoy_address_counts_take(http->clients, address)) {
        static struct convoy_log_limit limit;
        char client[INET6_ADDRSTRLEN];
        uint64_t unwritten;
        close(fd);
        convoy_metrics_connection_refused(http->options.metrics);
        convoy_address_text(address, client);
        if (convoy_log_limit_pass(&limit, &unwritten))
            convoy_log(CONVOY_LOG_WARNING, "a client has too many connections",
                       CONVOY_UINT("connections", http->client_limit), CONVOY_STR("client", client),
                       CONVOY_UINT("unwritten", unwritten));
        return false;
    }
    if (convoy_http_threads_take(http, fd, address, size))
        return true;
    convoy_address_counts_give(http->clients, address);
    convoy_acceptor_log_lost();
    return false;
}

static bool on_accepted(void *context, int fd, const struct sockaddr *address, socklen_t size)
{
    struct convoy_http *http = context;

    if (http->proxies == NULL || !convoy_proxy_trusted(&http->options.config->http.proxy, address))
        return serve(http, fd, address, size);
    if (convoy_proxy_wait_take(http->proxies, fd, address, size))
        return true;
    convoy_acceptor_log_lost();
    return false;
}

static void on_proxy_ready(void *context, int fd, const struct sockaddr *address, socklen_t size)
{
    struct convoy_http *http = context;

    if (!serve(http, fd, address, size))
        convoy_acceptor_closed(http->acceptor);
}

static void on_proxy_lost(void *context)
{
    const struct convoy_http *http = context;

    convoy_acceptor_closed(http->acceptor);
}

static int start_proxies(struct convoy_http *http, struct convoy_error *error)
{
    const struct convoy_config *config = http->options.config;
    const struct convoy_proxy_wait_options options = {.timeout_us =
                                                          (uint64_t)config->http.request_timeout_ms * 1000,
                                                      .ready = on_proxy_ready,
                                                      .lost = on_proxy_lost,
                                                      .context = http};

    return config->http.proxy.header == CONVOY_PROXY_PROTOCOL
               ? convoy_proxy_wait_start(&options, &http->proxies, error)
               : 0;
}

static void on_full(void *context)
{
    const struct convoy_http *http = context;

    convoy_connection_watch_evict(http->watch);
}

/* Descriptors that no connection takes: for workers, logs, files of models; and six for each HTTP thread.
 * What lingers was a connection and counts as none any more. */
#define KEPT_BACK (64u + CONVOY_LINGER_DESCRIPTORS)

/* Raises the limit of descriptors, of which a shell gives 1024, as far as it goes, and returns how many
 * connections can be open at a time. elsewhere: of these, descriptors that are another server's. */
static uint32_t raise_descriptor_limit(uint32_t connections, uint32_t threads, uint32_t elsewhere)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return connections;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    rlim_t kept_back = KEPT_BACK + 6 * (rlim_t)threads;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= connections + kept_back + elsewhere)
        return connections;
    convoy_log(CONVOY_LOG_INFO, "fewer descriptors than http.connections: raise LimitNOFILE or ulimit -n",
               CONVOY_UINT("descriptors", limit.rlim_cur), CONVOY_UINT("connections", connections));
    rlim_t left = limit.rlim_cur > 2 * elsewhere ? limit.rlim_cur - elsewhere : limit.rlim_cur / 2;
    return left > 2 * kept_back ? (uint32_t)(left - kept_back) : (uint32_t)left / 2;
}

/* The reverse of starting, as far as that came. */
static void tear_down(struct convoy_http *http)
{
    if (http->acceptor != NULL)
        convoy_acceptor_stop(http->acceptor);
    convoy_proxy_wait_free(http->proxies);
    convoy_http_threads_end(http);
    if (http->acceptor != NULL)
        convoy_acceptor_free(http->acceptor);
    convoy_linger_free(http->linger);
    if (http->watch != NULL)
        convoy_connection_watch_free(http->watch);
    convoy_address_counts_free(http->clients);
    convoy_listeners_close(&http->listeners);
    free(http);
}

int convoy_http_accept(struct convoy_http *http, struct convoy_error *error)
{
    /* An inherited socket's waiting connections are left to the next instance. */
    const struct convoy_acceptor_options options = {.fds = http->listeners.fds,
                                                    .fd_count = http->listeners.count,
                                                    .drain = !http->listeners.inherited,
                                                    .limit = http->connection_limit,
                                                    .take = on_accepted,
                                                    .evict = http->options.evicts ? on_full : NULL,
                                                    .context = http};

    return convoy_acceptor_start(&options, &http->acceptor, error);
}

int convoy_http_start(const struct convoy_http_options *options, struct convoy_http **result,
                      struct convoy_error *error)
{
    struct convoy_http *http = aligned_alloc(_Alignof(struct convoy_http), sizeof *http);

    if (http == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the HTTP side");
    memset(http, 0, sizeof *http);
    http->options = *options;
    http->connection_limit = raise_descriptor_limit(
        options->config->http.connections, convoy_http_threads_wanted(http), options->other_descriptors);

    /* One client leaves a quarter of them to others. */
    uint32_t configured = options->config->http.connections_per_address;
    http->client_limit = configured > 0 ? configured : http->connection_limit - http->connection_limit / 4;
    http->clients =
        convoy_address_counts_new(http->connection_limit + CONVOY_ACCEPTOR_DRAIN_MAX, http->client_limit);

    int code = http->clients != NULL ? convoy_listeners_open(options, &http->listeners, error)
                                     : convoy_fail(error, -ENOMEM, "out of memory for the table of clients");
    if (code == 0)
        code = convoy_connection_watch_start((uint64_t)options->config->http.request_timeout_ms * 1000,
                                             &http->watch, error);
    if (code == 0)
        convoy_connection_watch_body_rate(http->watch, options->config->access.limits.body_bytes_per_second);
    if (code == 0)
        code = convoy_linger_start(&http->linger, error);
    if (code == 0)
        code = convoy_http_threads_start(http, convoy_http_library_open, error);
    if (code == 0)
        code = start_proxies(http, error);
    if (code == 0 && !http->listeners.inherited && !options->waits)
        code = convoy_http_accept(http, error);
    if (code != 0) {
        tear_down(http);
        return code;
    }
    *result = http;
    return 0;
}

void convoy_http_set_body_rate(struct convoy_http *http, uint32_t bytes_per_second)
{
    convoy_connection_watch_body_rate(http->watch, bytes_per_second);
}

uint16_t convoy_http_port(const struct convoy_http *http)
{
    return convoy_listeners_port(&http->listeners);
}

bool convoy_http_address(const struct convoy_http *http, uint32_t index, struct convoy_http_address *address)
{
    if (index >= http->listeners.count)
        return false;
    int fd = http->listeners.fds[index];
    convoy_listener_host(fd, address->text, sizeof address->text);
    address->port = convoy_listener_port(fd);
    address->local = address->port == 0;
    return true;
}

void convoy_http_close_listener(struct convoy_http *http)
{
    uint64_t now_us = convoy_now_us();

    atomic_store(&http->received_us, now_us);
    atomic_store(&http->closed_us, now_us);
    atomic_store(&http->closing, true);
    /* Else the kernel would complete connections that are accepted by no process. */
    convoy_listeners_drop(&http->listeners);
    if (http->acceptor != NULL)
        convoy_acceptor_stop(http->acceptor);
    convoy_listeners_close(&http->listeners);
}

void convoy_http_leave(struct convoy_http *http)
{
    uint64_t now_us = convoy_now_us();

    atomic_store(&http->received_us, now_us);
    atomic_store(&http->closed_us, now_us);
    atomic_store(&http->leaving, true);
    atomic_store(&http->closing, true);
    if (http->acceptor != NULL)
        convoy_acceptor_leave(http->acceptor);
    convoy_listeners_leave(&http->listeners);
}

bool convoy_http_has_fresh(const struct convoy_http *http)
{
    return convoy_http_open_connections(http) > convoy_connection_watch_used(http->watch);
}

uint64_t convoy_http_open_requests(const struct convoy_http *http)
{
    return convoy_part_count_get(&http->open_requests);
}

bool convoy_http_busy(const struct convoy_http *http)
{
    uint64_t now_us = convoy_now_us();
    /* First: a request that is complete is counted as open before it is no longer counted here. */
    uint64_t receiving = convoy_part_count_get(&http->receiving);

    return convoy_http_open_requests(http) > 0 ||
           (receiving > 0 &&
            now_us < atomic_load_explicit(&http->received_us, memory_order_relaxed) + QUIET_US &&
            now_us < atomic_load_explicit(&http->closed_us, memory_order_relaxed) + REST_US);
}

uint32_t convoy_http_open_connections(const struct convoy_http *http)
{
    return http->acceptor != NULL ? convoy_acceptor_open(http->acceptor) : 0;
}

void convoy_http_stop(struct convoy_http *http)
{
    atomic_store(&http->closing, true);
    atomic_store(&http->stopping, true);
    convoy_http_threads_refuse(http);
    if (http->acceptor != NULL)
        convoy_acceptor_stop(http->acceptor);
    if (http->options.end_work != NULL)
        http->options.end_work(http->options.app);
    tear_down(http);
}
