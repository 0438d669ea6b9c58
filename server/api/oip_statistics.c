#include "server/api/oip_statistics.h"

#include "server/api/app.h"
#include "server/api/lookup.h"
#include "server/api/oip_internal.h"
#include "server/http/status.h"

#include <string.h>

/* The value of a key that is written. */
static void write_count(struct convoy_json_writer *json, uint64_t count, uint64_t ns)
{
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "count");
    convoy_json_write_unsigned(json, count);
    convoy_json_write_key(json, "ns");
    convoy_json_write_unsigned(json, ns);
    convoy_json_write_end_object(json);
}

static void write_duration(struct convoy_json_writer *json, uint64_t count, uint64_t us)
{
    write_count(json, count, us * 1000);
}

static void write_times(struct convoy_json_writer *json, uint64_t count,
                        const struct convoy_batch_times *times)
{
    convoy_json_write_key(json, "compute_input");
    write_duration(json, count, times->input_us);
    convoy_json_write_key(json, "compute_infer");
    write_duration(json, count, times->compute_us);
    convoy_json_write_key(json, "compute_output");
    write_duration(json, count, times->output_us);
}

/* All batches of a version together. */
struct totals {
    uint64_t images, batches;
    struct convoy_batch_times times;
};

/* Writes an object for each batch size that occurred and adds them up, so that totals and sizes agree on a
 * page although other threads count at the same time. */
static void write_batches(const struct convoy_statistics *statistics, struct convoy_json_writer *json,
                          struct totals *totals)
{
    *totals = (struct totals){0};
    for (uint32_t rows = 1; rows <= convoy_statistics_max_batch(statistics); rows++) {
        struct convoy_batch_times times;
        uint64_t count = convoy_statistics_batches(statistics, rows, &times);
        if (count == 0)
            continue;
        convoy_json_write_begin_object(json);
        convoy_json_write_key(json, "batch_size");
        convoy_json_write_unsigned(json, rows);
        write_times(json, count, &times);
        convoy_json_write_end_object(json);
        totals->images += rows * count;
        totals->batches += count;
        totals->times.input_us += times.input_us;
        totals->times.compute_us += times.compute_us;
        totals->times.output_us += times.output_us;
    }
}

static void write_version(const struct convoy_model_record *model, struct convoy_json_writer *json)
{
    struct convoy_statistics_counts counts;
    struct convoy_json_writer batches = {0};
    struct totals totals;

    convoy_statistics_counts(model->statistics, &counts);
    write_batches(model->statistics, &batches, &totals);
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "name");
    convoy_json_write_string(json, model->name);
    convoy_json_write_key(json, "version");
    convoy_json_write_string(json, model->version);
    convoy_json_write_key(json, "last_inference");
    convoy_json_write_unsigned(json, counts.last_run_ms);
    convoy_json_write_key(json, "inference_count");
    convoy_json_write_unsigned(json, totals.images);
    convoy_json_write_key(json, "execution_count");
    convoy_json_write_unsigned(json, totals.batches);
    convoy_json_write_key(json, "inference_stats");
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "success");
    write_duration(json, counts.success.count, counts.success.us);
    convoy_json_write_key(json, "fail");
    write_duration(json, counts.fail.count, counts.fail.us);
    convoy_json_write_key(json, "queue");
    write_duration(json, counts.queue.count, counts.queue.us);
    write_times(json, totals.batches, &totals.times);
    convoy_json_write_key(json, "cache_hit");
    write_count(json, counts.hit.count, counts.hit.ns);
    convoy_json_write_key(json, "cache_miss");
    write_count(json, counts.miss.count, counts.miss.ns);
    convoy_json_write_end_object(json);
    convoy_json_write_key(json, "batch_stats");
    convoy_json_write_begin_array(json);
    convoy_json_write_fragment(json, batches.bytes, batches.length);
    convoy_json_write_end_array(json);
    convoy_json_write_end_object(json);
    json->failed = json->failed || batches.failed;
    convoy_json_writer_free(&batches);
}

/* Every version that is READY, of the model name or, when that is NULL, of all; how many there are. */
static uint32_t write_ready(struct convoy_registry *registry, const char *name,
                            struct convoy_json_writer *json)
{
    struct convoy_model_list list;
    uint32_t written = 0;

    if (convoy_registry_list(registry, name, &list, NULL) != 0) {
        json->failed = true;
        return 0;
    }
    for (uint32_t i = 0; i < list.count; i++) {
        if (list.views[i].state != CONVOY_MODEL_READY && !list.views[i].evicted)
            continue;
        written++;
        write_version(list.views[i].model, json);
    }
    convoy_model_list_end(&list);
    return written;
}

bool convoy_oip_statistics(struct convoy_request *request)
{
    struct convoy_json_writer json = {0};

    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "model_stats");
    convoy_json_write_begin_array(&json);
    (void)write_ready(convoy_app_of(request)->registry, NULL, &json);
    convoy_json_write_end_array(&json);
    convoy_json_write_end_object(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

/* Does the request name a version, or mean all of them? */
static bool names_version(struct convoy_request *request)
{
    size_t length;
    bool present;

    (void)convoy_request_query(request, "version", &length, &present);
    return present || request->path.version[0] != '\0';
}

bool convoy_oip_model_statistics(struct convoy_request *request)
{
    struct convoy_registry *registry = convoy_app_of(request)->registry;
    struct convoy_json_writer json = {0};
    struct convoy_model_view view;
    bool answered;

    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "model_stats");
    convoy_json_write_begin_array(&json);
    bool written = !names_version(request) && convoy_lookup_model(request) != NULL &&
                   write_ready(registry, request->path.model, &json) > 0;
    if (!written) {
        const struct convoy_model_record *model = convoy_oip_ready_model(request, &view, &answered);
        if (model == NULL) {
            convoy_json_writer_free(&json);
            return answered;
        }
        convoy_model_view_end(&view);
        write_version(model, &json);
    }
    convoy_json_write_end_array(&json);
    convoy_json_write_end_object(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}
