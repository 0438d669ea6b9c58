#include "server/inference/rows.h"

#include "engine/base/clock.h"
#include "server/batching/service_time.h"
#include "server/http/body_memory.h"
#include "server/http/buffer.h"
#include "server/inference/row_source.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

/* Images up to this size together are decoded on the HTTP thread, in about a millisecond: handing them to
 * another thread and back would cost more than it frees. */
#define INLINE_PIXELS (128u * 1024)
#define INLINE_BYTES  (256u * 1024)
/* Rows that are only copied, in about as long. */
#define INLINE_COPY (4096u * 1024)
/* A run of such rows goes to the batcher together: at most so many, and in the pool, whose threads share a
 * request, about so many bytes. */
#define RUN_MOST  1024u
#define RUN_BYTES (1024u * 1024)

struct convoy_rows *convoy_rows_new(const struct convoy_model_view *view, uint32_t count)
{
    size_t images = (size_t)count * sizeof(struct convoy_row);
    size_t outputs = (size_t)count * view->shape.outputs_per_row * sizeof(float);
    struct convoy_rows *rows = calloc(1, sizeof *rows + images);
    struct convoy_model_view taken = *view;

    if (rows != NULL)
        rows->outputs = malloc(outputs > 0 ? outputs : 1);
    if (rows == NULL || rows->outputs == NULL) {
        free(rows);
        convoy_model_view_end(&taken);
        return NULL;
    }
    rows->view = taken;
    rows->count = count;
    atomic_init(&rows->refs, 1);
    atomic_init(&rows->left, count + 1);
    return rows;
}

