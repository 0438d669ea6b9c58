/* How an image gets its row: in an open slot, in a free one, or, while all are in use, later from the list of
 * parked images. */
#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Parked images that are given rows at once. */
#define UNPARK_MOST 256u

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
    return (uint32_t)rows;
}

static int open_slot(struct convoy_worker_slots *worker, const struct convoy_item *item)
{
    struct convoy_batcher *batcher = worker->batcher;
    const struct model_queue *queue = queue_of(batcher, item->model);
    uint32_t capacity = slot_capacity(worker, queue, item->layout);
    int number = capacity > 0 ? convoy_worker_slots_free_slot(worker) : NO_SLOT;
    if (number == NO_SLOT)
        return NO_SLOT;
    struct worker_slot *slot = &worker->slots[number];
    memset(slot, 0, offsetof(struct worker_slot, items));
    slot->state = SLOT_OPEN;
    slot->model = item->model;
    slot->layout = item->layout;
    slot->priority = item->priority;
    slot->capacity = capacity;
    slot->opened_us = convoy_now_us();
    slot->order = batcher->orders++;
    slot->range_count = 0;
    worker->used++;
    convoy_metrics_slots_in_use(batcher->metrics, ++batcher->slots_in_use);
    return number;
}

/* Reserves rows for the first of n items, which are of one kind, in an open slot or else in a free one.
 * Returns how many got one: as many as that slot takes; 0 when every slot is in use. */
