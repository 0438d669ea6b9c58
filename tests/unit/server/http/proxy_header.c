#include "server/http/proxy_header.h"
#include "server/http/address_text.h"

#include <criterion/criterion.h>
#include <string.h>

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

/* Reads as from a socket that has all of it; the number of bytes taken, or CONVOY_PROXY_HEADER_BAD. */
static size_t taken(const char *bytes, size_t length)
{
    uint8_t read[CONVOY_PROXY_HEADER_MAX];
    size_t have = 0;

    for (;;) {
        size_t more = convoy_proxy_header_more(read, have);
        if (more == 0 || more == CONVOY_PROXY_HEADER_BAD)
            return more == 0 ? have : more;
        if (more > length - have)
            return CONVOY_PROXY_HEADER_BAD;
        memcpy(read + have, bytes + have, more);
        have += more;
    }
}

/* Bytes of HTTP follow, of which none is taken. client: its address, "" where the connection's own holds,
 * NULL: bad. */
static void comes_to(const char *header, size_t length, const char *client)
{
    static const char http[] = "GET / HTTP/1.1\r\n\r\n";
    char bytes[512], text[INET6_ADDRSTRLEN];
    union convoy_proxy_address address;

    memcpy(bytes, header, length);
    memcpy(bytes + length, http, sizeof http - 1);
    size_t got = taken(bytes, length + sizeof http - 1);
    bool good = got != CONVOY_PROXY_HEADER_BAD && convoy_proxy_header_read((uint8_t *)bytes, got, &address);
    cr_assert_eq(good, client != NULL, "%s", header);
    if (client == NULL)
        return;
    cr_assert_eq(got, length, "%s: %zu bytes", header, got);
    convoy_address_text(&address.any, text);
    cr_assert_str_eq(text, client);
}

#define IS(header, client) comes_to(header, sizeof(header) - 1, client)

Test(proxy_header, version_1)
{
    IS("PROXY TCP4 203.0.113.9 10.0.0.1 4711 80\r\n", "203.0.113.9");
    IS("PROXY TCP6 2001:db8::1 ::1 65535 0\r\n", "2001:db8::1");
    IS("PROXY UNKNOWN\r\n", "");
    IS("PROXY UNKNOWN ffff::1 whatever 1 2\r\n", "");
    IS("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 "
       "65535\r\n",
       "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    IS("PROXY TCP4 203.0.113.9 10.0.0.1 4711\r\n", NULL);
    IS("PROXY TCP4 203.0.113.9 10.0.0.1 4711 80 81\r\n", NULL);
    IS("PROXY TCP4 203.0.113.9 10.0.0.1  80 81\r\n", NULL);
    IS("PROXY TCP4 203.0.113.9 10.0.0.1 65536 80\r\n", NULL);
    IS("PROXY TCP4 203.0.113.9 nowhere 4711 80\r\n", NULL);
    IS("PROXY TCP4 2001:db8::1 ::1 4711 80\r\n", NULL);
    IS("PROXY UDP4 203.0.113.9 10.0.0.1 4711 80\r\n", NULL);
    IS("PROXY UNKNOWNS\r\n", NULL);
    IS("proxy TCP4 203.0.113.9 10.0.0.1 4711 80\r\n", NULL);
    IS("PROXY TCP4 203.0.113.9 10.0.0.1\n4711 80\r\n", NULL);
    IS("PROXY TCP4 203.0.113.9\0 10.0.0.1 4711 80\r\n", NULL);
    IS("PROXY A\r\nGET\r\n", NULL);
    IS("GET / HTTP/1.1\r\n\r\n", NULL);
    char endless[200] = "PROXY UNKNOWN ";
    memset(endless + 14, 'x', sizeof endless - 14);
    comes_to(endless, sizeof endless, NULL);
}

Test(proxy_header, version_2)
{
    IS(SIGNATURE "\x21\x11\0\x0c\xcb\0\x71\x09\x0a\0\0\x01\x12\x67\0\x50", "203.0.113.9");
    IS(SIGNATURE "\x21\x21\0\x24\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"
                 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x12\x67\0\x50",
       "2001:db8::1");
    IS(SIGNATURE "\x21\x11\0\x10\xcb\0\x71\x09\x0a\0\0\x01\x12\x67\0\x50\x04\0\x01x",
       "203.0.113.9");              /* and more */
    IS(SIGNATURE "\x20\0\0\0", ""); /* LOCAL */
    IS(SIGNATURE "\x20\x11\0\x04"
                 "abcd",
       ""); /* of which the rest is to be ignored */
    IS(SIGNATURE "\x21\0\0\x02"
                 "ab",
       ""); /* UNSPEC */
    IS(SIGNATURE "\x21\x11\0\x0b"
                 "0123456789a",
       NULL); /* too short for its addresses */
    IS(SIGNATURE "\x21\x21\0\x0c"
                 "0123456789ab",
       NULL);
    IS(SIGNATURE "\x21\x12\0\x0c"
                 "0123456789ab",
       NULL); /* UDP */
    IS(SIGNATURE "\x22\x11\0\x0c"
                 "0123456789ab",
       NULL); /* no such command */
    IS(SIGNATURE "\x11\x11\0\x0c"
                 "0123456789ab",
       NULL); /* no such version */
    IS(SIGNATURE "\x21\x11\x08\x00"
                 "0123456789ab",
       NULL); /* longer than is taken */
}
