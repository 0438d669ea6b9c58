/* Which lane an image goes to: the one that will be done with it first (finish_time.h). */
#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <math.h>

static bool gathers(struct convoy_lane *lane, const struct convoy_item *item)
{
    return !item->profile && *open_slot_of(lane, item) != NO_SLOT;
}

/* When the lane would be done with item, in microseconds from now; INFINITY when it cannot take it. Where a
 * lane serves the model, one whose worker is being replaced, or loads it still, is passed by even if nothing
 * else has room: what is parked goes wherever a row becomes free. Where none does, rows wait in place. */
static double finish_us(struct convoy_lane *lane, const struct convoy_item *item, bool served, uint64_t now)
{
    bool takes =
        served ? convoy_lane_serves(lane, item->model) : lane->models[item->model->number] != LANE_REFUSES;
    if (!takes || (lane->used == lane->channel->size.slots && !gathers(lane, item)))
        return INFINITY;
    double price_us = convoy_image_cost_us(&lane->costs[item->model->number],
                                           &queue_of(lane->batcher, item->model)->cost, now);
    return convoy_lane_load_finish_us(&lane->load, lane->progress_us, now, price_us);
}

/* Of lanes that are as good: one whose worker would run it at once, then one where it has company, then the
 * one that was not chosen for longest, so that devices with little to do take turns. */
static bool rather(struct convoy_lane *lane, struct convoy_lane *than, const struct convoy_item *item)
{
    bool at_once = lane->in_flight < lane->streams, than_at_once = than->in_flight < than->streams;
    if (at_once != than_at_once)
        return at_once;
    if (gathers(lane, item) != gathers(than, item))
        return gathers(lane, item);
    return lane->chosen < than->chosen;
}

struct convoy_lane *convoy_batcher_choose_lane(struct convoy_batcher *batcher, const struct convoy_item *item)
{
    uint64_t now = convoy_now_us();
    bool served = convoy_batcher_serves(batcher, item->model);
    struct convoy_lane *best = NULL;
    double least_us = INFINITY;
    for (uint32_t i = 0; i < batcher->lane_count; i++)
        least_us = fmin(least_us, finish_us(batcher->lanes[i], item, served, now));
    for (uint32_t i = 0; i < batcher->lane_count && least_us < INFINITY; i++) {
        struct convoy_lane *lane = batcher->lanes[i];
        if (convoy_finish_as_good(finish_us(lane, item, served, now), least_us) &&
            (best == NULL || rather(lane, best, item)))
            best = lane;
    }
    return best;
}

void convoy_slot_price(struct convoy_lane *lane, struct lane_slot *slot, double price_us)
{
    slot->priced_us += price_us;
    lane->load.backlog_us += price_us;
}
