/* The watch over slow clients, on real TCP connections; and the linger that lets an early answer arrive. */
#include "server/http/connection_watch.h"
#include "server/http/linger.h"
#include "server/http/listener.h"

#include "engine/base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 20000

struct pair {
    int client, server;
};

static struct pair connect_pair(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct convoy_error error;
    struct pair pair;
    int listener;

    cr_assert_eq(convoy_listener_open("--listen", "127.0.0.1", 0, &listener, &error), 0, "%s", error.message);
    address.sin_port = htons(convoy_listener_port(listener));
    pair.client = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(pair.client, (struct sockaddr *)&address, sizeof address), 0);
    pair.server = accept(listener, NULL, NULL);
    cr_assert_geq(pair.server, 0);
    close(listener);
    return pair;
}

static void close_pair(struct pair pair)
{
    close(pair.client);
    close(pair.server);
}

/* Waits until the other end has closed. */
static bool hears_the_end(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    char byte;

    return poll(&wait, 1, PATIENCE_MS) == 1 && recv(fd, &byte, 1, 0) == 0;
}

static bool is_open(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN;
}

static struct convoy_connection_watch *start(uint64_t timeout_us)
{
    struct convoy_connection_watch *connections;
    struct convoy_error error;

    cr_assert_eq(convoy_connection_watch_start(timeout_us, &connections, &error), 0, "%s", error.message);
    return connections;
}

Test(connections, cuts_a_request_that_does_not_end, .timeout = 60)
{
    struct convoy_connection_watch *connections = start(200000);
    struct pair slow = connect_pair(), idle = connect_pair(), busy = connect_pair();
    struct convoy_connection *records[] = {convoy_connection_watch_add(connections, slow.server),
                                           convoy_connection_watch_add(connections, idle.server),
                                           convoy_connection_watch_add(connections, busy.server)};
    uint64_t begun_us = convoy_now_us();

    convoy_connection_receives(records[0], begun_us);
    convoy_connection_receives(records[2], begun_us);
    convoy_connection_works(records[2]);
    cr_assert(hears_the_end(slow.client));
    cr_assert_geq(convoy_now_us() - begun_us, 200000u, "cut off too early");
    cr_assert(is_open(idle.client), "a connection at rest is not the watch's");
    cr_assert(is_open(busy.client), "nor is one that waits for us");
    for (int i = 0; i < 3; i++)
        convoy_connection_watch_remove(connections, records[i]);
    convoy_connection_watch_free(connections);
    close_pair(slow);
    close_pair(idle);
    close_pair(busy);
}

Test(connections, evicts_the_oldest_that_is_not_answered, .timeout = 60)
{
    struct convoy_connection_watch *connections = start(60000000);
    enum { WORKS, SENDS, OLD, NEW, COUNT };
    struct pair pairs[COUNT];
    struct convoy_connection *records[COUNT];

    for (int i = 0; i < COUNT; i++) {
        pairs[i] = connect_pair();
        records[i] = convoy_connection_watch_add(connections, pairs[i].server);
        records[i]->opened_us = (uint64_t)i + 1;
    }
    for (int i = 0; i <= SENDS; i++) {
        convoy_connection_receives(records[i], convoy_now_us());
        convoy_connection_works(records[i]);
    }
    convoy_connection_sends(records[SENDS], convoy_now_us());
    convoy_connection_watch_evict(connections);
    cr_assert(hears_the_end(pairs[OLD].client));
    cr_assert(is_open(pairs[NEW].client) && is_open(pairs[SENDS].client));
    convoy_connection_watch_evict(connections);
    cr_assert(hears_the_end(pairs[NEW].client), "one that is cut off is not chosen again");
    cr_assert(is_open(pairs[SENDS].client));
    convoy_connection_watch_evict(connections);
    cr_assert(hears_the_end(pairs[SENDS].client), "a client may never take its answer");
    convoy_connection_watch_evict(connections);
    cr_assert(is_open(pairs[WORKS].client), "its answer is ours to make");
    for (int i = 0; i < COUNT; i++)
        convoy_connection_watch_remove(connections, records[i]);
    convoy_connection_watch_free(connections);
    for (int i = 0; i < COUNT; i++)
        close_pair(pairs[i]);
}

Test(connections, cuts_a_header_that_dribbles, .timeout = 60)
{
    struct convoy_connection_watch *connections = start(200000);
    struct pair pair = connect_pair();
    struct convoy_connection *record = convoy_connection_watch_add(connections, pair.server);

    /* No thread reads it, and no call says that a request has begun. */
    cr_assert_eq(send(pair.client, "G", 1, 0), 1);
    cr_assert(hears_the_end(pair.client));
    convoy_connection_watch_remove(connections, record);
    convoy_connection_watch_free(connections);
    close_pair(pair);
}

Test(connections, cuts_who_does_not_take_the_answer, .timeout = 60)
{
    struct convoy_connection_watch *connections = start(200000);
    struct pair pair = connect_pair();
    struct convoy_connection *record = convoy_connection_watch_add(connections, pair.server);

    convoy_connection_receives(record, convoy_now_us());
    convoy_connection_works(record);
    convoy_connection_sends(record, convoy_now_us());
    cr_assert(hears_the_end(pair.client));
    convoy_connection_watch_remove(connections, record);
    convoy_connection_watch_free(connections);
    close_pair(pair);
}

