/* What happens to single samples: bytes are made of them, and handed to the batcher in runs. */
#include "server/inference/inference_request_internal.h"

#include "engine/base/clock.h"
#include "server/http/buffer_pool.h"
#include "server/http/status.h"
#include "server/image/interleave.h"

#include <string.h>

/* Bytes of decoded images that are handed over together. */
#define RUN_BYTES (1024u * 1024)

void convoy_inference_finish_sample(struct convoy_inference_request *inference)
{
    if (atomic_fetch_sub_explicit(&inference->left, 1, memory_order_acq_rel) == 1)
        convoy_resume(&inference->suspension);
    convoy_inference_request_drop(inference);
}

/* What its samples become. */
static struct convoy_sample_input input_of(const struct convoy_inference_request *inference)
{
    return (struct convoy_sample_input){.layout = inference->layout,
                                        .shape = &inference->view.shape,
                                        .resizing = &inference->view.resizing,
                                        .deadline_us = inference->deadline_us,
                                        .max_pixels = convoy_inference_pixel_limit(inference),
                                        .scaling = inference->whole ? CONVOY_SCALING_OFF
                                                                    : inference->pipeline->scaling};
}

bool convoy_inference_look_up(struct convoy_inference_request *inference, uint32_t index,
                              enum convoy_input_layout layout, const void *bytes, size_t length)
{
    struct convoy_sample *sample = &inference->samples[index];
    struct convoy_model_record *model = inference->view.model;
    uint32_t outputs = inference->view.shape.outputs_per_row;

    if (inference->profile || inference->map != CONVOY_MAP_NONE || !model->config->response_cache)
        return false;
    uint64_t begun_ns = convoy_now_ns();
    const struct convoy_response_key key = {
        .model = model->number,
        .load = atomic_load_explicit(&model->load, memory_order_relaxed),
        .layout = layout,
        .row = bytes,
        .row_bytes = length,
        .output_count = outputs,
    };
    sample->cached =
        convoy_response_cache_lookup(inference->pipeline->response_cache, &key,
                                     inference->outputs + (size_t)index * outputs, &sample->response);
    convoy_model_looked_up(model, sample->cached, convoy_now_ns() - begun_ns);
    return sample->cached;
}

void convoy_inference_end_here(struct convoy_inference_request *inference)
{
    convoy_batcher_cancel(inference->pipeline->batcher, inference->view.model, 1, inference->priority);
    convoy_inference_finish_sample(inference);
}

void convoy_inference_spare(struct convoy_inference_request *inference, struct convoy_sample *sample)
{
    convoy_sample_gone(sample);
    convoy_metrics_spared(inference->view.model->metrics, 1);
    convoy_inference_end_here(inference);
}

bool convoy_inference_goes_on(struct convoy_inference_request *inference, struct convoy_sample *sample)
{
    if (atomic_load_explicit(&inference->abandoned, memory_order_relaxed)) {
        convoy_inference_spare(inference, sample);
        return false;
    }
    if (!convoy_suspension_stopping(&inference->suspension))
        return true;
    convoy_sample_fail(sample, CONVOY_HTTP_SERVICE_UNAVAILABLE,
                       "the server is stopping: send the request again");
    convoy_inference_end_here(inference);
    return false;
}

/* Of a decoded image. */
static size_t row_bytes(const struct convoy_inference_request *inference)
{
    const struct convoy_model_shape *shape = &inference->view.shape;

    return (size_t)shape->channels * shape->height * shape->width;
}

uint32_t convoy_inference_decoded_run(const struct convoy_inference_request *inference)
{
    size_t run = RUN_BYTES / row_bytes(inference);

    return run < 1 ? 1 : run > CONVOY_RUN_MOST ? CONVOY_RUN_MOST : (uint32_t)run;
}

struct convoy_item *convoy_inference_make_item(struct convoy_inference_request *inference, uint32_t index,
                                               enum convoy_input_layout layout)
{
    struct convoy_item *item = &inference->samples[index].item;

    *item = (struct convoy_item){
        .model = inference->view.model,
        .layout = layout,
        .profile = inference->profile,
        .map = inference->map,
        .priority = inference->priority,
        .group = &inference->group,
        .outputs = inference->outputs + (size_t)index * inference->view.shape.outputs_per_row,
        .done = convoy_inference_sample_done,
        .context = inference,
    };
    return item;
}

