/* Runs a network's canary (engine/ipc/canary.h) on a device. Threads: the compute thread, with no job in
 * flight. */
#ifndef CONVOY_ENGINE_WORKER_CANARY_H
#define CONVOY_ENGINE_WORKER_CANARY_H

#include "engine/ipc/canary.h"
#include "engine/worker/nets.h"

/* Runs the canary's row, as pixels if the network takes them, and takes the answer. *took_us: microseconds,
 * when it was run. Returns 0; -ENOMEM: the network was not run; another errno: the device is lost. */
int convoy_worker_canary_run(struct convoy_worker_device *device, const struct convoy_worker_net *net,
                             struct convoy_canary *answer, uint64_t *took_us, struct convoy_error *error);

/* Adds "canary" to the message "loaded": "finite", "values" (null: not finite) and "ranges". */
void convoy_worker_canary_describe(const struct convoy_canary *answer, cJSON *message);

/* A number computed from names, sizes, inodes and times of the files beside the model at path, itself among
 * them; 0 when they cannot be looked at. The same number twice: the model was read from the same files. */
uint64_t convoy_worker_canary_files(const char *path);

#endif
