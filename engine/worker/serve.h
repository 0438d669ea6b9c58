/* `convoy-worker --serve`: the life of a worker under a front.
 *
 * Two threads. The main thread owns the control socket: it reads commands, sends a heartbeat with the phase
 * every 100 ms, and ends the process when the socket closes. The compute thread owns the device: it loads
 * models, takes slots from the channel and finishes them, and lets the backend tune when there is nothing
 * else to do. It sleeps in poll() when there is no work. A device that is lost ends the process with
 * CONVOY_EXIT_LOST, one that computes wrongly with CONVOY_EXIT_WRONG; the front starts another worker,
 * because a process cannot recover from a poisoned context. */
#ifndef CONVOY_ENGINE_WORKER_SERVE_H
#define CONVOY_ENGINE_WORKER_SERVE_H

#include "engine/backend.h"
#include "engine/worker/confine.h"

enum { CONVOY_EXIT_USAGE = 2, CONVOY_EXIT_NO_DEVICE = 3, CONVOY_EXIT_LOST = 4, CONVOY_EXIT_WRONG = 5 };

/* Serves until the front closes the control socket. Returns the exit status; the process may also end inside.
 * The descriptors are those of engine/ipc/channel.h. Reads only streams, tune and pixels_only of options; the
 * cache's folder is confinement->folders.write. confinement: of what the worker is confined before it reads a
 * model; it must live as long as the process. canary_ms: the rest between two checks
 * of the device in idle time; 0: it is checked only when a model was loaded. orphan_ms: ends, too, when no
 * front has read its messages for so long; 0: it does not mind. spare: opens its device, then waits, without
 * HELLO, until the front writes to the control socket. */
int convoy_worker_serve(const char *backend, uint32_t device_index,
                        struct convoy_worker_confinement *confinement, uint32_t canary_ms, uint32_t orphan_ms,
                        bool spare, const struct convoy_open_options *options);

#endif
