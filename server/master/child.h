/* Starts the master's children: a front, a worker.
 *
 * Threads: a process with one thread. */
#ifndef CONVOY_SERVER_MASTER_CHILD_H
#define CONVOY_SERVER_MASTER_CHILD_H

#include "engine/base/error.h"

#include <stdint.h>
#include <sys/types.h>

/* Names a front's end of the socket to its master, for the front alone. */
#define CONVOY_MASTER_VARIABLE "CONVOYD_MASTER"

/* The variables that are for the front alone and not for workers: the service manager's
 * (sd_listen_fds(3), sd_notify(3), sd_watchdog_enabled(3)) and CONVOY_MASTER_VARIABLE. Ends with NULL. */
extern const char *const convoy_front_variables[];

/* Descriptors 3 and on are worker's; 1 and 2 become standard error, 0 /dev/null. Returns the pid, or a
 * negative errno with a sentence. */
pid_t convoy_child_worker(char *const *arguments, const int *fds, uint32_t fd_count,
                          struct convoy_error *error);

/* arguments[0] is not what is run: program is. socket: the front's end; the first inherited descriptors from
 * 3 on are the service manager's sockets. */
pid_t convoy_child_front(const char *program, char *const *arguments, int socket, uint32_t inherited,
                         struct convoy_error *error);

#endif
