#include "server/metrics/metrics_totals.h"

#include "engine/base/clock.h"
#include "server/metrics/metrics_internal.h"

#include <string.h>

/* Of one device. */
struct device_totals {
    const struct convoy_device_metrics *device;
    char label[CONVOY_LABEL_BYTES]; /* device="NAME" */
    bool up;
    uint64_t restarts, batches;
};

struct totals {
    uint64_t answers[3]; /* 2xx, 4xx, 5xx */
    uint64_t images, retried, queue;
    uint64_t latency[CONVOY_TIME_BUCKETS + 1], sizes[CONVOY_SIZE_BUCKETS + 1];
    uint32_t device_count;
    struct device_totals devices[CONVOY_METRICS_DEVICES + 1];
};

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_histogram(const struct convoy_histogram *histogram, unsigned buckets, uint64_t *counts)
{
    for (unsigned i = 0; i <= buckets; i++)
        counts[i] += get(&histogram->counts[i]);
}

static void add_models(struct convoy_metrics *metrics, struct totals *totals)
{
    const struct convoy_model_metrics *model = atomic_load_explicit(&metrics->models, memory_order_acquire);

    for (; model != NULL; model = model->next) {
        totals->images += get(&model->images);
        totals->retried += get(&model->retried);
        totals->queue += convoy_metrics_sum_model(model).queue;
        struct convoy_histogram requests;
        convoy_metrics_sum_stage(model, CONVOY_STAGE_REQUEST, &requests);
        add_histogram(&requests, CONVOY_TIME_BUCKETS, totals->latency);
        add_histogram(&model->sizes, CONVOY_SIZE_BUCKETS, totals->sizes);
        for (uint32_t i = 0; i < totals->device_count; i++)
            totals->devices[i].batches += get(&model->batches[totals->devices[i].device->number]);
    }
}

static void list_devices(struct convoy_metrics *metrics, struct totals *totals)
{
    const struct convoy_device_metrics *device =
        atomic_load_explicit(&metrics->devices, memory_order_acquire);

    for (; device != NULL; device = device->next) {
        if (device->model != NULL)
            continue; /* of one of its workers */
        struct device_totals *listed = &totals->devices[totals->device_count++];
        listed->device = device;
        convoy_metrics_label(listed->label, sizeof listed->label, "device", device->name);
    }
}

/* labels are those of a request's series: model, route, status. Adds nothing for a route of another kind. */
static void add_answers(struct totals *totals, const char *labels, const char *const *routes,
                        uint64_t answers)
{
    static const char mark[] = "\",status=\"";
    const char *end = strstr(labels, mark);

    if (end == NULL)
        return;
    for (; *routes != NULL; routes++) {
        size_t length = strlen(*routes);
        if ((size_t)(end - labels) < length || memcmp(end - length, *routes, length) != 0)
            continue;
        char class = end[sizeof mark - 1];
        if (class == '2' || class == '4' || class == '5')
            totals->answers[class == '2' ? 0 : class - '3'] += answers;
        return;
    }
}

/* The series of a device and of its workers begin with its label. */
static struct device_totals *device_of(struct totals *totals, const char *labels)
{
    for (uint32_t i = 0; i < totals->device_count; i++) {
        size_t length = strlen(totals->devices[i].label);
        if (strncmp(labels, totals->devices[i].label, length) == 0 &&
            (labels[length] == '\0' || labels[length] == ','))
            return &totals->devices[i];
    }
    return NULL;
}

static void add_series(struct convoy_metrics *metrics, const char *const *routes, struct totals *totals)
{
    for (unsigned chain = 0; chain < CONVOY_SERIES_CHAINS; chain++) {
        const struct convoy_series *series =
            atomic_load_explicit(&metrics->series[chain], memory_order_acquire);
        for (; series != NULL; series = series->next) {
            uint64_t value = get(&series->value);
            if (value == CONVOY_SERIES_GONE)
                continue;
            if (series->family == CONVOY_FAMILY_REQUESTS)
                add_answers(totals, series->labels, routes, value);
            if (series->family != CONVOY_FAMILY_WORKER_UP && series->family != CONVOY_FAMILY_WORKER_RESTARTS)
                continue;
            struct device_totals *device = device_of(totals, series->labels);
            if (device != NULL && series->family == CONVOY_FAMILY_WORKER_UP)
                device->up = device->up || value != 0;
            else if (device != NULL)
                device->restarts += value;
        }
    }
}

