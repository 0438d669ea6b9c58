/* Whether the kernel has begun to end a process. A process that has a GPU open is told dead (waitpid, pidfd)
 * only when the driver has taken down what it had opened, long after its last thread has run its last
 * instruction. Threads: any. */
#ifndef CONVOY_SERVER_PROCESS_ENDING_H
#define CONVOY_SERVER_PROCESS_ENDING_H

#include <stdbool.h>
#include <sys/types.h>

enum convoy_process_ending {
    CONVOY_PROCESS_RUNS,       /* some thread may go on */
    CONVOY_PROCESS_ENDS,       /* no thread of it returns to its program, ever */
    CONVOY_PROCESS_NOT_VISIBLE /* it cannot be told: /proc does not show it (hidepid), it has very many
                                  threads, or it is gone */
};

/* Looks at every thread of the process in /proc, twice: threads may start each other while one looks. Send
 * SIGKILL first: a thread that has it pending starts no other, so none gets away between the two looks. */
enum convoy_process_ending convoy_process_ending(pid_t pid);

/* Whether the text of /proc/PID/task/TID/stat is of a thread that is ending or has ended. For tests. */
bool convoy_thread_stat_ends(const char *stat);

#endif
