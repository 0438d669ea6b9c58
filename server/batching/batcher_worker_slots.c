/* One worker's slots: what is submitted when. */
#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int convoy_worker_slots_new(struct convoy_batcher *batcher, struct convoy_channel *channel,
                            const char *device, struct convoy_worker_slots **result,
                            struct convoy_error *error)
{
    struct convoy_worker_slots *worker = calloc(1, sizeof *worker);
    if (worker == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for a worker's slots");
    bool complete = (worker->models = calloc(batcher->model_limit + 1, 1)) != NULL;
    complete =
        (worker->layers = calloc(batcher->model_limit + 1, sizeof *worker->layers)) != NULL && complete;
    complete = (worker->costs = calloc(batcher->model_limit + 1, sizeof *worker->costs)) != NULL && complete;
    complete =
        (worker->first_run_us = calloc(batcher->model_limit + 1, sizeof *worker->first_run_us)) != NULL &&
        complete;
    for (int i = 0; i < CONVOY_SLOT_LAYOUTS * CONVOY_PRIORITIES; i++) {
        int **open = &worker->open[i / CONVOY_PRIORITIES][i % CONVOY_PRIORITIES];
        *open = calloc(batcher->model_limit + 1, sizeof **open);
        complete = complete && *open != NULL;
        for (uint32_t model = 0; complete && model < batcher->model_limit; model++)
            (*open)[model] = NO_SLOT;
    }
    for (uint32_t i = 0; i < channel->size.slots; i++)
        complete =
            (worker->slots[i].items = calloc(CONVOY_MAX_BATCH, sizeof(struct convoy_item *))) != NULL &&
            complete;
    if (!complete) {
        for (uint32_t i = 0; i < channel->size.slots; i++)
            free(worker->slots[i].items);
        for (int i = 0; i < CONVOY_SLOT_LAYOUTS * CONVOY_PRIORITIES; i++)
            free(worker->open[i / CONVOY_PRIORITIES][i % CONVOY_PRIORITIES]);
        free(worker->layers);
        free(worker->costs);
        free(worker->first_run_us);
        free(worker->models);
        free(worker);
        return convoy_fail(error, -ENOMEM, "out of memory for a worker's slots");
    }
    memset(worker->models, (int)batcher->at_first, batcher->model_limit);
    worker->batcher = batcher;
    worker->channel = channel;
    snprintf(worker->device, sizeof worker->device, "%s", device);
    worker->metrics = convoy_metrics_device(batcher->metrics, device);
    for (uint32_t i = 0; i < channel->size.slots; i++)
        worker->slots[i].generation = channel->first_generation;
    pthread_mutex_lock(&batcher->lock);
    if (batcher->worker_count == 0)
        atomic_store(&batcher->slot_bytes, channel->size.input_bytes);
    worker->number = batcher->worker_count;
    batcher->workers[batcher->worker_count++] = worker;
    convoy_batcher_unlock(batcher);
    *result = worker;
    return 0;
}

uint32_t convoy_slot_live(const struct worker_slot *slot, const struct row_range *range)
{
    uint32_t live = 0;
    for (uint32_t row = range->first; row < range->first + range->rows; row++)
        live += slot->items[row] != NULL;
    return live;
}

int convoy_worker_slots_free_slot(const struct convoy_worker_slots *worker)
{
    for (uint32_t i = 0; worker->used < worker->channel->size.slots; i++)
        if (worker->slots[i].state == SLOT_FREE)
            return (int)i;
    return NO_SLOT;
}

void convoy_slot_release(struct convoy_worker_slots *worker, struct worker_slot *slot)
{
    if (slot->suspect && --worker->suspects == 0)
        worker->deaths_of_others = 0;
    slot->suspect = false;
    slot->state = SLOT_FREE;
    worker->load.backlog_us = --worker->used > 0 ? worker->load.backlog_us - slot->priced_us : 0;
    convoy_metrics_slots_in_use(worker->batcher->metrics, --worker->batcher->slots_in_use);
}

/* Hands the slot's next range to the worker. */
static void submit_range(struct convoy_worker_slots *worker, uint32_t number)
{
    struct worker_slot *slot = &worker->slots[number];
    struct model_queue *queue = queue_of(worker->batcher, slot->model);
    const struct row_range *range = &slot->ranges[slot->range_count - 1];
    slot->generation++;
    slot->left_us = convoy_now_us();
    slot->passed = 0;
    atomic_fetch_add(&queue->admission.running, range->rows);
    uint32_t live = convoy_slot_live(slot, range);
    convoy_queue_add(queue, slot->priority, -(int64_t)live);
    slot->charged_us = convoy_fair_queue_charge(&queue->fair, queue->limits.weight, range->rows,
                                                &worker->batcher->virtual_us);
    convoy_parked_reorder(worker->batcher, queue);
    queue->waiting -= live;
    *convoy_channel_slot(worker->channel, number) =
        (struct convoy_slot){.model = slot->model->number,
                             .layout = slot->layout,
                             .first = range->first,
                             .rows = range->rows,
                             .generation = slot->generation,
                             .profile = slot->profile,
                             .map = slot->map,
                             .input_stride = queue->input_stride[slot->layout],
                             .output_stride = queue->output_stride};
    worker->load.running_us += slot->priced_us;
    if (slot->map != CONVOY_MAP_NONE)
        atomic_fetch_add(&worker->streams, 1);
    atomic_fetch_add(running_of(worker, slot->layout), 1);
    if (atomic_fetch_add(&worker->in_flight, 1) == 0)
        worker->progress_us = worker->noticed_us = slot->left_us;
    slot->state = SLOT_IN_FLIGHT; /* from here on the control loop reads it without the lock */
    convoy_channel_submit(worker->channel, number);
    worker->batcher->to_ring |= UINT64_C(1) << worker->number;
}

/* May this slot leave now? While the worker can take it, always. Beyond that one slot is staged behind the
 * running ones, so that the worker finds it without a turn through the front: a full one, since waiting gains
 * it nothing, or one that gathered for max_delay_us. More than one would only cut batches up and let a busy
 * model get far ahead of a quiet one. Of files some more are staged, which the device decodes meanwhile. */
static bool may_leave(struct convoy_worker_slots *worker, const struct worker_slot *slot, uint64_t now)
{
    uint32_t running = *running_of(worker, slot->layout);
    if (running < worker->streams)
        return true;
    if (running > convoy_worker_slots_most(worker, slot->layout))
        return false;
    uint64_t ripe_us = slot->opened_us + queue_of(worker->batcher, slot->model)->limits.max_delay_us;
    if (slot->state == SLOT_SEALED || now >= ripe_us)
        return true;
    convoy_batcher_wake_at(worker->batcher, ripe_us);
    return false;
}

/* Does a leave before b? After a fault age alone counts, so that the suspects get their turn. */
static bool leaves_before(const struct convoy_worker_slots *worker, const struct worker_slot *a,
                          const struct worker_slot *b)
{
    double a_us = queue_of(worker->batcher, a->model)->fair.used_us;
    double b_us = queue_of(worker->batcher, b->model)->fair.used_us;
    if (worker->suspects > 0)
        return a->order < b->order;
    if (a_us != b_us)
        return a_us < b_us;
    if (a->model != b->model)
        return a->model->number < b->model->number; /* not by age, which may say otherwise than priority */
    if (a->priority != b->priority)
        return convoy_priority_rank(a->priority) < convoy_priority_rank(b->priority);
    return a->order < b->order;
}

/* The slot that is next among those that could leave now, of the suspects or of the others: all its rows are
 * committed, and its model is loaded by this worker. */
static int next_of(struct convoy_worker_slots *worker, bool suspect, uint64_t now)
{
    int best = NO_SLOT;
    for (uint32_t i = 0; i < worker->channel->size.slots; i++) {
        const struct worker_slot *slot = &worker->slots[i];
        if ((slot->state != SLOT_OPEN && slot->state != SLOT_SEALED) || slot->suspect != suspect ||
            slot->given_up || slot->reserved == 0 || atomic_load(&slot->unwritten) > 0 ||
            worker->models[slot->model->number] != WORKER_SERVES)
            continue;
        if ((best == NO_SLOT || leaves_before(worker, slot, &worker->slots[best])) &&
            may_leave(worker, slot, now))
            best = (int)i;
    }
    return best;
}

/* After a fault its slots, the suspects, run alone, one after the other. Each may cost another worker, so
 * slots that waited when this process came up go before them: an image that kills never delays the others for
 * longer than one worker takes to start. Slots opened later wait until the suspects are through. */
static int next_to_leave(struct convoy_worker_slots *worker, uint64_t now)
{
    if (worker->suspects == 0)
        return next_of(worker, false, now);
    int waited = next_of(worker, false, now);
    if (waited != NO_SLOT && worker->slots[waited].order < worker->first_until)
        return waited;
    if (worker->in_flight > 0)
        return NO_SLOT;
    int suspect = next_of(worker, true, now);
    if (suspect != NO_SLOT)
        worker->first_until = 0;
    return suspect;
}

/* True when every row of the slot would be late, by the rate at which images finish. When the device slows
 * down, the oldest images are the first to be late, and running them would make those behind them late as
 * well. An estimate alone is no reason to break a promise, so this holds only from the first image whose
 * deadline passed while it ran until slots leave in good time again. */
static bool too_late(const struct convoy_worker_slots *worker, const struct worker_slot *slot, uint64_t now)
{
    struct model_queue *queue = queue_of(worker->batcher, slot->model);
    uint32_t running = atomic_load(&queue->admission.running);
    if (!queue->late || slot->suspect || running == 0)
        return false;
    uint64_t run_us = convoy_service_time_run_us(&queue->service, running + slot->reserved);
    uint64_t first = UINT64_MAX, last = 0;
    for (uint32_t row = 0; row < slot->reserved; row++) {
        const struct convoy_item *item = slot->items[row];
        if (item == NULL)
            continue;
        uint64_t deadline_us = item->group->deadline_us;
        first = deadline_us < first ? deadline_us : first;
        last = deadline_us > last ? deadline_us : last;
    }
    if (first > now + run_us / 3 * 4)
        queue->late = false;
    return last > 0 && last < now + run_us;
}

/* The control loop answers its rows and frees the slot. */
static void give_up(struct convoy_worker_slots *worker, struct worker_slot *slot, uint64_t now)
{
    slot->given_up = true;
    slot->state = SLOT_SEALED;
    worker->batcher->deserted = true;
    convoy_batcher_wake_at(worker->batcher, now);
}

void convoy_worker_slots_pump(struct convoy_worker_slots *worker)
{
    uint64_t now = convoy_now_us();
    int number;
    while (worker->up && (number = next_to_leave(worker, now)) != NO_SLOT) {
        struct worker_slot *slot = &worker->slots[number];
        if (slot->state == SLOT_OPEN)
            worker->open[slot->layout][slot->priority][slot->model->number] = NO_SLOT;
        if (too_late(worker, slot, now)) {
            give_up(worker, slot, now);
            continue;
        }
        if (slot->range_count == 0)
            slot->ranges[slot->range_count++] = (struct row_range){0, slot->reserved};
        while (slot->range_count > 0 && convoy_slot_live(slot, &slot->ranges[slot->range_count - 1]) == 0)
            slot->range_count--; /* no request waits for these rows any more */
        if (slot->range_count > 0) {
            submit_range(worker, (uint32_t)number);
        } else {
            convoy_metrics_spared(slot->model->metrics, slot->abandoned);
            convoy_slot_release(worker, slot);
        }
    }
}

/* Slots that stay free of those that are staged ahead: they gather. */
#define GATHERING_SLOTS 3u

void convoy_worker_slots_ahead(struct convoy_worker_slots *worker, uint32_t files)
{
    pthread_mutex_lock(&worker->batcher->lock);
    uint32_t busy = worker->streams + GATHERING_SLOTS, slots = worker->channel->size.slots;
    uint32_t room = slots > busy ? slots - busy : 0;
    atomic_store(&worker->ahead, files < room ? files : room);
    convoy_batcher_unlock(worker->batcher);
}

void convoy_worker_slots_up(struct convoy_worker_slots *worker, uint32_t streams)
{
    pthread_mutex_lock(&worker->batcher->lock);
    worker->up = true;
    atomic_store(&worker->streams, streams > 0 ? streams : 1);
    /* If the waiting slots bring one deadly image after the other, the suspects would never run. */
    worker->first_until = worker->deaths_of_others < 2 ? worker->batcher->orders : 0;
    convoy_worker_slots_pump(worker);
    convoy_batcher_unlock(worker->batcher);
}

void convoy_worker_slots_model(struct convoy_worker_slots *worker, const struct convoy_model_record *model,
                               bool can_serve, struct convoy_layer_name *layers, uint32_t layer_count)
{
    pthread_mutex_lock(&worker->batcher->lock);
    struct worker_layers *known = &worker->layers[model->number];
    free(known->names);
    *known = (struct worker_layers){layers, layers != NULL ? layer_count : 0};
    worker->models[model->number] = can_serve ? WORKER_SERVES : WORKER_REFUSES;
    worker->batcher->orphaned = worker->batcher->orphaned || !can_serve;
    convoy_worker_slots_pump(worker);
    convoy_batcher_redispatch(worker->batcher);
    convoy_batcher_unpark(worker->batcher);
    convoy_batcher_unlock(worker->batcher);
}

bool convoy_worker_slots_waits_for(struct convoy_worker_slots *worker,
                                   const struct convoy_model_record *model)
{
    bool waits = false;
    pthread_mutex_lock(&worker->batcher->lock);
    for (uint32_t i = 0; i < worker->channel->size.slots; i++)
        waits = waits || (worker->slots[i].state != SLOT_FREE && worker->slots[i].model == model);
    convoy_batcher_unlock(worker->batcher);
    return waits;
}

uint32_t convoy_worker_slots_in_flight(struct convoy_worker_slots *worker)
{
    return atomic_load(&worker->in_flight);
}
