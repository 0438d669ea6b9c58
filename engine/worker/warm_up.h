/* The first run of a network costs more than those after it: code is loaded, memory is touched, caches are
 * empty. It is made before the model answers, so that no request pays for it, and so that a network that
 * kills the device does so while it loads. Used by the compute thread, with nothing in flight. */
#ifndef CONVOY_ENGINE_WORKER_WARM_UP_H
#define CONVOY_ENGINE_WORKER_WARM_UP_H

#include "engine/worker/nets.h"

/* Runs one row of zeros, as pixels where the network takes them. -ENOMEM: it was not run; another error: the
 * device is lost. */
int convoy_worker_warm_up(struct convoy_worker_device *device, const struct convoy_worker_net *net,
                          struct convoy_error *error);

#endif
