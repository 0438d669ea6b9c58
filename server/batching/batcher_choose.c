/* Which worker an image goes to: the one that will be done with it first (completion_estimate.h). */
#include "server/batching/batcher_internal.h"

#include <math.h>

static bool gathers(struct convoy_worker_slots *worker, const struct convoy_item *item)
{
    return !convoy_item_is_alone(item) && *open_slot_of(worker, item) != NO_SLOT;
}

/* When the worker would be done with item, in microseconds from now; INFINITY when it cannot take it. Where
 * some worker serves the model (served), a worker whose process is being replaced, or that still loads the
 * model, is not chosen even if no other has room: a parked image goes wherever a row becomes free first.
 * Where none serves it, rows wait at any worker that may. */
static double completion_us(struct convoy_worker_slots *worker, const struct convoy_item *item, bool served,
                            uint64_t now)
{
    bool takes = served ? convoy_worker_slots_serve(worker, item->model)
                        : worker->models[item->model->number] != WORKER_REFUSES;
    if (!takes || (worker->used == worker->channel->size.slots && !gathers(worker, item)))
        return INFINITY;
    double price_us = convoy_image_cost_us(&worker->costs[item->model->number],
                                           &queue_of(worker->batcher, item->model)->cost, now);
    return convoy_completion_estimate_us(&worker->load, worker->progress_us, now, price_us);
}

/* Of workers that are equally good: one that would run it at once, then one with an open slot for it, then
 * the one that was not chosen for longest, so that devices with little to do take turns. */
static bool rather(struct convoy_worker_slots *worker, struct convoy_worker_slots *than,
                   const struct convoy_item *item)
{
    bool at_once = *running_of(worker, item->layout) < worker->streams;
    bool than_at_once = *running_of(than, item->layout) < than->streams;
    if (at_once != than_at_once)
        return at_once;
    if (gathers(worker, item) != gathers(than, item))
        return gathers(worker, item);
    return worker->chosen < than->chosen;
}

struct convoy_worker_slots *convoy_batcher_choose_worker(struct convoy_batcher *batcher,
                                                         const struct convoy_item *item, uint64_t now)
{
    bool served = convoy_batcher_serves(batcher, item->model);
    struct convoy_worker_slots *best = NULL;
    double each_us[CONVOY_BATCHER_WORKERS], least_us = INFINITY;
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        each_us[i] = completion_us(batcher->workers[i], item, served, now);
        least_us = fmin(least_us, each_us[i]);
    }
    for (uint32_t i = 0; i < batcher->worker_count && least_us < INFINITY; i++) {
        struct convoy_worker_slots *worker = batcher->workers[i];
        if (convoy_completion_as_good(each_us[i], least_us) && (best == NULL || rather(worker, best, item)))
            best = worker;
    }
    return best;
}

void convoy_slot_price(struct convoy_worker_slots *worker, struct worker_slot *slot, double price_us)
{
    slot->priced_us += price_us;
    worker->load.backlog_us += price_us;
}
