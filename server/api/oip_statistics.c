#include "server/api/oip_statistics.h"

#include "server/api/app.h"
#include "server/api/lookup.h"
#include "server/api/oip_internal.h"

#include <microhttpd.h>
#include <string.h>

/* key: what comes before the object, as in ",\"fail\":". */
static void write_count(struct convoy_text *text, const char *key, uint64_t count, uint64_t ns)
{
    convoy_text_put(text, key, strlen(key));
    convoy_text_add(text, "{\"count\":");
    convoy_text_natural(text, count);
    convoy_text_add(text, ",\"ns\":");
    convoy_text_natural(text, ns);
    convoy_text_add(text, "}");
}

static void write_duration(struct convoy_text *text, const char *key, uint64_t count, uint64_t us)
{
    write_count(text, key, count, us * 1000);
}

static void write_times(struct convoy_text *text, uint64_t count, const struct convoy_batch_times *times)
{
    write_duration(text, ",\"compute_input\":", count, times->input_us);
    write_duration(text, ",\"compute_infer\":", count, times->compute_us);
    write_duration(text, ",\"compute_output\":", count, times->output_us);
}

/* All batches of a version together. */
struct totals {
    uint64_t images, batches;
    struct convoy_batch_times times;
};

/* Writes an object for each size that occurred and adds them up, so that totals and sizes agree on a page
 * although others count meanwhile. */
static void write_batches(const struct convoy_statistics *statistics, struct convoy_text *text,
                          struct totals *totals)
{
    *totals = (struct totals){0};
    for (uint32_t rows = 1; rows <= convoy_statistics_max_batch(statistics); rows++) {
        struct convoy_batch_times times;
        uint64_t count = convoy_statistics_batches(statistics, rows, &times);
        if (count == 0)
            continue;
        if (totals->batches > 0)
            convoy_text_add(text, ",");
        convoy_text_add(text, "{\"batch_size\":");
        convoy_text_natural(text, rows);
        write_times(text, count, &times);
        convoy_text_add(text, "}");
        totals->images += rows * count;
        totals->batches += count;
        totals->times.input_us += times.input_us;
        totals->times.compute_us += times.compute_us;
        totals->times.output_us += times.output_us;
    }
}

static void write_version(const struct convoy_model *model, struct convoy_text *text)
{
    struct convoy_statistics_counts counts;
    struct convoy_text batches = {0};
    struct totals totals;

    convoy_statistics_counts(model->statistics, &counts);
    write_batches(model->statistics, &batches, &totals);
    convoy_text_add(text, "{\"name\":");
    convoy_text_string(text, model->name);
    convoy_text_add(text, ",\"version\":");
    convoy_text_string(text, model->version);
    convoy_text_add(text, ",\"last_inference\":");
    convoy_text_natural(text, counts.last_run_ms);
    convoy_text_add(text, ",\"inference_count\":");
    convoy_text_natural(text, totals.images);
    convoy_text_add(text, ",\"execution_count\":");
    convoy_text_natural(text, totals.batches);
    convoy_text_add(text, ",\"inference_stats\":{");
    write_duration(text, "\"success\":", counts.success.count, counts.success.us);
    write_duration(text, ",\"fail\":", counts.fail.count, counts.fail.us);
    write_duration(text, ",\"queue\":", counts.queue.count, counts.queue.us);
    write_times(text, totals.batches, &totals.times);
    write_count(text, ",\"cache_hit\":", counts.hit.count, counts.hit.ns);
    write_count(text, ",\"cache_miss\":", counts.miss.count, counts.miss.ns);
    convoy_text_add(text, "},\"batch_stats\":[");
    convoy_text_put(text, batches.bytes, batches.length);
    convoy_text_add(text, "]}");
    text->failed = text->failed || batches.failed;
    convoy_text_free(&batches);
}

/* Every version that is READY, of the model name or, when that is NULL, of all; how many there are. */
static uint32_t write_ready(struct convoy_registry *registry, const char *name, struct convoy_text *text)
{
    struct convoy_model_list list;
    uint32_t written = 0;

    if (convoy_registry_list(registry, name, &list, NULL) != 0) {
        text->failed = true;
        return 0;
    }
    for (uint32_t i = 0; i < list.count; i++) {
        if (list.views[i].state != CONVOY_MODEL_READY && !list.views[i].evicted)
            continue;
        if (written++ > 0)
            convoy_text_add(text, ",");
        write_version(list.views[i].model, text);
    }
    convoy_model_list_end(&list);
    return written;
}

bool convoy_oip_statistics(struct convoy_request *request)
{
    struct convoy_text text = {0};

    convoy_text_add(&text, "{\"model_stats\":[");
    (void)write_ready(convoy_app_of(request)->registry, NULL, &text);
    convoy_text_add(&text, "]}\n");
    return convoy_oip_respond(request, MHD_HTTP_OK, &text);
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
    struct convoy_text text = {0};
    struct convoy_model_view view;
    bool answered;

    convoy_text_add(&text, "{\"model_stats\":[");
    bool written = !names_version(request) && convoy_lookup_model(request) != NULL &&
                   write_ready(registry, request->path.model, &text) > 0;
    if (!written) {
        const struct convoy_model *model = convoy_oip_ready_model(request, &view, &answered);
        if (model == NULL) {
            convoy_text_free(&text);
            return answered;
        }
        convoy_model_view_end(&view);
        write_version(model, &text);
    }
    convoy_text_add(&text, "]}\n");
    return convoy_oip_respond(request, MHD_HTTP_OK, &text);
}
