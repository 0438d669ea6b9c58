/* The addresses that proxies say a request has passed: X-Forwarded-For, and Forwarded (RFC 7239).
 *
 * Each proxy adds the address of its own client at the end, behind what its client claimed. So the list is
 * believed from its end, for as long as the proxies that added to it are trusted: the client is the last
 * address that is not a trusted proxy's. A name, "unknown" or what cannot be read is not known: then the
 * client is the proxy that added it. Of a line of Forwarded with a quote that does not end nothing is known.
 */
#ifndef CONVOY_SERVER_FORWARDED_H
#define CONVOY_SERVER_FORWARDED_H

#include "server/config/proxy_config.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

/* What was found so far; zero at first. A value of AF_UNSPEC: nothing is known. */
struct convoy_forwarded {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } client;
};

/* Takes one line of the header, in the order in which the lines came. */
void convoy_forwarded_line(struct convoy_forwarded *forwarded, const struct convoy_proxy_config *proxy,
                           const char *value, size_t length);

#endif
