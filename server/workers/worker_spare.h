/* A spare of a worker: a process that has opened the worker's device, has read nothing, and waits. When the
 * worker dies the spare takes its place at once, and need not open the device first. A spare that is taken
 * while it opens the device, or hangs there, has the time that any start has.
 *
 * It is started with the memory of the worker's channel, which it does not map, and with a doorbell of its
 * own. It says no HELLO before it is taken; what it logs is read then. That it has opened the device it says
 * before ("opened"), which is looked at and left in its socket. It ends when front and master have
 * closed its control socket, and is killed with the master. Threads: the control loop alone. */
#ifndef CONVOY_SERVER_WORKER_SPARE_H
#define CONVOY_SERVER_WORKER_SPARE_H

#include "server/config/config.h"
#include "server/master/link.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct convoy_worker_spare {
    struct convoy_link *link; /* it was started through this one */
    bool exists;
    uint32_t number; /* the link's for it */
    pid_t pid;
    int control, doorbell; /* this end's */
    char *as;              /* how it was started: its command line, but for what makes it a spare */
    uint64_t started_us;
    uint32_t failures; /* in a row: that could not be started, or ended within a minute */
    uint64_t next_us;  /* none is started before */
};

/* Those of one worker. */
struct convoy_worker_spares {
    struct convoy_worker_spare each[CONVOY_MOST_SPARES];
    uint32_t wanted;
};

/* Whether one is wanted that does not exist, and the time has come to start it. */
bool convoy_worker_spares_due(const struct convoy_worker_spares *spares);
/* Starts those. arguments: as a worker is started now, fewer than CONVOY_WORKER_ARGUMENTS. memory: the
 * channel's. It is logged, also that it failed. */
void convoy_worker_spares_start(struct convoy_worker_spares *spares, struct convoy_link *link,
                                char *const *arguments, int memory);
/* Whether the oldest has opened its device, of whose memory so many bytes were free then. */
bool convoy_worker_spares_ready(const struct convoy_worker_spares *spares, uint64_t *free_bytes,
                                uint64_t *total_bytes);
/* Takes the oldest that was started with these arguments; false: there is none. Its descriptors, number and
 * process are the caller's then, and exited() is called at its end. Those that were started otherwise are
 * ended. */
bool convoy_worker_spares_take(struct convoy_worker_spares *spares, char *const *arguments,
                               convoy_link_exited *exited, void *context, struct convoy_link_worker *taken);
/* Kills all. */
void convoy_worker_spares_end(struct convoy_worker_spares *spares);

#endif
