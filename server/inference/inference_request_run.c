/* Which thread makes the samples' bytes, and what waits for it. */
#include "server/inference/inference_request_internal.h"

#include "engine/base/clock.h"
#include "server/batching/service_time.h"
#include "server/http/status.h"
#include "server/inference/decoder_choice.h"

/* Images up to this size together are decoded on the HTTP thread, in about a millisecond: handing them to
 * another thread and back would cost more than it frees. */
#define INLINE_PIXELS (128u * 1024)
#define INLINE_BYTES  (256u * 1024)
/* Samples that are only copied, in about as long. */
#define INLINE_COPY (4096u * 1024)
/* Files for a device, which are only copied, too: one of the largest. */
#define INLINE_FILES CONVOY_SAMPLE_FILE_MOST
/* A run of samples goes to the batcher together: about so many bytes where the threads of the pool share
 * them. A run in the pool costs about so many pixels: half a millisecond. */
#define RUN_BYTES (1024u * 1024)
#define RUN_COST  (128u * 1024)

/* Decides of each image who decodes it. Counts the files that this thread hands over at once. */
static void choose_decoders(struct convoy_inference_request *inference)
{
    const struct convoy_pipeline *pipeline = inference->pipeline;
    struct convoy_decoder_choice choice = {
        .decoder = inference->decoder,
        .takes_files = inference->layout == CONVOY_LAYOUT_ENCODED && inference->map == CONVOY_MAP_NONE &&
                       atomic_load_explicit(&inference->view.model->takes_files, memory_order_relaxed),
        .max_pixels = convoy_inference_pixel_limit(inference)};
    uint64_t bytes = 0;

    if (!convoy_decoder_choice_open(&choice))
        return;
    choice.file_bytes = convoy_batcher_file_bytes(pipeline->batcher);
    choice.busy =
        choice.decoder == CONVOY_IMAGE_DECODER_FASTEST && convoy_decode_pool_busy(pipeline->decode_pool);
    for (uint32_t i = 0; i < inference->count; i++) {
        struct convoy_sample *sample = &inference->samples[i];
        bool known = sample->measured ? sample->size.file.components > 0
                                      : convoy_sample_read_file(sample, &sample->size.file);
        sample->file =
            known && convoy_decoder_choice_device(&choice, &sample->size.file, sample->part.length);
        inference->files += sample->file;
        bytes += sample->file ? sample->part.length : 0;
    }
    if (bytes > INLINE_FILES)
        inference->files = 0; /* the pool's threads copy them */
}

/* Is the sample what this thread has handed over already, or is about to? */
static bool is_handed_over(const struct convoy_inference_request *inference,
                           const struct convoy_sample *sample)
{
    return sample->file && inference->files > 0;
}

