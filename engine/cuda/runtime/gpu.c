#include "engine/cuda/runtime/gpu.h"

#include "engine/cuda/runtime/calls.h"
#include "engine/cuda/runtime/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE 4096

static int make_staging(struct convoy_cuda_gpu *gpu, struct convoy_error *error)
{
    int failed = CONVOY_CUDA(error, cudaEventCreateWithFlags, (&gpu->staged, cudaEventDisableTiming));
    if (failed)
        return failed;
    void *memory = aligned_alloc(PAGE, CONVOY_CHECKSUM_SLICE);
    if (memory == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for %zu bytes of staging", CONVOY_CHECKSUM_SLICE);
    failed = CONVOY_CUDA(error, cudaHostRegister, (memory, CONVOY_CHECKSUM_SLICE, cudaHostRegisterDefault));
    if (failed)
        free(memory);
    else
        gpu->staging = memory;
    return failed;
}

int convoy_cuda_gpu_open(struct convoy_cuda_gpu *gpu, uint32_t index,
                         const struct convoy_open_options *options, struct convoy_error *error)
{
    uint32_t count = options->streams < 1 ? 1 : options->streams;
    gpu->index = (int)index;
    gpu->context = options->context;
    gpu->log = options->log;
    gpu->pause = options->pause;
    gpu->run_beside = options->run_beside;
    gpu->run_behind = options->run_behind;
    if (count > CONVOY_CUDA_MAX_STREAMS)
        count = CONVOY_CUDA_MAX_STREAMS;
    int failed = CONVOY_CUDA(error, cudaSetDevice, (gpu->index));
    while (gpu->stream_count < count && !failed) {
        failed = CONVOY_CUDA(error, cudaStreamCreateWithFlags,
                             (&gpu->streams[gpu->stream_count], cudaStreamNonBlocking));
        if (!failed)
            gpu->stream_count++;
    }
    if (!failed)
        failed = make_staging(gpu, error);
    return failed;
}

void convoy_cuda_gpu_close(struct convoy_cuda_gpu *gpu)
{
    struct convoy_error ignored;
    for (uint32_t i = 0; i < gpu->stream_count; i++)
        (void)CONVOY_CUDA(&ignored, cudaStreamDestroy, (gpu->streams[i]));
    gpu->stream_count = 0;
    if (gpu->staging != NULL)
        (void)CONVOY_CUDA(&ignored, cudaHostUnregister, (gpu->staging));
    if (gpu->staged != NULL)
        (void)CONVOY_CUDA(&ignored, cudaEventDestroy, (gpu->staged));
    free(gpu->staging);
    gpu->staging = NULL;
    gpu->staged = NULL;
}

int convoy_cuda_fetch(struct convoy_cuda_gpu *gpu, const void *data, size_t bytes, const void **copy,
                      struct convoy_error *error)
{
    int failed = CONVOY_CUDA(error, cudaMemcpyAsync,
                             (gpu->staging, data, bytes, cudaMemcpyDeviceToHost, gpu->streams[0]));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaEventRecord, (gpu->staged, gpu->streams[0]));
    /* Only calls that jobs make, too: operators are told that no other one is made once all is loaded. */
    cudaError_t code = cudaErrorNotReady;
    while (!failed && code == cudaErrorNotReady) {
        convoy_cuda_count(CONVOY_CUDA_cudaEventQuery);
        code = cudaEventQuery(gpu->staged);
        failed = code != cudaErrorNotReady ? convoy_cuda_check(code, "cudaEventQuery", error) : 0;
    }
    *copy = gpu->staging;
    return failed;
}

void convoy_cuda_log(const struct convoy_cuda_gpu *gpu, const char *level, const char *format, ...)
{
    char text[CONVOY_ERROR_BYTES];
    va_list arguments;
    if (gpu->log == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    gpu->log(gpu->context, level, text);
}

void convoy_cuda_pause(const struct convoy_cuda_gpu *gpu)
{
    if (gpu->pause != NULL)
        gpu->pause(gpu->context);
}

void convoy_cuda_run_beside(const struct convoy_cuda_gpu *gpu, void (*work)(void *argument), void *argument)
{
    if (gpu->run_beside != NULL)
        gpu->run_beside(gpu->context, work, argument);
    else
        work(argument);
}

bool convoy_cuda_is_lost(const struct convoy_cuda_gpu *gpu)
{
    struct convoy_error ignored;
    (void)cudaGetLastError();
    return CONVOY_CUDA(&ignored, cudaStreamSynchronize, (gpu->streams[0])) != 0;
}

int convoy_cuda_workspace_get(struct convoy_cuda_gpu *gpu, size_t bytes,
                              struct convoy_cuda_workspace **result, struct convoy_error *error)
{
    struct convoy_cuda_workspace *workspace = gpu->workspaces;
    while (workspace != NULL && workspace->bytes < bytes)
        workspace = workspace->next;
    if (workspace == NULL) {
        workspace = calloc(1, sizeof(*workspace));
        if (workspace == NULL)
            return convoy_fail(error, -ENOMEM, "no memory for a workspace");
        workspace->bytes = bytes;
        workspace->next = gpu->workspaces;
        gpu->workspaces = workspace;
        workspace->users = 1;
        int failed = 0;
        for (uint32_t i = 0; i < gpu->stream_count && !failed; i++) {
            failed = convoy_cuda_allocate(bytes, "a stream's activations", &workspace->memory[i], error);
            /* Rows of a bucket that no image fills are computed as well: on zeros, not on leftovers. */
            if (!failed)
                failed = CONVOY_CUDA(error, cudaMemset, (workspace->memory[i], 0, bytes));
        }
        /* Non-blocking streams do not wait for the default stream. */
        if (!failed)
            failed = CONVOY_CUDA(error, cudaStreamSynchronize, (NULL));
        if (failed) {
            convoy_cuda_workspace_put(gpu, workspace);
            return failed;
        }
    } else {
        workspace->users++;
    }
    *result = workspace;
    return 0;
}

void convoy_cuda_workspace_put(struct convoy_cuda_gpu *gpu, struct convoy_cuda_workspace *workspace)
{
    if (workspace == NULL || --workspace->users > 0)
        return;
    struct convoy_cuda_workspace **link = &gpu->workspaces;
    while (*link != workspace)
        link = &(*link)->next;
    *link = workspace->next;
    for (uint32_t i = 0; i < CONVOY_CUDA_MAX_STREAMS; i++)
        convoy_cuda_release(workspace->memory[i]);
    free(workspace);
}
