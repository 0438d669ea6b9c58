/* The header of the PROXY protocol, versions 1 and 2, which a proxy sends before everything else
 * (HAProxy 2.6, doc/proxy-protocol.txt). Pure functions; any thread. */
#ifndef CONVOY_SERVER_PROXY_HEADER_H
#define CONVOY_SERVER_PROXY_HEADER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* The longest header that is taken. Version 1 has at most 107 bytes; version 2 some more than 52, with what
 * proxies add of TLS. */
#define CONVOY_PROXY_HEADER_MAX 2048

#define CONVOY_PROXY_HEADER_BAD SIZE_MAX

union convoy_proxy_address {
    struct sockaddr any; /* AF_UNSPEC: the header names no address, the connection's own holds */
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* Given the first `have` bytes, at most CONVOY_PROXY_HEADER_MAX, how many more are certain to belong to the
 * header: to be read next, so that nothing behind it is. 0: it is complete. CONVOY_PROXY_HEADER_BAD: this is
 * none. */
size_t convoy_proxy_header_more(const uint8_t *bytes, size_t have);

/* Reads a complete header. False when it is not valid. */
bool convoy_proxy_header_read(const uint8_t *bytes, size_t length, union convoy_proxy_address *client);

#endif
