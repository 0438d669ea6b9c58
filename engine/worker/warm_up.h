/* Runs a network once before it serves. The first run costs more than later ones: code is loaded, memory is
 * touched, caches are empty. No request pays for that, and a network that kills the device does so while it
 * loads. Threads: the compute thread, with no job in flight. */
#ifndef CONVOY_ENGINE_WORKER_WARM_UP_H
#define CONVOY_ENGINE_WORKER_WARM_UP_H

#include "engine/worker/nets.h"

/* Runs one row of zeros, as pixels if the network takes them. *took_us: microseconds, when it was run.
 * Returns 0; -ENOMEM: the network was not run; another errno: the device is lost. */
int convoy_worker_warm_up(struct convoy_worker_device *device, const struct convoy_worker_net *net,
                          uint64_t *took_us, struct convoy_error *error);

#endif
