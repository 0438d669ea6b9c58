#include "server/metrics/metrics_internal.h"

#include "engine/base/hash.h"
#include "engine/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const uint64_t convoy_time_bounds[CONVOY_TIME_BUCKETS] = {50,     100,     250,     500,     1000,    2500,
                                                          5000,   10000,   25000,   50000,   100000,  250000,
                                                          500000, 1000000, 2500000, 5000000, 10000000};

struct convoy_metrics *convoy_metrics_new(void)
{
    struct convoy_metrics *metrics = aligned_alloc(_Alignof(struct convoy_metrics), sizeof *metrics);
    if (metrics == NULL)
        return NULL;
    memset(metrics, 0, sizeof *metrics);
    pthread_mutex_init(&metrics->lock, NULL);
    pthread_mutex_init(&metrics->processes.lock, NULL);
    metrics->hash_seed = convoy_hash_seed();
    return metrics;
}

static void free_device(struct convoy_device_metrics *device)
{
    free(device->name);
    free(device->model);
    free(device);
}

void convoy_metrics_free(struct convoy_metrics *metrics)
{
    if (metrics == NULL)
        return;
    struct convoy_model_metrics *model = metrics->models;
    while (model != NULL) {
        struct convoy_model_metrics *next = model->next;
        free(model->name);
        free(model);
        model = next;
    }
    struct convoy_device_metrics *device = metrics->devices;
    while (device != NULL) {
        struct convoy_device_metrics *next = device->next;
        free_device(device);
        device = next;
    }
    for (unsigned chain = 0; chain < CONVOY_SERIES_CHAINS; chain++) {
        struct convoy_series *series = metrics->series[chain];
        while (series != NULL) {
            struct convoy_series *next = series->next;
            free(series);
            series = next;
        }
    }
    pthread_mutex_destroy(&metrics->processes.lock);
    pthread_mutex_destroy(&metrics->lock);
    free(metrics);
}

