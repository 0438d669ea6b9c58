/* How an image gets its row: in an open slot, in a free one, or, while all are in use, later from the list of
 * parked images. */
#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Rows of this model that a slot of the channel takes; 0 when not even one fits. */
static uint32_t slot_capacity(const struct convoy_worker_slots *worker, const struct model_queue *queue,
                              enum convoy_input_layout layout)
{
    const struct convoy_channel_size *size = &worker->channel->size;
    uint64_t rows = queue->limits.max_batch;
    if (rows > size->input_bytes / queue->input_stride[layout])
        rows = size->input_bytes / queue->input_stride[layout];
    if (rows > size->output_bytes / queue->output_stride)
        rows = size->output_bytes / queue->output_stride;
    if (layout == CONVOY_LAYOUT_JPEG && rows > CONVOY_JPEG_ROWS_MAX)
        rows = CONVOY_JPEG_ROWS_MAX;
    return (uint32_t)rows;
}

static int open_slot(struct convoy_worker_slots *worker, const struct convoy_item *item, uint64_t now)
{
    struct convoy_batcher *batcher = worker->batcher;
    const struct model_queue *queue = queue_of(batcher, item->model);
    uint32_t capacity = slot_capacity(worker, queue, item->layout);
    int number = capacity > 0 ? convoy_worker_slots_free_slot(worker) : NO_SLOT;
    if (number == NO_SLOT)
        return NO_SLOT;
    struct worker_slot *slot = &worker->slots[number];
    memset(slot, 0, offsetof(struct worker_slot, state));
    slot->state = SLOT_OPEN;
    slot->model = item->model;
    slot->layout = item->layout;
    slot->priority = item->priority;
    slot->capacity = capacity;
    slot->files_end = (uint64_t)capacity * CONVOY_JPEG_ROW_BYTES; /* behind the headers */
    slot->opened_us = now;
    slot->order = batcher->orders++;
    slot->range_count = 0;
    worker->used++;
    convoy_metrics_slots_in_use(batcher->metrics, ++batcher->slots_in_use);
    return number;
}

/* How many of the first n items the slot still takes. Of files, those that fit its bytes, and whose pixels do
 * not keep the device for long; one always fits an empty slot. */
static uint32_t count_fitting(const struct convoy_worker_slots *worker, const struct worker_slot *slot,
                              struct convoy_item *const *items, uint32_t n)
{
    uint64_t end = slot->files_end, pixels = slot->pixels;
    if (n > slot->capacity - slot->reserved)
        n = slot->capacity - slot->reserved;
    for (uint32_t i = 0; i < n && slot->layout == CONVOY_LAYOUT_JPEG; i++) {
        end += convoy_file_room(items[i]); // NOLINT(clang-analyzer-core.*): n items are there
        pixels += items[i]->pixels;
        if (end > worker->channel->size.input_bytes ||
            (pixels > CONVOY_JPEG_SLOT_PIXELS && slot->reserved + i > 0))
            return i;
    }
    return n;
}

/* The slot for the first of n items: the one that gathers, if it takes it, or a free one. NO_SLOT when there
 * is none. */
static int slot_for(struct convoy_worker_slots *worker, struct convoy_item *const *items, uint64_t now)
{
    const struct convoy_item *first = items[0];
    int *open = open_slot_of(worker, first);
    bool alone = convoy_item_is_alone(first);
    if (!alone && *open != NO_SLOT) {
        struct worker_slot *slot = &worker->slots[*open];
        if (count_fitting(worker, slot, items, 1) == 1)
            return *open;
        slot->state = SLOT_SEALED; /* full, as far as this file is concerned */
        *open = NO_SLOT;
    }
    int number = open_slot(worker, first, now);
    if (number == NO_SLOT)
        return NO_SLOT;
    worker->slots[number].profile = first->profile;
    worker->slots[number].map = first->map;
    if (alone)
        worker->slots[number].capacity = 1;
    else
        *open = number;
    return number;
}

