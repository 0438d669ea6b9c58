/* Parked images: which of them is next when a row becomes free, and the threads that write its row.
 *
 * Models with parked images are a binary heap, so what it takes to find the next image and to keep the order
 * grows with the logarithm of their number, and with the number of images not at all. */
#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <string.h>

/* Parked images that are given rows at once. */
#define UNPARK_MOST 256u

/* Bytes that a writer copies before it looks at the lock again: several share a batch, each for some 50 us.
 */
#define WRITE_BYTES (256u * 1024)

/* ---- The order ---- */

/* The parked item of a model that is next: the most urgent, of those the oldest. */
static struct convoy_item *head_of(const struct model_queue *queue)
{
    struct convoy_item *next = NULL;
    for (int priority = 0; priority < CONVOY_PRIORITIES; priority++) {
        if (convoy_list_empty(&queue->parked[priority]))
            continue;
        struct convoy_item *item = item_of(queue->parked[priority].next);
        if (next == NULL || convoy_priority_rank(item->priority) < convoy_priority_rank(next->priority))
            next = item;
    }
    return next;
}

struct convoy_item *convoy_parked_next(const struct model_queue *queue)
{
    return queue->heap_place > 0 ? head_of(queue) : NULL;
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

static void put(struct convoy_batcher *batcher, uint32_t place, struct model_queue *queue)
{
    batcher->parked[place] = queue;
    queue->heap_place = place + 1;
}

/* Moves queue from an empty place to where it belongs: up, then down. */
static void settle(struct convoy_batcher *batcher, uint32_t place, struct model_queue *queue)
{
    const struct convoy_item *head = head_of(queue);
    for (uint32_t parent; place > 0; place = parent) {
        parent = (place - 1) / 2;
        if (!parked_before(batcher, head, head_of(batcher->parked[parent])))
            break;
        put(batcher, place, batcher->parked[parent]);
    }
    for (uint32_t child; (child = 2 * place + 1) < batcher->parked_count; place = child) {
        if (child + 1 < batcher->parked_count &&
            parked_before(batcher, head_of(batcher->parked[child + 1]), head_of(batcher->parked[child])))
            child++;
        if (!parked_before(batcher, head_of(batcher->parked[child]), head))
            break;
        put(batcher, place, batcher->parked[child]);
    }
    put(batcher, place, queue);
}

static void heap_remove(struct convoy_batcher *batcher, struct model_queue *queue)
{
    uint32_t place = queue->heap_place - 1;
    struct model_queue *last = batcher->parked[--batcher->parked_count];
    queue->heap_place = 0;
    if (last != queue)
        settle(batcher, place, last);
}

void convoy_parked_reorder(struct convoy_batcher *batcher, struct model_queue *queue)
{
    if (queue->heap_place > 0)
        settle(batcher, queue->heap_place - 1, queue);
}

void convoy_item_link_parked(struct convoy_batcher *batcher, struct convoy_item *item,
                             struct convoy_list *before)
{
    struct model_queue *queue = queue_of(batcher, item->model);
    convoy_list_add_before(before, &item->link);
    item->parked = true;
    if (queue->heap_place == 0)
        settle(batcher, batcher->parked_count++, queue);
    else if (head_of(queue) == item)
        convoy_parked_reorder(batcher, queue);
}

void convoy_item_unlink_parked(struct convoy_batcher *batcher, struct convoy_item *item)
{
    struct model_queue *queue = queue_of(batcher, item->model);
    bool was_head = head_of(queue) == item;
    convoy_list_remove(&item->link);
    item->parked = false;
    if (head_of(queue) == NULL)
        heap_remove(batcher, queue);
    else if (was_head)
        convoy_parked_reorder(batcher, queue);
}

/* ---- Which is next ---- */

static bool a_slot_is_free(const struct convoy_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->worker_count; i++)
        if (batcher->workers[i]->used < batcher->workers[i]->channel->size.slots)
            return true;
    return false;
}