bool convoy_inference_decode(struct convoy_inference_request *inference, uint32_t index, uint64_t max_pixels,
                             uint64_t *took_us)
{
    struct convoy_sample_input input = input_of(inference);
    struct convoy_sample *sample = &inference->samples[index];
    size_t length;

    if (!convoy_inference_goes_on(inference, sample))
        return true;
    const void *bytes = convoy_sample_bytes(&input, sample, max_pixels, NULL, &length);
    if (bytes == NULL && sample->status == 0)
        return false;
    *took_us = sample->decode_us;
    if (bytes == NULL ||
        (inference->pipeline->response_cache != NULL &&
         convoy_inference_look_up(inference, index, convoy_sample_slot_layout(inference->layout), bytes,
                                  length))) {
        convoy_inference_end_here(inference);
        return true;
    }
    struct convoy_item *item =
        convoy_inference_make_item(inference, index, convoy_sample_slot_layout(inference->layout));
    item->source = bytes;
    item->source_bytes = length;
    convoy_batcher_submit(inference->pipeline->batcher, &item, 1);
    return true;
}

uint64_t convoy_inference_decode_run(struct convoy_inference_request *inference, uint32_t first,
                                     uint32_t count)
{
    struct convoy_sample_input input = input_of(inference);
    struct convoy_item *items[CONVOY_RUN_MOST];
    uint64_t took_us = 0, one_us = 0;
    size_t row = row_bytes(inference);
    uint8_t *memory = count > 1 ? convoy_buffer_pool_new(count * row + CONVOY_IMAGE_ROW_OFFSET) : NULL;
    uint8_t *rows = memory == NULL ? NULL : memory + CONVOY_IMAGE_ROW_OFFSET;
    uint32_t n = 0;

    /* The analyzer cannot count references. */
    for (uint32_t i = first; i < first + count; i++) {
        struct convoy_sample *sample = &inference->samples[i];
        if (sample->file)
            continue;
        if (rows == NULL) { /* one, or memory is short */
            convoy_inference_decode(inference, i, convoy_inference_pixel_limit(inference),
                                    &one_us); // NOLINT(clang-analyzer-unix.Malloc)
            took_us += one_us;
            continue;
        }
        if (!convoy_inference_goes_on(inference, sample))
            continue;
        size_t length;
        const void *bytes = convoy_sample_bytes(&input, sample, convoy_inference_pixel_limit(inference),
                                                rows + n * row, &length);
        took_us += sample->decode_us;
        if (bytes == NULL ||
            (inference->pipeline->response_cache != NULL &&
             convoy_inference_look_up(inference, i, convoy_sample_slot_layout(inference->layout), bytes,
                                      length))) {
            convoy_inference_end_here(inference);
            continue;
        }
        items[n] = convoy_inference_make_item(inference, i, convoy_sample_slot_layout(inference->layout));
        items[n]->source = bytes;
        items[n++]->source_bytes = length;
    }
    if (n > 0)
        convoy_batcher_submit(inference->pipeline->batcher, items, n); // NOLINT(clang-analyzer-unix.Malloc)
    convoy_buffer_pool_free(memory);
    return took_us;
}

/* The response cache has the sample's outputs, or it failed. */
static bool needs_no_worker(struct convoy_inference_request *inference, uint32_t index)
{
    size_t length;

    if (inference->pipeline->response_cache == NULL)
        return false;
    struct convoy_sample_input input = input_of(inference);
    const void *bytes = convoy_sample_bytes(&input, &inference->samples[index], 0, NULL, &length);
    return bytes == NULL ||
           convoy_inference_look_up(inference, index, convoy_sample_slot_layout(inference->layout), bytes,
                                    length);
}

/* Planes to pixels, straight into the slot. */
static void write_interleaved(const struct convoy_item *item, uint8_t *target)
{
    const struct convoy_inference_request *inference = item->context;
    const struct convoy_model_shape *shape = &inference->view.shape;

    convoy_image_interleave(item->source, shape->channels, (size_t)shape->height * shape->width, target);
}

/* Makes item bring the bytes of a raw sample straight from its part into its slot. */
static void take_from_part(struct convoy_item *item, const struct convoy_sample *sample)
{
    const struct convoy_inference_request *inference = item->context;

    item->source = sample->part.bytes;
    item->source_bytes = sample->part.length;
    item->source_stays = true; /* the request has the body, and lives until its last item is done */
    item->write = inference->layout == CONVOY_LAYOUT_U8_CHW ? write_interleaved : NULL;
}

void convoy_inference_submit_raw(struct convoy_inference_request *inference, uint32_t first, uint32_t count)
{
    struct convoy_item *items[CONVOY_RUN_MOST];
    uint32_t n = 0;

    /* The analyzer cannot count references. */
    for (uint32_t i = first; i < first + count; i++) {
        if (!convoy_inference_goes_on(inference,
                                      &inference->samples[i])) // NOLINT(clang-analyzer-unix.Malloc)
            continue;
        if (needs_no_worker(inference, i)) {
            convoy_inference_end_here(inference);
            continue;
        }
        items[n] = convoy_inference_make_item(inference, i, convoy_sample_slot_layout(inference->layout));
        take_from_part(items[n++], &inference->samples[i]);
    }
    if (n > 0)
        convoy_batcher_submit(inference->pipeline->batcher, items, n); // NOLINT(clang-analyzer-unix.Malloc)
}
