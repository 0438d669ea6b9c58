/* The table of clients beside counters that are searched. */
#include "server/http/address_counts.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage storage = {0};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = (in_port_t)rand()};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = (in_port_t)rand()};
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        memcpy(&storage, &v4, sizeof v4);
    else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
        memcpy(&storage, &v6, sizeof v6);
    else
        cr_assert_fail("no address: %s", text);
    return storage;
}

static bool take(struct convoy_address_counts *counts, const char *text)
{
    struct sockaddr_storage storage = address(text);
    return convoy_address_counts_take(counts, (struct sockaddr *)&storage);
}

static void give(struct convoy_address_counts *counts, const char *text)
{
    struct sockaddr_storage storage = address(text);
    convoy_address_counts_give(counts, (struct sockaddr *)&storage);
}

Test(address_counts, a_client_is_an_address_or_a_network_of_ipv6)
{
    struct convoy_address_counts *counts = convoy_address_counts_new(10, 2);
    cr_assert(take(counts, "192.0.2.1") && take(counts, "::ffff:192.0.2.1"));
    cr_assert_not(take(counts, "192.0.2.1"));
    cr_assert(take(counts, "192.0.2.2"));
    cr_assert(take(counts, "::ffff:192.0.2.3"), "another address of IPv4 that IPv6 carries");
    cr_assert(take(counts, "2001:db8:0:1::1") && take(counts, "2001:db8:0:1:ffff::2"));
    cr_assert_not(take(counts, "2001:db8:0:1::3"), "one network has all its addresses");
    cr_assert(take(counts, "2001:db8:0:2::1"));
    give(counts, "192.0.2.1");
    cr_assert(take(counts, "192.0.2.1"));
    give(counts, "198.51.100.1"); /* was never taken */
    convoy_address_counts_free(counts);
}

Test(address_counts, clients_past_the_room_are_refused)
{
    enum { ROOM = 10 };
    struct convoy_address_counts *counts = convoy_address_counts_new(ROOM, 2);
    char text[32];
    for (int i = 0; i < 100; i++) {
        snprintf(text, sizeof text, "10.0.0.%d", i);
        cr_assert_eq(take(counts, text), i < ROOM, "client %d", i);
    }
    cr_assert(take(counts, "10.0.0.3"), "one that is known needs no room");
    give(counts, "10.0.0.4");
    cr_assert(take(counts, "10.0.0.200"));
    cr_assert_not(take(counts, "10.0.0.201"));
    convoy_address_counts_free(counts);
}

Test(address_counts, a_unix_socket_is_no_client)
{
    struct sockaddr_un unix_address = {.sun_family = AF_UNIX};
    struct convoy_address_counts *counts = convoy_address_counts_new(10, 1);
    for (int i = 0; i < 5; i++)
        cr_assert(convoy_address_counts_take(counts, (struct sockaddr *)&unix_address));
    convoy_address_counts_give(counts, (struct sockaddr *)&unix_address);
    convoy_address_counts_free(counts);
}

Test(address_counts, as_a_search_would_have_it)
{
    enum { CONNECTIONS = 200, CLIENTS = 500, LIMIT = 3 };
    struct convoy_address_counts *counts = convoy_address_counts_new(CONNECTIONS, LIMIT);
    int open[CLIENTS] = {0}, all = 0;
    srand(11);
    for (int round = 0; round < 300000; round++) {
        char text[32];
        int client = rand() % CLIENTS;
        snprintf(text, sizeof text, "10.0.%d.%d", client / 250, client % 250);
        if (open[client] > 0 && (rand() % 3 > 0 || all == CONNECTIONS)) {
            give(counts, text);
            open[client]--;
            all--;
        } else if (all < CONNECTIONS) {
            bool taken = take(counts, text);
            cr_assert_eq(taken, open[client] < LIMIT, "round %d: client %d has %d", round, client,
                         open[client]);
            open[client] += taken;
            all += taken;
        }
    }
    cr_assert_gt(all, 50);
    convoy_address_counts_free(counts);
}
