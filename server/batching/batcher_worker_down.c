/* The death of a worker: its slots wait for the next one, and one that kills workers again and again is
 * divided until a row of it is found to blame. */
#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <errno.h>

/* A death costs the start of a worker: of 64 rows one that kills is found by its fourth death (in
 * flight, alone, among eight, itself), by halves by its eighth. */
#define PARTS 8u

/* For a slot that was alone in flight, twice: one of its rows may be what kills workers. */
static void divide(struct convoy_worker_slots *worker, struct worker_slot *slot, struct convoy_list *finished)
{
    struct row_range range = slot->ranges[slot->range_count - 1];
    if (range.rows > 1) {
        uint32_t parts = range.rows < PARTS ? range.rows : PARTS;
        slot->range_count--;
        for (uint32_t part = parts; part-- > 0;) { /* the last one pushed is the first that runs */
            uint32_t from = (uint32_t)((uint64_t)range.rows * part / parts);
            uint32_t to = (uint32_t)((uint64_t)range.rows * (part + 1) / parts);
            slot->ranges[slot->range_count++] = (struct row_range){range.first + from, to - from};
        }
        return;
    }
    int status = slot->layout == CONVOY_LAYOUT_JPEG ? -EBADMSG : -EIO; /* its pixels may do no harm */
    if (slot->items[range.first] != NULL)
        convoy_item_finish(worker->batcher, slot->items[range.first], status, convoy_now_us(), finished);
    slot->range_count--;
}

uint32_t convoy_worker_slots_down(struct convoy_worker_slots *worker, bool blame_slots)
{
    struct convoy_batcher *batcher = worker->batcher;
    struct convoy_list finished;
    uint32_t again = 0;
    convoy_list_init(&finished);
    pthread_mutex_lock(&batcher->lock);
    bool alone = worker->in_flight == 1, others = false;
    for (uint32_t i = 0; i < worker->channel->size.slots; i++) {
        struct worker_slot *slot = &worker->slots[i];
        if (slot->state != SLOT_IN_FLIGHT)
            continue;
        struct row_range range = slot->ranges[slot->range_count - 1];
        bool blamed = blame_slots && alone && slot->suspect;
        if (blamed)
            divide(worker, slot, &finished);
        else if (!slot->suspect)
            worker->suspects++;
        others = others || !slot->suspect;
        slot->suspect = true;
        slot->state = SLOT_SEALED;
        slot->retries++;
        struct model_queue *queue = queue_of(batcher, slot->model);
        convoy_fair_queue_settle(&queue->fair, queue->limits.weight, range.rows, slot->charged_us, -1);
        convoy_parked_reorder(batcher, queue);
        atomic_fetch_sub(&queue->admission.running, range.rows);
        uint32_t live = convoy_slot_live(slot, &range);
        convoy_queue_add(queue, slot->priority, live);
        queue->waiting += live;
        convoy_metrics_retried(slot->model->metrics, live);
        again += live;
        if (slot->range_count == 0)
            convoy_slot_release(worker, slot);
    }
    worker->deaths_of_others = others ? worker->deaths_of_others + 1 : 0;
    worker->up = false;
    atomic_store(&worker->in_flight, 0);
    atomic_store(&worker->running[0], 0);
    atomic_store(&worker->running[1], 0);
    worker->load.running_us = 0;
    /* A worker that dies before it ran anything gives the suspects no more time. */
    if (again > 0 || worker->suspects == 0)
        worker->down_us = convoy_now_us();
    batcher->orphaned = true;
    for (uint32_t i = 0; i < worker->channel->size.slots; i++)
        if (worker->slots[i].state == SLOT_SEALED && worker->slots[i].layout == CONVOY_LAYOUT_JPEG)
            convoy_batcher_return_files(batcher, worker->slots[i].model, &finished);
    for (uint32_t i = 0; i < batcher->model_count; i++) {
        convoy_service_time_interrupted(&batcher->queues[i].service);
        if (worker->models[i] == WORKER_SERVES)
            worker->models[i] = WORKER_UNKNOWN;
    }
    convoy_batcher_redispatch(batcher);
    convoy_batcher_unpark(batcher);
    convoy_batcher_unlock(batcher);
    convoy_items_done(batcher, &finished);
    return again;
}