static uint32_t reserve(struct convoy_batcher *batcher, struct convoy_item *const *items, uint32_t n,
                        struct convoy_worker_slots **where)
{
    const struct convoy_item *first = items[0];
    struct convoy_worker_slots *worker = convoy_batcher_choose_worker(batcher, first);
    if (worker == NULL)
        return 0;
    int number = first->profile ? NO_SLOT : *open_slot_of(worker, first);
    if (number == NO_SLOT) {
        number = open_slot(worker, first);
        if (number == NO_SLOT)
            return 0;
        worker->slots[number].profile = first->profile;
        if (first->profile)
            worker->slots[number].capacity = 1;
        else
            *open_slot_of(worker, first) = number;
    }
    struct worker_slot *slot = &worker->slots[number];
    if (n > slot->capacity - slot->reserved)
        n = slot->capacity - slot->reserved;
    for (uint32_t i = 0; i < n; i++) {
        /* The analyzer does not see that n items are there. */
        items[i]->worker = (int32_t)worker->number; // NOLINT(clang-analyzer-core.*)
        items[i]->slot = number;
        items[i]->row = (int32_t)slot->reserved;
        slot->items[slot->reserved++] = items[i];
    }
    convoy_slot_price(worker, slot,
                      n * convoy_image_cost_us(&worker->costs[first->model->number],
                                               &queue_of(batcher, first->model)->cost, convoy_now_us()));
    worker->chosen = ++batcher->choices;
    if (!convoy_worker_slots_serve(worker, first->model))
        batcher->orphaned = true; /* another worker may serve it sooner */
    if (slot->reserved == slot->capacity) {
        slot->state = SLOT_SEALED;
        if (!first->profile)
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

/* Marks these rows of the slot as written. */
static void commit(struct convoy_worker_slots *worker, struct worker_slot *slot, const struct row_range *rows)
{
    struct row_range all = {0, slot->reserved};
    slot->committed += rows->rows;
    /* They may all have ended meanwhile: the control loop frees the slot. */
    if (slot->committed == slot->reserved && convoy_slot_live(slot, rows) == 0 &&
        convoy_slot_live(slot, &all) == 0) {
        worker->batcher->next_deadline_us = convoy_now_us();
        convoy_batcher_wake_at(worker->batcher, worker->batcher->next_deadline_us);
    }
    /* Its worker may have died meanwhile: the control loop takes the slot to another. */
    if (!convoy_worker_slots_serve(worker, slot->model) &&
        convoy_batcher_serves(worker->batcher, slot->model))
        convoy_batcher_wake_at(worker->batcher, convoy_now_us());
    convoy_worker_slots_pump(worker);
}

/* Writes the rows of n items, which lie one behind the other in one slot, and commits them. Called with the
 * lock held, which is dropped for the writing: other threads fill their rows of the same slot meanwhile. The
 * items may be done once it is dropped. */
static void fill(struct convoy_batcher *batcher, struct convoy_worker_slots *worker,
                 struct convoy_item *const *items, uint32_t n)
{
    struct worker_slot *slot = &worker->slots[items[0]->slot];
    uint64_t stride = queue_of(batcher, slot->model)->input_stride[slot->layout];
    struct row_range rows = {(uint32_t)items[0]->row, n};
    uint8_t *target = address_of(batcher, worker, items[0]);
    convoy_batcher_unlock(batcher);
    for (uint32_t i = 0; i < n; i++)
        write_row(items[i], target + i * stride);
    pthread_mutex_lock(&batcher->lock);
    commit(worker, slot, &rows);
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

/* False when memory is out. */
static bool park(struct convoy_batcher *batcher, struct convoy_item *item)
{
    struct model_queue *queue = queue_of(batcher, item->model);
    if (!item->source_stays && !convoy_item_keep_row(item, NULL, queue->input_stride[item->layout]))
        return false;
    convoy_item_link_parked(item, &queue->parked[item->priority]);
    return true;
}

/* Gives rows, or a place among the parked, to the first of n items; returns to how many, or a negative errno
 * when to none. */
static int place(struct convoy_batcher *batcher, struct convoy_item *const *items, uint32_t n)
{
    struct convoy_item *item = items[0];
    struct model_queue *queue = queue_of(batcher, item->model);
    /* Behind those that wait already, or a stream of new images would starve them; ahead of those that are
     * less urgent. */
    const struct convoy_item *waits = next_parked_of(queue);
    bool first =
        waits == NULL || convoy_priority_rank(waits->priority) > convoy_priority_rank(item->priority);
    struct convoy_worker_slots *worker;
    uint32_t got;
    if (batcher->stopped)
        return -ECANCELED;
    if (queue->gone)
        return -ENODEV;
    if (item->deadline_us < batcher->next_deadline_us) {
        batcher->next_deadline_us = item->deadline_us;
        convoy_batcher_wake_at(batcher, item->deadline_us);
    }
    if (first && (got = reserve(batcher, items, n, &worker)) > 0) {
        fill(batcher, worker, items, got);
        return (int)got;
    }
    return park(batcher, item) ? 1 : -ENOMEM;
}

void convoy_batcher_submit(struct convoy_batcher *batcher, struct convoy_item *const *items, uint32_t n)
{
    struct model_queue *queue = queue_of(batcher, items[0]->model);
    uint64_t now = convoy_now_us();
    for (uint32_t i = 0; i < n; i++) {
        struct convoy_item *item = items[i];
        item->status = 0;
        item->retries = 0;
        item->layers = NULL;
        item->layer_count = 0;
        item->kept_row = NULL;
        item->parked = false;
        item->slot = NO_SLOT;
        item->submitted_us = now;
    }
    pthread_mutex_lock(&batcher->lock);
    batcher->pending += n;
    if (queue->waiting == 0)
        convoy_fair_queue_enter(&queue->fair, batcher->virtual_us);
    queue->waiting += n; /* before fill() drops the lock: the worker may have the rows by then */
    uint32_t placed = 0;
    int got = 0;
    while (placed < n && (got = place(batcher, items + placed, n - placed)) > 0)
        placed += (uint32_t)got;
    queue->waiting -= n - placed;
    if (placed < n)
        convoy_queue_add(queue, items[placed]->priority, -(int64_t)(n - placed));
    batcher->pending -= n - placed;
    convoy_batcher_unlock(batcher);
    for (; placed < n; placed++) {
        items[placed]->status = got;
        items[placed]->finished_us = now;
        items[placed]->done(items[placed]);
    }
}

/* True when a goes before b: its model had less of the device, or its image is older. */
static bool parked_before(const struct convoy_batcher *batcher, const struct convoy_item *a,
                          const struct convoy_item *b)
{
    double a_us = batcher->queues[a->model->number].fair.used_us;
    double b_us = batcher->queues[b->model->number].fair.used_us;
    if (a_us != b_us)
        return a_us < b_us;
    if (a->submitted_us != b->submitted_us)
        return a->submitted_us < b->submitted_us;
    return a->model->number < b->model->number;
}

/* Fills in the parked images that are next, if there is a row for the first: those of one kind that come
 * before all others, UNPARK_MOST at most. A model for which there is no row is skipped: another may have an
 * open slot. Returns their number. */
static uint32_t next_parked(struct convoy_batcher *batcher, struct convoy_item **items)
{
    struct convoy_item *best = NULL, *second = NULL;
    for (const struct convoy_item *passed = NULL;; passed = best, best = second = NULL) {
        for (uint32_t i = 0; i < batcher->model_count; i++) {
            struct convoy_item *item = next_parked_of(&batcher->queues[i]);
            if (item == NULL || (passed != NULL && !parked_before(batcher, passed, item)))
                continue;
            if (best == NULL || parked_before(batcher, item, best)) {
                second = best;
                best = item;
            } else if (second == NULL || parked_before(batcher, item, second)) {
                second = item;
            }
        }
        if (best == NULL || convoy_batcher_choose_worker(batcher, best) != NULL)
            break;
    }
    if (best == NULL)
        return 0;
    uint32_t n = 0;
    convoy_list_for_each(at, following, &queue_of(batcher, best->model)->parked[best->priority]) {
        struct convoy_item *item = item_of(at);
        if (n == UNPARK_MOST || item->layout != best->layout || item->profile != best->profile ||
            (second != NULL && parked_before(batcher, second, item)))
            break;
        items[n++] = item;
    }
    return n;
}

void convoy_batcher_unpark(struct convoy_batcher *batcher)
{
    struct convoy_item *items[UNPARK_MOST];
    struct convoy_worker_slots *worker;
    uint32_t n;
    while ((n = next_parked(batcher, items)) > 0 && (n = reserve(batcher, items, n, &worker)) > 0) {
        for (uint32_t i = 0; i < n; i++)
            convoy_item_unlink_parked(items[i]);
        fill(batcher, worker, items, n);
        for (uint32_t i = 0; i < n; i++)
            convoy_item_forget_row(items[i]); /* this thread alone ends items */
    }
}
