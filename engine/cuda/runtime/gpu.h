/* A GPU as the rooms above need it: its streams, the workspaces of those streams, the worker's log, and the
 * pauses in which the worker serves other networks. engine/cuda/device.h adds jobs, networks and tuning.
 *
 * All functions run on the compute thread: the one thread of the worker that works with the device. */
#ifndef CONVOY_ENGINE_CUDA_GPU_H
#define CONVOY_ENGINE_CUDA_GPU_H

#include "engine/backend.h"
#include "engine/base/hash.h"

#include <cuda_runtime_api.h>

#define CONVOY_CUDA_MAX_STREAMS 16
#define CONVOY_CUDA_MAX_JOBS    64 /* in flight; a bit for each in marks_used of struct convoy_device */

/* One piece of device memory for each stream, as large as the largest plan of the networks that share it. A
 * stream runs one batch at a time, so networks can share. */
struct convoy_cuda_workspace {
    struct convoy_cuda_workspace *next;
    size_t bytes; /* of each piece */
    int users;    /* networks */
    void *memory[CONVOY_CUDA_MAX_STREAMS];
};

struct convoy_cuda_gpu {
    int index; /* the number of the device, for cudaSetDevice() */
    uint32_t stream_count;
    cudaStream_t streams[CONVOY_CUDA_MAX_STREAMS];
    struct convoy_cuda_workspace *workspaces;
    void *staging;      /* pinned, CONVOY_CHECKSUM_SLICE bytes */
    cudaEvent_t staged; /* behind the last copy to it */
    /* of struct convoy_open_options */
    void *context;
    void (*log)(void *context, const char *level, const char *text);
    void (*pause)(void *context);
    void (*run_beside)(void *context, void (*work)(void *argument), void *argument);
    void (*run_behind)(void *context, void (*work)(void *argument),
                       int (*done)(void *argument, struct convoy_error *error), void *argument);
};

/* Selects the device `index` for this thread, makes its streams (options->streams, limited to 1 to
 * CONVOY_CUDA_MAX_STREAMS) and keeps the functions of options. gpu is all zero before; call
 * convoy_cuda_gpu_close() also after a failure. 0 or as convoy_cuda_check(). */
int convoy_cuda_gpu_open(struct convoy_cuda_gpu *gpu, uint32_t index,
                         const struct convoy_open_options *options, struct convoy_error *error);

/* Destroys the streams. All workspaces must have been given back. */
void convoy_cuda_gpu_close(struct convoy_cuda_gpu *gpu);

/* Writes one line to the worker's log, if it keeps one. level: as in backend.h. */
__attribute__((format(printf, 3, 4))) void convoy_cuda_log(const struct convoy_cuda_gpu *gpu,
                                                           const char *level, const char *format, ...);

/* Lets the worker serve other networks; called between two steps of a long operation. */
void convoy_cuda_pause(const struct convoy_cuda_gpu *gpu);

/* Calls work(argument), which needs no device, and returns when it has ended; the worker may serve other
 * networks meanwhile. */
void convoy_cuda_run_beside(const struct convoy_cuda_gpu *gpu, void (*work)(void *argument), void *argument);

/* After a call failed: is the device lost, or did only that call fail (a launch that the device refuses: too
 * much shared memory, no code for this chip)? Waits for the first stream. */
bool convoy_cuda_is_lost(const struct convoy_cuda_gpu *gpu);

/* Copies at most CONVOY_CHECKSUM_SLICE bytes from the device and waits for them; *copy is valid until the
 * next call. With no job in flight. 0 or as convoy_cuda_check(). */
int convoy_cuda_fetch(struct convoy_cuda_gpu *gpu, const void *data, size_t bytes, const void **copy,
                      struct convoy_error *error);

/* Finds or makes a workspace of at least `bytes` for each stream and counts one user more. New memory is
 * zeroed. Returns 0, -ENOMEM or -EIO. */
int convoy_cuda_workspace_get(struct convoy_cuda_gpu *gpu, size_t bytes,
                              struct convoy_cuda_workspace **workspace, struct convoy_error *error);

/* Counts one user less; the last one frees the memory. NULL is allowed. No job may be running in it. */
void convoy_cuda_workspace_put(struct convoy_cuda_gpu *gpu, struct convoy_cuda_workspace *workspace);

#endif
