/* How a worker's process ended, for the log. Threads: any. */
#ifndef CONVOY_SERVER_WORKER_EXIT_TEXT_H
#define CONVOY_SERVER_WORKER_EXIT_TEXT_H

#include <stddef.h>

/* Writes "killed by signal 9 (Killed)" or "exit status 1", cut to capacity bytes with the terminator. status:
 * as waitpid(2) tells it. */
void convoy_worker_exit_text(int status, char *text, size_t capacity);

#endif