/* The next image, and the next of all other models, among those with an open slot. */
static struct convoy_item *next_for_open_slots(struct convoy_batcher *batcher, struct convoy_item **second)
{
    struct convoy_item *best = NULL;
    *second = NULL;
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        const struct convoy_worker_slots *worker = batcher->workers[i];
        for (uint32_t number = 0; number < worker->channel->size.slots; number++) {
            const struct worker_slot *slot = &worker->slots[number];
            struct convoy_item *item =
                slot->state == SLOT_OPEN ? convoy_parked_next(queue_of(batcher, slot->model)) : NULL;
            if (item == NULL || item == best || item == *second ||
                convoy_batcher_choose_worker(batcher, item, convoy_now_us()) == NULL)
                continue;
            if (best == NULL || parked_before(batcher, item, best)) {
                *second = best;
                best = item;
            } else if (*second == NULL || parked_before(batcher, item, *second)) {
                *second = item;
            }
        }
    }
    return best;
}

/* The next image for which there is a row, and the next of all other models behind it. A model for which
 * there is none is passed over (its devices are full, others are not), at the price of a turn through the
 * heap. */
static struct convoy_item *next_with_row(struct convoy_batcher *batcher, struct convoy_item **second)
{
    struct convoy_item *best = NULL;
    uint32_t skipped = 0;
    *second = NULL;
    if (!a_slot_is_free(batcher))
        return next_for_open_slots(batcher, second);
    while (batcher->parked_count > 0 && best == NULL) {
        struct model_queue *queue = batcher->parked[0];
        struct convoy_item *item = head_of(queue);
        if (convoy_batcher_choose_worker(batcher, item, convoy_now_us()) != NULL)
            best = item;
        heap_remove(batcher, queue);
        batcher->skipped[skipped++] = queue;
    }
    if (batcher->parked_count > 0)
        *second = head_of(batcher->parked[0]);
    while (skipped > 0)
        settle(batcher, batcher->parked_count++, batcher->skipped[--skipped]);
    return best;
}

/* Fills in the parked images that are next, if there is a row for the first: those of one kind that come
 * before all others, UNPARK_MOST at most. Returns their number. */
static uint32_t next_run(struct convoy_batcher *batcher, struct convoy_item **items)
{
    struct convoy_item *second, *best = next_with_row(batcher, &second);
    if (best == NULL)
        return 0;
    uint32_t n = 0;
    convoy_list_for_each(at, following, &queue_of(batcher, best->model)->parked[best->priority]) {
        struct convoy_item *item = item_of(at);
        if (n == UNPARK_MOST || item->layout != best->layout || item->profile != best->profile ||
            item->map != best->map || (second != NULL && parked_before(batcher, second, item)))
            break;
        items[n++] = item;
    }
    return n;
}

/* The control loop writes the rows itself. */
static void write_here(struct convoy_batcher *batcher, struct convoy_worker_slots *worker,
                       struct convoy_item *const *items, uint32_t n)
{
    convoy_batcher_unlock(batcher);
    convoy_batcher_write(batcher, worker, items, n);
    pthread_mutex_lock(&batcher->lock);
    for (uint32_t i = 0; i < n; i++)
        convoy_item_forget_row(items[i]); /* this thread alone ends items */
    convoy_batcher_commit(worker, &worker->slots[items[0]->slot], n);
}

void convoy_batcher_unpark(struct convoy_batcher *batcher)
{
    struct convoy_item *items[UNPARK_MOST];
    struct convoy_worker_slots *worker;
    uint32_t n;
    while ((n = next_run(batcher, items)) > 0 &&
           (n = convoy_batcher_reserve(batcher, items, n, &worker)) > 0) {
        for (uint32_t i = 0; i < n; i++)
            convoy_item_unlink_parked(batcher, items[i]);
        if (batcher->writer_count == 0) {
            write_here(batcher, worker, items, n);
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            items[i]->writing = true;
            convoy_list_add_last(&batcher->to_write, &items[i]->link);
        }
        pthread_cond_broadcast(&batcher->to_write_filled);
    }
}

