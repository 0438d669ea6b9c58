/* Rendering: the Prometheus text exposition format, version 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/). */
#include "server/metrics/metrics_internal.h"

#include "engine/base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* ---- Series found by labels ---- */

static const struct {
    const char *name, *type, *help;
} families[CONVOY_FAMILIES] = {
    [CONVOY_FAMILY_REQUESTS] = {"requests_total", "counter", "Answers to HTTP requests."},
    [CONVOY_FAMILY_KEY_REQUESTS] = {"key_requests_total", "counter",
                                    "Requests with a known key, by the key's name and what became of them."},
    [CONVOY_FAMILY_FRONT_RESTARTS] = {"front_restarts_total", "counter",
                                      "Fronts that took over from one that crashed or was upgraded."},
    [CONVOY_FAMILY_WORKER_UP] = {"worker_up", "gauge", "1 while the device's worker runs."},
    [CONVOY_FAMILY_WORKER_RESTARTS] = {"worker_restarts_total", "counter",
                                       "Workers started in place of one that ended or hung."},
    [CONVOY_FAMILY_DEVICE_CHECKS] =
        {"device_checks_total", "counter",
         "Checks of whether a device computes as it did and holds what it was given."},
    [CONVOY_FAMILY_CUDA_CALLS] = {"cuda_calls_total", "counter", "Calls of CUDA's runtime, by name."},
    [CONVOY_FAMILY_DEVICE_MEMORY] =
        {"device_memory_bytes", "gauge",
         "Memory of the device after a model was last loaded, unloaded or tuned."},
    [CONVOY_FAMILY_WEIGHT_BYTES] = {"weight_bytes", "gauge", "Weights resident on the device."},
    [CONVOY_FAMILY_MODEL_READY] = {"model_ready", "gauge", "1 when the model answers, 0 when it does not."},
    [CONVOY_FAMILY_MODEL_FAILURES] = {"model_failures_total", "counter",
                                      "Readings of a model's files that could not be served."},
    [CONVOY_FAMILY_TLS_HANDSHAKES] = {"tls_handshakes_total", "counter",
                                      "TLS handshakes that succeeded, full or resumed."},
    [CONVOY_FAMILY_TLS_FAILURES] = {"tls_handshake_failures_total", "counter",
                                    "TLS handshakes that failed, by reason."},
    [CONVOY_FAMILY_TRACES] = {"traces_total", "counter",
                              "Traced requests that a collector was to get, by what became of them."},
};

static int by_series(const void *left, const void *right)
{
    const struct convoy_series *const *a = left, *const *b = right;
    if ((*a)->family != (*b)->family)
        return (*a)->family < (*b)->family ? -1 : 1;
    return strcmp((*a)->labels, (*b)->labels);
}

/* All series, sorted by family and labels; NULL when memory is out or there are none. */
static struct convoy_series **collect_series(struct convoy_metrics *metrics, size_t *count,
                                             struct convoy_metrics_text *text)
{
    struct convoy_series **list = NULL;
    size_t used = 0, capacity = 0;
    for (unsigned chain = 0; chain < CONVOY_SERIES_CHAINS; chain++) {
        struct convoy_series *series = atomic_load_explicit(&metrics->series[chain], memory_order_acquire);
        for (; series != NULL; series = series->next) {
            if (get(&series->value) == CONVOY_SERIES_GONE)
                continue;
            if (used == capacity) {
                capacity = 2 * capacity + 64;
                struct convoy_series **grown = realloc(list, capacity * sizeof(struct convoy_series *));
                if (grown == NULL) {
                    free(list);
                    text->failed = true;
                    return NULL;
                }
                list = grown;
            }
            list[used++] = series;
        }
    }
    if (used > 0)
        qsort(list, used, sizeof(struct convoy_series *), by_series);
    *count = used;
    return list;
}

static void render_series(struct convoy_metrics_text *text, struct convoy_metrics *metrics)
{
    size_t count = 0;
    struct convoy_series **list = collect_series(metrics, &count, text);
    for (size_t i = 0; i < count; i++) {
        enum convoy_family family = list[i]->family;
        if (i == 0 || list[i - 1]->family != family)
            convoy_metrics_head(text, families[family].name, families[family].type, families[family].help);
        uint64_t value = get(&list[i]->value);
        if (value != CONVOY_SERIES_GONE) /* since it was listed */
            convoy_metrics_print(text, "convoyd_%s{%s} %llu\n", families[family].name, list[i]->labels,
                                 (unsigned long long)value);
    }
    free(list);
}

/* ---- Models ---- */

