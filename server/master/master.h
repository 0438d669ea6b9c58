/* The master: the process that "convoyd" is to its user and to the service manager. It parses nothing that
 * comes from outside and computes nothing. It starts the front, which is the same program, and for the front
 * the workers; it holds the listening sockets and the workers' channels, and knows how processes ended.
 *
 * A front that ends in order, or that has not begun to serve for the first time, ends the master with its own
 * exit status. A front that ends otherwise is started again with the same arguments, and finds sockets and
 * workers where they were. A start that fails is tried again after a delay that doubles; after
 * CONVOY_MASTER_FAILED_STARTS in a row the master ends with status 1.
 *
 * SIGTERM, SIGINT and SIGHUP are handed to the front as packets: a terminal and a service manager send
 * signals to every process of a group, and the front must not count them twice.
 *
 * SIGUSR2 starts the program that lies at the path now as another front, which takes sockets and workers over
 * when it is prepared. Until then the one before serves.
 *
 * When the master is killed the kernel kills the front, and the workers find their control sockets closed and
 * end. */
#ifndef CONVOY_SERVER_MASTER_H
#define CONVOY_SERVER_MASTER_H

#include "engine/base/error.h"
#include "server/master/link.h"

#define CONVOY_MASTER_FAILED_STARTS 8 /* in a row: 6 s */

/* Returns the exit status of the process. arguments: those of the process, for the front. */
int convoy_master_run(char *const *arguments);

/* For benchmarks: a master in a process of its own, with this process in the place of the front. It ends when
 * the link is freed. To be called while there is one thread. */
int convoy_master_fork(struct convoy_link **link, struct convoy_error *error);

#endif
