/* Counters, gauges and histograms, and their rendering as Prometheus text (exposition format 0.0.4).
 *
 * Series with an unbounded label would grow without end: callers pass names of models that exist (else "")
 * and templates of routes. A series is absent until it is first set, so what needs a GPU is absent without
 * one; the counters and histograms of a model begin at 0 with convoy_metrics_model().
 *
 * Threads: every function may be called from any thread at any time but new() and free(). What takes a handle
 * (struct convoy_model_metrics, ..._device_metrics, ..._cache_metrics) is a few relaxed atomic additions: no
 * lock, no allocation. What takes label texts looks the series up without a lock (some 100 ns) and allocates
 * it, under a lock, at its first use. Memory running out loses a count, nothing else. */
#ifndef CONVOY_SERVER_METRICS_H
#define CONVOY_SERVER_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVOY_METRICS_DEVICES 64 /* devices past these share the label "other" */

struct convoy_metrics;
struct convoy_model_metrics;  /* of one model name */
struct convoy_device_metrics; /* of one device */
struct convoy_cache_metrics;  /* of the response cache */

enum convoy_stage {
    CONVOY_STAGE_DECODE,  /* per request: all its images */
    CONVOY_STAGE_QUEUE,   /* per image: from hand-over to the start of its run */
    CONVOY_STAGE_INPUT,   /* per batch, on the device */
    CONVOY_STAGE_COMPUTE, /* per batch, on the device */
    CONVOY_STAGE_OUTPUT,  /* per batch, on the device */
    CONVOY_STAGE_REQUEST, /* per request: from the body's last byte to the answer */
    CONVOY_STAGES
};

/* Returns NULL when memory is out. */
struct convoy_metrics *convoy_metrics_new(void);
void convoy_metrics_free(struct convoy_metrics *metrics); /* NULL is allowed; handles die with it */

/* Find or make; the handle lives as long as metrics. NULL when memory is out, and every function below takes
 * a NULL handle and does nothing. */
struct convoy_model_metrics *convoy_metrics_model(struct convoy_metrics *metrics, const char *name);
struct convoy_device_metrics *convoy_metrics_device(struct convoy_metrics *metrics, const char *name);

/* Hot path. */
void convoy_metrics_observe(struct convoy_model_metrics *model, enum convoy_stage stage,
                            uint64_t microseconds);
/* So many of the same. */
void convoy_metrics_observe_many(struct convoy_model_metrics *model, enum convoy_stage stage,
                                 uint64_t microseconds, uint32_t times);
/* A batch of rows images finished well: counts it, its size, and its images (convoyd_images_total is counted
 * here and nowhere else). */
void convoy_metrics_batch(struct convoy_model_metrics *model, struct convoy_device_metrics *device,
                          uint32_t rows);
void convoy_metrics_retried(struct convoy_model_metrics *model, uint32_t images);
void convoy_metrics_queue(struct convoy_model_metrics *model, uint64_t images); /* waiting now */
void convoy_metrics_slots_in_use(struct convoy_metrics *metrics, uint64_t slots);

/* The response cache. Its handle, with which its families begin, at 0; without it there is none of them. */
struct convoy_cache_metrics *convoy_metrics_cache(struct convoy_metrics *metrics);
/* An answer that is counted as bytes came in, or had to go. */
void convoy_metrics_cache_inserted(struct convoy_cache_metrics *cache, uint64_t bytes);
void convoy_metrics_cache_evicted(struct convoy_cache_metrics *cache, uint64_t bytes);
/* An image was looked up. */
void convoy_metrics_cache_lookup(struct convoy_model_metrics *model, bool hit);

/* An answer went out. model: a model that exists, or ""; route: the template, e.g.
 * "/v2/models/{model}/classify", or "" for a path that is no route. */
void convoy_metrics_request(struct convoy_metrics *metrics, const char *model, const char *route, int status);

/* Workers and devices. */
void convoy_metrics_worker_up(struct convoy_device_metrics *device, bool up);
/* reason: a short constant, e.g. "exit", "signal", "hang". */
void convoy_metrics_worker_restart(struct convoy_device_metrics *device, const char *reason);
/* total: calls made by this worker process so far. A worker that starts again counts from 0 again, which
 * Prometheus understands as a counter's reset. */
void convoy_metrics_cuda_calls(struct convoy_device_metrics *device, const char *call, uint64_t total);
void convoy_metrics_device_memory(struct convoy_device_metrics *device, const char *kind, uint64_t bytes);

/* Models. */
void convoy_metrics_weight_bytes(struct convoy_metrics *metrics, const char *model, const char *version,
                                 const char *device, uint64_t bytes);
void convoy_metrics_model_ready(struct convoy_metrics *metrics, const char *model, const char *version,
                                bool ready);
/* The version is not to be served: nobody should wait for it. Its series of readiness goes. */
void convoy_metrics_model_gone(struct convoy_metrics *metrics, const char *model, const char *version);
/* It is not on the device any more. The series of its weights goes. */
void convoy_metrics_weights_gone(struct convoy_metrics *metrics, const char *model, const char *version,
                                 const char *device);
/* So many more of its readings (0: the series begins) could not be loaded, or not be served any more. */
void convoy_metrics_model_failures(struct convoy_metrics *metrics, const char *model, const char *version,
                                   uint64_t more);

/* The text of GET /metrics (Content-Type: text/plain; version=0.0.4; charset=utf-8), malloc'd,
 * NUL-terminated, *length without the NUL; NULL when memory is out. Series are sorted by their labels. In a
 * histogram _count equals the +Inf bucket even while others observe; _sum may lag by what is being observed
 * meanwhile. */
char *convoy_metrics_render(struct convoy_metrics *metrics, size_t *length);

#endif
