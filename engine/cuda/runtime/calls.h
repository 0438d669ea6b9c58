/* Calling CUDA: every call of the module goes through CONVOY_CUDA(), which counts it by name and turns a
 * failure into a sentence. The counts are on /metrics and show that a request costs no allocation, no
 * synchronisation and no query of the device (docs/cuda.md lists the calls that it costs). */
#ifndef CONVOY_ENGINE_CUDA_CALLS_H
#define CONVOY_ENGINE_CUDA_CALLS_H

#include "engine/base/error.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

/* Every function of the CUDA runtime that this module calls. cudaLaunchKernelExC stands for the launches of
 * kernels/, which the caller of a launch function counts. */
#define CONVOY_CUDA_CALLS(X)                                                                                 \
    X(cudaGetDeviceCount)                                                                                    \
    X(cudaSetDevice)                                                                                         \
    X(cudaGetDeviceProperties)                                                                               \
    X(cudaDriverGetVersion)                                                                                  \
    X(cudaMemGetInfo)                                                                                        \
    X(cudaMallocHost)                                                                                        \
    X(cudaFreeHost)                                                                                          \
    X(cudaMalloc)                                                                                            \
    X(cudaFree)                                                                                              \
    X(cudaHostRegister)                                                                                      \
    X(cudaHostUnregister)                                                                                    \
    X(cudaMemcpy)                                                                                            \
    X(cudaMemset)                                                                                            \
    X(cudaMemcpyAsync)                                                                                       \
    X(cudaMemsetAsync)                                                                                       \
    X(cudaStreamCreateWithFlags)                                                                             \
    X(cudaStreamCreateWithPriority)                                                                          \
    X(cudaStreamDestroy)                                                                                     \
    X(cudaStreamSynchronize)                                                                                 \
    X(cudaStreamWaitEvent)                                                                                   \
    X(cudaStreamBeginCapture)                                                                                \
    X(cudaStreamEndCapture)                                                                                  \
    X(cudaGraphInstantiate)                                                                                  \
    X(cudaGraphUpload)                                                                                       \
    X(cudaGraphDestroy)                                                                                      \
    X(cudaGraphExecDestroy)                                                                                  \
    X(cudaGraphLaunch)                                                                                       \
    X(cudaEventCreateWithFlags)                                                                              \
    X(cudaEventDestroy)                                                                                      \
    X(cudaEventRecord)                                                                                       \
    X(cudaEventQuery)                                                                                        \
    X(cudaEventSynchronize)                                                                                  \
    X(cudaEventElapsedTime)                                                                                  \
    X(cudaLaunchKernelExC)

enum convoy_cuda_call {
#define CONVOY_CUDA_NUMBER(name) CONVOY_CUDA_##name,
    CONVOY_CUDA_CALLS(CONVOY_CUDA_NUMBER)
#undef CONVOY_CUDA_NUMBER
        CONVOY_CUDA_CALL_COUNT
};

/* Adds one. Compute thread only. */
void convoy_cuda_count(enum convoy_cuda_call call);
/* The same for other threads, such as those that decode pictures; costs an atomic addition. */
void convoy_cuda_count_beside(enum convoy_cuda_call call);

/* Reports the counts that are not 0, as counters() of backend.h. Any thread. */
void convoy_cuda_report(void (*report)(void *context, const char *name, uint64_t value), void *context);

/* Returns 0, or a negative errno with a sentence: -ENOMEM if device memory is out, -ENODEV if there is no
 * device or driver, else -EIO. Any thread. */
int convoy_cuda_check(cudaError_t code, const char *call, struct convoy_error *error);

/* CONVOY_CUDA(error, cudaMemcpyAsync, (to, from, bytes, kind, stream)): 0 or as convoy_cuda_check(). */
#define CONVOY_CUDA(error, name, arguments)                                                                  \
    (convoy_cuda_count(CONVOY_CUDA_##name), convoy_cuda_check(name arguments, #name, (error)))
/* The same on any thread but the compute thread. */
#define CONVOY_CUDA_BESIDE(error, name, arguments)                                                           \
    (convoy_cuda_count_beside(CONVOY_CUDA_##name), convoy_cuda_check(name arguments, #name, (error)))

#endif