/* The item gets the slot's next row. */
static void take_row(struct convoy_worker_slots *worker, int number, struct convoy_item *item)
{
    struct worker_slot *slot = &worker->slots[number];
    item->worker = (int32_t)worker->number;
    item->slot = number;
    item->row = (int32_t)slot->reserved;
    if (slot->layout == CONVOY_LAYOUT_JPEG) {
        item->file_offset = (uint32_t)(slot->files_end - (uint64_t)slot->reserved * CONVOY_JPEG_ROW_BYTES);
        slot->files_end += convoy_file_room(item);
        slot->pixels += item->pixels;
    }
    slot->items[slot->reserved++] = item;
}

uint32_t convoy_batcher_reserve(struct convoy_batcher *batcher, struct convoy_item *const *items, uint32_t n,
                                struct convoy_worker_slots **where)
{
    const struct convoy_item *first = items[0];
    uint64_t now = convoy_now_us();
    struct convoy_worker_slots *worker = convoy_batcher_choose_worker(batcher, first, now);
    if (worker == NULL)
        return 0;
    int number = slot_for(worker, items, now);
    if (number == NO_SLOT)
        return 0;
    struct worker_slot *slot = &worker->slots[number];
    n = count_fitting(worker, slot, items, n);
    for (uint32_t i = 0; i < n; i++)
        take_row(worker, number, items[i]);
    slot->live += n;
    atomic_fetch_add(&slot->unwritten, n);
    convoy_slot_price(worker, slot,
                      n * convoy_image_cost_us(&worker->costs[first->model->number],
                                               &queue_of(batcher, first->model)->cost, now));
    worker->chosen = ++batcher->choices;
    if (!convoy_worker_slots_serve(worker, first->model))
        batcher->orphaned = true; /* another worker may serve it sooner */
    if (slot->reserved == slot->capacity) {
        slot->state = SLOT_SEALED;
        if (!convoy_item_is_alone(first))
            *open_slot_of(worker, first) = NO_SLOT;
    }
    *where = worker;
    return n;
}

static void write_row(const struct convoy_item *item, uint8_t *target)
{
    if (item->write != NULL)
        item->write(item, target);
    else
        memcpy(target, item->source, item->source_bytes);
}

static uint8_t *address_of(const struct convoy_batcher *batcher, const struct convoy_worker_slots *worker,
                           const struct convoy_item *item)
{
    uint64_t stride = batcher->queues[item->model->number].input_stride[item->layout];
    return convoy_channel_rows(worker->channel, (uint32_t)item->slot) + (uint32_t)item->row * stride;
}

void convoy_batcher_write(struct convoy_batcher *batcher, struct convoy_worker_slots *worker,
                          struct convoy_item *const *items, uint32_t n)
{
    uint64_t stride = queue_of(batcher, items[0]->model)->input_stride[items[0]->layout];
    uint8_t *target = address_of(batcher, worker, items[0]);
    for (uint32_t i = 0; i < n; i++)
        write_row(items[i], target + i * stride);
}

/* All reserved rows of the slot were written, a moment ago. */
static void all_written(struct convoy_worker_slots *worker, struct worker_slot *slot)
{
    struct convoy_batcher *batcher = worker->batcher;
    /* They may all have ended meanwhile: the control loop frees the slot. */
    if (slot->live == 0) {
        batcher->deserted = true;
        convoy_batcher_wake_at(batcher, convoy_now_us());
    }
    /* Its worker may have died meanwhile: the control loop takes the slot to another. */
    if (!convoy_worker_slots_serve(worker, slot->model) && convoy_batcher_serves(batcher, slot->model))
        convoy_batcher_wake_at(batcher, convoy_now_us());
    convoy_worker_slots_pump(worker);
}

void convoy_batcher_commit(struct convoy_worker_slots *worker, struct worker_slot *slot, uint32_t rows)
{
    if (atomic_fetch_sub(&slot->unwritten, rows) == rows)
        all_written(worker, slot);
}

/* Rows of a slot that were committed without the lock. */
struct commitment {
    struct batcher_work work;
    struct convoy_worker_slots *worker;
    struct worker_slot *slot;
};

/* A slot with written rows, for which its worker has time, takes no more: else threads that write or hold
 * rows of it one after the other could keep it from leaving until it is full. It leaves with the last of
 * those. The last free slot goes on gathering, with one slot in all this one, at worst until it is full: rows
 * that find no slot are parked, which costs a copy and another thread's turn. */