/* ---- The writers ---- */

/* What writing the item's row copies. */
static uint64_t bytes_of(struct convoy_batcher *batcher, const struct convoy_item *item)
{
    if (item->layout == CONVOY_LAYOUT_JPEG)
        return convoy_file_room(item);
    return queue_of(batcher, item->model)->input_stride[item->layout];
}

/* Takes rows that lie one behind the other, one at least; returns their number, 0 when there is nothing to
 * write. */
static uint32_t take_rows(struct convoy_batcher *batcher, struct convoy_item **items)
{
    uint32_t n = 0;
    uint64_t bytes = 0;
    convoy_list_for_each(at, following, &batcher->to_write) {
        struct convoy_item *item = item_of(at);
        uint64_t more = bytes_of(batcher, item);
        if (n > 0 && (item->worker != items[0]->worker || item->slot != items[0]->slot ||
                      item->row != items[n - 1]->row + 1 || bytes + more > WRITE_BYTES || n == UNPARK_MOST))
            break;
        convoy_list_remove(at);
        items[n++] = item;
        bytes += more;
    }
    return n;
}

static void *write_rows(void *context)
{
    struct convoy_batcher *batcher = context;
    struct convoy_item *items[UNPARK_MOST];
    pthread_mutex_lock(&batcher->lock);
    for (;;) {
        uint32_t n = take_rows(batcher, items);
        if (n == 0) {
            if (batcher->writing == 0)
                pthread_cond_broadcast(&batcher->written);
            if (batcher->writers_end)
                break;
            pthread_cond_wait(&batcher->to_write_filled, &batcher->lock);
            continue;
        }
        struct convoy_worker_slots *worker = batcher->workers[items[0]->worker];
        struct worker_slot *slot = &worker->slots[items[0]->slot];
        batcher->writing++;
        convoy_batcher_unlock(batcher);
        convoy_batcher_write(batcher, worker, items, n);
        pthread_mutex_lock(&batcher->lock);
        for (uint32_t i = 0; i < n; i++) {
            items[i]->writing = false;
            convoy_item_forget_row(items[i]);
            convoy_item_look_again(batcher, items[i]);
        }
        batcher->writing--;
        convoy_batcher_commit(worker, slot, n); /* from here on the items may be done */
        convoy_batcher_unlock(batcher);         /* rings the doorbell */
        pthread_mutex_lock(&batcher->lock);
    }
    convoy_batcher_unlock(batcher);
    return NULL;
}

int convoy_batcher_writers_start(struct convoy_batcher *batcher, uint32_t writers, struct convoy_error *error)
{
    pthread_cond_init(&batcher->to_write_filled, NULL);
    pthread_cond_init(&batcher->written, NULL);
    for (; batcher->writer_count < writers; batcher->writer_count++) {
        int code = pthread_create(&batcher->writers[batcher->writer_count], NULL, write_rows, batcher);
        if (code != 0)
            return convoy_fail(error, -code, "cannot start a thread that writes rows into slots: %s",
                               strerror(code));
    }
    return 0;
}

void convoy_batcher_wait_written(struct convoy_batcher *batcher)
{
    while (batcher->writer_count > 0 && (batcher->writing > 0 || !convoy_list_empty(&batcher->to_write)))
        pthread_cond_wait(&batcher->written, &batcher->lock);
}

void convoy_batcher_writers_end(struct convoy_batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->writers_end = true;
    pthread_cond_broadcast(&batcher->to_write_filled);
    convoy_batcher_unlock(batcher);
    for (uint32_t i = 0; i < batcher->writer_count; i++)
        pthread_join(batcher->writers[i], NULL);
    batcher->writer_count = 0;
    pthread_cond_destroy(&batcher->to_write_filled);
    pthread_cond_destroy(&batcher->written);
}
