#include "server/metrics/metrics_internal.h"

#include "engine/base/hash.h"

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

/* ---- Handles ---- */

static struct convoy_model_metrics *find_model(struct convoy_metrics *metrics, const char *name)
{
    struct convoy_model_metrics *model = atomic_load_explicit(&metrics->models, memory_order_acquire);
    while (model != NULL && strcmp(model->name, name) != 0)
        model = model->next;
    return model;
}

static struct convoy_model_metrics *make_model(struct convoy_metrics *metrics, const char *name)
{
    struct convoy_model_metrics *model = aligned_alloc(_Alignof(struct convoy_model_metrics), sizeof *model);
    if (model == NULL)
        return NULL;
    memset(model, 0, sizeof *model);
    model->metrics = metrics;
    model->name = strdup(name);
    if (model->name == NULL) {
        free(model);
        return NULL;
    }
    return model;
}

struct convoy_model_metrics *convoy_metrics_model(struct convoy_metrics *metrics, const char *name)
{
    struct convoy_model_metrics *model = find_model(metrics, name);
    if (model != NULL)
        return model;
    pthread_mutex_lock(&metrics->lock);
    model = find_model(metrics, name);
    if (model == NULL && (model = make_model(metrics, name)) != NULL) {
        model->next = metrics->models;
        atomic_store_explicit(&metrics->models, model, memory_order_release);
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

static unsigned bucket_of(uint64_t microseconds)
{
    unsigned bucket = 0;
    while (bucket < CONVOY_TIME_BUCKETS && microseconds > convoy_time_bounds[bucket])
        bucket++;
    return bucket;
}

void convoy_metrics_observe(struct convoy_model_metrics *model, enum convoy_stage stage,
                            uint64_t microseconds)
{
    if (model == NULL)
        return;
    struct convoy_histogram *histogram = convoy_metrics_stage(model, stage);
    convoy_metrics_add(&histogram->counts[bucket_of(microseconds)], 1);
    convoy_metrics_add(&histogram->sum, microseconds);
}

void convoy_metrics_observe_all(struct convoy_model_metrics *model, enum convoy_stage stage,
                                const struct convoy_observations *observations)
{
    if (model == NULL || observations->times == 0)
        return;
    struct convoy_histogram *histogram = convoy_metrics_stage(model, stage);
    for (unsigned bucket = 0; bucket <= CONVOY_TIME_BUCKETS; bucket++)
        if (observations->counts[bucket] > 0)
            convoy_metrics_add(&histogram->counts[bucket], observations->counts[bucket]);
    convoy_metrics_add(&histogram->sum, observations->sum_us);
}

void convoy_observations_add(struct convoy_observations *observations, uint64_t microseconds)
{
    observations->counts[bucket_of(microseconds)]++;
    observations->times++;
    observations->sum_us += microseconds;
}

void convoy_metrics_batch(struct convoy_model_metrics *model, struct convoy_device_metrics *device,
                          uint32_t rows)
{
    if (model == NULL)
        return;
    unsigned bucket = 0;
    while (bucket < CONVOY_SIZE_BUCKETS && rows > 1u << bucket)
        bucket++;
    convoy_metrics_add(&model->sizes.counts[bucket], 1);
    convoy_metrics_add(&model->sizes.sum, rows);
    convoy_metrics_add(&model->images, rows);
    if (device != NULL)
        convoy_metrics_add(&model->batches[device->number], 1);
}

void convoy_metrics_retried(struct convoy_model_metrics *model, uint32_t images)
{
    if (model != NULL)
        convoy_metrics_add(&model->retried, images);
}

void convoy_metrics_spared(struct convoy_model_metrics *model, uint32_t images)
{
    if (model != NULL)
        convoy_metrics_add(&model->spared, images);
}

void convoy_metrics_decoded(struct convoy_model_metrics *model, uint32_t by_cpu, uint32_t by_gpu)
{
    if (model == NULL)
        return;
    struct convoy_model_part *part = convoy_metrics_part(model);
    if (by_cpu > 0)
        convoy_metrics_add(&part->decoded_by_cpu, by_cpu);
    if (by_gpu > 0)
        convoy_metrics_add(&part->decoded_by_gpu, by_gpu);
}

void convoy_metrics_undecoded(struct convoy_model_metrics *model, uint32_t images)
{
    if (model != NULL)
        convoy_metrics_add(&model->undecoded, images);
}

void convoy_metrics_queue_add(struct convoy_model_metrics *model, int64_t images)
{
    if (model != NULL)
        convoy_metrics_add(&convoy_metrics_part(model)->queue,
                           (uint64_t)images); /* modulo 2^64: a negative number subtracts */
}

void convoy_metrics_connections_add(struct convoy_metrics *metrics, int change)
{
    convoy_metrics_add(&metrics->connections, (uint64_t)change); /* modulo 2^64: -1 subtracts */
}

void convoy_metrics_connection_refused(struct convoy_metrics *metrics)
{
    convoy_metrics_add(&metrics->refused, 1);
}

void convoy_metrics_received(struct convoy_metrics *metrics, uint64_t bytes)
{
    convoy_part_count_add(&metrics->received, bytes);
}

void convoy_metrics_sent(struct convoy_metrics *metrics, uint64_t bytes)
{
    convoy_part_count_add(&metrics->sent, bytes);
}

void convoy_metrics_slots_in_use(struct convoy_metrics *metrics, uint64_t slots)
{
    convoy_metrics_set(&metrics->slots_in_use, slots);
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
    convoy_metrics_add(&cache->entries, 1);
    convoy_metrics_add(&cache->bytes, bytes);
}

void convoy_metrics_cache_evicted(struct convoy_cache_metrics *cache, uint64_t bytes)
{
    if (cache == NULL)
        return;
    convoy_metrics_add(&cache->entries, UINT64_MAX); /* one less */
    convoy_metrics_add(&cache->bytes, UINT64_MAX - bytes + 1);
    convoy_metrics_add(&cache->evictions, 1);
}

void convoy_metrics_cache_lookup(struct convoy_model_metrics *model, bool hit)
{
    if (model != NULL)
        convoy_metrics_add(hit ? &model->cache_hits : &model->cache_misses, 1);
}

void convoy_metrics_tls_expiry(struct convoy_metrics *metrics, uint64_t seconds)
{
    convoy_metrics_set(&metrics->tls_expiry, seconds);
}

void convoy_metrics_worker_process(struct convoy_device_metrics *device, int pid)
{
    if (device != NULL)
        atomic_store(&device->pid, pid);
}