struct labelled_model {
    struct convoy_model_metrics *model;
    char label[CONVOY_LABEL_BYTES]; /* model="NAME" */
};

static int by_model_name(const void *left, const void *right)
{
    const struct labelled_model *a = left, *b = right;
    return strcmp(a->model->name, b->model->name);
}

/* Models by name; NULL when memory is out or there are none. */
static struct labelled_model *collect_models(struct convoy_metrics *metrics, size_t *count,
                                             struct convoy_metrics_text *text)
{
    struct convoy_model_metrics *first = atomic_load_explicit(&metrics->models, memory_order_acquire);
    size_t used = 0;
    for (struct convoy_model_metrics *model = first; model != NULL; model = model->next)
        used++;
    *count = 0;
    if (used == 0)
        return NULL;
    struct labelled_model *list = calloc(used, sizeof *list);
    if (list == NULL) {
        text->failed = true;
        return NULL;
    }
    for (struct convoy_model_metrics *model = first; model != NULL; model = model->next) {
        list[*count].model = model;
        convoy_metrics_label(list[*count].label, sizeof list->label, "model", model->name);
        (*count)++;
    }
    qsort(list, used, sizeof *list, by_model_name);
    return list;
}

static const char *const stage_names[CONVOY_STAGES] = {
    [CONVOY_STAGE_DECODE] = "decode_seconds",   [CONVOY_STAGE_WAIT] = "wait_seconds",
    [CONVOY_STAGE_QUEUE] = "queue_seconds",     [CONVOY_STAGE_INPUT] = "input_seconds",
    [CONVOY_STAGE_COMPUTE] = "compute_seconds", [CONVOY_STAGE_OUTPUT] = "output_seconds",
    [CONVOY_STAGE_REQUEST] = "request_seconds",
};
static const char *const stage_helps[CONVOY_STAGES] = {
    [CONVOY_STAGE_DECODE] = "Decoding and resizing, per request.",
    [CONVOY_STAGE_WAIT] = "What a request waited for a decoder, a model or its HTTP thread.",
    [CONVOY_STAGE_QUEUE] = "From an image's hand-over to the start of its run.",
    [CONVOY_STAGE_INPUT] = "Bringing a batch to the device.",
    [CONVOY_STAGE_COMPUTE] = "Running the network on a batch.",
    [CONVOY_STAGE_OUTPUT] = "Bringing a batch's results back.",
    [CONVOY_STAGE_REQUEST] = "From a body's last byte to the answer.",
};

/* Microseconds as seconds, exactly and without trailing zeros: Prometheus compares "le" as text. */
static const char *seconds(uint64_t microseconds, char text[32])
{
    int length = snprintf(text, 32, "%llu.%06llu", (unsigned long long)(microseconds / 1000000),
                          (unsigned long long)(microseconds % 1000000));
    while (text[length - 1] == '0')
        text[--length] = '\0';
    if (text[length - 1] == '.')
        text[--length] = '\0';
    return text;
}

/* bounds NULL: powers of two, and sums without a unit. */
static void render_histogram(struct convoy_metrics_text *text, const char *name, const char *label,
                             const struct convoy_histogram *histogram, unsigned buckets,
                             const uint64_t *bounds)
{
    char number[32];
    uint64_t count = 0;
    for (unsigned i = 0; i < buckets; i++) {
        count += get(&histogram->counts[i]);
        if (bounds != NULL)
            seconds(bounds[i], number);
        else
            snprintf(number, sizeof number, "%u", 1u << i);
        convoy_metrics_print(text, "convoyd_%s_bucket{%s,le=\"%s\"} %llu\n", name, label, number,
                             (unsigned long long)count);
    }
    count += get(&histogram->counts[buckets]);
    convoy_metrics_print(text, "convoyd_%s_bucket{%s,le=\"+Inf\"} %llu\n", name, label,
                         (unsigned long long)count);
    uint64_t sum = get(&histogram->sum);
    if (bounds != NULL)
        seconds(sum, number);
    else
        snprintf(number, sizeof number, "%llu", (unsigned long long)sum);
    convoy_metrics_print(text, "convoyd_%s_sum{%s} %s\nconvoyd_%s_count{%s} %llu\n", name, label, number,
                         name, label, (unsigned long long)count);
}

