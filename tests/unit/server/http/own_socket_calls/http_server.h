/* A server of one route, and its client, for tests that replace its system calls. */
#ifndef CONVOY_TESTS_HTTP_SERVER_H
#define CONVOY_TESTS_HTTP_SERVER_H

#include "server/config/config.h"
#include "server/http/http.h"
#include "server/http/response.h"
#include "server/http/route.h"
#include "server/metrics/metrics.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

struct http_server {
    struct convoy_config *config;
    struct convoy_metrics *metrics;
    struct convoy_http *http;
    struct convoy_route route;
};

static void release_nothing(struct convoy_request *request)
{
    (void)request;
}

static void end_no_work(void *app)
{
    (void)app;
}

/* Two connections may be open. state_bytes: struct convoy_http_options. */
static void start_server(struct http_server *server, bool (*answer)(struct convoy_request *request),
                         uint32_t threads, size_t state_bytes)
{
    struct convoy_error error;

    server->route = (struct convoy_route){CONVOY_GET, "/", answer, false};
    server->config = convoy_config_default();
    server->metrics = convoy_metrics_new();
    server->config->listen.list[0].port = 0;
    server->config->http.threads = threads;
    server->config->http.connections = 2;
    server->config->http.connections_per_address = 2;
    const struct convoy_http_options options = {.config = server->config,
                                                .metrics = server->metrics,
                                                .listen_option = "--listen",
                                                .routes = &server->route,
                                                .route_count = 1,
                                                .unknown_path = "there is / alone",
                                                .state_bytes = state_bytes,
                                                .release = release_nothing,
                                                .end_work = end_no_work};
    cr_assert_eq(convoy_http_start(&options, &server->http, &error), 0, "%s", error.message);
}

static void stop_server(struct http_server *server)
{
    convoy_http_close_listener(server->http);
    convoy_http_stop(server->http);
    convoy_metrics_free(server->metrics);
    convoy_config_free(server->config);
}

/* A connection of which no read waits longer than limit_s. */
static int connect_to(const struct http_server *server, int limit_s)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(convoy_http_port(server->http)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = limit_s};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static bool ask(int fd)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

    return send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == sizeof request - 1;
}

/* Whether an answer comes; the connection is closed. */
static bool is_answered(int fd)
{
    char bytes[512];
    ssize_t got, all = 0;

    while ((got = read(fd, bytes, sizeof bytes)) > 0)
        all += got;
    close(fd);
    return all > 0;
}

#endif
