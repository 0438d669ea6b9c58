/* The label under which the master holds a worker for later fronts: what a front must agree with to adopt it.
 * Threads: the control loop alone. */
#ifndef CONVOY_SERVER_WORKER_LABEL_H
#define CONVOY_SERVER_WORKER_LABEL_H

#include "engine/ipc/channel.h"
#include "server/master/link.h"
#include "server/workers/worker_settings.h"

#include <limits.h>

#define CONVOY_WORKER_LABEL_BYTES (2 * PATH_MAX)

/* size: of slots; all zero before they are laid out. */
void convoy_worker_label_make(const struct convoy_worker_settings *settings, const char *backend,
                              const struct convoy_channel_size *size, char label[CONVOY_WORKER_LABEL_BYTES]);
/* The label of a worker that the master holds, that this front could have started with these settings and
 * this backend ("auto": any), and that has a channel; NULL: there is none. size: of its slots; found: its
 * backend.
 */
const char *convoy_worker_label_find(const struct convoy_link *link,
                                     const struct convoy_worker_settings *settings, const char *backend,
                                     struct convoy_channel_size *size, char found[CONVOY_BACKEND_BYTES]);
/* For which models and device the worker is that the master holds with this index, which counts up to a call
 * that returns false. The device of one that no front adopts is CONVOY_MAX_DEVICES. */
bool convoy_worker_label_held(const struct convoy_link *link, uint32_t index, uint32_t *device,
                              char of[CONVOY_OF_BYTES]);

#endif
