/* A connection that libmicrohttpd cannot watch (epoll_ctl() fails, as under a limit of memory) is lost and
 * counted once: connections that come later are served. epoll_ctl() is replaced by one that fails when the
 * test says so. */
#include "engine/base/clock.h"
#include "server/http/status.h"
#include "tests/unit/server/http/own_socket_calls/http_server.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIMIT_S 10 /* for an answer */

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

Test(lost_connection, is_counted_once, .timeout = 30)
{
    struct http_server server;
    start_server(&server, answer, 1, 0);
    for (int i = 0; i < 3; i++) {
        atomic_store(&fails, true);
        int lost = connect_to(&server, LIMIT_S);
        cr_expect_not(ask(lost) && is_answered(lost), "epoll_ctl() did not fail");
        int served = connect_to(&server, LIMIT_S);
        cr_expect(ask(served) && is_answered(served), "connection %d is not served", i);
    }
    uint64_t end_us = convoy_now_us() + 10000000;
    while (convoy_http_open_connections(server.http) != 0 && convoy_now_us() < end_us)
        usleep(1000);
    cr_expect_eq(convoy_http_open_connections(server.http), 0, "%u connections are counted",
                 convoy_http_open_connections(server.http));
    stop_server(&server);
}
