#include "server/inference/inference_request.h"

#include "engine/base/clock.h"
#include "server/batching/service_time.h"
#include "server/http/body_quota.h"
#include "server/http/buffer_pool.h"
#include "server/http/status.h"
#include "server/image/interleave.h"
#include "server/inference/class_map_quota.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Images up to this size together are decoded on the HTTP thread, in about a millisecond: handing them to
 * another thread and back would cost more than it frees. */
#define INLINE_PIXELS (128u * 1024)
#define INLINE_BYTES  (256u * 1024)
/* Samples that are only copied, in about as long. */
#define INLINE_COPY (4096u * 1024)
/* A run of samples goes to the batcher together: at most so many, and about so many bytes where they are
 * decoded or the threads of the pool share them. A run in the pool costs about so many pixels: half a
 * millisecond. */
#define RUN_MOST  1024u
#define RUN_BYTES (1024u * 1024)
#define RUN_COST  (128u * 1024)

struct convoy_inference_request *convoy_inference_request_new(const struct convoy_model_view *view,
                                                              uint32_t count)
{
    size_t images = (size_t)count * sizeof(struct convoy_sample);
    size_t outputs = (size_t)count * view->shape.outputs_per_row * sizeof(float);
    struct convoy_inference_request *inference = calloc(1, sizeof *inference + images);
    struct convoy_model_view taken = *view;

    if (inference != NULL)
        inference->outputs = malloc(outputs > 0 ? outputs : 1);
    if (inference == NULL || inference->outputs == NULL) {
        free(inference);
        convoy_model_view_end(&taken);
        return NULL;
    }
    inference->view = taken;
    inference->count = count;
    atomic_init(&inference->refs, 1);
    atomic_init(&inference->left, count + 1);
    return inference;
}

