/* A worker's process that is left before it is dead: no thread of it runs any more, and the driver takes down
 * what it had opened. Another one has taken its place; how it ended is logged when the master tells it. The
 * master holds it under a label of its own, so that a front that takes over adopts it as what it is.
 *
 * Threads: the control loop alone. */
#ifndef CONVOY_SERVER_WORKER_PROCESS_LEFT_H
#define CONVOY_SERVER_WORKER_PROCESS_LEFT_H

#include "server/workers/worker_process.h"

/* The record's process becomes process->left, of which there is none. Its handles stay the caller's. */
void convoy_worker_left_begin(struct convoy_worker_process *process);

/* How a process ended, for the log. status: as waitpid(2) tells it. */
void convoy_worker_exit_text(int status, char *text, size_t capacity);

#endif