static void write_histogram(struct convoy_json_writer *json, const uint64_t *bounds, const uint64_t *counts,
                            unsigned buckets)
{
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "bounds");
    convoy_json_write_begin_array(json);
    for (unsigned i = 0; i < buckets; i++)
        convoy_json_write_unsigned(json, bounds != NULL ? bounds[i] : UINT64_C(1) << i);
    convoy_json_write_end_array(json);
    convoy_json_write_key(json, "counts");
    convoy_json_write_begin_array(json);
    for (unsigned i = 0; i <= buckets; i++)
        convoy_json_write_unsigned(json, counts[i]);
    convoy_json_write_end_array(json);
    convoy_json_write_end_object(json);
}

/* What the driver says of the device, as far as it is known. */
static void write_health(struct convoy_json_writer *json, const struct convoy_device_metrics *device)
{
    static const struct {
        enum convoy_health_value value;
        const char *key;
    } shown[] = {{CONVOY_HEALTH_UTILIZATION, "utilization_percent"},
                 {CONVOY_HEALTH_JPEG_UTILIZATION, "jpeg_percent"},
                 {CONVOY_HEALTH_MEMORY_USED, "memory_used_bytes"},
                 {CONVOY_HEALTH_MEMORY_TOTAL, "memory_total_bytes"},
                 {CONVOY_HEALTH_TEMPERATURE, "temperature_celsius"},
                 {CONVOY_HEALTH_POWER, "power_milliwatts"},
                 {CONVOY_HEALTH_XIDS, "xid_errors"}};

    convoy_json_write_begin_object(json);
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        uint64_t value = get(&device->health[shown[i].value]);
        if (value == CONVOY_HEALTH_UNKNOWN)
            continue;
        convoy_json_write_string_key(json, shown[i].key);
        convoy_json_write_unsigned(json, value);
    }
    convoy_json_write_end_object(json);
}

static void write_devices(struct convoy_json_writer *json, const struct totals *totals)
{
    convoy_json_write_begin_array(json);
    for (uint32_t i = totals->device_count; i-- > 0;) { /* the list has the first one last */
        const struct device_totals *device = &totals->devices[i];
        convoy_json_write_begin_object(json);
        convoy_json_write_key(json, "device");
        convoy_json_write_string(json, device->device->name);
        convoy_json_write_key(json, "up");
        convoy_json_write_bool(json, device->up);
        convoy_json_write_key(json, "restarts");
        convoy_json_write_unsigned(json, device->restarts);
        convoy_json_write_key(json, "batches");
        convoy_json_write_unsigned(json, device->batches);
        convoy_json_write_key(json, "gpu");
        write_health(json, device->device);
        convoy_json_write_end_object(json);
    }
    convoy_json_write_end_array(json);
}

void convoy_metrics_totals_write(struct convoy_metrics *metrics, const char *const *routes,
                                 struct convoy_json_writer *json)
{
    struct totals totals = {0};

    list_devices(metrics, &totals);
    add_models(metrics, &totals);
    add_series(metrics, routes, &totals);
    convoy_json_write_key(json, "time_us");
    convoy_json_write_unsigned(json, convoy_now_us());
    convoy_json_write_key(json, "connections");
    convoy_json_write_unsigned(json, get(&metrics->connections));
    convoy_json_write_key(json, "answers");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "2xx");
    convoy_json_write_unsigned(json, totals.answers[0]);
    convoy_json_write_key(json, "4xx");
    convoy_json_write_unsigned(json, totals.answers[1]);
    convoy_json_write_key(json, "5xx");
    convoy_json_write_unsigned(json, totals.answers[2]);
    convoy_json_write_end_object(json);
    convoy_json_write_key(json, "images");
    convoy_json_write_unsigned(json, totals.images);
    convoy_json_write_key(json, "retried_images");
    convoy_json_write_unsigned(json, totals.retried);
    convoy_json_write_key(json, "queue_images");
    convoy_json_write_unsigned(json, totals.queue);
    convoy_json_write_key(json, "slots_in_use");
    convoy_json_write_unsigned(json, get(&metrics->slots_in_use));
    convoy_json_write_key(json, "latency_us");
    write_histogram(json, convoy_time_bounds, totals.latency, CONVOY_TIME_BUCKETS);
    convoy_json_write_key(json, "batch_size");
    write_histogram(json, NULL, totals.sizes, CONVOY_SIZE_BUCKETS);
    convoy_json_write_key(json, "devices");
    write_devices(json, &totals);
}
