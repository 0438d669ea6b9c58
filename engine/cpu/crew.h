/* A crew: threads that sleep until there is a job for all of them.
 *
 * OpenMP's team, which oneDNN computes with, meets at every primitive: each meeting costs a sleeping thread's
 * waking, or a core that spins. A crew is woken once for a batch, and its members take images from it, each
 * at its own pace, so that one which the front pushes off its core holds up nobody. */
#ifndef CONVOY_ENGINE_CPU_CREW_H
#define CONVOY_ENGINE_CPU_CREW_H

#include "engine/base/error.h"

struct convoy_cpu_crew;

/* Starts a crew of `members`, the caller's own thread (member 0) among them. -ENOMEM or -EAGAIN. */
int convoy_cpu_crew_start(int members, struct convoy_cpu_crew **crew, struct convoy_error *error);

/* Calls work(context, 0) here and work(context, m) on the other members below `members`, as soon as they are
 * awake; a member that wakes when member 0 has returned already is not called. So work must take its share
 * from what is left, and member 0 must return only when nothing is. Returns when all calls have. */
void convoy_cpu_crew_run(struct convoy_cpu_crew *crew, int members, void (*work)(void *context, int member),
                         void *context);

/* Accepts NULL. */
void convoy_cpu_crew_stop(struct convoy_cpu_crew *crew);

#endif
