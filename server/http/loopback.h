/* Loopback addresses. Any thread. */
#ifndef CONVOY_SERVER_LOOPBACK_H
#define CONVOY_SERVER_LOOPBACK_H

#include <stdbool.h>

struct sockaddr;

/* True for 127.0.0.0/8, ::1, and the former as an IPv6 socket sees it (::ffff:127.0.0.0/104). False for all
 * other addresses, also the machine's own, and for NULL. */
bool convoy_loopback(const struct sockaddr *address);

#endif
