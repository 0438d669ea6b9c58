#include "server/http/forwarded.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* A piece of a header's line. */
struct piece {
    const char *at;
    size_t length;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static struct piece trim(struct piece piece)
{
    while (piece.length > 0 && is_space(piece.at[0])) {
        piece.at++;
        piece.length--;
    }
    while (piece.length > 0 && is_space(piece.at[piece.length - 1]))
        piece.length--;
    return piece;
}

/* How far it is to the separator, to the end where there is none. In Forwarded those inside of quotes do not
 * count; X-Forwarded-For has no quotes. *open: a quote does not end. */
static size_t span(struct piece piece, char separator, enum convoy_forwarded_header header, bool *open)
{
    bool quotes = header == CONVOY_FORWARDED;
    size_t end = 0;

    *open = false;
    for (; end < piece.length && (*open || piece.at[end] != separator); end++) {
        if (quotes && piece.at[end] == '"')
            *open = !*open;
        else if (*open && piece.at[end] == '\\' && end + 1 < piece.length)
            end++;
    }
    return end;
}

/* Cuts off what stands before the next separator, and the separator. */
static struct piece cut(struct piece *rest, char separator, enum convoy_forwarded_header header)
{
    bool open;
    size_t end = span(*rest, separator, header, &open);
    struct piece first = {rest->at, end};
    size_t taken = end < rest->length ? end + 1 : end;
    rest->at += taken;
    rest->length -= taken;
    return trim(first);
}

/* Reads the address of ADDRESS, ADDRESS:PORT (IPv4), [ADDRESS] and [ADDRESS]:PORT (IPv6). The port is the
 * proxy's business. */
static bool read_node(struct piece node, struct convoy_forwarded *result)
{
    char text[INET6_ADDRSTRLEN];
    const char *colon = node.length > 0 ? memchr(node.at, ':', node.length) : NULL;

    if (node.length > 0 && node.at[0] == '[') {
        const char *close = memchr(node.at, ']', node.length);
        size_t behind = close != NULL ? node.length - (size_t)(close - node.at) - 1 : 0;
        if (close == NULL || (behind > 0 && close[1] != ':'))
            return false;
        node = (struct piece){node.at + 1, (size_t)(close - node.at) - 1};
    } else if (colon != NULL && memchr(colon + 1, ':', node.length - (size_t)(colon - node.at) - 1) == NULL) {
        node.length = (size_t)(colon - node.at);
    }
    if (node.length == 0 || node.length >= sizeof text)
        return false;
    memcpy(text, node.at, node.length);
    text[node.length] = '\0';
    memset(result, 0, sizeof *result);
    if (strlen(text) != node.length)
        return false;
    if (inet_pton(AF_INET, text, &result->client.four.sin_addr) == 1)
        result->client.any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &result->client.six.sin6_addr) == 1)
        result->client.any.sa_family = AF_INET6;
    return result->client.any.sa_family != AF_UNSPEC;
}

/* The value of "for" in an element of Forwarded, without its quotes; empty where there is none. */
static struct piece for_of(struct piece element)
{
    while (element.length > 0) {
        struct piece pair = cut(&element, ';', CONVOY_FORWARDED);
        if (pair.length < 4 || strncasecmp(pair.at, "for=", 4) != 0)
            continue;
        struct piece value = {pair.at + 4, pair.length - 4};
        if (value.length >= 2 && value.at[0] == '"' && value.at[value.length - 1] == '"')
            value = (struct piece){value.at + 1, value.length - 2};
        return value;
    }
    return (struct piece){"", 0};
}

/* One proxy has added this. */
static void take(struct convoy_forwarded *forwarded, const struct convoy_proxy_config *proxy,
                 struct piece node)
{
    struct convoy_forwarded found;

    if (!read_node(node, &found))
        memset(forwarded, 0, sizeof *forwarded);
    else if (forwarded->client.any.sa_family == AF_UNSPEC || !convoy_proxy_trusted(proxy, &found.client.any))
        *forwarded = found;
}

void convoy_forwarded_line(struct convoy_forwarded *forwarded, const struct convoy_proxy_config *proxy,
                           const char *value, size_t length)
{
    struct piece rest = {value, length};
    bool open;

    /* A proxy that adds to the client's own line adds to its open quote: no address in it is the proxy's. */
    (void)span(rest, '\0', proxy->header, &open);
    if (open) {
        memset(forwarded, 0, sizeof *forwarded);
        return;
    }
    while (rest.length > 0) {
        struct piece element = cut(&rest, ',', proxy->header);
        if (element.length > 0) /* an empty one is allowed in a list, and says nothing (RFC 9110, 5.6.1) */
            take(forwarded, proxy, proxy->header == CONVOY_FORWARDED ? for_of(element) : element);
    }
}
