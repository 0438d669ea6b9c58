/* A front that takes a worker over from a front that is gone.
 *
 *     the new front                                              the worker
 *     adopt                              -- control socket -->   finishes what it computes for the old one
 *                                  <-- CONVOY_LINE_CUT, hello -- and passes by the rest
 *                                  <-- held, for each model --   its number, its shapes, what it was loaded
 * with
 *                                  <-- adopted --
 *     keep: number by number                             -->     unloads the others, renumbers these
 *                                  <-- attached --
 *     submits slots
 *
 * A worker that has no channel yet says "attached": false in its hello. A front has no use for it.
 *
 * Threads: the compute thread. */
#ifndef CONVOY_ENGINE_WORKER_ADOPT_H
#define CONVOY_ENGINE_WORKER_ADOPT_H

#include "engine/worker/serve_internal.h"

/* Keeps what a later front must know of the model: the command that it was loaded with, and the message
 * "loaded" as far as it is made. */
void convoy_worker_remember(struct convoy_worker_net *net, const cJSON *command, const cJSON *described);
/* The same after it was tuned. */
void convoy_worker_remember_tuned(struct convoy_worker_net *net, const struct convoy_net_info *info);

/* The commands "adopt" and "keep". */
void convoy_worker_adopt(struct convoy_worker *worker);
void convoy_worker_keep(struct convoy_worker *worker, const cJSON *command);

#endif
