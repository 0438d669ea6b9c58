/* Files that a device decodes: they go from the body straight into slots. One that the device could not
 * decode comes back, is decoded by the front, and goes to the batcher again as pixels, once. */
#include "server/inference/inference_request_internal.h"

#include "engine/base/jpeg_row.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static struct convoy_sample *sample_of(const struct convoy_item *item)
{
    return (struct convoy_sample *)((char *)item - offsetof(struct convoy_sample, item));
}

/* The row's header, and the file behind all headers. */
static void write_file(const struct convoy_item *item, uint8_t *target)
{
    const struct convoy_jpeg_header *file = &sample_of(item)->size.file;
    const struct convoy_jpeg_row row = {.length = (uint32_t)item->source_bytes,
                                        .offset = item->file_offset,
                                        .width = file->width,
                                        .height = file->height,
                                        .orientation = file->orientation,
                                        .components = file->components};
    memcpy(target, &row, sizeof row);
    memcpy(target + item->file_offset, item->source, item->source_bytes);
}

static struct convoy_item *make_item(struct convoy_inference_request *inference, uint32_t index)
{
    const struct convoy_sample *sample = &inference->samples[index];
    struct convoy_item *item = convoy_inference_make_item(inference, index, CONVOY_LAYOUT_JPEG);

    item->source = sample->part.bytes;
    item->source_bytes = sample->part.length;
    item->source_stays = true; /* the request has the body, and lives until its last item is done */
    item->write = write_file;
    item->pixels = (uint64_t)sample->size.file.width * sample->size.file.height;
    return item;
}

void convoy_inference_submit_files(struct convoy_inference_request *inference, uint32_t first, uint32_t count)
{
    struct convoy_item *items[CONVOY_RUN_MOST];
    uint32_t n = 0;

    /* The analyzer cannot count references. */
    for (uint32_t i = first; i < first + count; i++) {
        struct convoy_sample *sample = &inference->samples[i];
        if (!sample->file ||
            !convoy_inference_goes_on(inference, sample)) // NOLINT(clang-analyzer-unix.Malloc)
            continue;
        if (inference->pipeline->response_cache != NULL &&
            convoy_inference_look_up(inference, i, CONVOY_LAYOUT_JPEG, sample->part.bytes,
                                     sample->part.length)) {
            convoy_inference_end_here(inference);
            continue;
        }
        items[n++] = make_item(inference, i);
        if (n == CONVOY_RUN_MOST) {
            convoy_batcher_submit(inference->pipeline->batcher, items, n);
            n = 0;
        }
    }
    if (n > 0)
        convoy_batcher_submit(inference->pipeline->batcher, items, n); // NOLINT(clang-analyzer-unix.Malloc)
}

static uint64_t decode_again(struct convoy_decode_job *job, uint32_t index)
{
    struct convoy_sample *sample =
        (struct convoy_sample *)((char *)job - offsetof(struct convoy_sample, again));
    struct convoy_inference_request *inference = sample->item.context;
    uint64_t took_us = 0;

    (void)index;
    atomic_fetch_add_explicit(&inference->refs, 1, memory_order_relaxed);
    (void)convoy_inference_decode(inference, (uint32_t)(sample - inference->samples),
                                  convoy_inference_pixel_limit(inference), &took_us);
    convoy_inference_request_drop(inference);
    return took_us;
}

/* Leaves the sample's file to the decode pool. False, with the item's status set, when that cannot be. */
static bool leave_to_pool(struct convoy_inference_request *inference, struct convoy_sample *sample)
{
    struct convoy_model_record *model = inference->view.model;
    uint64_t pixels = (uint64_t)sample->size.file.width * sample->size.file.height;

    convoy_metrics_undecoded(model->metrics, 1);
    sample->undecoded = true;
    convoy_response_free(sample->response); /* it was for the device's answer */
    sample->response = NULL;
    sample->item = (struct convoy_item){.context = inference, .status = -ECANCELED};
    if (convoy_suspension_stopping(&inference->suspension))
        return false;
    convoy_batcher_readmit(inference->pipeline->batcher, model, inference->priority);
    sample->item.status = 0;
    sample->again =
        (struct convoy_decode_job){.count = 1,
                                   .size = pixels + 8 * (uint64_t)sample->part.length,
                                   .work = decode_again,
                                   .memory = pixels > CONVOY_DECODE_SMALL ? CONVOY_DECODE_BYTES * pixels : 0};
    /* It may be done before the next line. */
    atomic_fetch_add_explicit(&inference->refs, 1, memory_order_relaxed);
    bool left = convoy_decode_pool_try(inference->pipeline->decode_pool, &sample->again);
    if (left) {
        atomic_store(&sample->waits_again, true);
    } else {
        convoy_batcher_cancel(inference->pipeline->batcher, model, 1, inference->priority);
        sample->item.status = -ECANCELED;
    }
    convoy_inference_request_drop(inference);
    return left;
}

void convoy_inference_sample_done(struct convoy_item *item)
{
    struct convoy_inference_request *inference = item->context;

    if (item->status == -EBADMSG && item->layout == CONVOY_LAYOUT_JPEG &&
        leave_to_pool(inference, sample_of(item)))
        return;
    convoy_inference_finish_sample(inference);
}

void convoy_inference_withdraw_files(struct convoy_inference_request *inference, bool gone)
{
    for (uint32_t i = 0; i < inference->count; i++) {
        struct convoy_sample *sample = &inference->samples[i];
        /* The request is not freed here: it is suspended. */
        if (!sample->file || !atomic_load(&sample->waits_again) ||
            convoy_decode_pool_withdraw(inference->pipeline->decode_pool, &sample->again) > 0)
            continue; // NOLINT(clang-analyzer-unix.Malloc)
        if (gone) {
            convoy_inference_spare(inference, sample);
        } else {
            convoy_sample_late(sample);
            convoy_inference_end_here(inference);
        }
    }
}
