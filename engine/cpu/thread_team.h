/* A team of threads that sleep until there is a job for all of them.
 *
 * The team of openmp.h, which oneDNN computes with, synchronises at every primitive: each time a sleeping
 * thread has to wake up, or a core has to spin. This team wakes up once for a batch. Its threads take images
 * from the batch at their own pace, so a thread that loses its core to the front delays no other. */
#ifndef CONVOY_ENGINE_CPU_THREAD_TEAM_H
#define CONVOY_ENGINE_CPU_THREAD_TEAM_H

#include "engine/base/error.h"

struct convoy_cpu_thread_team;

/* Starts a team of `threads` threads; the caller's own counts as number 0. Returns 0, -ENOMEM or -EAGAIN. One
 * thread calls run and stop. */
int convoy_cpu_thread_team_start(int threads, struct convoy_cpu_thread_team **team,
                                 struct convoy_error *error);

/* Calls work(context, 0) on the calling thread and work(context, i) on thread i, for all i below `threads`,
 * as soon as it is awake. A thread that wakes up after call 0 has returned is not called. So each call of
 * work() takes its share from what is left, and call 0 returns only when nothing is left. Returns when all
 * calls have. */
void convoy_cpu_thread_team_run(struct convoy_cpu_thread_team *team, int threads,
                                void (*work)(void *context, int index), void *context);

/* Ends the threads and frees the team. Accepts NULL. */
void convoy_cpu_thread_team_stop(struct convoy_cpu_thread_team *team);

#endif
