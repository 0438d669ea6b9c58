/* A connection that libmicrohttpd cannot watch (epoll_ctl() fails, as under a limit of memory) is lost and
 * counted once: connections that come later are served. epoll_ctl() is replaced by one that fails when the
 * test says so. */
#include "engine/base/clock.h"
#include "server/config/config.h"
#include "server/http/http.h"
#include "server/http/response.h"
#include "server/http/status.h"
#include "server/metrics/metrics.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool fails; /* the next socket with a client */

int epoll_ctl(int set, int operation, int fd, struct epoll_event *event);
__attribute__((visibility("default"))) int epoll_ctl(int set, int operation, int fd,
                                                     struct epoll_event *event)
{
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    if (operation == EPOLL_CTL_ADD && getpeername(fd, (struct sockaddr *)&peer, &size) == 0 &&
        atomic_exchange(&fails, false)) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, set, operation, fd, event);
}

static bool answer(struct convoy_request *request)
{
    return convoy_respond_error(request, CONVOY_HTTP_NOT_FOUND, CONVOY_RETRY_NONE, "there is nothing");
}

static void release(struct convoy_request *request)
{
    (void)request;
}

static void end_work(void *app)
{
    (void)app;
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Whether an answer comes; the connection is closed. */
static bool is_answered(int fd)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    char bytes[512];
    ssize_t got = 0, all = 0;
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0)
        while ((got = read(fd, bytes, sizeof bytes)) > 0)
            all += got;
    close(fd);
    return all > 0;
}

Test(lost_connection, is_counted_once, .timeout = 30)
{
    static const struct convoy_route routes[] = {{CONVOY_GET, "/", answer, false}};
    struct convoy_config *config = convoy_config_default();
    struct convoy_metrics *metrics = convoy_metrics_new();
    struct convoy_http *http;
    struct convoy_error error;
    config->listen.list[0].port = 0;
    config->http.threads = 1;
    config->http.connections = 2;
    config->http.connections_per_address = 2;
    const struct convoy_http_options options = {.config = config,
                                                .metrics = metrics,
                                                .listen_option = "--listen",
                                                .routes = routes,
                                                .route_count = 1,
                                                .unknown_path = "there is / alone",
                                                .release = release,
                                                .end_work = end_work};
    cr_assert_eq(convoy_http_start(&options, &http, &error), 0, "%s", error.message);
    for (int i = 0; i < 3; i++) {
        atomic_store(&fails, true);
        cr_expect_not(is_answered(connect_to(convoy_http_port(http))), "epoll_ctl() did not fail");
        cr_expect(is_answered(connect_to(convoy_http_port(http))), "connection %d is not served", i);
    }
    uint64_t end_us = convoy_now_us() + 10000000;
    while (convoy_http_open_connections(http) != 0 && convoy_now_us() < end_us)
        usleep(1000);
    cr_expect_eq(convoy_http_open_connections(http), 0, "%u connections are counted",
                 convoy_http_open_connections(http));
    convoy_http_close_listener(http);
    convoy_http_stop(http);
    convoy_metrics_free(metrics);
    convoy_config_free(config);
}
