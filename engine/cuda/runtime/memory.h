/* Device memory, allocated while models are loaded or tuned, never for a job. Compute thread only. */
#ifndef CONVOY_ENGINE_CUDA_MEMORY_H
#define CONVOY_ENGINE_CUDA_MEMORY_H

#include "engine/base/error.h"

#include <stddef.h>

/* Allocates bytes; release them with convoy_cuda_release(). what: their purpose, for the error. 0; -ENOMEM
 * with the bytes asked for and free; -EIO. */
int convoy_cuda_allocate(size_t bytes, const char *what, void **memory, struct convoy_error *error);

/* Frees memory; NULL is allowed. A failure shows in the next call. */
void convoy_cuda_release(void *memory);

#endif
