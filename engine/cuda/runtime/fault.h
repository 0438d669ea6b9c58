/* Faults of a GPU on purpose, for tests only. The environment variable CONVOY_TEST_FAULT chooses one:
 *   illegal:R,G,B  a job with an 8-bit image whose first pixel is R,G,B runs a kernel that writes nowhere
 *   trap:R,G,B     the same, with a kernel that fails
 *   spin:R,G,B     the same, with a kernel that never ends
 *   ecc:R,G,B      the same, with an uncorrectable memory error: said, not made
 *   memory:NAME    loading the model NAME asks for more memory than there is
 *   lost:NAME      the device is lost while the model NAME is loaded
 * (engine/worker/fault.h has those that need no GPU.) */
#ifndef CONVOY_ENGINE_CUDA_FAULT_H
#define CONVOY_ENGINE_CUDA_FAULT_H

#include "engine/backend.h"

#include <cuda_runtime_api.h>

/* Reads the environment. */
void convoy_cuda_fault_prepare(void);
/* 0, or as CONVOY_CUDA(). */
int convoy_cuda_fault_on_job(const struct convoy_job *job, cudaStream_t stream, struct convoy_error *error);
int convoy_cuda_fault_on_load(const char *model, cudaStream_t stream, struct convoy_error *error);

#endif
