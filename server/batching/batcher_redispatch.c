/* What waits for a worker that is gone goes to other workers.
 *
 * Rows that only wait are parked again, at the place of their age, and then get a row like any other image:
 * in a slot that gathers, at the worker that is done first. Suspects (slots that were in flight when the
 * process died: one of their rows may be what kills workers) stay while their own worker may come back soon,
 * so that one deadly image does not go through all devices for nothing. After that they move as whole slots,
 * with all that is known about them: they run alone there, and are divided as they would have been here.
 *
 * All of this runs on the control loop. It alone ends items, submits slots at a worker that does not serve
 * their model, and makes workers serve; so a sealed slot does not change while its rows are copied without
 * the lock. */
#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <stdlib.h>
#include <string.h>

/* A worker is up again within 0.3 s, and loads what it knows in a moment. */
#define SUSPECTS_WAIT_US 1000000u

static bool is_orphaned(const struct convoy_worker_slots *worker, const struct worker_slot *slot)
{
    return (slot->state == SLOT_OPEN || slot->state == SLOT_SEALED) && !slot->given_up &&
           !convoy_worker_slots_serve(worker, slot->model);
}

/* Lets no more rows into the slot. */
static void seal(struct convoy_worker_slots *worker, struct worker_slot *slot)
{
    if (slot->state == SLOT_OPEN && !slot->profile && slot->map == CONVOY_MAP_NONE)
        worker->open[slot->layout][slot->priority][slot->model->number] = NO_SLOT;
    slot->state = SLOT_SEALED;
}

/* Parks the rows from the youngest to the oldest, each before all that are younger: that place is at the
 * list's beginning, or near it. False when memory is out: the other rows stay, and run when the worker is
 * back. */
static bool park_rows(struct convoy_worker_slots *worker, uint32_t number)
{
    struct convoy_batcher *batcher = worker->batcher;
    struct worker_slot *slot = &worker->slots[number];
    struct model_queue *queue = queue_of(batcher, slot->model);
    uint64_t stride = queue->input_stride[slot->layout];
    seal(worker, slot);
    for (uint32_t row = slot->reserved; row-- > 0;) {
        struct convoy_item *item = slot->items[row];
        if (item == NULL)
            continue;
        if (!item->source_stays) {
            convoy_batcher_unlock(batcher);
            bool kept = convoy_item_keep_row(
                item, convoy_channel_rows(worker->channel, number) + row * stride, stride);
            pthread_mutex_lock(&batcher->lock);
            if (!kept)
                return false;
        }
        struct convoy_list *parked = &queue->parked[slot->priority], *younger = parked->next;
        while (younger != parked && item_of(younger)->submitted_us < item->submitted_us)
            younger = younger->next;
        convoy_item_link_parked(batcher, item, younger);
        item->slot = NO_SLOT;
        slot->items[row] = NULL;
        slot->live--;
    }
    convoy_slot_release(worker, slot);
    return true;
}

/* Of the workers that serve the model and have a free slot, finds the one that finishes its own slots first.
 */
static bool find_worker(const struct convoy_batcher *batcher, const struct convoy_model_record *model,
                        uint32_t *found)
{
    bool any = false;
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        const struct convoy_worker_slots *worker = batcher->workers[i];
        if (!convoy_worker_slots_serve(worker, model) || worker->used == worker->channel->size.slots)
            continue;
        if (!any || worker->load.backlog_us < batcher->workers[*found]->load.backlog_us)
            *found = i;
        any = true;
    }
    return any;
}

/* Moves the whole slot into a free slot of another worker. */
static void move_slot(struct convoy_worker_slots *from_worker, uint32_t from_number,
                      uint32_t to_worker_number)
{
    struct convoy_batcher *batcher = from_worker->batcher;
    struct convoy_worker_slots *worker = batcher->workers[to_worker_number];
    int number = convoy_worker_slots_free_slot(worker);
    struct worker_slot *from = &from_worker->slots[from_number], *to = &worker->slots[number];
    uint64_t stride = queue_of(batcher, from->model)->input_stride[from->layout];
    uint64_t bytes = from->layout == CONVOY_LAYOUT_JPEG ? from->files_end : from->reserved * stride;
    uint32_t generation = to->generation;
    struct convoy_item **items = to->items;
    seal(from_worker, from);
    *to = *from;
    to->generation = generation;
    from->items = items;
    for (uint32_t row = 0; row < to->reserved; row++) {
        from->items[row] = NULL;
        if (to->items[row] == NULL)
            continue;
        to->items[row]->worker = (int32_t)to_worker_number;
        to->items[row]->slot = number;
    }
    atomic_store(&to->unwritten, to->reserved); /* it does not leave before its rows are there */
    to->priced_us = 0;
    convoy_slot_price(worker, to, from->priced_us);
    convoy_metrics_slots_in_use(batcher->metrics, ++batcher->slots_in_use);
    worker->used++;
    if (to->suspect && worker->suspects++ == 0)
        worker->first_until = batcher->orders; /* what waits here goes first, as behind a worker that died */
    convoy_batcher_unlock(batcher);
    memcpy(convoy_channel_rows(worker->channel, (uint32_t)number),
           convoy_channel_rows(from_worker->channel, from_number), bytes);
    pthread_mutex_lock(&batcher->lock);
    atomic_store(&to->unwritten, 0);
    convoy_slot_release(from_worker, from);
    convoy_worker_slots_pump(worker);
}

/* The youngest orphaned slot of this worker that can move now, so that parked rows come before those that are
 * younger; NO_SLOT when none can. Arms the timer when one can move later. */
static int next_to_go(struct convoy_worker_slots *worker, uint64_t now, uint32_t *where)
{
    struct convoy_batcher *batcher = worker->batcher;
    int best = NO_SLOT;
    for (uint32_t i = 0; i < worker->channel->size.slots; i++) {
        const struct worker_slot *slot = &worker->slots[i];
        uint64_t due_us = slot->suspect && worker->down_us > 0 ? worker->down_us + SUSPECTS_WAIT_US : 0;
        uint32_t found = 0;
        if (!is_orphaned(worker, slot))
            continue;
        batcher->orphaned = true;
        if (atomic_load(&slot->unwritten) > 0 || !convoy_batcher_serves(batcher, slot->model) ||
            (slot->suspect && !find_worker(batcher, slot->model, &found)))
            continue; /* tried again after the next commit, worker that serves, or free slot */
        if (due_us > now) {
            convoy_batcher_wake_at(batcher, due_us);
        } else if (best == NO_SLOT || slot->order > worker->slots[best].order) {
            best = (int)i;
            *where = found;
        }
    }
    return best;
}

void convoy_batcher_redispatch(struct convoy_batcher *batcher)
{
    uint64_t now = convoy_now_us();
    if (!batcher->orphaned)
        return;
    batcher->orphaned = false; /* unless one is found that stays */
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        struct convoy_worker_slots *worker = batcher->workers[i];
        uint32_t where = 0;
        int number;
        while ((number = next_to_go(worker, now, &where)) != NO_SLOT) {
            if (worker->slots[number].suspect)
                move_slot(worker, (uint32_t)number, where);
            else if (!park_rows(worker, (uint32_t)number))
                break;
        }
    }
}

void convoy_worker_slots_lost(struct convoy_worker_slots *worker)
{
    pthread_mutex_lock(&worker->batcher->lock);
    worker->down_us = 0;
    convoy_batcher_redispatch(worker->batcher);
    convoy_batcher_unpark(worker->batcher);
    convoy_batcher_unlock(worker->batcher);
}
