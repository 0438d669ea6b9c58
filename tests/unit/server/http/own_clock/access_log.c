/* Which answers get a line, what is in it, and what becomes of it when the log is not read. The clock, poll()
 * and libmicrohttpd's word on the client are the test's own: a second passes when the test says so. */
#include "server/http/access_log.h"

#include "engine/base/log.h"
#include "server/http/request.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static bool own; /* within what is tested: Criterion keeps its clock and its poll() */
static uint64_t now_us = 1000000;
static int longest_wait_ms; /* that poll() was asked for */
static union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} client;

int clock_gettime(clockid_t clock, struct timespec *time);
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (!own || clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, time);
    *time =
        (struct timespec){.tv_sec = (time_t)(now_us / 1000000), .tv_nsec = (long)(now_us % 1000000) * 1000};
    return 0;
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms);
__attribute__((visibility("default"))) int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    struct timespec time = {.tv_sec = timeout_ms / 1000, .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    if (own && timeout_ms > 0) {
        now_us += (uint64_t)timeout_ms * 1000;
        longest_wait_ms = timeout_ms > longest_wait_ms ? timeout_ms : longest_wait_ms;
    }
    return (int)syscall(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &time, NULL, 0);
}

const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
                                                        enum MHD_ConnectionInfoType type, ...);
__attribute__((visibility("default"))) const union MHD_ConnectionInfo *
MHD_get_connection_info(struct MHD_Connection *connection, enum MHD_ConnectionInfoType type, ...)
{
    static union MHD_ConnectionInfo info;
    cr_assert_not_null(connection);
    cr_assert_eq(type, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    info.client_addr = &client.any;
    return &info;
}

static int log_fd, saved_fd;
static struct convoy_request *request;

static void open_log(void)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    cr_assert_eq(fcntl(ends[1], F_SETPIPE_SZ, 65536), 65536);
    saved_fd = dup(STDERR_FILENO);
    cr_assert_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    log_fd = ends[0];
    client.v4 = (struct sockaddr_in){.sin_family = AF_INET};
    cr_assert_eq(inet_pton(AF_INET, "192.0.2.7", &client.v4.sin_addr), 1);
    cr_assert_not_null(request = calloc(1, sizeof *request));
    request->mhd = (struct MHD_Connection *)&client; /* asked about, never looked into */
    request->model = "net";
    request->received = 41;
    request->begun_us = now_us;
    snprintf(request->id, sizeof request->id, "an-id");
    snprintf(request->method, sizeof request->method, "POST");
    convoy_log_configure(CONVOY_LOG_LOGFMT, CONVOY_LOG_INFO);
}

static void close_log(void)
{
    dup2(saved_fd, STDERR_FILENO);
    close(saved_fd);
    close(log_fd);
    free(request);
}

TestSuite(access_log, .init = open_log, .fini = close_log);

static void log_of(struct MHD_Connection *connection, const struct convoy_request *of, int status)
{
    own = true;
    convoy_access_log(&(struct convoy_access){connection, of, status, 12});
    own = false;
}

static void log_one(const struct convoy_request *of, int status)
{
    static char connection; /* which MHD_get_connection_info() does not look at */
    log_of((struct MHD_Connection *)&connection, of, status);
}

static void answer(unsigned count, int status)
{
    while (count-- > 0)
        log_one(request, status);
}

