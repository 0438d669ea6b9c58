/* `convoy top --json`: a line for each interval. */
#include <cjson/cJSON.h>
#include <math.h>

#include "client/commands/top.h"

/* Unknown values are null: cJSON prints NaN as null. */
static void add_rate(cJSON *object, const char *name, const struct client_top_view *view, double count)
{
    cJSON_AddNumberToObject(object, name, view->seconds > 0 ? count / view->seconds : NAN);
}

static const struct {
    const char *name;
    double share;
} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};
#define QUANTILES (sizeof quantiles / sizeof *quantiles)

/* Of the interval, in milliseconds. A quantile past the last bound is not known: null, though the mean is a
 * number. */
static void add_latency(cJSON *object, const char *name, const struct client_top_view *view,
                        const struct client_histogram *seconds)
{
    static const struct client_histogram none;
    const struct client_histogram *shown = view->seconds > 0 ? seconds : &none;
    cJSON *inside = cJSON_AddObjectToObject(object, name);
    cJSON_AddNumberToObject(inside, "mean", client_histogram_mean(shown) * 1000);
    for (size_t i = 0; i < QUANTILES; i++) {
        bool beyond;
        double value = client_histogram_quantile(shown, quantiles[i].share, &beyond) * 1000;
        cJSON_AddNumberToObject(inside, quantiles[i].name, beyond ? NAN : value);
    }
}

/* Quantiles are bucket bounds: no batch of that share was larger. */
static void add_batch_size(cJSON *object, const struct client_top_view *view,
                           const struct client_histogram *sizes)
{
    static const struct client_histogram none;
    const struct client_histogram *shown = view->seconds > 0 ? sizes : &none;
    cJSON *inside = cJSON_AddObjectToObject(object, "batch_size");
    cJSON_AddNumberToObject(inside, "mean", client_histogram_mean(shown));
    for (size_t i = 0; i < QUANTILES; i++)
        cJSON_AddNumberToObject(inside, quantiles[i].name, client_histogram_bound(shown, quantiles[i].share));
}

static void add_named(cJSON *object, const char *name, const struct client_named_list *list)
{
    cJSON *inside = cJSON_AddObjectToObject(object, name);
    for (size_t i = 0; i < list->count; i++)
        cJSON_AddNumberToObject(inside, list->entries[i].name, list->entries[i].value);
}

static void add_model(cJSON *list, const struct client_top_view *view,
                      const struct client_snapshot_model *model)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "model", model->name);
    cJSON *versions = cJSON_AddObjectToObject(object, "ready");
    for (size_t i = 0; i < model->versions.count; i++)
        cJSON_AddBoolToObject(versions, model->versions.entries[i].name,
                              model->versions.entries[i].value > 0);
    add_rate(object, "requests_per_second", view, model->requests);
    add_rate(object, "not_200_per_second", view, model->failed);
    add_rate(object, "images_per_second", view, model->images);
    add_rate(object, "batches_per_second", view, model->batches);
    cJSON_AddNumberToObject(object, "queue_images", model->queue);
    cJSON_AddNumberToObject(object, "retried_images", model->retried);
    add_batch_size(object, view, &model->sizes);
    cJSON *stages = cJSON_AddObjectToObject(object, "latency_ms");
    for (int stage = 0; stage < CLIENT_SNAPSHOT_STAGES; stage++)
        add_latency(stages, client_snapshot_stage_names[stage], view, &model->stages[stage]);
    cJSON_AddItemToArray(list, object);
}

/* What its driver says of it. */
static void add_health(cJSON *object, const struct client_snapshot_device *device)
{
    if (device->utilization.count + device->used_memory.count + device->health.count == 0)
        return;
    cJSON *inside = cJSON_AddObjectToObject(object, "gpu");
    add_named(inside, "utilization", &device->utilization);
    add_named(inside, "memory_bytes", &device->used_memory);
    add_named(inside, "ecc_uncorrected_errors", &device->ecc);
    cJSON *reasons = cJSON_AddArrayToObject(inside, "throttled");
    for (size_t i = 0; i < device->throttled.count; i++)
        cJSON_AddItemToArray(reasons, cJSON_CreateString(device->throttled.entries[i].name));
    for (size_t i = 0; i < device->health.count; i++)
        cJSON_AddNumberToObject(inside, device->health.entries[i].name, device->health.entries[i].value);
}

static void add_device(cJSON *list, const struct client_top_view *view,
                       const struct client_snapshot_device *device)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "device", device->name);
    if (device->known)
        cJSON_AddBoolToObject(object, "worker_up", device->up);
    else
        cJSON_AddNullToObject(object, "worker_up");
    add_named(object, "restarts", &device->restarts);
    add_named(object, "memory_bytes", &device->memory);
    add_health(object, device);
    add_rate(object, "batches_per_second", view, device->batches);
    cJSON_AddItemToArray(list, object);
}

static void add_snapshot(cJSON *document, const struct client_top_view *view)
{
    const struct client_snapshot *snapshot = view->between;
    double requests, failed;
    char name[16];
    client_snapshot_requests(snapshot, &requests, &failed);
    cJSON_AddStringToObject(document, "version", snapshot->version);
    cJSON_AddBoolToObject(document, "restarted", view->restarted);
    cJSON_AddNumberToObject(document, "seconds", view->seconds > 0 ? view->seconds : NAN);
    add_rate(document, "requests_per_second", view, requests);
    add_rate(document, "not_200_per_second", view, failed);
    add_rate(document, "images_per_second", view, client_snapshot_images(snapshot));
    cJSON *statuses = cJSON_AddObjectToObject(document, "statuses_per_second");
    for (int status = 0; status < CLIENT_SNAPSHOT_STATUSES; status++) {
        if (snapshot->statuses[status] > 0) {
            snprintf(name, sizeof name, "%d", status);
            add_rate(statuses, name, view, snapshot->statuses[status]);
        }
    }
    cJSON_AddNumberToObject(document, "slots_in_use", snapshot->slots);
    cJSON *models = cJSON_AddArrayToObject(document, "models");
    for (size_t i = 0; i < snapshot->model_count; i++)
        add_model(models, view, &snapshot->models[i]);
    cJSON *devices = cJSON_AddArrayToObject(document, "devices");
    for (size_t i = 0; i < snapshot->device_count; i++)
        add_device(devices, view, &snapshot->devices[i]);
}

void client_top_print_json(FILE *stream, const struct client_top_view *view)
{
    cJSON *document = cJSON_CreateObject();
    long ms = view->time.tv_nsec / 1000000;
    cJSON_AddNumberToObject(document, "time", (double)view->time.tv_sec + (double)ms / 1e3);
    cJSON_AddStringToObject(document, "url", view->url);
    cJSON_AddBoolToObject(document, "answers", !view->failure);
    if (view->failure)
        cJSON_AddStringToObject(document, "error", view->failure);
    else
        add_snapshot(document, view);
    char *text = cJSON_PrintUnformatted(document);
    if (text)
        fprintf(stream, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(document);
}
