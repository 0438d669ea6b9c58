/* Device memory: taken when a model is loaded, never later. */
#ifndef CONVOY_ENGINE_CUDA_MEMORY_H
#define CONVOY_ENGINE_CUDA_MEMORY_H

#include "engine/base/error.h"

#include <stddef.h>

/* -ENOMEM names the bytes asked and free, and what they are for; -EIO. */
int convoy_cuda_allocate(size_t bytes, const char *what, void **memory, struct convoy_error *error);

/* NULL is allowed. A failure is the next call's to report. */
void convoy_cuda_release(void *memory);

#endif