void convoy_rows_drop(struct convoy_rows *rows)
{
    if (atomic_fetch_sub_explicit(&rows->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < rows->count; i++) {
        free(rows->row[i].error);
        free(rows->row[i].item.layers);
        convoy_response_free(rows->row[i].response);
    }
    convoy_model_view_end(&rows->view);
    free(rows->outputs);
    convoy_buffer_free(rows->tensor);
    convoy_buffer_free(rows->body);
    convoy_body_memory_give(rows->body_capacity);
    free(rows);
}

/* The fate of a row is known. */
static void finish_row(struct convoy_rows *rows)
{
    if (atomic_fetch_sub_explicit(&rows->left, 1, memory_order_acq_rel) == 1)
        convoy_resume(&rows->suspension);
    convoy_rows_drop(rows);
}

/* On the control loop: counting and waking up is all that happens here. */
static void row_done(struct convoy_item *item)
{
    finish_row(item->context);
}

/* Copies the row's outputs from the response cache; false when they are not there, or not to be looked for.
 */
static bool look_up(struct convoy_rows *rows, uint32_t index, const void *bytes, size_t length)
{
    struct convoy_row *row = &rows->row[index];
    struct convoy_model *model = rows->view.model;
    uint32_t outputs = rows->view.shape.outputs_per_row;

    if (rows->profile || !model->config->response_cache)
        return false;
    uint64_t begun_ns = convoy_now_ns();
    const struct convoy_response_key key = {
        .model = model->number,
        .load = atomic_load_explicit(&model->load, memory_order_relaxed),
        .layout = convoy_row_layout(rows->source),
        .row = bytes,
        .row_bytes = length,
        .output_count = outputs,
    };
    row->cached = convoy_response_cache_lookup(rows->pipeline->response_cache, &key,
                                               rows->outputs + (size_t)index * outputs, &row->response);
    convoy_model_looked_up(model, row->cached, convoy_now_ns() - begun_ns);
    return row->cached;
}

/* The row will not go to the batcher. */
static void end_here(struct convoy_rows *rows)
{
    convoy_batcher_cancel(rows->pipeline->batcher, rows->view.model, 1, rows->priority);
    finish_row(rows);
}

/* False, with the row ended, once the daemon stops. */
static bool goes_on(struct convoy_rows *rows, struct convoy_row *row)
{
    if (!convoy_suspension_stopping(&rows->suspension))
        return true;
    convoy_row_fail(row, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping: send the request again");
    end_here(rows);
    return false;
}

static struct convoy_item *make_item(struct convoy_rows *rows, uint32_t index)
{
    struct convoy_item *item = &rows->row[index].item;

    *item = (struct convoy_item){
        .model = rows->view.model,
        .layout = convoy_row_layout(rows->source),
        .profile = rows->profile,
        .priority = rows->priority,
        .deadline_us = rows->deadline_us,
        .outputs = rows->outputs + (size_t)index * rows->view.shape.outputs_per_row,
        .done = row_done,
        .context = rows,
    };
    return item;
}

/* Decodes an image and hands its row to the batcher. Any thread. False, with nothing done, when it has more
 * than max_pixels but not too many for the configuration. *took_us: the time of decoding, whether it
 * succeeded or not; 0 if it was not tried. */
static bool decode_and_submit(struct convoy_rows *rows, uint32_t index, uint64_t max_pixels,
                              uint64_t *took_us)
{
    struct convoy_row *row = &rows->row[index];
    size_t length;

    if (!goes_on(rows, row))
        return true;
    const void *bytes = convoy_row_bytes(rows, row, max_pixels, &length);
    if (bytes == NULL && row->status == 0)
        return false;
    *took_us = row->decode_us;
    if (bytes == NULL || (rows->pipeline->response_cache != NULL && look_up(rows, index, bytes, length))) {
        end_here(rows);
        return true;
    }
    struct convoy_item *item = make_item(rows, index);
    item->source = bytes;
    item->source_bytes = length;
    convoy_batcher_submit(rows->pipeline->batcher, &item, 1);
    return true;
}

/* The response cache has the row's outputs, or it failed. */
static bool needs_no_worker(struct convoy_rows *rows, uint32_t index)
{
    size_t length;

    if (rows->pipeline->response_cache == NULL)
        return false;
    const void *bytes = convoy_row_bytes(rows, &rows->row[index], 0, &length);
    return bytes == NULL || look_up(rows, index, bytes, length);
}

/* Hands a run of raw rows, at most RUN_MOST, to the batcher together. Any thread, which holds rows: they may
 * all be done before it returns. */
static void submit_run(struct convoy_rows *rows, uint32_t first, uint32_t count)
{
    struct convoy_item *items[RUN_MOST];
    uint32_t n = 0;

    /* The analyzer cannot count references. */
    for (uint32_t i = first; i < first + count; i++) {
        if (!goes_on(rows, &rows->row[i])) // NOLINT(clang-analyzer-unix.Malloc)
            continue;
        if (needs_no_worker(rows, i)) {
            end_here(rows);
            continue;
        }
        items[n] = make_item(rows, i);
        convoy_row_from_part(items[n++], &rows->row[i]);
    }
    if (n > 0)
        convoy_batcher_submit(rows->pipeline->batcher, items, n); // NOLINT(clang-analyzer-unix.Malloc)
}

static uint64_t pixel_limit(const struct convoy_rows *rows)
{
    return rows->pipeline->max_pixels;
}

/* Raw rows, as many as make up a piece of work that is worth handing to a thread. */
static uint32_t run_length(const struct convoy_rows *rows)
{
    size_t bytes = rows->row[0].part.length > 0 ? rows->row[0].part.length : 1;
    size_t run = RUN_BYTES / bytes;

    return run < 1 ? 1 : run > RUN_MOST ? RUN_MOST : (uint32_t)run;
}

static uint64_t process_in_pool(struct convoy_decode_job *job, uint32_t index)
{
    struct convoy_rows *rows = (struct convoy_rows *)((char *)job - offsetof(struct convoy_rows, job));
    uint64_t took_us = 0;

    /* Rows whose deadline passes are done while they are still written. */
    atomic_fetch_add_explicit(&rows->refs, 1, memory_order_relaxed);
    if (convoy_row_is_raw(rows->source)) {
        uint32_t run = run_length(rows), first = index * run, left = rows->count - first;
        submit_run(rows, first, left < run ? left : run);
    } else {
        decode_and_submit(rows, index, pixel_limit(rows), &took_us);
    }
    convoy_rows_drop(rows);
    return took_us;
}

/* Are several rows together small enough for this thread? An image whose header is bad costs nothing. */
static bool small(const struct convoy_rows *rows)
{
    uint64_t most = rows->source == CONVOY_ROW_ENCODED ? INLINE_BYTES : INLINE_COPY;
    uint64_t pixels = 0, bytes = 0;

    for (uint32_t i = 0; i < rows->count; i++) {
        pixels += convoy_row_pixels(rows, &rows->row[i]);
        bytes += rows->row[i].part.length;
        if (pixels > INLINE_PIXELS || bytes > most)
            return false;
    }
    return true;
}

/* Processes all rows on this thread; false, with nothing done, when they are too large for that. */
static bool process_here(struct convoy_rows *rows)
{
    uint64_t most = pixel_limit(rows), took_us;
    uint32_t count = rows->count;

    /* One image is not probed first: reading its header twice would cost a tenth of its request. */
    if (count == 1 && !convoy_row_is_raw(rows->source))
        return rows->row[0].part.length <= INLINE_BYTES &&
               decode_and_submit(rows, 0, most < INLINE_PIXELS ? most : INLINE_PIXELS, &took_us);
    if (!small(rows))
        return false;
    /* The HTTP side's reference keeps it alive through all of this, which the analyzer cannot count. */
    if (!convoy_row_is_raw(rows->source)) {
        for (uint32_t i = 0; i < count; i++)
            (void)decode_and_submit(rows, i, most, &took_us); // NOLINT(clang-analyzer-unix.Malloc)
        return true;
    }
    for (uint32_t i = 0; i < count; i += RUN_MOST)
        submit_run(rows, i,
                   count - i < RUN_MOST ? count - i : RUN_MOST); // NOLINT(clang-analyzer-unix.Malloc)
    return true;
}

/* What a row costs there, in pixels that are decoded: a byte of a file costs about as much as eight of them,
 * to unpack; eight bytes that are copied, as much as one. An image whose header is bad costs nothing. */
static uint64_t cost(const struct convoy_rows *rows, const struct convoy_row *row)
{
    uint64_t pixels = convoy_row_pixels(rows, row);

    if (rows->source != CONVOY_ROW_ENCODED)
        return row->part.length / 8;
    return pixels > 0 ? pixels + 8 * (uint64_t)row->part.length : 0;
}

/* Hands the rows to the pool and suspends; false when that cannot be: the caller answers now. */
static bool process_in_turn(struct convoy_rows *rows)
{
    struct convoy_decode_pool *pool = rows->pipeline->decode_pool;
    uint32_t count = rows->count;
    uint64_t size = 0;

    for (uint32_t i = 0; i < count; i++)
        size += cost(rows, &rows->row[i]);
    /* Decoding what would be late makes those behind it late as well. */
    bool late = convoy_decode_pool_wait_us(pool, size) >
                convoy_service_time_spendable_us(rows->deadline_us, convoy_now_us());
    uint32_t run = convoy_row_is_raw(rows->source) ? run_length(rows) : 1;
    rows->job =
        (struct convoy_decode_job){.count = (count + run - 1) / run, .size = size, .work = process_in_pool};
    if (!late && convoy_decode_pool_suspend(pool, &rows->suspension, &rows->job))
        return true;
    convoy_batcher_cancel(rows->pipeline->batcher, rows->view.model, count, rows->priority);
    atomic_fetch_sub_explicit(&rows->refs, count, memory_order_relaxed);
    if (late) {
        for (uint32_t i = 0; i < count; i++)
            convoy_row_fail(
                &rows->row[i], MHD_HTTP_SERVICE_UNAVAILABLE,
                "so many large images wait to be decoded that this one would miss its deadline: try again "
                "later, send smaller images, or allow more with timeout_ms");
        atomic_fetch_sub_explicit(&rows->left, count, memory_order_relaxed);
    }
    return false;
}

bool convoy_rows_run(struct convoy_rows *rows)
{
    uint32_t count = rows->count;

    atomic_fetch_add_explicit(&rows->refs, count, memory_order_relaxed);
    if (process_here(rows)) {
        /* Nothing reached the batcher, or it was quick: no need to suspend. */
        if (convoy_rows_complete(rows)) // NOLINT(clang-analyzer-unix.Malloc)
            return true;
        if (!convoy_suspend(&rows->suspension, NULL, NULL))
            return true;
    } else if (!process_in_turn(rows)) {
        return true;
    }
    /* The last row may have been done before the connection was suspended. The HTTP side's reference holds
     * until the connection, resumed, is answered by this same thread. */
    if (atomic_fetch_sub_explicit(&rows->left, 1, memory_order_acq_rel) == 1)
        convoy_resume(&rows->suspension);
    return false;
}

bool convoy_rows_complete(struct convoy_rows *rows)
{
    /* 1: the HTTP thread's own, when it asks before it gave that away. */
    uint32_t left = atomic_load_explicit(&rows->left, memory_order_acquire);
    return left == 0 || (left == 1 && !convoy_suspension_over(&rows->suspension));
}

int convoy_rows_outcome(const struct convoy_rows *rows, uint32_t i, const char **sentence)
{
    const struct convoy_row *row = &rows->row[i];

    *sentence = NULL;
    if (row->status != 0) {
        *sentence = row->error != NULL ? row->error : "the server is out of memory: try again later";
        return row->status;
    }
    switch (row->item.status) {
    case 0:
        return MHD_HTTP_OK;
    case -ETIMEDOUT:
        *sentence =
            "the deadline passed before the image was classified: try again later, or allow more with "
            "timeout_ms";
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case -ENODEV:
        *sentence = "the model can no longer be served: look at its reason in /v2/models";
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    case -ECANCELED:
        *sentence = "the server is stopping: send the request again";
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    default:
        *sentence = "the worker failed on this image again and again: the log says more";
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

void convoy_rows_remember(struct convoy_rows *rows)
{
    if (rows->pipeline->response_cache == NULL)
        return;
    for (uint32_t i = 0; i < rows->count; i++) {
        struct convoy_row *row = &rows->row[i];
        /* A row that took a worker with it is tried by the next one anew, should it come again. */
        if (row->response == NULL || row->status != 0 || row->item.status != 0 || row->item.retries > 0)
            continue; /* freed with the rows */
        uint64_t begun_ns = convoy_now_ns();
        convoy_response_cache_insert(rows->pipeline->response_cache, row->response, row->item.outputs);
        row->response = NULL;
        convoy_model_inserted(rows->view.model, convoy_now_ns() - begun_ns);
    }
}

static float greater(float a, float b)
{
    return a > b ? a : b;
}

void convoy_rows_summarise(const struct convoy_rows *rows, struct convoy_rows_summary *summary)
{
    *summary = (struct convoy_rows_summary){0};
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct convoy_row *row = &rows->row[i];
        const struct convoy_item *item = &row->item;
        if (row->status != 0 || item->status != 0)
            continue;
        summary->cached += row->cached;
        if (item->queue_us > summary->queue_us)
            summary->queue_us = item->queue_us;
        summary->input_us = greater(summary->input_us, item->input_us);
        summary->compute_us = greater(summary->compute_us, item->compute_us);
        summary->output_us = greater(summary->output_us, item->output_us);
        if (item->retries > summary->retries)
            summary->retries = item->retries;
        if (summary->last == NULL || item->finished_us > summary->last->finished_us)
            summary->last = item;
    }
}

uint64_t convoy_rows_decode_us(const struct convoy_rows *rows)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < rows->count; i++)
        sum += rows->row[i].decode_us;
    return sum;
}