static int by_device_name(const void *left, const void *right)
{
    const struct convoy_device_metrics *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static void render_batches(struct convoy_metrics_text *text, struct convoy_metrics *metrics,
                           const struct labelled_model *models, size_t count)
{
    const struct convoy_device_metrics *sorted[CONVOY_METRICS_DEVICES + 1];
    size_t devices = 0;
    const struct convoy_device_metrics *device =
        atomic_load_explicit(&metrics->devices, memory_order_acquire);
    for (; device != NULL; device = device->next)
        if (device->model == NULL)
            sorted[devices++] = device;
    if (devices > 0)
        qsort(sorted, devices, sizeof(const struct convoy_device_metrics *), by_device_name);

    bool begun = false;
    for (size_t i = 0; i < count; i++) {
        for (size_t d = 0; d < devices; d++) {
            uint64_t batches = get(&models[i].model->batches[sorted[d]->number]);
            if (batches == 0)
                continue; /* a device that never ran the model */
            if (!begun)
                convoy_metrics_head(text, "batches_total", "counter", "Batches that finished well.");
            begun = true;
            char labels[CONVOY_LABEL_BYTES] = "";
            convoy_metrics_label(labels, sizeof labels, "model", models[i].model->name);
            convoy_metrics_label(labels, sizeof labels, "device", sorted[d]->name);
            convoy_metrics_print(text, "convoyd_batches_total{%s} %llu\n", labels,
                                 (unsigned long long)batches);
        }
    }
}

/* Of each model; nothing while there is no cache. */
static void render_lookups(struct convoy_metrics_text *text, struct convoy_metrics *metrics,
                           const struct labelled_model *models, size_t count)
{
    if (!atomic_load_explicit(&metrics->cache.known, memory_order_relaxed))
        return;
    convoy_metrics_head(text, "cache_hits_total", "counter", "Images answered from the response cache.");
    for (size_t i = 0; i < count; i++)
        convoy_metrics_print(text, "convoyd_cache_hits_total{%s} %llu\n", models[i].label,
                             (unsigned long long)get(&models[i].model->cache_hits));
    convoy_metrics_head(text, "cache_misses_total", "counter", "Images not found in the response cache.");
    for (size_t i = 0; i < count; i++)
        convoy_metrics_print(text, "convoyd_cache_misses_total{%s} %llu\n", models[i].label,
                             (unsigned long long)get(&models[i].model->cache_misses));
}

static void render_cache(struct convoy_metrics_text *text, struct convoy_metrics *metrics)
{
    const struct convoy_cache_metrics *cache = &metrics->cache;

    if (!atomic_load_explicit(&cache->known, memory_order_relaxed))
        return;
    convoy_metrics_head(text, "cache_entries", "gauge", "Answers in the response cache.");
    convoy_metrics_print(text, "convoyd_cache_entries %llu\n", (unsigned long long)get(&cache->entries));
    convoy_metrics_head(text, "cache_bytes", "gauge", "What the response cache's answers take.");
    convoy_metrics_print(text, "convoyd_cache_bytes %llu\n", (unsigned long long)get(&cache->bytes));
    convoy_metrics_head(text, "cache_evictions_total", "counter", "Answers that made room for others.");
    convoy_metrics_print(text, "convoyd_cache_evictions_total %llu\n",
                         (unsigned long long)get(&cache->evictions));
}

static void render_models(struct convoy_metrics_text *text, struct convoy_metrics *metrics)
{
    size_t count = 0;
    struct labelled_model *models = collect_models(metrics, &count, text);
    if (models == NULL)
        return;
    convoy_metrics_head(text, "images_total", "counter", "Images classified.");
    for (size_t i = 0; i < count; i++)
        convoy_metrics_print(text, "convoyd_images_total{%s} %llu\n", models[i].label,
                             (unsigned long long)get(&models[i].model->images));
    convoy_metrics_head(text, "retried_images_total", "counter",
                        "Images that ran again after a worker was lost.");
    for (size_t i = 0; i < count; i++)
        convoy_metrics_print(text, "convoyd_retried_images_total{%s} %llu\n", models[i].label,
                             (unsigned long long)get(&models[i].model->retried));
    convoy_metrics_head(text, "spared_images_total", "counter",
                        "Images that were not computed, because their client was gone.");
    for (size_t i = 0; i < count; i++)
        convoy_metrics_print(text, "convoyd_spared_images_total{%s} %llu\n", models[i].label,
                             (unsigned long long)get(&models[i].model->spared));
    convoy_metrics_head(text, "decoded_images_total", "counter",
                        "Image files that were decoded, by who decoded them.");
    for (size_t i = 0; i < count; i++) {
        struct convoy_model_sums sums = convoy_metrics_sum_model(models[i].model);
        convoy_metrics_print(text, "convoyd_decoded_images_total{%s,decoder=\"cpu\"} %llu\n", models[i].label,
                             (unsigned long long)sums.decoded_by_cpu);
        convoy_metrics_print(text, "convoyd_decoded_images_total{%s,decoder=\"gpu\"} %llu\n", models[i].label,
                             (unsigned long long)sums.decoded_by_gpu);
    }
    convoy_metrics_head(text, "undecoded_images_total", "counter",
                        "Files that a device could not decode, and that were decoded by the front instead.");
    for (size_t i = 0; i < count; i++)
        convoy_metrics_print(text, "convoyd_undecoded_images_total{%s} %llu\n", models[i].label,
                             (unsigned long long)get(&models[i].model->undecoded));
    render_lookups(text, metrics, models, count);
    convoy_metrics_head(text, "queue_images", "gauge", "Images waiting for a device.");
    for (size_t i = 0; i < count; i++)
        convoy_metrics_print(text, "convoyd_queue_images{%s} %llu\n", models[i].label,
                             (unsigned long long)convoy_metrics_sum_model(models[i].model).queue);
    render_batches(text, metrics, models, count);
    convoy_metrics_head(text, "batch_size", "histogram", "Images in a batch.");
    for (size_t i = 0; i < count; i++)
        render_histogram(text, "batch_size", models[i].label, &models[i].model->sizes, CONVOY_SIZE_BUCKETS,
                         NULL);
    for (unsigned stage = 0; stage < CONVOY_STAGES; stage++) {
        convoy_metrics_head(text, stage_names[stage], "histogram", stage_helps[stage]);
        for (size_t i = 0; i < count; i++) {
            struct convoy_histogram sums;
            convoy_metrics_sum_stage(models[i].model, (enum convoy_stage)stage, &sums);
            render_histogram(text, stage_names[stage], models[i].label, &sums, CONVOY_TIME_BUCKETS,
                             convoy_time_bounds);
        }
    }
    free(models);
}

/* ---- Processes ---- */

/* Scrapes that come faster than this are told the same: reading is not free. */
#define PROCESSES_FRESH_US 1000000u

/* Reads what is to be rendered, under the lock. */
static void read_processes(struct convoy_metrics *metrics, struct convoy_processes *processes)
{
    uint64_t now_us = convoy_now_us();
    if (processes->read_us != 0 && now_us - processes->read_us < PROCESSES_FRESH_US)
        return;
    processes->read_us = now_us;
    (void)convoy_process_sample(getpid(), &processes->own);
    struct convoy_device_metrics *device = atomic_load_explicit(&metrics->devices, memory_order_acquire);
    for (; device != NULL; device = device->next) {
        int pid = atomic_load(&device->pid);
        device->sampled = pid != 0 && convoy_process_sample(pid, &device->sample);
    }
}

static void own_family(struct convoy_metrics_text *text, const char *name, const char *type, const char *help,
                       double value)
{
    convoy_metrics_print(text, "# HELP process_%s %s\n# TYPE process_%s %s\nprocess_%s %.17g\n", name, help,
                         name, type, name, value);
}

static void worker_family(struct convoy_metrics_text *text, struct convoy_metrics *metrics, const char *name,
                          const char *type, const char *help,
                          double (*value)(const struct convoy_process_sample *))
{
    bool begun = false;
    const struct convoy_device_metrics *device =
        atomic_load_explicit(&metrics->devices, memory_order_acquire);
    for (; device != NULL; device = device->next) {
        char labels[CONVOY_LABEL_BYTES] = "";
        double number = device->sampled ? value(&device->sample) : NAN;
        if (isnan(number))
            continue;
        if (!begun)
            convoy_metrics_head(text, name, type, help);
        begun = true;
        convoy_metrics_label(labels, sizeof labels, "device", device->name);
        if (device->model != NULL)
            convoy_metrics_label(labels, sizeof labels, "model", device->model);
        convoy_metrics_print(text, "convoyd_%s{%s} %.17g\n", name, labels, number);
    }
}

static double cpu_seconds(const struct convoy_process_sample *sample)
{
    return sample->cpu_seconds;
}

static double start_seconds(const struct convoy_process_sample *sample)
{
    return sample->start_seconds;
}

static double resident_bytes(const struct convoy_process_sample *sample)
{
    return (double)sample->resident_bytes;
}

static double virtual_bytes(const struct convoy_process_sample *sample)
{
    return (double)sample->virtual_bytes;
}

/* A process has descriptors and may have some: 0 is what could not be read, e.g. while it dies. */
static double open_fds(const struct convoy_process_sample *sample)
{
    return sample->open_fds == 0 ? NAN : (double)sample->open_fds;
}

static double max_fds(const struct convoy_process_sample *sample)
{
    return sample->max_fds == 0 ? NAN : (double)sample->max_fds;
}

/* The front under the names that Prometheus' client libraries give, each worker under its device, and its
 * model where it has one. */
static void render_processes(struct convoy_metrics_text *text, struct convoy_metrics *metrics)
{
    struct convoy_processes *processes = &metrics->processes;
    const struct convoy_process_sample *own = &processes->own;
    pthread_mutex_lock(&processes->lock);
    read_processes(metrics, processes);
    own_family(text, "cpu_seconds_total", "counter", "Processor time of convoyd, without its workers.",
               own->cpu_seconds);
    own_family(text, "resident_memory_bytes", "gauge", "Memory of convoyd in RAM.",
               (double)own->resident_bytes);
    own_family(text, "virtual_memory_bytes", "gauge", "Address space of convoyd.",
               (double)own->virtual_bytes);
    own_family(text, "open_fds", "gauge", "Open descriptors of convoyd.", (double)own->open_fds);
    own_family(text, "max_fds", "gauge", "Descriptors that convoyd may open.", (double)own->max_fds);
    own_family(text, "start_time_seconds", "gauge", "When convoyd was started, since the epoch.",
               own->start_seconds);
    worker_family(text, metrics, "worker_cpu_seconds_total", "counter",
                  "Processor time of the device's worker.", cpu_seconds);
    worker_family(text, metrics, "worker_resident_memory_bytes", "gauge", "Memory of the worker in RAM.",
                  resident_bytes);
    worker_family(text, metrics, "worker_virtual_memory_bytes", "gauge", "Address space of the worker.",
                  virtual_bytes);
    worker_family(text, metrics, "worker_open_fds", "gauge", "Open descriptors of the worker.", open_fds);
    worker_family(text, metrics, "worker_max_fds", "gauge", "Descriptors that the worker may open.", max_fds);
    worker_family(text, metrics, "worker_start_time_seconds", "gauge",
                  "When the worker was started, since the epoch.", start_seconds);
    pthread_mutex_unlock(&processes->lock);
}

static void render_front(struct convoy_metrics_text *text, struct convoy_metrics *metrics)
{
    convoy_metrics_head(text, "connections", "gauge", "Open connections.");
    convoy_metrics_print(text, "convoyd_connections %" PRIu64 "\n", get(&metrics->connections));
    convoy_metrics_head(text, "refused_connections_total", "counter",
                        "Connections that were closed because their client has too many.");
    convoy_metrics_print(text, "convoyd_refused_connections_total %" PRIu64 "\n", get(&metrics->refused));
    convoy_metrics_head(text, "received_bytes_total", "counter", "Bytes of requests' bodies, as they came.");
    convoy_metrics_print(text, "convoyd_received_bytes_total %" PRIu64 "\n",
                         convoy_part_count_get(&metrics->received));
    convoy_metrics_head(text, "sent_bytes_total", "counter", "Bytes of answers' bodies.");
    convoy_metrics_print(text, "convoyd_sent_bytes_total %" PRIu64 "\n",
                         convoy_part_count_get(&metrics->sent));
    if (get(&metrics->tls_expiry) == 0)
        return;
    convoy_metrics_head(text, "tls_certificate_expiry_timestamp_seconds", "gauge",
                        "When the server's certificate expires.");
    convoy_metrics_print(text, "convoyd_tls_certificate_expiry_timestamp_seconds %" PRIu64 "\n",
                         get(&metrics->tls_expiry));
}

char *convoy_metrics_render(struct convoy_metrics *metrics, size_t *length)
{
    struct convoy_metrics_text text = {0};
    convoy_metrics_head(&text, "build_info", "gauge", "Always 1; its labels say what runs.");
    convoy_metrics_print(&text, "convoyd_build_info{version=\"%s\"} 1\n", CONVOY_VERSION);
    render_series(&text, metrics);
    if (atomic_load_explicit(&metrics->slots_known, memory_order_relaxed)) {
        convoy_metrics_head(&text, "slots_in_use", "gauge", "Slots that hold images, over all workers.");
        convoy_metrics_print(&text, "convoyd_slots_in_use %llu\n",
                             (unsigned long long)get(&metrics->slots_in_use));
    }
    render_front(&text, metrics);
    convoy_metrics_render_health(&text, metrics);
    render_processes(&text, metrics);
    render_cache(&text, metrics);
    render_models(&text, metrics);
    if (text.failed) {
        free(text.bytes);
        return NULL;
    }
    *length = text.length;
    return text.bytes;
}
