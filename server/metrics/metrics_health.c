/* The health of devices: what their drivers say of them. A value stays with its device, and is rendered while
 * it is known. */
#include "server/metrics/metrics_internal.h"

#include <inttypes.h>
#include <string.h>

/* A line of a family. Lines of one family follow each other; the first one's help is rendered. */
static const struct {
    enum convoy_health_value value;
    const char *name, *type, *help;
    const char *label, *label_value; /* beside the device; NULL: none */
    double divisor;
} lines[] = {
    {CONVOY_HEALTH_UTILIZATION, "gpu_utilization_ratio", "gauge",
     "Part of the last second or less in which the GPU's engine worked: kernels, memory or jpeg.", "engine",
     "kernels", 100},
    {CONVOY_HEALTH_MEMORY_UTILIZATION, "gpu_utilization_ratio", "gauge", "", "engine", "memory", 100},
    {CONVOY_HEALTH_JPEG_UTILIZATION, "gpu_utilization_ratio", "gauge", "", "engine", "jpeg", 100},
    {CONVOY_HEALTH_MEMORY_USED, "gpu_memory_bytes", "gauge",
     "Memory of the GPU: used by all processes and the driver, and total.", "kind", "used", 1},
    {CONVOY_HEALTH_MEMORY_TOTAL, "gpu_memory_bytes", "gauge", "", "kind", "total", 1},
    {CONVOY_HEALTH_TEMPERATURE, "gpu_temperature_celsius", "gauge", "Temperature of the GPU's chip.", NULL,
     NULL, 1},
    {CONVOY_HEALTH_POWER, "gpu_power_watts", "gauge", "Power that the GPU draws.", NULL, NULL, 1000},
    {CONVOY_HEALTH_POWER_LIMIT, "gpu_power_limit_watts", "gauge", "Power at which the GPU lowers its clocks.",
     NULL, NULL, 1000},
    {CONVOY_HEALTH_ECC_VOLATILE, "gpu_ecc_uncorrected_errors_total", "counter",
     "Errors of the GPU's memory that ECC found and did not correct: since the driver started (volatile), "
     "and ever (aggregate).",
     "lifetime", "volatile", 1},
    {CONVOY_HEALTH_ECC_AGGREGATE, "gpu_ecc_uncorrected_errors_total", "counter", "", "lifetime", "aggregate",
     1},
    {CONVOY_HEALTH_XIDS, "gpu_xid_errors_total", "counter",
     "Errors of the GPU (Xids) that its driver reported while a worker listened.", NULL, NULL, 1},
    {CONVOY_HEALTH_LAST_XID, "gpu_last_xid", "gauge", "Number of the last Xid.", NULL, NULL, 1},
};
#define LINES (sizeof lines / sizeof lines[0])

void convoy_metrics_device_health(struct convoy_device_metrics *device,
                                  const struct convoy_device_health *health)
{
    if (device == NULL)
        return;
    for (int i = 0; i < CONVOY_HEALTH_XIDS; i++)
        atomic_store_explicit(&device->health[i], health != NULL ? health->values[i] : CONVOY_HEALTH_UNKNOWN,
                              memory_order_relaxed);
    /* The last one is of interest most of all when the worker is gone. */
    if (health != NULL && health->values[CONVOY_HEALTH_LAST_XID] != CONVOY_HEALTH_UNKNOWN)
        atomic_store_explicit(&device->health[CONVOY_HEALTH_LAST_XID], health->values[CONVOY_HEALTH_LAST_XID],
                              memory_order_relaxed);
}

void convoy_metrics_device_xids(struct convoy_device_metrics *device, uint64_t more)
{
    uint64_t none = CONVOY_HEALTH_UNKNOWN;
    if (device == NULL)
        return;
    (void)atomic_compare_exchange_strong(&device->health[CONVOY_HEALTH_XIDS], &none, 0);
    atomic_fetch_add_explicit(&device->health[CONVOY_HEALTH_XIDS], more, memory_order_relaxed);
}

/* Devices are numbered from 0 on; the list has the last one first. */
static const struct convoy_device_metrics *numbered(struct convoy_metrics *metrics, uint32_t number)
{
    const struct convoy_device_metrics *device =
        atomic_load_explicit(&metrics->devices, memory_order_acquire);
    while (device != NULL && (device->model != NULL || device->number != number))
        device = device->next;
    return device;
}

/* One sample of the family that begins with lines[first]. */
static void render_line(struct convoy_metrics_text *text, const struct convoy_device_metrics *device,
                        size_t first, size_t line, double value, bool *begun)
{
    char labels[CONVOY_LABEL_BYTES] = "";
    if (!*begun)
        convoy_metrics_head(text, lines[first].name, lines[first].type, lines[first].help);
    *begun = true;
    convoy_metrics_label(labels, sizeof labels, "device", device->name);
    if (lines[line].label != NULL)
        convoy_metrics_label(labels, sizeof labels, lines[line].label, lines[line].label_value);
    convoy_metrics_print(text, "convoyd_%s{%s} %.15g\n", lines[line].name, labels, value);
}

static void render_throttled(struct convoy_metrics_text *text, struct convoy_metrics *metrics)
{
    const struct convoy_device_metrics *device;
    bool begun = false;
    for (uint32_t number = 0; (device = numbered(metrics, number)) != NULL; number++) {
        uint64_t bits = atomic_load_explicit(&device->health[CONVOY_HEALTH_THROTTLED], memory_order_relaxed);
        if (bits == CONVOY_HEALTH_UNKNOWN)
            continue;
        if (!begun)
            convoy_metrics_head(text, "gpu_throttled", "gauge",
                                "1 while the GPU's clocks are held down for that reason.");
        begun = true;
        for (int reason = 0; reason < CONVOY_THROTTLES; reason++) {
            char labels[CONVOY_LABEL_BYTES] = "";
            convoy_metrics_label(labels, sizeof labels, "device", device->name);
            convoy_metrics_label(labels, sizeof labels, "reason", convoy_throttle_names[reason]);
            convoy_metrics_print(text, "convoyd_gpu_throttled{%s} %d\n", labels, (int)(bits >> reason & 1));
        }
    }
}

void convoy_metrics_render_health(struct convoy_metrics_text *text, struct convoy_metrics *metrics)
{
    for (size_t first = 0, end; first < LINES; first = end) {
        const struct convoy_device_metrics *device;
        bool begun = false;
        for (end = first + 1; end < LINES && strcmp(lines[end].name, lines[first].name) == 0; end++)
            continue;
        for (uint32_t number = 0; (device = numbered(metrics, number)) != NULL; number++)
            for (size_t i = first; i < end; i++) {
                uint64_t value = atomic_load_explicit(&device->health[lines[i].value], memory_order_relaxed);
                if (value != CONVOY_HEALTH_UNKNOWN)
                    render_line(text, device, first, i, (double)value / lines[i].divisor, &begun);
            }
    }
    render_throttled(text, metrics);
}
