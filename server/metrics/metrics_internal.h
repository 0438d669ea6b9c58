/* How metrics are kept: shared by metrics.c, which counts with handles, metrics_parts.c, which keeps some of
 * it in parts, metrics_series.c, which counts by labels, metrics_text.c, metrics_print.c, metrics_health.c
 * and metrics_totals.c, which render, and by no other file.
 *
 * Everything is an append-only list with an atomic head: readers walk the lists without a lock, writers push
 * under the lock, and nothing is removed before the end. */
#ifndef CONVOY_SERVER_METRICS_INTERNAL_H
#define CONVOY_SERVER_METRICS_INTERNAL_H

#include "engine/base/part_count.h"
#include "server/metrics/metrics.h"
#include "server/metrics/process_sample.h"

#include <pthread.h>
#include <stdatomic.h>

#define CONVOY_SIZE_BUCKETS 11 /* 1, 2, 4, ... 1024 */
#define CONVOY_LABEL_BYTES  512

/* Upper bounds (inclusive) in microseconds. */
extern const uint64_t convoy_time_bounds[CONVOY_TIME_BUCKETS];

/* counts[i]: observations above the bound before i and not above bound i; the last has no bound. The number
 * of observations is their sum, so a histogram that is read while it grows never contradicts itself. */
struct convoy_histogram {
    _Atomic uint64_t counts[CONVOY_TIME_BUCKETS + 1];
    _Atomic uint64_t sum; /* microseconds, or images */
};

/* What HTTP threads count of a model with each request, in parts (thread_part.h). */
struct convoy_model_part {
    _Alignas(64) struct convoy_histogram decode;
    struct convoy_histogram wait, request;
    _Atomic uint64_t decoded_by_cpu, decoded_by_gpu;
    _Atomic uint64_t queue; /* modulo 2^64: images leave the queue on another thread */
};

struct convoy_model_metrics {
    struct convoy_model_part parts[CONVOY_THREAD_PARTS];
    struct convoy_model_metrics *next;
    struct convoy_metrics *metrics;
    char *name;
    _Atomic uint64_t images, retried, spared, undecoded;
    _Atomic uint64_t cache_hits, cache_misses;
    _Atomic uint64_t batches[CONVOY_METRICS_DEVICES + 1]; /* by the device's number */
    struct convoy_histogram stages[CONVOY_STAGES];        /* those that are not in parts */
    struct convoy_histogram sizes;
};

struct convoy_device_metrics {
    struct convoy_device_metrics *next;
    struct convoy_metrics *metrics;
    uint32_t number;
    _Atomic int pid; /* of its worker; 0: there is none */
    /* Of the device itself; CONVOY_HEALTH_UNKNOWN where that is not known. XIDS: of all its workers. */
    _Atomic uint64_t health[CONVOY_HEALTH_VALUES];
    char *name;
    char *model; /* of a worker's handle: all that it serves; NULL: the device's own handle */
    /* What was read of its worker, under the lock of struct convoy_processes. */
    struct convoy_process_sample sample;
    bool sampled;
};

struct convoy_cache_metrics {
    atomic_bool known;
    _Atomic uint64_t entries, bytes, evictions;
};

/* What was read of this process; the lock guards what was read of workers, too. */
struct convoy_processes {
    pthread_mutex_t lock; /* all below */
    uint64_t read_us;     /* 0: never */
    struct convoy_process_sample own;
};

/* Families whose series are found by their labels. */
enum convoy_family {
    CONVOY_FAMILY_REQUESTS,
    CONVOY_FAMILY_KEY_REQUESTS,
    CONVOY_FAMILY_FRONT_RESTARTS,
    CONVOY_FAMILY_WORKER_UP,
    CONVOY_FAMILY_WORKER_RESTARTS,
    CONVOY_FAMILY_DEVICE_CHECKS,
    CONVOY_FAMILY_CUDA_CALLS,
    CONVOY_FAMILY_DEVICE_MEMORY,
    CONVOY_FAMILY_WEIGHT_BYTES,
    CONVOY_FAMILY_MODEL_READY,
    CONVOY_FAMILY_MODEL_FAILURES,
    CONVOY_FAMILY_TLS_HANDSHAKES,
    CONVOY_FAMILY_TLS_FAILURES,
    CONVOY_FAMILY_TRACES,
    CONVOY_FAMILIES
};

#define CONVOY_SERIES_GONE UINT64_MAX /* the value of a series that is not shown until it is set again */

struct convoy_series {
    struct convoy_series *next; /* in its chain of the table */
    enum convoy_family family;
    uint64_t hash;
    _Atomic uint64_t value;
    char labels[]; /* as rendered: model="x",route="/classify",status="200" */
};

/* What counts needs no order among counters. */
static inline void convoy_metrics_add(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}
static inline void convoy_metrics_set(_Atomic uint64_t *gauge, uint64_t value)
{
    atomic_store_explicit(gauge, value, memory_order_relaxed);
}

/* The calling thread's. */
static inline struct convoy_model_part *convoy_metrics_part(struct convoy_model_metrics *model)
{
    return &model->parts[convoy_thread_part()];
}
/* Where the calling thread counts the stage. */
struct convoy_histogram *convoy_metrics_stage(struct convoy_model_metrics *model, enum convoy_stage stage);
/* Sets sums to what all threads counted of the stage. */
void convoy_metrics_sum_stage(const struct convoy_model_metrics *model, enum convoy_stage stage,
                              struct convoy_histogram *sums);
/* The sums of what else is in parts. */
struct convoy_model_sums {
    uint64_t decoded_by_cpu, decoded_by_gpu, queue;
};
struct convoy_model_sums convoy_metrics_sum_model(const struct convoy_model_metrics *model);

#define CONVOY_SERIES_CHAINS 1024
#define CONVOY_SERIES_MAX    65536 /* series past these are not made: a mistaken label cannot fill memory */

struct convoy_metrics {
    uint64_t hash_seed;   /* random, never changed: labels hold names that clients choose */
    pthread_mutex_t lock; /* guards making: pushes into the lists, and the two counts */
    _Atomic(struct convoy_model_metrics *) models;
    _Atomic(struct convoy_device_metrics *) devices;
    _Atomic(struct convoy_series *) series[CONVOY_SERIES_CHAINS];
    uint32_t device_count, series_count; /* under lock */
    _Atomic uint64_t slots_in_use;
    atomic_bool slots_known;
    struct convoy_cache_metrics cache;
    struct convoy_processes processes;
    struct convoy_part_count received, sent; /* with each request */
    _Atomic uint64_t connections, refused;
    _Atomic uint64_t tls_expiry; /* 0: there is no certificate */
};

/* The text that is rendered, as far as it is. */
struct convoy_metrics_text {
    char *bytes; /* malloc'd */
    size_t length, capacity;
    bool failed; /* memory is out: nothing is appended any more */
};

__attribute__((format(printf, 2, 3))) void convoy_metrics_print(struct convoy_metrics_text *text,
                                                                const char *format, ...);
/* The two lines before a family's samples; the name is without "convoyd_". */
void convoy_metrics_head(struct convoy_metrics_text *text, const char *name, const char *type,
                         const char *help);

/* The families of the devices' health, each where something is known of it. */
void convoy_metrics_render_health(struct convoy_metrics_text *text, struct convoy_metrics *metrics);

/* Appends name="value" (with a comma before it unless text is empty), the value escaped as the text format
 * wants it and made UTF-8; what does not fit is cut. text stays NUL-terminated. */
void convoy_metrics_label(char *text, size_t capacity, const char *name, const char *value);

#endif
