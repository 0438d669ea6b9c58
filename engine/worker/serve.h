/* `convoy-worker --serve`: the worker's life under a front.
 *
 * Two threads. The main one owns the control socket: it reads messages, sends a heartbeat every 100 ms with
 * the phase, and ends the process when the socket closes. The compute thread owns the device: it loads
 * models, takes slots from the channel and finishes them, and lets the backend tune when there is nothing
 * else. A device that is lost ends the process with
 * CONVOY_EXIT_LOST; the front starts another, because a poisoned context cannot be mended from inside. */
#ifndef CONVOY_ENGINE_WORKER_SERVE_H
#define CONVOY_ENGINE_WORKER_SERVE_H

#include "engine/backend.h"

enum { CONVOY_EXIT_USAGE = 2, CONVOY_EXIT_NO_DEVICE = 3, CONVOY_EXIT_LOST = 4 };

/* Returns the exit status; descriptors are those of engine/ipc/channel.h. Of wish streams, cache_dir and tune
 * count. */
int convoy_worker_serve(const char *backend, uint32_t device_index, const struct convoy_open_options *wish);

#endif
