/* What ends items without an answer: a deadline that passed, a model that is gone, a daemon that stops. */
#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <unistd.h>

/* 0, or why this item ends now. */
static int verdict(const struct convoy_batcher *batcher, const struct convoy_item *item, uint64_t now,
                   bool cancel)
{
    if (cancel)
        return -ECANCELED;
    if (batcher->queues[item->model->number].gone)
        return -ENODEV;
    if (item->abandoned != NULL && atomic_load_explicit(item->abandoned, memory_order_relaxed))
        return -ECONNABORTED;
    return item->deadline_us <= now ? -ETIMEDOUT : 0;
}

/* Ends what must end, returns the earliest deadline of the rest. A scan over everything is enough: it runs
 * once for each deadline that passes, over at most max_queue images of each priority and the slots' rows. */
static uint64_t sweep(struct convoy_batcher *batcher, bool cancel, struct convoy_list *finished)
{
    uint64_t now = convoy_now_us(), next = UINT64_MAX;
    for (uint32_t i = 0; i < batcher->model_count * CONVOY_PRIORITIES; i++) {
        struct convoy_list *parked = &batcher->queues[i / CONVOY_PRIORITIES].parked[i % CONVOY_PRIORITIES];
        convoy_list_for_each(at, following, parked) {
            struct convoy_item *item = item_of(at);
            int status = verdict(batcher, item, now, cancel);
            if (status != 0)
                convoy_item_finish(batcher, item, status, now, finished);
            else if (item->deadline_us < next)
                next = item->deadline_us;
        }
    }
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        struct convoy_worker_slots *worker = batcher->workers[i];
        for (uint32_t number = 0; number < worker->channel->size.slots; number++) {
            struct worker_slot *slot = &worker->slots[number];
            for (uint32_t row = 0; slot->state != SLOT_FREE && row < slot->reserved; row++) {
                struct convoy_item *item = slot->items[row];
                int status = item != NULL ? verdict(batcher, item, now, cancel) : 0;
                if (status != 0)
                    convoy_item_finish(batcher, item, status, now, finished);
                else if (item != NULL && item->deadline_us < next)
                    next = item->deadline_us;
            }
        }
    }
    return next;
}

/* Frees slots that no worker has and whose rows no request waits for any more. */
static void release_deserted(struct convoy_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        struct convoy_worker_slots *worker = batcher->workers[i];
        for (uint32_t number = 0; number < worker->channel->size.slots; number++) {
            struct worker_slot *slot = &worker->slots[number];
            struct row_range all = {0, slot->reserved};
            if ((slot->state != SLOT_OPEN && slot->state != SLOT_SEALED) ||
                slot->committed != slot->reserved || convoy_slot_live(slot, &all) > 0)
                continue;
            if (slot->state == SLOT_OPEN)
                worker->open[slot->layout][slot->priority][slot->model->number] = NO_SLOT;
            convoy_metrics_spared(slot->model->metrics, slot->abandoned);
            convoy_slot_release(worker, slot);
        }
    }
}

static void sweep_and_answer(struct convoy_batcher *batcher, bool everything)
{
    struct convoy_list finished;
    convoy_list_init(&finished);
    pthread_mutex_lock(&batcher->lock);
    if (everything || convoy_now_us() >= batcher->next_deadline_us) {
        batcher->next_deadline_us = sweep(batcher, batcher->stopped, &finished);
        release_deserted(batcher);
    }
    if (batcher->next_deadline_us != UINT64_MAX)
        convoy_batcher_wake_at(batcher, batcher->next_deadline_us);
    for (uint32_t i = 0; i < batcher->worker_count; i++)
        convoy_worker_slots_pump(batcher->workers[i]);
    convoy_batcher_unlock(batcher);
    convoy_items_done(&finished);
    pthread_mutex_lock(&batcher->lock);
    convoy_batcher_redispatch(batcher);
    convoy_batcher_unpark(batcher);
    convoy_batcher_unlock(batcher);
}

void convoy_batcher_tick(struct convoy_batcher *batcher)
{
    uint64_t expirations;
    ssize_t got = read(batcher->timer_fd, &expirations, sizeof expirations);
    (void)got;
    pthread_mutex_lock(&batcher->lock);
    batcher->timer_at = UINT64_MAX;
    convoy_batcher_unlock(batcher);
    sweep_and_answer(batcher, false);
}

void convoy_batcher_abandoned(struct convoy_batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->next_deadline_us = convoy_now_us();
    convoy_batcher_wake_at(batcher, batcher->next_deadline_us);
    convoy_batcher_unlock(batcher);
}

void convoy_batcher_model_gone(struct convoy_batcher *batcher, struct convoy_model_record *model)
{
    pthread_mutex_lock(&batcher->lock);
    queue_of(batcher, model)->gone = true;
    convoy_batcher_unlock(batcher);
    sweep_and_answer(batcher, true);
}

void convoy_batcher_stop(struct convoy_batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    batcher->stopped = true;
    convoy_batcher_unlock(batcher);
    sweep_and_answer(batcher, true);
}