static void seal(struct batcher_work *work)
{
    struct commitment *commitment = (struct commitment *)work;
    struct convoy_worker_slots *worker = commitment->worker;
    struct worker_slot *slot = commitment->slot;
    /* It may be another slot by now, which then leaves a little earlier. */
    if (slot->state == SLOT_OPEN && atomic_load(&slot->unwritten) > 0 &&
        atomic_load(running_of(worker, slot->layout)) < atomic_load(&worker->streams) &&
        convoy_worker_slots_free_slot(worker) != NO_SLOT) {
        slot->state = SLOT_SEALED;
        worker->open[slot->layout][slot->priority][slot->model->number] = NO_SLOT;
    }
}

/* The last rows are written: the slot may leave. It may be another slot by now: then this does nothing. */
static void leave(struct batcher_work *work)
{
    struct commitment *commitment = (struct commitment *)work;
    all_written(commitment->worker, commitment->slot);
}

/* Commits rows without the lock, where nothing waits for them: others still write theirs, or the worker has
 * more of that kind than it runs at once, so that the slot cannot leave before one of those slots is done, or
 * the worker dies. Who finds that out looks at `unwritten` after it has changed `running`; here it is the
 * other way round, so one of the two sees what the other did. */
void convoy_batcher_commit_unlocked(struct convoy_worker_slots *worker, struct worker_slot *slot,
                                    uint32_t rows)
{
    enum convoy_input_layout layout = slot->layout; /* before it may be another slot */
    bool last = atomic_fetch_sub(&slot->unwritten, rows) == rows;
    uint32_t running = atomic_load(running_of(worker, layout));
    struct commitment commitment = {.worker = worker, .slot = slot};
    if (last && running <= convoy_worker_slots_most(worker, layout))
        commitment.work.run = leave;
    else if (!last && running < atomic_load(&worker->streams) && slot->state == SLOT_OPEN)
        commitment.work.run = seal;
    if (commitment.work.run != NULL)
        convoy_batcher_run(worker->batcher, &commitment.work);
}

bool convoy_item_keep_row(struct convoy_item *item, const uint8_t *row, uint64_t stride)
{
    uint8_t *copy = calloc(1, stride);
    if (copy == NULL)
        return false;
    if (row != NULL)
        memcpy(copy, row, stride);
    else
        write_row(item, copy);
    item->kept_row = copy;
    item->source = copy;
    item->source_bytes = stride;
    item->write = NULL;
    return true;
}

/* Gives rows (then *where is their worker) or a place among the parked (then NULL) to the first of n items;
 * returns to how many, or a negative errno when to none. 0: the item is to be parked, and its row is to be
 * kept before, which takes too long under the lock. */
static int place(struct convoy_batcher *batcher, struct convoy_item *const *items, uint32_t n,
                 struct convoy_worker_slots **where)
{
    struct convoy_item *item = items[0];
    struct model_queue *queue = queue_of(batcher, item->model);
    /* Behind those that wait already, or a stream of new images would starve them; ahead of those that
     * are less urgent. */
    const struct convoy_item *waits = convoy_parked_next(queue);
    bool first =
        waits == NULL || convoy_priority_rank(waits->priority) > convoy_priority_rank(item->priority);
    uint32_t got;
    *where = NULL;
    if (atomic_load(&batcher->stopped))
        return -ECANCELED;
    if (atomic_load(&queue->admission.gone))
        return -ENODEV;
    if (item->layout == CONVOY_LAYOUT_JPEG &&
        (!queue->takes_files || convoy_file_room(item) > convoy_batcher_file_bytes(batcher)))
        return -EBADMSG;
    if (item->group->deadline_us <= item->submitted_us)
        return -ETIMEDOUT;
    if (first && (got = convoy_batcher_reserve(batcher, items, n, where)) > 0) {
        convoy_item_group_join(batcher, items, got);
        return (int)got;
    }
    if (!item->source_stays && item->kept_row == NULL)
        return 0;
    convoy_item_link_parked(batcher, item, &queue->parked[item->priority]);
    convoy_item_group_join(batcher, items, 1);
    return 1;
}