/* Lets the watch look at all connections until it has cut off one that begins now, after its timeout. */
static void wait_for_a_cut(struct convoy_connection_watch *connections)
{
    struct pair slow = connect_pair();
    struct convoy_connection *record = convoy_connection_watch_add(connections, slow.server);

    convoy_connection_receives(record, convoy_now_us());
    cr_assert(hears_the_end(slow.client));
    convoy_connection_watch_remove(connections, record);
    close_pair(slow);
}

/* Bytes of a request that was answered are no dribbled header, however long ago they came. */
Test(connections, lets_served_connections_be, .timeout = 60)
{
    struct convoy_connection_watch *connections = start(100000);
    struct pair kept = connect_pair();
    struct convoy_connection *record = convoy_connection_watch_add(connections, kept.server);

    cr_assert_eq(send(kept.client, "GET", 3, 0), 3);
    convoy_connection_receives(record, convoy_now_us());
    convoy_connection_works(record);
    convoy_connection_sends(record, convoy_now_us());
    convoy_connection_rests(record);
    /* What looks like a header's first byte is seen during the first, and would be too old during the second.
     */
    wait_for_a_cut(connections);
    wait_for_a_cut(connections);
    cr_assert(is_open(kept.client));
    convoy_connection_watch_remove(connections, record);
    convoy_connection_watch_free(connections);
    close_pair(kept);
}

/* A client may close its half once its request is out, and still wants the answer. */
Test(connections, lets_half_closed_connections_be_served, .timeout = 60)
{
    struct convoy_connection_watch *connections = start(100000);
    struct pair half = connect_pair();
    struct convoy_connection *record = convoy_connection_watch_add(connections, half.server);

    convoy_connection_receives(record, convoy_now_us());
    cr_assert_eq(send(half.client, "GET", 3, 0), 3);
    convoy_connection_works(record);
    shutdown(half.client, SHUT_WR);
    wait_for_a_cut(connections); /* ten looks */
    cr_assert(is_open(half.client));
    convoy_connection_watch_remove(connections, record);
    convoy_connection_watch_free(connections);
    close_pair(half);
}

Test(connections, ends_what_a_client_left_behind, .timeout = 60)
{
    struct convoy_connection_watch *connections = start(10000000);
    struct pair pair = connect_pair();
    struct convoy_connection *record = convoy_connection_watch_add(connections, pair.server);
    struct pollfd wait = {.fd = pair.server, .events = 0};
    uint64_t begun_us = convoy_now_us();

    convoy_connection_receives(record, begun_us);
    cr_assert_eq(send(pair.client, "POST", 4, 0), 4);
    close(pair.client);
    /* POLLHUP: both directions are shut, ours by the watch. */
    cr_assert_eq(poll(&wait, 1, PATIENCE_MS), 1);
    cr_assert(wait.revents & POLLHUP);
    cr_assert_lt(convoy_now_us() - begun_us, 9000000u, "only the timeout ended it");
    convoy_connection_watch_remove(connections, record);
    convoy_connection_watch_free(connections);
    close(pair.server);
}

/* The answer of a server that closes without having read reaches a client that writes first. */
Test(linger, lets_an_early_answer_arrive, .timeout = 60)
{
    static char block[1 << 20];
    struct convoy_linger *linger;
    struct convoy_error error;
    struct pair pair = connect_pair();
    char answer[8];

    cr_assert_eq(convoy_linger_start(&linger, &error), 0, "%s", error.message);
    cr_assert_eq(send(pair.server, "answer", 6, 0), 6);
    cr_assert_eq(send(pair.client, "body", 4, 0), 4);
    convoy_linger_take(linger, pair.server);
    close(pair.server);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(send(pair.client, block, sizeof block, MSG_NOSIGNAL), (ssize_t)sizeof block, "%s",
                     strerror(errno));
    cr_assert_eq(recv(pair.client, answer, sizeof answer, MSG_WAITALL), 6, "%s", strerror(errno));
    cr_assert_arr_eq(answer, "answer", 6);
    close(pair.client);
    convoy_linger_free(linger);
}

Test(listener, a_port_in_use_is_said_in_one_sentence)
{
    struct convoy_error error;
    char expected[200];
    int first, second;

    cr_assert_eq(convoy_listener_open("--listen", "127.0.0.1", 0, &first, &error), 0);
    uint16_t port = convoy_listener_port(first);
    cr_assert_eq(convoy_listener_open("--listen", "127.0.0.1", port, &second, &error), -EADDRINUSE);
    snprintf(expected, sizeof expected,
             "cannot listen on 127.0.0.1:%u: Address already in use; another program", (unsigned)port);
    cr_assert_eq(strncmp(error.message, expected, strlen(expected)), 0, "%s", error.message);
    close(first);
}

Test(listener, takes_names_and_both_families)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "", "::1"};
    struct convoy_error error;

    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        int fd = -1;
        int code = convoy_listener_open("--listen", hosts[i], 0, &fd, &error);
        if (code == -EAFNOSUPPORT || code == -EADDRNOTAVAIL)
            continue; /* a machine without IPv6 */
        cr_assert_eq(code, 0, "%s: %s", hosts[i], error.message);
        cr_assert_neq(convoy_listener_port(fd), 0);
        cr_assert_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        close(fd);
    }
    int fd;
    cr_assert_lt(convoy_listener_open("--listen", "no.such.host.invalid", 0, &fd, &error), 0);
    cr_assert_eq(convoy_listener_adopt(STDIN_FILENO, &error), -EINVAL);
}
