/* Counters, gauges and histograms, and their rendering as Prometheus text (exposition format 0.0.4).
 *
 * Series with an unbounded label would grow without end: callers pass names of models that exist (else "")
 * and templates of routes. A series is absent until it is first set, so what needs a GPU is absent without
 * one; the counters and histograms of a model begin at 0 with convoy_metrics_model().
 *
 * Threads: every function but new() and free() may be called from any thread at any time. Functions that take
 * a handle (struct convoy_model_metrics, ..._device_metrics, ..._cache_metrics) are a few relaxed atomic
 * additions: no lock, no allocation. What HTTP threads count with each request is kept in parts by thread,
 * 16 KiB a model name, and summed when it is rendered: nothing is lost, and no counter falls. Functions that
 * take label texts look the series up without a lock (some 100 ns) and allocate it, under the metrics' lock,
 * at its first use. Where memory is out a count is lost, nothing else.
 *
 * Locks: rendering takes a lock of its own for what it reads of processes, at most once a second. The
 * metrics' lock guards the making of handles and series, never counting or rendering. It is the innermost
 * lock: callers may hold the registry's, and no lock is taken while it is held. */
#ifndef CONVOY_SERVER_METRICS_H
#define CONVOY_SERVER_METRICS_H

#include "engine/base/device_health.h"

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
    CONVOY_STAGE_WAIT,    /* per request: for a decoder, a model, its HTTP thread */
    CONVOY_STAGE_QUEUE,   /* per image: from hand-over to the start of its run */
    CONVOY_STAGE_INPUT,   /* per batch, on the device */
    CONVOY_STAGE_COMPUTE, /* per batch, on the device */
    CONVOY_STAGE_OUTPUT,  /* per batch, on the device */
    CONVOY_STAGE_REQUEST, /* per request: from the body's last byte to the answer */
    CONVOY_STAGES
};

#define CONVOY_TIME_BUCKETS 17 /* of histograms of times; their bounds are convoy_time_bounds */

/* Times that one thread observes and that are counted together, by convoy_metrics_observe_all(): what that
 * costs then does not grow with their number. Zero at first. */
struct convoy_observations {
    uint32_t counts[CONVOY_TIME_BUCKETS + 1]; /* as in a histogram */
    uint32_t times;                           /* the sum of counts */
    uint64_t sum_us;
};

/* Returns NULL when memory is out. */
struct convoy_metrics *convoy_metrics_new(void);
void convoy_metrics_free(struct convoy_metrics *metrics); /* NULL is allowed; handles die with it */

/* Finds or makes a handle, which lives as long as metrics. NULL when memory is out; every function below
 * accepts a NULL handle and does nothing. */
struct convoy_model_metrics *convoy_metrics_model(struct convoy_metrics *metrics, const char *name);
struct convoy_device_metrics *convoy_metrics_device(struct convoy_metrics *metrics, const char *name);
/* Of a worker that serves only models of this name on the device: its series have the label model, too.
 * model "": the device's. */
struct convoy_device_metrics *convoy_metrics_worker(struct convoy_metrics *metrics, const char *device,
                                                    const char *model);

/* Hot path. */
void convoy_metrics_observe(struct convoy_model_metrics *model, enum convoy_stage stage,
                            uint64_t microseconds);
void convoy_metrics_observe_all(struct convoy_model_metrics *model, enum convoy_stage stage,
                                const struct convoy_observations *observations);
/* Adds a time to those that will be counted. */
void convoy_observations_add(struct convoy_observations *observations, uint64_t microseconds);
/* A batch of rows images finished well: counts the batch, its size and its images (convoyd_images_total is
 * counted only here). */
void convoy_metrics_batch(struct convoy_model_metrics *model, struct convoy_device_metrics *device,
                          uint32_t rows);
void convoy_metrics_retried(struct convoy_model_metrics *model, uint32_t images);
/* Images that were not computed, because their client was gone. */
void convoy_metrics_spared(struct convoy_model_metrics *model, uint32_t images);
/* Images that were decoded: by the front's threads, and by the model's devices. */
void convoy_metrics_decoded(struct convoy_model_metrics *model, uint32_t by_cpu, uint32_t by_gpu);
/* Files that a device could not decode, which the front decodes instead. */
void convoy_metrics_undecoded(struct convoy_model_metrics *model, uint32_t images);
/* So many images more, or fewer, wait now. */
void convoy_metrics_queue_add(struct convoy_model_metrics *model, int64_t images);
void convoy_metrics_slots_in_use(struct convoy_metrics *metrics, uint64_t slots);

/* The response cache's handle. Its metric families appear, at 0, with this call. */
struct convoy_cache_metrics *convoy_metrics_cache(struct convoy_metrics *metrics);
/* An answer, counted as so many bytes, was inserted or evicted. */
void convoy_metrics_cache_inserted(struct convoy_cache_metrics *cache, uint64_t bytes);
void convoy_metrics_cache_evicted(struct convoy_cache_metrics *cache, uint64_t bytes);
/* An image was looked up. */
void convoy_metrics_cache_lookup(struct convoy_model_metrics *model, bool hit);

