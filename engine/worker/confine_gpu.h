/* Whether a worker's files may be confined before CUDA is started, where the configuration leaves that open.
 */
#ifndef CONVOY_ENGINE_WORKER_CONFINE_GPU_H
#define CONVOY_ENGINE_WORKER_CONFINE_GPU_H

#include "engine/base/error.h"

#include <stdbool.h>

/* False, with the reason, where CUDA might not start in a process that is confined: where NVIDIA's device
 * files are missing (the driver's own, or those of all GPUs), which the driver then lets nvidia-modprobe make
 * (engine/worker/confine_files.h), and where the folder of MPS is, whose clients open its server's files.
 * devices is the folder of device files. mps_named is the folder of MPS that the environment names, or NULL:
 * then mps_usual is, if root or the worker's user owns it, as other users must not decide what a worker may
 * read. All are read, not kept. */
bool convoy_worker_gpu_starts_confined(const char *devices, const char *mps_named, const char *mps_usual,
                                       struct convoy_error *why);

#endif
