/* Series that are found by their labels. */
#include "server/metrics/metrics_internal.h"

#include "engine/base/hash.h"
#include "engine/base/utf8.h"
#include "server/config/model_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns what it counted in, NULL where that was made here or cannot be made. */
static struct convoy_series *add_to_series(struct convoy_metrics *metrics, enum convoy_family family,
                                           const char *labels, uint64_t amount)
{
    struct convoy_series *series = series_or_new(metrics, family, labels, amount);
    if (series != NULL)
        convoy_metrics_add(&series->value, amount);
    return series;
}

static void set_series(struct convoy_metrics *metrics, enum convoy_family family, const char *labels,
                       uint64_t value)
{
    struct convoy_series *series = series_or_new(metrics, family, labels, value);
    if (series != NULL)
        convoy_metrics_set(&series->value, value);
}

void convoy_metrics_key(struct convoy_metrics *metrics, const char *key, const char *outcome)
{
    char labels[CONVOY_LABEL_BYTES] = "";
    convoy_metrics_label(labels, sizeof labels, "key", key);
    convoy_metrics_label(labels, sizeof labels, "outcome", outcome);
    add_to_series(metrics, CONVOY_FAMILY_KEY_REQUESTS, labels, 1);
}

/* What a thread counted last. A series stays as long as its metrics; the seed tells these from others that
 * were at the same address. */
struct counted {
    struct convoy_series *series; /* NULL: nothing */
    const struct convoy_metrics *metrics;
    uint64_t seed;
    int status;
    char model[CONVOY_MODEL_NAME_BYTES + 1], route[64];
};

static bool is_counted(const struct counted *last, const struct convoy_metrics *metrics, const char *model,
                       const char *route, int status)
{
    return last->series != NULL && last->metrics == metrics && last->seed == metrics->hash_seed &&
           last->status == status && strcmp(last->model, model) == 0 && strcmp(last->route, route) == 0;
}

/* Most requests are like the one before: for them no label is written and no series looked up. */
void convoy_metrics_request(struct convoy_metrics *metrics, const char *model, const char *route, int status)
{
    static _Thread_local struct counted last;
    char labels[CONVOY_LABEL_BYTES] = "", number[16];
    if (is_counted(&last, metrics, model, route, status)) {
        convoy_metrics_add(&last.series->value, 1);
        return;
    }
    snprintf(number, sizeof number, "%d", status);
    convoy_metrics_label(labels, sizeof labels, "model", model);
    convoy_metrics_label(labels, sizeof labels, "route", route);
    convoy_metrics_label(labels, sizeof labels, "status", number);
    last.series = add_to_series(metrics, CONVOY_FAMILY_REQUESTS, labels, 1);
    size_t model_bytes = strlen(model) + 1, route_bytes = strlen(route) + 1;
    if (model_bytes > sizeof last.model || route_bytes > sizeof last.route)
        last.series = NULL;
    if (last.series == NULL)
        return;
    last.metrics = metrics;
    last.seed = metrics->hash_seed;
    last.status = status;
    memcpy(last.model, model, model_bytes);
    memcpy(last.route, route, route_bytes);
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