static void add(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static void set(_Atomic uint64_t *gauge, uint64_t value)
{
    atomic_store_explicit(gauge, value, memory_order_relaxed);
}

/* ---- Handles ---- */

static struct convoy_model_metrics *find_model(struct convoy_metrics *metrics, const char *name)
{
    struct convoy_model_metrics *model = atomic_load_explicit(&metrics->models, memory_order_acquire);
    while (model != NULL && strcmp(model->name, name) != 0)
        model = model->next;
    return model;
}

struct convoy_model_metrics *convoy_metrics_model(struct convoy_metrics *metrics, const char *name)
{
    struct convoy_model_metrics *model = find_model(metrics, name);
    if (model != NULL)
        return model;
    pthread_mutex_lock(&metrics->lock);
    model = find_model(metrics, name);
    if (model == NULL)
        model = calloc(1, sizeof *model);
    if (model != NULL && model->name == NULL) {
        model->name = strdup(name);
        model->metrics = metrics;
        if (model->name == NULL) {
            free(model);
            model = NULL;
        } else {
            model->next = metrics->models;
            atomic_store_explicit(&metrics->models, model, memory_order_release);
        }
    }
    pthread_mutex_unlock(&metrics->lock);
    return model;
}

/* model "": the device's own handle. */
static struct convoy_device_metrics *find_device(struct convoy_metrics *metrics, const char *name,
                                                 const char *model)
{
    struct convoy_device_metrics *device = atomic_load_explicit(&metrics->devices, memory_order_acquire);
    while (device != NULL && (strcmp(device->name, name) != 0 ||
                              strcmp(device->model != NULL ? device->model : "", model) != 0))
        device = device->next;
    return device;
}

/* Under the lock. */
static struct convoy_device_metrics *make_device(struct convoy_metrics *metrics, const char *name,
                                                 const char *model)
{
    struct convoy_device_metrics *device = calloc(1, sizeof *device);
    if (device == NULL)
        return NULL;
    device->metrics = metrics;
    for (int i = 0; i < CONVOY_HEALTH_VALUES; i++)
        atomic_init(&device->health[i], CONVOY_HEALTH_UNKNOWN);
    device->name = strdup(name);
    device->model = model[0] != '\0' ? strdup(model) : NULL;
    if (device->name == NULL || (device->model == NULL && model[0] != '\0')) {
        free_device(device);
        return NULL;
    }
    if (device->model == NULL)
        device->number = metrics->device_count++;
    device->next = metrics->devices;
    atomic_store_explicit(&metrics->devices, device, memory_order_release);
    return device;
}

static struct convoy_device_metrics *find_or_make(struct convoy_metrics *metrics, const char *name,
                                                  const char *model)
{
    struct convoy_device_metrics *device = find_device(metrics, name, model);
    if (device != NULL)
        return device;
    pthread_mutex_lock(&metrics->lock);
    if (metrics->device_count >= CONVOY_METRICS_DEVICES && model[0] == '\0')
        name = "other";
    device = find_device(metrics, name, model);
    if (device == NULL)
        device = make_device(metrics, name, model);
    pthread_mutex_unlock(&metrics->lock);
    return device;
}

struct convoy_device_metrics *convoy_metrics_device(struct convoy_metrics *metrics, const char *name)
{
    return find_or_make(metrics, name, "");
}

struct convoy_device_metrics *convoy_metrics_worker(struct convoy_metrics *metrics, const char *device,
                                                    const char *model)
{
    (void)find_or_make(metrics, device, ""); /* what counts all workers of the device */
    return find_or_make(metrics, device, model);
}

/* ---- The hot path ---- */

void convoy_metrics_observe(struct convoy_model_metrics *model, enum convoy_stage stage,
                            uint64_t microseconds)
{
    convoy_metrics_observe_many(model, stage, microseconds, 1);
}

void convoy_metrics_observe_many(struct convoy_model_metrics *model, enum convoy_stage stage,
                                 uint64_t microseconds, uint32_t times)
{
    if (model == NULL)
        return;
    unsigned bucket = 0;
    while (bucket < CONVOY_TIME_BUCKETS && microseconds > convoy_time_bounds[bucket])
        bucket++;
    add(&model->stages[stage].counts[bucket], times);
    add(&model->stages[stage].sum, times * microseconds);
}

void convoy_metrics_batch(struct convoy_model_metrics *model, struct convoy_device_metrics *device,
                          uint32_t rows)
{
    if (model == NULL)
        return;
    unsigned bucket = 0;
    while (bucket < CONVOY_SIZE_BUCKETS && rows > 1u << bucket)
        bucket++;
    add(&model->sizes.counts[bucket], 1);
    add(&model->sizes.sum, rows);
    add(&model->images, rows);
    if (device != NULL)
        add(&model->batches[device->number], 1);
}

void convoy_metrics_retried(struct convoy_model_metrics *model, uint32_t images)
{
    if (model != NULL)
        add(&model->retried, images);
}

void convoy_metrics_spared(struct convoy_model_metrics *model, uint32_t images)
{
    if (model != NULL)
        add(&model->spared, images);
}

void convoy_metrics_decoded(struct convoy_model_metrics *model, uint32_t by_cpu, uint32_t by_gpu)
{
    if (model == NULL)
        return;
    add(&model->decoded_by_cpu, by_cpu);
    add(&model->decoded_by_gpu, by_gpu);
}

void convoy_metrics_undecoded(struct convoy_model_metrics *model, uint32_t images)
{
    if (model != NULL)
        add(&model->undecoded, images);
}

void convoy_metrics_queue_add(struct convoy_model_metrics *model, int64_t images)
{
    if (model != NULL)
        add(&model->queue, (uint64_t)images); /* modulo 2^64: a negative number subtracts */
}

void convoy_metrics_connections_add(struct convoy_metrics *metrics, int change)
{
    add(&metrics->connections, (uint64_t)change); /* modulo 2^64: -1 subtracts */
}

void convoy_metrics_connection_refused(struct convoy_metrics *metrics)
{
    add(&metrics->refused, 1);
}

void convoy_metrics_received(struct convoy_metrics *metrics, uint64_t bytes)
{
    add(&metrics->received, bytes);
}

void convoy_metrics_sent(struct convoy_metrics *metrics, uint64_t bytes)
{
    add(&metrics->sent, bytes);
}

void convoy_metrics_slots_in_use(struct convoy_metrics *metrics, uint64_t slots)
{
    set(&metrics->slots_in_use, slots);
    atomic_store_explicit(&metrics->slots_known, true, memory_order_relaxed);
}

/* ---- The response cache ---- */

struct convoy_cache_metrics *convoy_metrics_cache(struct convoy_metrics *metrics)
{
    atomic_store_explicit(&metrics->cache.known, true, memory_order_relaxed);
    return &metrics->cache;
}

void convoy_metrics_cache_inserted(struct convoy_cache_metrics *cache, uint64_t bytes)
{
    if (cache == NULL)
        return;
    add(&cache->entries, 1);
    add(&cache->bytes, bytes);
}

void convoy_metrics_cache_evicted(struct convoy_cache_metrics *cache, uint64_t bytes)
{
    if (cache == NULL)
        return;
    add(&cache->entries, UINT64_MAX); /* one less */
    add(&cache->bytes, UINT64_MAX - bytes + 1);
    add(&cache->evictions, 1);
}

void convoy_metrics_cache_lookup(struct convoy_model_metrics *model, bool hit)
{
    if (model != NULL)
        add(hit ? &model->cache_hits : &model->cache_misses, 1);
}

/* ---- Series by labels ---- */

void convoy_metrics_label(char *text, size_t capacity, const char *name, const char *value)
{
    size_t used = strlen(text), left = strlen(value), length = strlen(name);
    if (used + length + 5 > capacity)
        return;
    if (used > 0)
        text[used++] = ',';
    memcpy(text + used, name, length + 1);
    used += length;
    text[used++] = '=';
    text[used++] = '"';
    while (left > 0) {
        char escape[2] = {'\\', *value == '\n' ? 'n' : *value};
        size_t taken = convoy_utf8_character(value, left), written = taken;
        const char *out = value;
        if (taken == 0) {
            taken = 1;
            out = "\xEF\xBF\xBD"; /* U+FFFD */
            written = 3;
        } else if (*value == '\\' || *value == '"' || *value == '\n') {
            out = escape;
            written = 2;
        }
        if (used + written + 2 > capacity)
            break;
        memcpy(text + used, out, written);
        used += written;
        value += taken;
        left -= taken;
    }
    memcpy(text + used, "\"", 2);
}

static struct convoy_series *find_series(_Atomic(struct convoy_series *) *chain, enum convoy_family family,
                                         uint64_t hash, const char *labels)
{
    struct convoy_series *series = atomic_load_explicit(chain, memory_order_acquire);
    while (series != NULL &&
           (series->hash != hash || series->family != family || strcmp(series->labels, labels) != 0))
        series = series->next;
    return series;
}

/* Finds a series or makes it. A series is pushed with its first value, so that none is ever seen without one.
 * Returns NULL when it was made here, or cannot be made. */
static struct convoy_series *series_or_new(struct convoy_metrics *metrics, enum convoy_family family,
                                           const char *labels, uint64_t first)
{
    uint64_t hash = convoy_hash(metrics->hash_seed + family, labels, strlen(labels));
    _Atomic(struct convoy_series *) *chain = &metrics->series[hash % CONVOY_SERIES_CHAINS];
    struct convoy_series *series = find_series(chain, family, hash, labels);
    if (series != NULL)
        return series;
    pthread_mutex_lock(&metrics->lock);
    series = find_series(chain, family, hash, labels);
    if (series == NULL && metrics->series_count < CONVOY_SERIES_MAX) {
        size_t bytes = strlen(labels) + 1;
        struct convoy_series *made = malloc(sizeof *made + bytes);
        if (made != NULL) {
            made->family = family;
            made->hash = hash;
            atomic_init(&made->value, first);
            memcpy(made->labels, labels, bytes);
            made->next = *chain;
            atomic_store_explicit(chain, made, memory_order_release);
            metrics->series_count++;
        }
    }
    pthread_mutex_unlock(&metrics->lock);
    return series;
}

static void add_to_series(struct convoy_metrics *metrics, enum convoy_family family, const char *labels,
                          uint64_t amount)
{
    struct convoy_series *series = series_or_new(metrics, family, labels, amount);
    if (series != NULL)
        add(&series->value, amount);
}

static void set_series(struct convoy_metrics *metrics, enum convoy_family family, const char *labels,
                       uint64_t value)
{
    struct convoy_series *series = series_or_new(metrics, family, labels, value);
    if (series != NULL)
        set(&series->value, value);
}

void convoy_metrics_key(struct convoy_metrics *metrics, const char *key, const char *outcome)
{
    char labels[CONVOY_LABEL_BYTES] = "";
    convoy_metrics_label(labels, sizeof labels, "key", key);
    convoy_metrics_label(labels, sizeof labels, "outcome", outcome);
    add_to_series(metrics, CONVOY_FAMILY_KEY_REQUESTS, labels, 1);
}

void convoy_metrics_request(struct convoy_metrics *metrics, const char *model, const char *route, int status)
{
    char labels[CONVOY_LABEL_BYTES] = "", number[16];
    snprintf(number, sizeof number, "%d", status);
    convoy_metrics_label(labels, sizeof labels, "model", model);
    convoy_metrics_label(labels, sizeof labels, "route", route);
    convoy_metrics_label(labels, sizeof labels, "status", number);
    add_to_series(metrics, CONVOY_FAMILY_REQUESTS, labels, 1);
}

/* device="NAME", perhaps model="NAME", and a last label unless it is NULL. */
static void device_labels(char labels[CONVOY_LABEL_BYTES], const struct convoy_device_metrics *device,
                          const char *name, const char *value)
{
    labels[0] = '\0';
    convoy_metrics_label(labels, CONVOY_LABEL_BYTES, "device", device->name);
    if (device->model != NULL)
        convoy_metrics_label(labels, CONVOY_LABEL_BYTES, "model", device->model);
    if (name != NULL)
        convoy_metrics_label(labels, CONVOY_LABEL_BYTES, name, value);
}

void convoy_metrics_front_restarts(struct convoy_metrics *metrics, const char *reason, uint64_t total)
{
    char labels[CONVOY_LABEL_BYTES] = "";
    convoy_metrics_label(labels, sizeof labels, "reason", reason);
    set_series(metrics, CONVOY_FAMILY_FRONT_RESTARTS, labels, total);
}

void convoy_metrics_worker_up(struct convoy_device_metrics *device, bool up)
{
    char labels[CONVOY_LABEL_BYTES];
    if (device == NULL)
        return;
    device_labels(labels, device, NULL, NULL);
    set_series(device->metrics, CONVOY_FAMILY_WORKER_UP, labels, up);
}

void convoy_metrics_worker_process(struct convoy_device_metrics *device, int pid)
{
    if (device != NULL)
        atomic_store(&device->pid, pid);
}

void convoy_metrics_worker_restart(struct convoy_device_metrics *device, const char *reason)
{
    char labels[CONVOY_LABEL_BYTES];
    if (device == NULL)
        return;
    device_labels(labels, device, "reason", reason);
    add_to_series(device->metrics, CONVOY_FAMILY_WORKER_RESTARTS, labels, 1);
}

void convoy_metrics_device_check(struct convoy_device_metrics *device, const char *check, bool same)
{
    char labels[CONVOY_LABEL_BYTES];
    if (device == NULL)
        return;
    device_labels(labels, device, "check", check);
    convoy_metrics_label(labels, sizeof labels, "result", same ? "same" : "differs");
    add_to_series(device->metrics, CONVOY_FAMILY_DEVICE_CHECKS, labels, 1);
}

void convoy_metrics_cuda_calls(struct convoy_device_metrics *device, const char *call, uint64_t total)
{
    char labels[CONVOY_LABEL_BYTES];
    if (device == NULL)
        return;
    device_labels(labels, device, "call", call);
    set_series(device->metrics, CONVOY_FAMILY_CUDA_CALLS, labels, total);
}

void convoy_metrics_device_memory(struct convoy_device_metrics *device, const char *kind, uint64_t bytes)
{
    char labels[CONVOY_LABEL_BYTES];
    if (device == NULL)
        return;
    device_labels(labels, device, "kind", kind);
    set_series(device->metrics, CONVOY_FAMILY_DEVICE_MEMORY, labels, bytes);
}

void convoy_metrics_worker_gone(struct convoy_device_metrics *device)
{
    static const char *const kinds[] = {"weights", "workspace", "free", "total"};
    char labels[CONVOY_LABEL_BYTES];
    if (device == NULL)
        return;
    convoy_metrics_worker_process(device, 0);
    device_labels(labels, device, NULL, NULL);
    set_series(device->metrics, CONVOY_FAMILY_WORKER_UP, labels, CONVOY_SERIES_GONE);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        convoy_metrics_device_memory(device, kinds[i], CONVOY_SERIES_GONE);
}

/* model="M",version="V" */
static void version_labels(char labels[CONVOY_LABEL_BYTES], const char *model, const char *version)
{
    labels[0] = '\0';
    convoy_metrics_label(labels, CONVOY_LABEL_BYTES, "model", model);
    convoy_metrics_label(labels, CONVOY_LABEL_BYTES, "version", version);
}

void convoy_metrics_weight_bytes(struct convoy_metrics *metrics, const char *model, const char *version,
                                 const char *device, uint64_t bytes)
{
    char labels[CONVOY_LABEL_BYTES];
    version_labels(labels, model, version);
    convoy_metrics_label(labels, sizeof labels, "device", device);
    set_series(metrics, CONVOY_FAMILY_WEIGHT_BYTES, labels, bytes);
}

void convoy_metrics_weights_gone(struct convoy_metrics *metrics, const char *model, const char *version,
                                 const char *device)
{
    convoy_metrics_weight_bytes(metrics, model, version, device, CONVOY_SERIES_GONE);
}

void convoy_metrics_model_ready(struct convoy_metrics *metrics, const char *model, const char *version,
                                bool ready)
{
    char labels[CONVOY_LABEL_BYTES];
    version_labels(labels, model, version);
    set_series(metrics, CONVOY_FAMILY_MODEL_READY, labels, ready);
}

void convoy_metrics_model_gone(struct convoy_metrics *metrics, const char *model, const char *version)
{
    char labels[CONVOY_LABEL_BYTES];
    version_labels(labels, model, version);
    set_series(metrics, CONVOY_FAMILY_MODEL_READY, labels, CONVOY_SERIES_GONE);
}

void convoy_metrics_model_failures(struct convoy_metrics *metrics, const char *model, const char *version,
                                   uint64_t more)
{
    char labels[CONVOY_LABEL_BYTES];
    version_labels(labels, model, version);
    add_to_series(metrics, CONVOY_FAMILY_MODEL_FAILURES, labels, more);
}

void convoy_metrics_tls_handshake(struct convoy_metrics *metrics, bool resumed)
{
    add_to_series(metrics, CONVOY_FAMILY_TLS_HANDSHAKES, resumed ? "kind=\"resumed\"" : "kind=\"full\"", 1);
}

void convoy_metrics_tls_failure(struct convoy_metrics *metrics, const char *reason, uint64_t more)
{
    char labels[CONVOY_LABEL_BYTES] = "";
    convoy_metrics_label(labels, sizeof labels, "reason", reason);
    add_to_series(metrics, CONVOY_FAMILY_TLS_FAILURES, labels, more);
}

void convoy_metrics_traces(struct convoy_metrics *metrics, const char *outcome, uint64_t more)
{
    char labels[CONVOY_LABEL_BYTES] = "";
    convoy_metrics_label(labels, sizeof labels, "outcome", outcome);
    add_to_series(metrics, CONVOY_FAMILY_TRACES, labels, more);
}

void convoy_metrics_tls_expiry(struct convoy_metrics *metrics, uint64_t seconds)
{
    set(&metrics->tls_expiry, seconds);
}
