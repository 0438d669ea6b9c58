#include "server/http/forwarded.h"
#include "server/http/address_text.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct convoy_address_range ranges[3];
static struct convoy_proxy_config proxy = {.trusted = ranges, .count = 3};

static void set_up(void)
{
    cr_assert(convoy_address_range_parse("10.0.0.0/8", &ranges[0]));
    cr_assert(convoy_address_range_parse("192.0.2.7", &ranges[1]));
    cr_assert(convoy_address_range_parse("fd00:1::/33", &ranges[2]));
}

/* What a list of lines, which ends with NULL, comes to; "" where nothing is known. */
static void comes_to(enum convoy_forwarded_header header, const char *const *lines, const char *client)
{
    struct convoy_forwarded forwarded = {0};
    char text[INET6_ADDRSTRLEN];

    proxy.header = header;
    for (const char *const *line = lines; *line != NULL; line++)
        convoy_forwarded_line(&forwarded, &proxy, *line, strlen(*line));
    convoy_address_text(&forwarded.client.any, text);
    cr_assert_str_eq(text, client, "%s: %s, expected %s", lines[0], text, client);
}

#define X(client, ...)         comes_to(CONVOY_X_FORWARDED_FOR, (const char *const[]){__VA_ARGS__, NULL}, client)
#define FORWARDED(client, ...) comes_to(CONVOY_FORWARDED, (const char *const[]){__VA_ARGS__, NULL}, client)

Test(forwarded, the_last_address_that_is_no_trusted_proxy, .init = set_up)
{
    X("203.0.113.9", "203.0.113.9");
    X("203.0.113.9", "203.0.113.9, 10.1.2.3, 192.0.2.7");
    X("203.0.113.9", "198.51.100.1,  203.0.113.9\t, 10.1.2.3");
    X("203.0.113.9", "10.9.9.9, 203.0.113.9");
    X("203.0.113.9", "1.1.1.1", "203.0.113.9, 10.0.0.1");
    X("10.1.2.3", "10.1.2.3, 10.4.5.6"); /* all are proxies: the first is the client */
    X("192.0.2.8", "1.1.1.1, 192.0.2.8, 192.0.2.7");
    X("2001:db8::1", "2001:db8::1, fd00:1:7fff::1");
    X("fd00:1:8000::1", "2001:db8::1, fd00:1:8000::1");
    X("203.0.113.9", ", 203.0.113.9 ,, 10.0.0.1 ,");
    X("", "");
}

Test(forwarded, ports_and_brackets, .init = set_up)
{
    X("203.0.113.9", "203.0.113.9:4711");
    X("2001:db8::1", "[2001:db8::1]:4711");
    X("2001:db8::1", "[2001:db8::1]");
    X("203.0.113.9", "::ffff:203.0.113.9");
}

/* Nothing that a client claims before it counts. */
Test(forwarded, what_cannot_be_read_is_not_known, .init = set_up)
{
    static const char *const bad[] = {
        "unknown",      "_hidden",
        "1.2.3",        "1.2.3.4.5",
        "a.example",    "[::1",
        "[::1]x",       "[]",
        "1.2.3.4 5",    ":80",
        "\"1.1.1.1\"",  "1.1.1.1/8",
        "fe80::1%eth0", "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb"};
    char line[200];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(line, sizeof line, "203.0.113.9, %s", bad[i]);
        X("", line);
        snprintf(line, sizeof line, "203.0.113.9, %s, 10.1.2.3, 10.4.5.6", bad[i]);
        X("10.1.2.3", line);
        snprintf(line, sizeof line, "%s, 203.0.113.9, 10.1.2.3", bad[i]);
        X("203.0.113.9", line);
    }
}

Test(forwarded, the_standard_header, .init = set_up)
{
    FORWARDED("203.0.113.9", "for=203.0.113.9");
    FORWARDED("203.0.113.9", "proto=https;For=\"203.0.113.9:47\";by=10.0.0.1, for=10.1.2.3");
    FORWARDED("2001:db8::1", "for=1.1.1.1, for=\"[2001:db8::1]:4711\"", "for=10.1.2.3; host=a");
    FORWARDED("203.0.113.9", "for=1.1.1.1;host=\"a, for=2.2.2.2\", for=203.0.113.9");
    FORWARDED("203.0.113.9", "for=1.1.1.1;host=\"a\\\", for=2.2.2.2\", for=203.0.113.9");
    FORWARDED("", "for=203.0.113.9, for=unknown");
    FORWARDED("", "for=203.0.113.9, for=\"_x\"");
    FORWARDED("", "for=203.0.113.9, by=10.1.2.3");
    FORWARDED("", "203.0.113.9");
    FORWARDED("", "for=203.0.113.9, host=\"x"); /* an element whose quote does not end */
}

/* Many proxies add their address to the line that the client sent. What the client left open must not swallow
 * it: the client would be who it says it is. */
Test(forwarded, a_quote_that_the_client_left_open, .init = set_up)
{
    X("203.0.113.9", "\", 203.0.113.9");
    X("203.0.113.9", "1.1.1.1, \"a\\, 203.0.113.9, 10.1.2.3");
    FORWARDED("", "for=1.1.1.1;host=\", for=203.0.113.9");
    FORWARDED("", "for=1.1.1.1;host=\"a\\, for=203.0.113.9, for=10.1.2.3");
    FORWARDED("", "for=1.1.1.1;host=\"a, for=\"[2001:db8::1]:4711\"");
    FORWARDED("", "for=1.1.1.1", "for=1.1.1.1;host=\", for=203.0.113.9");
    FORWARDED("203.0.113.9", "for=1.1.1.1;host=\"", "for=203.0.113.9"); /* a line of the proxy's own */
    FORWARDED("203.0.113.9", "for=1.1.1.1\\, for=203.0.113.9");
}

Test(forwarded, ranges)
{
    static const char *const good[] = {"0.0.0.0/0",  "::/0",    "10.0.0.0/8",
                                       "1.2.3.4/32", "::1/128", "fd00::/8"};
    static const char *const bad[] = {"",          "10.0.0.1/8", "10.0.0.0/33",  "::/129",
                                      "10/8",      "10.0.0.0/",  "10.0.0.0/-1",  "10.0.0.0/8x",
                                      "a.example", "fd01::/8/8", "10.0.0.0/0008"};
    struct convoy_address_range range;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        cr_assert(convoy_address_range_parse(good[i], &range), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_not(convoy_address_range_parse(bad[i], &range), "%s", bad[i]);
}

static bool trusted(int family, const char *text)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = {.any.sa_family = (sa_family_t)family};

    cr_assert_eq(
        inet_pton(family, text, family == AF_INET ? (void *)&address.four.sin_addr : &address.six.sin6_addr),
        1);
    return convoy_proxy_trusted(&proxy, &address.any);
}

Test(forwarded, who_is_trusted, .init = set_up)
{
    cr_assert(trusted(AF_INET, "10.255.0.1"));
    cr_assert_not(trusted(AF_INET, "11.0.0.1"));
    cr_assert(trusted(AF_INET6, "::ffff:10.255.0.1"), "IPv4 as an IPv6 socket sees it");
    cr_assert(trusted(AF_INET6, "fd00:1:7fff::"));
    cr_assert_not(trusted(AF_INET6, "fd00:1:8000::"));
    cr_assert_not(trusted(AF_INET6, "::10.255.0.1"));
    const struct sockaddr local = {.sa_family = AF_UNIX};
    cr_assert_not(convoy_proxy_trusted(&proxy, &local));
    cr_assert_not(convoy_proxy_trusted(&proxy, NULL));
}
