/* Whether a worker's files may be confined before CUDA is started, where the configuration leaves that open.
 */
#ifndef CONVOY_ENGINE_WORKER_CONFINE_GPU_H
#define CONVOY_ENGINE_WORKER_CONFINE_GPU_H

#include "engine/base/error.h"

#include <stdbool.h>

/* False, with the reason, where CUDA would not start in a process that is confined: where NVIDIA's device
 * files are missing, which the driver then lets nvidia-modprobe make (engine/worker/confine_files.h), and
 * where CUDA would look for MPS, whose clients open its server's files. devices is the folder of device
 * files; mps the folder in which MPS is looked for, which counts where root or the worker's user owns it:
 * other users must not decide what a worker may read. Both are read, not kept. */
bool convoy_worker_gpu_starts_confined(const char *devices, const char *mps, struct convoy_error *why);

#endif
