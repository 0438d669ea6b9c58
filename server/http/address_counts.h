/* How many connections each client has open, so that none takes all that there are.
 *
 * client_id.h says what a client is. The table has room for as many clients as connections
 * and takes no more memory, however many addresses come: past that, a new client is refused. Threads: any; a
 * lock is held for some 50 ns. */
#ifndef CONVOY_SERVER_ADDRESS_COUNTS_H
#define CONVOY_SERVER_ADDRESS_COUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct convoy_address_counts;

/* connections: the most that are open at a time. limit: of one client. NULL when memory is out. */
struct convoy_address_counts *convoy_address_counts_new(uint32_t connections, uint32_t limit);
void convoy_address_counts_free(struct convoy_address_counts *counts); /* NULL is allowed */

/* A connection from this address is opened; false when the client has as many as it may. An address of
 * another kind (a Unix socket) is not counted. */
bool convoy_address_counts_take(struct convoy_address_counts *counts, const struct sockaddr *address);

/* A connection that was taken is closed. */
void convoy_address_counts_give(struct convoy_address_counts *counts, const struct sockaddr *address);

#endif