/* Items of one kind that are submitted, and how far that is. */
struct submission {
    struct batcher_work work;
    struct convoy_batcher *batcher;
    struct model_queue *queue;
    struct convoy_item *const *items;
    uint32_t n, placed;
    uint32_t run; /* the last of those that are placed: they have rows at `worker`, unless it is NULL */
    struct convoy_worker_slots *worker;
    struct worker_slot *slot;
    uint8_t *kept; /* of the run's first item, which got a row after all */
    bool entered;  /* its items are counted */
    bool keeps;    /* the next item's row is to be kept before it is placed */
    int status;    /* of those that are not placed, when none will be */
};

static void enter(struct submission *submission)
{
    struct convoy_batcher *batcher = submission->batcher;
    submission->entered = true;
    batcher->pending += submission->n;
    if (submission->queue->waiting == 0) {
        convoy_fair_queue_enter(&submission->queue->fair, batcher->virtual_us);
        convoy_parked_reorder(batcher, submission->queue);
    }
    submission->queue->waiting +=
        submission->n; /* before the lock is dropped: the worker may have the rows by then */
}

/* Places items until some have rows, which their thread is to write, or all are placed, or one cannot be. */
static void place_some(struct batcher_work *work)
{
    struct submission *submission = (struct submission *)work;
    struct convoy_batcher *batcher = submission->batcher;
    struct convoy_item *const *items = submission->items;
    int got = submission->status == 0 ? 1 : submission->status;
    if (!submission->entered)
        enter(submission);
    submission->worker = NULL;
    while (got > 0 && submission->worker == NULL && submission->placed < submission->n) {
        got = place(batcher, items + submission->placed, submission->n - submission->placed,
                    &submission->worker);
        submission->run = got > 0 ? (uint32_t)got : 0;
        submission->placed += submission->run;
    }
    submission->keeps = got == 0;
    if (submission->worker != NULL) {
        struct convoy_item *first = items[submission->placed - submission->run];
        submission->slot = &submission->worker->slots[first->slot];
        submission->kept = first->kept_row; /* the item may be done once its row is committed */
        first->kept_row = NULL;
    }
    if (got >= 0)
        return;
    uint32_t left = submission->n - submission->placed;
    submission->status = got;
    submission->queue->waiting -= left;
    convoy_queue_add(submission->queue, items[submission->placed]->priority, -(int64_t)left);
    batcher->pending -= left;
}

void convoy_batcher_submit(struct convoy_batcher *batcher, struct convoy_item *const *items, uint32_t n)
{
    struct submission submission = {.work.run = place_some,
                                    .batcher = batcher,
                                    .queue = queue_of(batcher, items[0]->model),
                                    .items = items,
                                    .n = n};
    uint64_t now = convoy_now_us();
    for (uint32_t i = 0; i < n; i++) {
        struct convoy_item *item = items[i];
        item->status = 0;
        item->retries = 0;
        item->layers = NULL;
        item->layer_count = 0;
        item->class_map = NULL;
        item->kept_row = NULL;
        item->parked = item->writing = false;
        item->slot = NO_SLOT;
        item->submitted_us = now;
    }
    while (submission.placed < n) {
        convoy_batcher_run(batcher, &submission.work);
        if (submission.keeps) {
            struct convoy_item *next = items[submission.placed];
            uint64_t stride = submission.queue->input_stride[next->layout];
            submission.status = convoy_item_keep_row(next, NULL, stride) ? 0 : -ENOMEM;
            continue;
        }
        if (submission.status != 0)
            break;
        if (submission.worker == NULL)
            continue;
        convoy_batcher_write(batcher, submission.worker, items + (submission.placed - submission.run),
                             submission.run);
        free(submission.kept);
        convoy_batcher_commit_held(submission.worker, submission.slot, submission.run);
    }
    for (uint32_t i = submission.placed; i < n; i++) {
        convoy_item_forget_row(items[i]);
        items[i]->status = submission.status;
        items[i]->finished_us = now;
        items[i]->done(items[i]);
    }
}
