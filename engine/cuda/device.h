/* A GPU: its streams, its workspaces, and the jobs in flight. Everything here is the compute thread's alone.
 *
 * What a request costs is in device.c: two copies, a graph and four events; nothing is made, freed or waited
 * for. */
#ifndef CONVOY_ENGINE_CUDA_DEVICE_H
#define CONVOY_ENGINE_CUDA_DEVICE_H

#include "engine/backend.h"
#include "engine/cuda/tune/tuner.h"

#include <cuda_runtime_api.h>

#define CONVOY_CUDA_MAX_STREAMS 16
#define CONVOY_CUDA_MAX_JOBS    64

/* Memory for each stream, as large as the largest plan of the networks that share it: a stream runs one batch
 * at a time. */
struct convoy_cuda_workspace {
    struct convoy_cuda_workspace *next;
    size_t bytes; /* of each */
    int users;
    void *memory[CONVOY_CUDA_MAX_STREAMS];
};

/* When a job's stages began and ended. */
enum { CONVOY_CUDA_BEGIN, CONVOY_CUDA_COPIED_IN, CONVOY_CUDA_COMPUTED, CONVOY_CUDA_END, CONVOY_CUDA_MARKS };

struct convoy_cuda_flight {
    uint64_t tag;
    struct convoy_net *net;
    uint32_t stream;
    bool profile;
    struct convoy_job_times *times;
    cudaEvent_t *marks; /* of device->marks */
};

struct convoy_device {
    int index;
    uint32_t stream_count;
    cudaStream_t streams[CONVOY_CUDA_MAX_STREAMS];
    uint32_t busy[CONVOY_CUDA_MAX_STREAMS]; /* jobs in flight on each */
    struct convoy_cuda_workspace *workspaces;
    cudaEvent_t marks[CONVOY_CUDA_MAX_JOBS][CONVOY_CUDA_MARKS];
    uint64_t marks_used; /* a bit for each of marks */
    uint32_t flight_count;
    struct convoy_cuda_flight flights[CONVOY_CUDA_MAX_JOBS]; /* in order of submission */
    void *pinned;
    struct convoy_net *nets; /* all that are loaded */
    struct convoy_cuda_choices choices;
    struct convoy_cuda_tuner tuner;
    char *cache_folder, *cache_file, *cache_header; /* NULL: nothing is remembered */
    void *context;
    void (*log)(void *context, const char *level, const char *text);
    void (*changed)(void *context, struct convoy_net *net, const struct convoy_net_info *info);
    bool (*pause)(void *context); /* as in backend.h */
};

/* A line for the worker's log, if anyone reads it. */
__attribute__((format(printf, 3, 4))) void convoy_cuda_log(const struct convoy_device *device,
                                                           const char *level, const char *format, ...);

/* Lets the worker serve other networks between two steps of something long. */
void convoy_cuda_pause(const struct convoy_device *device);

int convoy_cuda_open(uint32_t index, const struct convoy_open_options *options, struct convoy_device **device,
                     struct convoy_device_info *info, struct convoy_error *error);
void convoy_cuda_close(struct convoy_device *device);
int convoy_cuda_enter(struct convoy_device *device, struct convoy_error *error);
int convoy_cuda_attach(struct convoy_device *device, void *base, size_t bytes, struct convoy_error *error);
int convoy_cuda_submit(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                       struct convoy_error *error);
int convoy_cuda_collect(struct convoy_device *device, int64_t timeout_us, uint64_t *tag,
                        struct convoy_error *error);
int convoy_cuda_memory(struct convoy_device *device, struct convoy_device_memory *memory,
                       struct convoy_error *error);

/* After a call failed: was that the end of the device, or the call's own (a launch that the device refuses:
 * too much shared memory, no code for this chip)? Waits for the first stream. */
bool convoy_cuda_is_lost(struct convoy_device *device);

/* A workspace of at least so many bytes a stream: one that is there, or a new one. -ENOMEM, -EIO. */
int convoy_cuda_workspace_get(struct convoy_device *device, size_t bytes,
                              struct convoy_cuda_workspace **workspace, struct convoy_error *error);
/* Its memory goes when nobody uses it; NULL is allowed. Nothing may be running in it. */
void convoy_cuda_workspace_put(struct convoy_device *device, struct convoy_cuda_workspace *workspace);

#endif
