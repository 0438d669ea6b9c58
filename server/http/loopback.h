/* Is a client on this machine? Any thread. */
#ifndef CONVOY_SERVER_LOOPBACK_H
#define CONVOY_SERVER_LOOPBACK_H

#include <stdbool.h>

struct sockaddr;

/* address (NULL allowed: no) is 127.0.0.0/8, ::1, or the former as an IPv6 socket sees it
 * (::ffff:127.0.0.0/104). No other address is, also none of the machine's own. */
bool convoy_loopback(const struct sockaddr *address);

#endif
