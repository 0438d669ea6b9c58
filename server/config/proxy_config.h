/* Proxies in front of the daemon, whose word about the client's address counts: http.trusted_proxies and
 * http.forwarded_header. docs/configuration.md describes both. */
#ifndef CONVOY_SERVER_PROXY_CONFIG_H
#define CONVOY_SERVER_PROXY_CONFIG_H

#include "engine/base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_json;
struct sockaddr;

/* Addresses that begin with the same bits; IPv4 as IPv6 carries it (::ffff:0:0/96, RFC 4291). */
struct convoy_address_range {
    uint8_t bytes[16];
    uint32_t bits; /* 0 to 128 */
};

enum convoy_forwarded_header {
    CONVOY_X_FORWARDED_FOR, /* of no standard; the usual one */
    CONVOY_FORWARDED,       /* RFC 7239 */
    CONVOY_PROXY_PROTOCOL   /* no header of HTTP: the connection begins with one of its own */
};

struct convoy_proxy_config {
    struct convoy_address_range *trusted; /* owned; NULL: none */
    uint32_t count;
    bool local; /* who connects over a Unix socket is trusted */
    enum convoy_forwarded_header header;
};

/* Reads the two keys of the object "http" over *proxy, which the caller clears, also after an error. -EINVAL,
 * -ENOMEM. */
int convoy_proxy_config_read(const struct convoy_json *http, struct convoy_proxy_config *proxy,
                             struct convoy_error *error);
void convoy_proxy_config_clear(struct convoy_proxy_config *proxy);

/* Reads "ADDRESS" or "ADDRESS/BITS", of either family. False where it is none, or where bits behind BITS are
 * set. */
bool convoy_address_range_parse(const char *text, struct convoy_address_range *range);

/* Whether a peer with this address is one of the proxies. NULL is not. Any thread. */
bool convoy_proxy_trusted(const struct convoy_proxy_config *proxy, const struct sockaddr *address);

#endif