/* What was written since the last time, without its times. */
static const char *written(void)
{
    static char text[1 << 17];
    size_t length = 0;
    ssize_t got;
    while ((got = read(log_fd, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    return text;
}

static unsigned count_of(const char *text, const char *what)
{
    unsigned count = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        count++;
    return count;
}

static void a_second_passes(void)
{
    now_us += 1000000;
    request->begun_us = now_us;
}

Test(access_log, off_writes_nothing_but_a_failure_a_second)
{
    convoy_access_log_configure(CONVOY_ACCESS_OFF);
    answer(10, 200);
    answer(10, 404);
    answer(10, 503);
    cr_assert_str_empty(written());
    answer(10, 500);
    const char *text = written();
    cr_expect_eq(count_of(text, "\n"), 1, "%s", text);
    cr_expect_eq(count_of(text, " level=warning msg=request request_id=an-id "), 1, "%s", text);
    a_second_passes();
    answer(1, 500);
    cr_expect_eq(count_of(text = written(), "status=500 bytes=41 sent=12 total_us=0 unwritten=9\n"), 1, "%s",
                 text);
}

Test(access_log, sampled_writes_one_of_each_class_a_second_and_counts_the_others)
{
    convoy_access_log_configure(CONVOY_ACCESS_SAMPLED);
    for (int second = 0; second < 3; second++) {
        answer(10, 200);
        answer(4, 404);
        answer(5, 499);
        answer(6, 503);
        answer(3, 500);
        const char *text = written();
        cr_expect_eq(count_of(text, "\n"), 4, "%s", text);
        cr_expect_eq(count_of(text, "level=info msg=request "), 3, "%s", text);
        cr_expect_eq(count_of(text, "level=warning msg=request "), 1, "%s", text);
        cr_expect_eq(count_of(text, second == 0 ? "unwritten=0\n" : "unwritten=9\n"), second == 0 ? 4 : 1);
        cr_expect_eq(count_of(text, "status=404 bytes=41 sent=12 total_us=0 unwritten=8\n"), second > 0, "%s",
                     text);
        cr_expect_eq(count_of(text, "status=500 bytes=41 sent=12 total_us=0 unwritten=2\n"), second > 0, "%s",
                     text);
        a_second_passes();
    }
}

Test(access_log, all_writes_all)
{
    convoy_access_log_configure(CONVOY_ACCESS_ALL);
    answer(10, 200);
    answer(10, 500);
    const char *text = written();
    cr_expect_eq(count_of(text, "level=info msg=request "), 10, "%s", text);
    cr_expect_eq(count_of(text, "level=warning msg=request "), 10, "%s", text);
    cr_expect_eq(count_of(text, "unwritten=0\n"), 20, "%s", text);
}

Test(access_log, what_is_left_out_shows_at_level_debug)
{
    convoy_access_log_configure(CONVOY_ACCESS_OFF);
    convoy_log_configure(CONVOY_LOG_LOGFMT, CONVOY_LOG_DEBUG);
    answer(2, 200);
    answer(2, 500);
    const char *text = written();
    cr_expect_eq(count_of(text, "level=debug msg=request "), 3, "%s", text);
    cr_expect_eq(count_of(text, "level=warning msg=request "), 1, "%s", text);
}

Test(access_log, nothing_waits_for_a_log_that_is_not_read_and_what_is_lost_is_counted)
{
    static const enum convoy_access_log modes[] = {CONVOY_ACCESS_SAMPLED, CONVOY_ACCESS_ALL};
    for (int i = 0; i < 2; i++) {
        char filling[4096] = "";
        convoy_access_log_configure(modes[i]);
        a_second_passes();
        answer(1, 200);
        written();
        while (write(STDERR_FILENO, filling, sizeof filling) > 0)
            ;
        for (int j = 0; j < 5; j++) {
            a_second_passes();
            answer(1, 200);
        }
        cr_expect_eq(longest_wait_ms, 0, "an answer may wait %d ms for the log", longest_wait_ms);
        while (read(log_fd, filling, sizeof filling) > 0)
            ;
        a_second_passes();
        answer(1, 200);
        const char *text = written();
        cr_expect_eq(count_of(text, "unwritten=5\n"), 1, "%s", text);
    }
}

Test(access_log, a_method_that_is_made_up_is_not_shown)
{
    convoy_access_log_configure(CONVOY_ACCESS_ALL);
    static const char *const methods[][2] = {{"GET", "method=GET "},   {"OPTIONS", "method=OPTIONS "},
                                             {"", "method=\"\" "},     {"SECRET-TOKE", "method=other "},
                                             {"get", "method=other "}, {"A\n\"=\x1b[1m", "method=other "}};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        snprintf(request->method, sizeof request->method, "%s", methods[i][0]);
        answer(1, 200);
        const char *text = written();
        cr_expect_eq(count_of(text, methods[i][1]), 1, "%s", text);
    }
}

Test(access_log, addresses_and_answers_without_a_request)
{
    static const char *const addresses[][2] = {{"2001:db8::7", "client=2001:db8::7 "},
                                               {"::ffff:192.0.2.9", "client=192.0.2.9 "}};
    convoy_access_log_configure(CONVOY_ACCESS_ALL);
    for (int i = 0; i < 2; i++) {
        client.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
        cr_assert_eq(inet_pton(AF_INET6, addresses[i][0], &client.v6.sin6_addr), 1);
        log_one(NULL, 431);
        const char *text = written();
        cr_expect_eq(count_of(text, addresses[i][1]), 1, "%s", text);
        cr_expect_eq(count_of(text, "request_id=\"\" "), 1, "%s", text);
        cr_expect_eq(count_of(text, "status=431 bytes=0 sent=12 total_us=0 unwritten=0\n"), 1, "%s", text);
    }
    client.v4 = (struct sockaddr_in){.sin_family = AF_UNIX};
    answer(1, 200);
    cr_expect_eq(count_of(written(), "client=\"\" "), 1);
    log_of(NULL, NULL, 431); /* libmicrohttpd's own answer */
    const char *text = written();
    cr_expect_eq(count_of(text, "client=\"\" "), 1, "%s", text);
}
