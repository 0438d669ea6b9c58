/* Calling CUDA: every call of the module goes through CONVOY_CUDA(), which counts it by name and turns a
 * failure into a sentence. So anyone can see on /metrics that a request costs no allocation, no
 * synchronisation and no query of the device (DESIGN.md names the calls that it may cost). */
#ifndef CONVOY_ENGINE_CUDA_CALLS_H
#define CONVOY_ENGINE_CUDA_CALLS_H

#include "engine/base/error.h"

#include <cuda_runtime_api.h>
#include <stdint.h>

/* Every function of the CUDA runtime that this module calls. cudaLaunchKernelExC stands for the launches of
 * kernels/, which are counted by whoever asks for them. */
#define CONVOY_CUDA_CALLS(X)                                                                                 \
    X(cudaGetDeviceCount)                                                                                    \
    X(cudaSetDevice)                                                                                         \
    X(cudaGetDeviceProperties)                                                                               \
    X(cudaDriverGetVersion)                                                                                  \
    X(cudaMemGetInfo)                                                                                        \
    X(cudaMalloc)                                                                                            \
    X(cudaFree)                                                                                              \
    X(cudaHostRegister)                                                                                      \
    X(cudaHostUnregister)                                                                                    \
    X(cudaMemcpy)                                                                                            \
    X(cudaMemset)                                                                                            \
    X(cudaMemcpyAsync)                                                                                       \
    X(cudaStreamCreateWithFlags)                                                                             \
    X(cudaStreamDestroy)                                                                                     \
    X(cudaStreamSynchronize)                                                                                 \
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
    X(cudaEventElapsedTime)                                                                                  \
    X(cudaLaunchKernelExC)

enum convoy_cuda_call {
#define CONVOY_CUDA_NUMBER(name) CONVOY_CUDA_##name,
    CONVOY_CUDA_CALLS(CONVOY_CUDA_NUMBER)
#undef CONVOY_CUDA_NUMBER
        CONVOY_CUDA_CALL_COUNT
};

/* Adds one; the thread that works with the device. */
void convoy_cuda_count(enum convoy_cuda_call call);

/* The counts of calls that were made, as backend.h's counters(). Any thread. */
void convoy_cuda_report(void (*report)(void *context, const char *name, uint64_t value), void *context);

/* 0, or a negative errno and a sentence: -ENOMEM where device memory is out, -ENODEV without a device or
 * driver, else -EIO: the context is lost. */
int convoy_cuda_check(cudaError_t code, const char *call, struct convoy_error *error);

/* CONVOY_CUDA(error, cudaMemcpyAsync, (to, from, bytes, kind, stream)): 0 or as convoy_cuda_check(). */
#define CONVOY_CUDA(error, name, arguments)                                                                  \
    (convoy_cuda_count(CONVOY_CUDA_##name), convoy_cuda_check(name arguments, #name, (error)))

#endif