/* An answer was sent. model: a model that exists, or ""; route: the template, e.g.
 * "/v2/models/{model}/classify", or "" for a path that is no route. */
void convoy_metrics_request(struct convoy_metrics *metrics, const char *model, const char *route, int status);

/* A request came with a key that is known. key: its name, of which a file has at most 1024; outcome:
 * "passed", "forbidden" or "limited". */
void convoy_metrics_key(struct convoy_metrics *metrics, const char *key, const char *outcome);

/* A connection was opened (1) or closed (-1). */
void convoy_metrics_connections_add(struct convoy_metrics *metrics, int change);
/* One was closed because its client has as many as it may. */
void convoy_metrics_connection_refused(struct convoy_metrics *metrics);
/* TLS handshakes that succeeded: with the certificate, or a session resumed by a ticket. */
void convoy_metrics_tls_handshake(struct convoy_metrics *metrics, bool resumed);
/* One failed. reason: one of a few constants (server/security/tls_client.c), of which the series begin at 0
 * with more = 0. */
void convoy_metrics_tls_failure(struct convoy_metrics *metrics, const char *reason, uint64_t more);
/* Traced requests. outcome: "exported", "failed" (the collector did not take them) or "dropped" (too many
 * waited for it), of which the series begin at 0 with more = 0. */
void convoy_metrics_traces(struct convoy_metrics *metrics, const char *outcome, uint64_t more);
/* When the server's certificate expires, in seconds since the epoch. */
void convoy_metrics_tls_expiry(struct convoy_metrics *metrics, uint64_t seconds);
/* Bytes of a body as they came, and of an answer's body. */
void convoy_metrics_received(struct convoy_metrics *metrics, uint64_t bytes);
void convoy_metrics_sent(struct convoy_metrics *metrics, uint64_t bytes);

/* Workers and devices. */
void convoy_metrics_worker_up(struct convoy_device_metrics *device, bool up);
/* The device's worker is this process; 0: it is gone. What the kernel says of it is rendered. */
void convoy_metrics_worker_process(struct convoy_device_metrics *device, int pid);
/* There is no such worker any more, and none is meant to be: removes the series of what it is and has. Its
 * counters stay. */
void convoy_metrics_worker_gone(struct convoy_device_metrics *device);
/* total: fronts that followed another, as the master counts them. reason: a short constant, "signal". */
void convoy_metrics_front_restarts(struct convoy_metrics *metrics, const char *reason, uint64_t total);
/* reason: a short constant, e.g. "exit", "signal", "hang", "canary". */
void convoy_metrics_worker_restart(struct convoy_device_metrics *device, const char *reason);
/* check: "canary", "weights" or "decoder"; same: nothing differed. */
void convoy_metrics_device_check(struct convoy_device_metrics *device, const char *check, bool same);
/* total: calls made by this worker process so far. A worker that starts again counts from 0, which Prometheus
 * understands as a counter's reset. */
void convoy_metrics_cuda_calls(struct convoy_device_metrics *device, const char *call, uint64_t total);
void convoy_metrics_device_memory(struct convoy_device_metrics *device, const char *kind, uint64_t bytes);
/* What is known of the device's health now; NULL: nothing is. Of Xids only the last one's number is taken. */
void convoy_metrics_device_health(struct convoy_device_metrics *device,
                                  const struct convoy_device_health *health);
/* So many more errors were reported. 0: they would be reported; the series begins. */
void convoy_metrics_device_xids(struct convoy_device_metrics *device, uint64_t more);

/* Models. */
void convoy_metrics_weight_bytes(struct convoy_metrics *metrics, const char *model, const char *version,
                                 const char *device, uint64_t bytes);
void convoy_metrics_model_ready(struct convoy_metrics *metrics, const char *model, const char *version,
                                bool ready);
/* The version is not to be served: removes its series of readiness. */
void convoy_metrics_model_gone(struct convoy_metrics *metrics, const char *model, const char *version);
/* The model is not on the device any more: removes the series of its weights. */
void convoy_metrics_weights_gone(struct convoy_metrics *metrics, const char *model, const char *version,
                                 const char *device);
/* `more` further readings of the version could not be loaded, or not be served any more. 0: the series
 * begins. */
void convoy_metrics_model_failures(struct convoy_metrics *metrics, const char *model, const char *version,
                                   uint64_t more);

/* Returns the text of GET /metrics (Content-Type: text/plain; version=0.0.4; charset=utf-8), malloc'd and
 * NUL-terminated, *length without the NUL; NULL when memory is out. Series are sorted by their labels. In a
 * histogram _count equals the +Inf bucket even while other threads observe; _sum may lag behind by what they
 * observe meanwhile. */
char *convoy_metrics_render(struct convoy_metrics *metrics, size_t *length);

#endif