void convoy_inference_request_drop(struct convoy_inference_request *inference)
{
    if (atomic_fetch_sub_explicit(&inference->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < inference->count; i++) {
        free(inference->samples[i].error);
        free(inference->samples[i].item.layers);
        free(inference->samples[i].item.class_map);
        convoy_response_free(inference->samples[i].response);
    }
    if (inference->map != CONVOY_MAP_NONE)
        convoy_class_map_give();
    convoy_model_view_end(&inference->view);
    free(inference->outputs);
    convoy_buffer_pool_free(inference->tensor);
    convoy_buffer_pool_free(inference->body);
    convoy_body_quota_give(inference->body_capacity);
    free(inference);
}

/* The fate of a sample is known. */
static void finish_sample(struct convoy_inference_request *inference)
{
    if (atomic_fetch_sub_explicit(&inference->left, 1, memory_order_acq_rel) == 1)
        convoy_resume(&inference->suspension);
    convoy_inference_request_drop(inference);
}

/* On the control loop: it only counts, and resumes the connection after the last sample. */
static void sample_done(struct convoy_item *item)
{
    finish_sample(item->context);
}

static uint64_t pixel_limit(const struct convoy_inference_request *inference)
{
    return inference->pipeline->max_pixels;
}

/* What its samples become. */
static struct convoy_sample_input input_of(const struct convoy_inference_request *inference)
{
    return (struct convoy_sample_input){.layout = inference->layout,
                                        .shape = &inference->view.shape,
                                        .resizing = &inference->view.resizing,
                                        .deadline_us = inference->deadline_us,
                                        .max_pixels = pixel_limit(inference),
                                        .scaling = inference->whole ? CONVOY_SCALING_OFF
                                                                    : inference->pipeline->scaling};
}

/* Copies the sample's outputs from the response cache; false when they are not there, or the cache does not
 * apply. */
static bool look_up(struct convoy_inference_request *inference, uint32_t index, const void *bytes,
                    size_t length)
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
        .layout = convoy_sample_slot_layout(inference->layout),
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

/* The sample will not go to the batcher. */
static void end_here(struct convoy_inference_request *inference)
{
    convoy_batcher_cancel(inference->pipeline->batcher, inference->view.model, 1, inference->priority);
    finish_sample(inference);
}

/* The sample ends, because the client is gone before it was decoded. */
static void spare(struct convoy_inference_request *inference, struct convoy_sample *sample)
{
    convoy_sample_gone(sample);
    convoy_metrics_spared(inference->view.model->metrics, 1);
    end_here(inference);
}

/* False, with the sample ended, once the daemon stops, or when the client is gone. */
static bool goes_on(struct convoy_inference_request *inference, struct convoy_sample *sample)
{
    if (atomic_load_explicit(&inference->abandoned, memory_order_relaxed)) {
        spare(inference, sample);
        return false;
    }
    if (!convoy_suspension_stopping(&inference->suspension))
        return true;
    convoy_sample_fail(sample, CONVOY_HTTP_SERVICE_UNAVAILABLE,
                       "the server is stopping: send the request again");
    end_here(inference);
    return false;
}

/* Of a decoded image. */
static size_t row_bytes(const struct convoy_inference_request *inference)
{
    const struct convoy_model_shape *shape = &inference->view.shape;

    return (size_t)shape->channels * shape->height * shape->width;
}

/* Images whose rows are not too much memory together. */
static uint32_t decoded_run(const struct convoy_inference_request *inference)
{
    size_t run = RUN_BYTES / row_bytes(inference);

    return run < 1 ? 1 : run > RUN_MOST ? RUN_MOST : (uint32_t)run;
}

static struct convoy_item *make_item(struct convoy_inference_request *inference, uint32_t index)
{
    struct convoy_item *item = &inference->samples[index].item;

    *item = (struct convoy_item){
        .model = inference->view.model,
        .layout = convoy_sample_slot_layout(inference->layout),
        .profile = inference->profile,
        .map = inference->map,
        .priority = inference->priority,
        .group = &inference->group,
        .outputs = inference->outputs + (size_t)index * inference->view.shape.outputs_per_row,
        .done = sample_done,
        .context = inference,
    };
    return item;
}

/* Decodes an image and hands its sample to the batcher. Any thread. False, with nothing done, when it has
 * more than max_pixels but not too many for the configuration. *took_us: the time of decoding, whether it
 * succeeded or not; 0 if it was not tried. */
static bool decode_and_submit(struct convoy_inference_request *inference, uint32_t index, uint64_t max_pixels,
                              uint64_t *took_us)
{
    struct convoy_sample_input input = input_of(inference);
    struct convoy_sample *sample = &inference->samples[index];
    size_t length;

    if (!goes_on(inference, sample))
        return true;
    const void *bytes = convoy_sample_bytes(&input, sample, max_pixels, NULL, &length);
    if (bytes == NULL && sample->status == 0)
        return false;
    *took_us = sample->decode_us;
    if (bytes == NULL ||
        (inference->pipeline->response_cache != NULL && look_up(inference, index, bytes, length))) {
        end_here(inference);
        return true;
    }
    struct convoy_item *item = make_item(inference, index);
    item->source = bytes;
    item->source_bytes = length;
    convoy_batcher_submit(inference->pipeline->batcher, &item, 1);
    return true;
}

/* Decodes a run of images and hands their samples to the batcher together, so that they take the rows of a
 * slot at once. Any thread, which holds the request: all of them may be done before it returns. Returns the
 * time of decoding. */
static uint64_t decode_run(struct convoy_inference_request *inference, uint32_t first, uint32_t count)
{
    struct convoy_sample_input input = input_of(inference);
    struct convoy_item *items[RUN_MOST];
    uint64_t took_us = 0, one_us = 0;
    size_t row = row_bytes(inference);
    uint8_t *rows = count > 1 ? convoy_buffer_pool_new(count * row) : NULL;
    uint32_t n = 0;

    /* The analyzer cannot count references. */
    for (uint32_t i = first; i < first + count; i++) {
        struct convoy_sample *sample = &inference->samples[i];
        if (rows == NULL) { /* one, or memory is short */
            decode_and_submit(inference, i, pixel_limit(inference),
                              &one_us); // NOLINT(clang-analyzer-unix.Malloc)
            took_us += one_us;
            continue;
        }
        if (!goes_on(inference, sample))
            continue;
        size_t length;
        const void *bytes =
            convoy_sample_bytes(&input, sample, pixel_limit(inference), rows + n * row, &length);
        took_us += sample->decode_us;
        if (bytes == NULL ||
            (inference->pipeline->response_cache != NULL && look_up(inference, i, bytes, length))) {
            end_here(inference);
            continue;
        }
        items[n] = make_item(inference, i);
        items[n]->source = bytes;
        items[n++]->source_bytes = length;
    }
    if (n > 0)
        convoy_batcher_submit(inference->pipeline->batcher, items, n); // NOLINT(clang-analyzer-unix.Malloc)
    convoy_buffer_pool_free(rows);
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
    return bytes == NULL || look_up(inference, index, bytes, length);
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

/* Hands a run of raw samples, at most RUN_MOST, to the batcher together. The calling thread holds the
 * request: all of them may be done before it returns. */
static void submit_run(struct convoy_inference_request *inference, uint32_t first, uint32_t count)
{
    struct convoy_item *items[RUN_MOST];
    uint32_t n = 0;

    /* The analyzer cannot count references. */
    for (uint32_t i = first; i < first + count; i++) {
        if (!goes_on(inference, &inference->samples[i])) // NOLINT(clang-analyzer-unix.Malloc)
            continue;
        if (needs_no_worker(inference, i)) {
            end_here(inference);
            continue;
        }
        items[n] = make_item(inference, i);
        take_from_part(items[n++], &inference->samples[i]);
    }
    if (n > 0)
        convoy_batcher_submit(inference->pipeline->batcher, items, n); // NOLINT(clang-analyzer-unix.Malloc)
}

/* As many samples as make up a piece of work that is worth handing to a thread. size: the cost of all. */
static uint32_t run_length(const struct convoy_inference_request *inference, uint64_t size)
{
    size_t bytes = inference->samples[0].part.length > 0 ? inference->samples[0].part.length : 1;
    size_t run = RUN_BYTES / bytes;
    uint32_t most = RUN_MOST;

    if (!convoy_sample_is_raw(inference->layout)) {
        /* There is a sample. NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
        run = RUN_COST / (size / inference->count + 1);
        most = decoded_run(inference);
    }
    return run < 1 ? 1 : run > most ? most : (uint32_t)run;
}

static uint64_t process_in_pool(struct convoy_decode_job *job, uint32_t index)
{
    struct convoy_inference_request *inference =
        (struct convoy_inference_request *)((char *)job - offsetof(struct convoy_inference_request, job));
    uint32_t first = index * inference->run, left = inference->count - first;
    uint32_t count = left < inference->run ? left : inference->run;
    uint64_t took_us = 0;

    /* Samples whose deadline passes are done while they are still written. */
    atomic_fetch_add_explicit(&inference->refs, 1, memory_order_relaxed);
    if (convoy_sample_is_raw(inference->layout))
        submit_run(inference, first, count);
    else
        took_us = decode_run(inference, first, count);
    convoy_inference_request_drop(inference);
    return took_us;
}

/* Are several samples together small enough for this thread? An image whose header is bad costs nothing. */
static bool small(const struct convoy_inference_request *inference)
{
    uint64_t most = inference->layout == CONVOY_LAYOUT_ENCODED ? INLINE_BYTES : INLINE_COPY;
    uint64_t pixels = 0, bytes = 0;

    for (uint32_t i = 0; i < inference->count; i++) {
        struct convoy_sample_size size =
            convoy_sample_measure(inference->layout, &inference->samples[i], pixel_limit(inference));
        pixels += size.pixels;
        bytes += inference->samples[i].part.length;
        if (pixels > INLINE_PIXELS || bytes > most || size.memory > 0)
            return false;
    }
    return true;
}

/* Processes all samples on this thread; false, with nothing done, when they are too large for that. */
static bool process_here(struct convoy_inference_request *inference)
{
    uint64_t most = pixel_limit(inference), took_us;
    uint32_t count = inference->count;

    /* One image is not probed first: reading its header twice would cost a tenth of its request. */
    if (count == 1 && !convoy_sample_is_raw(inference->layout))
        return inference->samples[0].part.length <= INLINE_BYTES &&
               !convoy_sample_has_tables(inference->layout, &inference->samples[0], most) &&
               decode_and_submit(inference, 0, most < INLINE_PIXELS ? most : INLINE_PIXELS, &took_us);
    if (!small(inference))
        return false;
    /* The HTTP side's reference keeps it alive through all of this, which the analyzer cannot count. */
    if (!convoy_sample_is_raw(inference->layout)) {
        uint32_t run = decoded_run(inference);
        for (uint32_t i = 0; i < count; i += run)
            (void)decode_run(inference, i,
                             count - i < run ? count - i : run); // NOLINT(clang-analyzer-unix.Malloc)
        return true;
    }
    for (uint32_t i = 0; i < count; i += RUN_MOST)
        submit_run(inference, i,
                   count - i < RUN_MOST ? count - i : RUN_MOST); // NOLINT(clang-analyzer-unix.Malloc)
    return true;
}

/* What a sample costs there, in pixels that are decoded: a byte of a file costs about as much as eight of
 * them, to unpack; eight bytes that are copied, as much as one. An image whose header is bad costs nothing.
 */
static uint64_t cost(const struct convoy_inference_request *inference, const struct convoy_sample *sample,
                     const struct convoy_sample_size *decoding)
{
    if (inference->layout != CONVOY_LAYOUT_ENCODED)
        return sample->part.length / 8;
    return decoding->pixels > 0 ? decoding->pixels + 8 * (uint64_t)sample->part.length : 0;
}

/* Hands the samples to the pool and suspends; false when that cannot be: the caller answers now. */
static bool process_in_turn(struct convoy_inference_request *inference)
{
    struct convoy_decode_pool *pool = inference->pipeline->decode_pool;
    uint32_t count = inference->count;
    uint64_t size = 0, memory = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct convoy_sample *sample = &inference->samples[i];
        struct convoy_sample_size decoding =
            convoy_sample_measure(inference->layout, sample, pixel_limit(inference));
        size += cost(inference, sample, &decoding);
        memory = decoding.memory > memory ? decoding.memory : memory; /* one image of a run at a time */
    }
    /* Decoding what would be late makes those behind it late as well. */
    bool late = convoy_decode_pool_wait_us(pool, size) >
                convoy_service_time_spendable_us(inference->deadline_us, convoy_now_us());
    uint32_t run = inference->run = run_length(inference, size);
    inference->job = (struct convoy_decode_job){
        .count = (count + run - 1) / run, .size = size, .work = process_in_pool, .memory = memory};
    if (!late && convoy_decode_pool_suspend(pool, &inference->suspension, &inference->job))
        return true;
    convoy_batcher_cancel(inference->pipeline->batcher, inference->view.model, count, inference->priority);
    atomic_fetch_sub_explicit(&inference->refs, count, memory_order_relaxed);
    if (late) {
        for (uint32_t i = 0; i < count; i++)
            convoy_sample_fail(
                &inference->samples[i], CONVOY_HTTP_SERVICE_UNAVAILABLE,
                "so many large images wait to be decoded that this one would miss its deadline: try again "
                "later, send smaller images, or allow more with timeout_ms");
        atomic_fetch_sub_explicit(&inference->left, count, memory_order_relaxed);
    }
    return false;
}

/* See struct convoy_suspension. Samples that the batcher has are its own: it knows their deadlines. */
static void look(struct convoy_suspension *suspension, bool gone)
{
    struct convoy_inference_request *inference =
        (struct convoy_inference_request *)((char *)suspension -
                                            offsetof(struct convoy_inference_request, suspension));

    if (gone && !atomic_exchange_explicit(&inference->abandoned, true, memory_order_relaxed))
        convoy_batcher_abandon(inference->pipeline->batcher, &inference->group);
    if (inference->job.count == 0)
        return; /* no sample was left to the pool */
    uint32_t i =
        convoy_decode_pool_withdraw(inference->pipeline->decode_pool, &inference->job) * inference->run;
    /* The request is not freed here: that its samples have not ended counts as a reference. */
    for (; i < inference->count; i++) { // NOLINT(clang-analyzer-unix.Malloc)
        if (gone) {
            spare(inference, &inference->samples[i]);
            continue;
        }
        convoy_sample_late(&inference->samples[i]);
        end_here(inference);
    }
}

bool convoy_inference_request_run(struct convoy_inference_request *inference)
{
    uint32_t count = inference->count;

    inference->group.deadline_us = inference->deadline_us;
    inference->suspension.look = look;
    inference->suspension.deadline_us = inference->deadline_us;
    atomic_fetch_add_explicit(&inference->refs, count, memory_order_relaxed);
    if (process_here(inference)) {
        /* Nothing reached the batcher, or it was quick: no need to suspend. */
        if (convoy_inference_request_complete(inference)) // NOLINT(clang-analyzer-unix.Malloc)
            return true;
        if (!convoy_suspend(&inference->suspension, NULL, NULL))
            return true;
    } else if (!process_in_turn(inference)) {
        return true;
    }
    /* The last sample may have been done before the connection was suspended. The HTTP side's reference holds
     * until the connection, resumed, is answered by this same thread. */
    if (atomic_fetch_sub_explicit(&inference->left, 1, memory_order_acq_rel) == 1)
        convoy_resume(&inference->suspension);
    return false;
}

bool convoy_inference_request_complete(struct convoy_inference_request *inference)
{
    /* 1: the HTTP thread's own, when it asks before it gave that away. */
    uint32_t left = atomic_load_explicit(&inference->left, memory_order_acquire);
    return left == 0 || (left == 1 && !convoy_suspension_over(&inference->suspension));
}
