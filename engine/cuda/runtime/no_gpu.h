/* Why there is no GPU to use, in words that say what to do. */
#ifndef CONVOY_ENGINE_CUDA_RUNTIME_NO_GPU_H
#define CONVOY_ENGINE_CUDA_RUNTIME_NO_GPU_H

#include "engine/base/error.h"

#include <cuda_runtime_api.h>

/* Fills error for code, which cudaGetDeviceCount() gave, and returns -ENODEV. driver is what
 * cudaDriverGetVersion() says, 0 where no driver is installed; runtime is the CUDA version that this module
 * was built with; both as CUDA writes them, 13010 for 13.1. Any thread. */
int convoy_cuda_no_gpu(cudaError_t code, int driver, int runtime, struct convoy_error *error);

#endif
