/* Confinement of a worker: what a model that takes the process over can still do.
 *
 * Once confined the process computes, opens files and uses its device. It makes no socket, starts no process,
 * neither looks into another process nor signals it, and does nothing that only an administrator does: the
 * calls for that end with EPERM. It is a list of what is refused, not of what is allowed, because a GPU's
 * driver uses calls that differ from version to version.
 *
 * Files are not confined: what the user may read and write, the worker may. */
#ifndef CONVOY_ENGINE_WORKER_CONFINE_H
#define CONVOY_ENGINE_WORKER_CONFINE_H

#include "engine/base/error.h"

/* At the start of the process, while it has one thread: no other process of the same user can read its memory
 * (but not in builds with sanitizers, which do that themselves at the end), and a worker that root runs
 * keeps no capability but those to read files and to lock memory. */
void convoy_worker_confine_early(void);

/* When the device is open and before a model is read; for all threads of the process, of libraries too, and
 * for good. Returns 0, or a negative errno when the kernel or libseccomp refuses; nothing is confined then.
 */
int convoy_worker_confine(struct convoy_error *error);

#endif
