/* Whom an address counts as: an IPv4 address, or the first 64 bits of an IPv6 address, which is the least
 * that a network gets: a client that has one has all addresses in it. Pure functions, any thread. */
#ifndef CONVOY_SERVER_CLIENT_ID_H
#define CONVOY_SERVER_CLIENT_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* An IPv4 address behind twelve bytes of IPv6's mapping, or 64 bits of IPv6 and zeroes. */
struct convoy_client_id {
    uint8_t bytes[16];
};

/* False for an address of another kind (a Unix socket), and for NULL. */
bool convoy_client_id_of(const struct sockaddr *address, struct convoy_client_id *id);

#endif
