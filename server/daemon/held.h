/* Listening sockets that the master holds for the next front. */
#ifndef CONVOY_SERVER_DAEMON_HELD_H
#define CONVOY_SERVER_DAEMON_HELD_H

#include "server/http/held_sockets.h"
#include "server/master/link.h"

/* link must outlive the servers that are started with it. */
struct convoy_held_sockets convoy_held_by(struct convoy_link *link);

#endif