/* As many samples as make up a piece of work that is worth handing to a thread. size: the cost of all. */
static uint32_t run_length(const struct convoy_inference_request *inference, uint64_t size)
{
    size_t bytes = inference->samples[0].part.length > 0 ? inference->samples[0].part.length : 1;
    size_t run = RUN_BYTES / bytes;
    uint32_t most = CONVOY_RUN_MOST;

    if (!convoy_sample_is_raw(inference->layout)) {
        /* There is a sample. NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
        run = RUN_COST / (size / inference->count + 1);
        most = convoy_inference_decoded_run(inference);
    }
    return run < 1 ? 1 : run > most ? most : (uint32_t)run;
}

/* Each index is a reference: the samples of one may all be done before it is called, or while it writes them.
 */
static uint64_t process_in_pool(struct convoy_decode_job *job, uint32_t index)
{
    struct convoy_inference_request *inference =
        (struct convoy_inference_request *)((char *)job - offsetof(struct convoy_inference_request, job));
    uint32_t first = index * inference->run, left = inference->count - first;
    uint32_t count = left < inference->run ? left : inference->run;
    uint64_t took_us = 0;

    if (convoy_sample_is_raw(inference->layout)) {
        convoy_inference_submit_raw(inference, first, count);
    } else {
        if (inference->files == 0)
            convoy_inference_submit_files(inference, first, count);
        took_us = convoy_inference_decode_run(inference, first, count);
    }
    convoy_inference_request_drop(inference);
    return took_us;
}

/* Are the samples that are not handed over yet small enough for this thread? An image whose header is bad
 * costs nothing. */
static bool is_small(const struct convoy_inference_request *inference)
{
    uint64_t most = inference->layout == CONVOY_LAYOUT_ENCODED ? INLINE_BYTES : INLINE_COPY;
    uint64_t pixels = 0, bytes = 0;

    for (uint32_t i = 0; i < inference->count; i++) {
        const struct convoy_sample *sample = &inference->samples[i];
        if (is_handed_over(inference, sample))
            continue;
        struct convoy_sample_size size =
            convoy_sample_measure(inference->layout, sample, convoy_inference_pixel_limit(inference));
        pixels += size.pixels;
        bytes += sample->part.length;
        if (sample->file || pixels > INLINE_PIXELS || bytes > most || size.memory > 0)
            return false;
    }
    return true;
}

/* Processes all samples on this thread; false, with nothing done, when they are too large for that. */
static bool process_here(struct convoy_inference_request *inference)
{
    uint64_t most = convoy_inference_pixel_limit(inference), took_us;
    uint32_t count = inference->count;

    /* One image is not probed first: reading its header twice would cost a tenth of its request. */
    if (count == 1 && !convoy_sample_is_raw(inference->layout) && inference->files == 0)
        return inference->samples[0].part.length <= INLINE_BYTES && !inference->samples[0].file &&
               !convoy_sample_has_tables(inference->layout, &inference->samples[0], most) &&
               convoy_inference_decode(inference, 0, most < INLINE_PIXELS ? most : INLINE_PIXELS, &took_us);
    if (!is_small(inference))
        return false;
    /* The HTTP side's reference keeps it alive through all of this, which the analyzer cannot count. */
    if (inference->files > 0)
        convoy_inference_submit_files(inference, 0, count); // NOLINT(clang-analyzer-unix.Malloc)
    if (inference->files == count)
        return true;
    if (!convoy_sample_is_raw(inference->layout)) {
        uint32_t run = convoy_inference_decoded_run(inference);
        for (uint32_t i = 0; i < count; i += run)
            (void)convoy_inference_decode_run(inference, i,
                                              count - i < run ? count - i
                                                              : run); // NOLINT(clang-analyzer-unix.Malloc)
        return true;
    }
    for (uint32_t i = 0; i < count; i += CONVOY_RUN_MOST)
        convoy_inference_submit_raw(
            inference, i,
            count - i < CONVOY_RUN_MOST ? count - i : CONVOY_RUN_MOST); // NOLINT(clang-analyzer-unix.Malloc)
    return true;
}

/* What a sample costs there, in pixels that are decoded: a byte of a file costs about as much as eight of
 * them, to unpack; eight bytes that are copied, as much as one. An image whose header is bad costs nothing.
 */
static uint64_t cost(const struct convoy_inference_request *inference, const struct convoy_sample *sample,
                     const struct convoy_sample_size *decoding)
{
    if (inference->layout != CONVOY_LAYOUT_ENCODED || sample->file)
        return sample->part.length / 8;
    return decoding->pixels > 0 ? decoding->pixels + 8 * (uint64_t)sample->part.length : 0;
}

/* None of the samples was begun: they fail. */
static void refuse_all(struct convoy_inference_request *inference)
{
    uint32_t count = inference->count;

    convoy_batcher_cancel(inference->pipeline->batcher, inference->view.model, count, inference->priority);
    atomic_fetch_sub_explicit(&inference->refs, count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++)
        convoy_sample_fail(
            &inference->samples[i], CONVOY_HTTP_SERVICE_UNAVAILABLE,
            "so many large images wait to be decoded that this one would miss its deadline: try again "
            "later, send smaller images, or allow more with timeout_ms");
    atomic_fetch_sub_explicit(&inference->left, count, memory_order_relaxed);
}

/* Hands the samples to the pool, but for files that it hands over here, and suspends; false when that cannot
 * be: the caller answers now. */
static bool process_in_turn(struct convoy_inference_request *inference)
{
    struct convoy_decode_pool *pool = inference->pipeline->decode_pool;
    uint32_t count = inference->count, left = count - inference->files;
    uint64_t size = 0, memory = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct convoy_sample *sample = &inference->samples[i];
        if (is_handed_over(inference, sample))
            continue;
        struct convoy_sample_size decoding = {0};
        if (!sample->file)
            decoding =
                convoy_sample_measure(inference->layout, sample, convoy_inference_pixel_limit(inference));
        size += cost(inference, sample, &decoding);
        memory = decoding.memory > memory ? decoding.memory : memory; /* one image of a run at a time */
    }
    /* Decoding what would be late makes those behind it late as well. */
    if (convoy_decode_pool_wait_us(pool, size) >
        convoy_service_time_spendable_us(inference->deadline_us, convoy_now_us())) {
        refuse_all(inference);
        return false;
    }
    if (inference->files > 0)
        convoy_inference_submit_files(inference, 0, count);
    uint32_t run = inference->run = run_length(inference, size);
    inference->job = (struct convoy_decode_job){
        .count = (count + run - 1) / run, .size = size, .work = process_in_pool, .memory = memory};
    atomic_fetch_add_explicit(&inference->refs, inference->job.count, memory_order_relaxed);
    if (convoy_decode_pool_suspend(pool, &inference->suspension, &inference->job))
        return true;
    atomic_fetch_sub_explicit(&inference->refs, inference->job.count, memory_order_relaxed);
    inference->job.count = 0;
    convoy_batcher_cancel(inference->pipeline->batcher, inference->view.model, left, inference->priority);
    atomic_fetch_sub_explicit(&inference->refs, left, memory_order_relaxed);
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
    convoy_inference_withdraw_files(inference, gone);
    if (inference->job.count == 0)
        return; /* no sample was left to the pool */
    uint32_t first = convoy_decode_pool_withdraw(inference->pipeline->decode_pool, &inference->job);
    /* The request is not freed here: it is suspended, which counts as a reference. */
    atomic_fetch_sub_explicit(&inference->refs, inference->job.count - first, memory_order_relaxed);
    for (uint32_t i = first * inference->run; i < inference->count;
         i++) { // NOLINT(clang-analyzer-unix.Malloc)
        if (is_handed_over(inference, &inference->samples[i]))
            continue;
        if (gone) {
            convoy_inference_spare(inference, &inference->samples[i]);
            continue;
        }
        convoy_sample_late(&inference->samples[i]);
        convoy_inference_end_here(inference);
    }
}

bool convoy_inference_request_run(struct convoy_inference_request *inference)
{
    uint32_t count = inference->count;

    inference->group.deadline_us = inference->deadline_us;
    inference->suspension.look = look;
    inference->suspension.deadline_us = inference->deadline_us;
    atomic_fetch_add_explicit(&inference->refs, count, memory_order_relaxed);
    choose_decoders(inference);
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
