/* A device of the CUDA backend: a GPU, the networks on it, the jobs in flight and the tuner. Implements the
 * functions of backend.h with the same names, errors and ownership; all of them run on the compute thread.
 *
 * A job costs two copies, one graph launch and four events; nothing is allocated, freed or waited for. A job
 * of JPEG files waits until its rows are decoded, which other threads do, and is then a job like others. */
#ifndef CONVOY_ENGINE_CUDA_DEVICE_H
#define CONVOY_ENGINE_CUDA_DEVICE_H

#include "engine/backend.h"
#include "engine/cuda/decode/jpeg_decoder.h"
#include "engine/cuda/runtime/gpu.h"
#include "engine/cuda/runtime/health.h"
#include "engine/cuda/tune/cache.h"
#include "engine/cuda/tune/tuner.h"

/* The events of a job: when its stages began and ended. */
enum { CONVOY_CUDA_BEGIN, CONVOY_CUDA_COPIED_IN, CONVOY_CUDA_COMPUTED, CONVOY_CUDA_END, CONVOY_CUDA_MARKS };

struct convoy_cuda_flight {
    struct convoy_job job;
    struct convoy_net *net;
    uint32_t stream, place; /* place: the row of device->marks */
    bool marks;             /* its rows may be marked (net/overflow.h) */
    bool again;             /* some of a job's rows, which ran before: its times are added */
    float decode_us;
};

/* A job that has no stream yet. */
struct convoy_cuda_waiting {
    bool used, decodes; /* decodes: task is under way, or has ended */
    uint64_t number;    /* the lower, the earlier */
    struct convoy_job job;
    struct convoy_net *net;
    bool again;     /* as in convoy_cuda_flight */
    uint32_t first; /* of rows that run again: the first one's place among all */
    struct convoy_jpeg_task task;
};

struct convoy_device {
    struct convoy_cuda_gpu gpu;
    uint32_t busy[CONVOY_CUDA_MAX_STREAMS]; /* jobs in flight on each stream */
    cudaEvent_t marks[CONVOY_CUDA_MAX_JOBS][CONVOY_CUDA_MARKS];
    uint64_t marks_used; /* a bit for each row of marks */
    uint32_t flight_count;
    struct convoy_cuda_flight flights[CONVOY_CUDA_MAX_JOBS]; /* in order of submission */
    uint32_t waiting_count;
    uint64_t waited; /* jobs that waited, ever */
    struct convoy_cuda_waiting waiting[CONVOY_CUDA_MAX_JOBS];
    struct convoy_jpeg_decoder *decoder; /* NULL: there is none */
    bool preparing;                      /* the decoder: prepared() will be called */
    int not_prepared;                    /* 0, or why not, of the thread that prepared it */
    struct convoy_error why;
    void *pinned;                              /* the channel's memory, or NULL */
    struct convoy_net *nets;                   /* all loaded networks, in order of loading */
    struct convoy_cuda_kernel_choices choices; /* the kernels that were measured to be fastest */
    struct convoy_cuda_cache cache;            /* the file that keeps them */
    struct convoy_cuda_tuner tuner;
    struct convoy_cuda_health *health; /* NULL: it was not asked for, or there is no thread */
};

int convoy_cuda_open(uint32_t index, const struct convoy_open_options *options, struct convoy_device **device,
                     struct convoy_device_info *info, struct convoy_error *error);
void convoy_cuda_close(struct convoy_device *device); /* NULL is allowed */
int convoy_cuda_enter(struct convoy_device *device, struct convoy_error *error);
int convoy_cuda_attach(struct convoy_device *device, void *base, size_t bytes, struct convoy_error *error);
int convoy_cuda_load(struct convoy_device *device, const struct convoy_graph *graph,
                     const struct convoy_load_options *options, struct convoy_net **net,
                     struct convoy_net_info *info, struct convoy_error *error);
void convoy_cuda_unload(struct convoy_device *device, struct convoy_net *net);
int convoy_cuda_submit(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                       struct convoy_error *error);
int convoy_cuda_collect(struct convoy_device *device, int64_t timeout_us, uint64_t *tag,
                        struct convoy_error *error);
int convoy_cuda_idle(struct convoy_device *device, int64_t budget_us, struct convoy_error *error);
int convoy_cuda_verify_decoder(struct convoy_device *device, struct convoy_error *error);
int convoy_cuda_verify(struct convoy_device *device, struct convoy_net *net, int64_t budget_us,
                       struct convoy_error *error);
int convoy_cuda_memory(struct convoy_device *device, struct convoy_device_memory *memory,
                       struct convoy_error *error);

#endif
