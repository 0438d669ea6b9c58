/* Two lanes: what the tests of several devices share, on top of batcher_playground.h. */
#ifndef CONVOY_TESTS_UNIT_BATCHER_TWO_LANES_H
#define CONVOY_TESTS_UNIT_BATCHER_TWO_LANES_H

#include "engine/base/clock.h"
#include "server/batching/batcher_internal.h"
#include "tests/unit/server/batching/batcher_playground.h"

/* The second lane beside the playground's; both lanes by number. */
static struct convoy_channel second_channel;
static struct convoy_channel *workers[2], second_worker;
static struct convoy_lane *lanes[2];

static inline void come_up(int number, uint32_t streams)
{
    convoy_lane_up(lanes[number], streams);
    for (int model = 0; model < 2; model++)
        convoy_lane_model(lanes[number], &p.models[model], true, NULL, 0);
}

static inline void begin_two(uint32_t slots, uint32_t streams)
{
    begin(slots, streams, 1000000);
    add_lane(&second_channel, &second_worker, slots, "other", &lanes[1]);
    lanes[0] = p.lane;
    workers[0] = &p.worker;
    workers[1] = &second_worker;
    come_up(1, streams);
}

static inline void end_two(void)
{
    cr_assert_eq(convoy_batcher_pending(p.batcher), 0);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(lanes[i]->used, 0);
        cr_assert_eq(lanes[i]->load.backlog_us, 0, "%g us are left of lane %d's backlog",
                     lanes[i]->load.backlog_us, i);
        cr_assert_eq(lanes[i]->load.running_us, 0);
        cr_assert_eq(lanes[i]->suspects, 0);
    }
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(p.batcher->queues[i].running, 0);
        cr_assert_eq(p.batcher->queues[i].waiting, 0);
        for (int priority = 0; priority < CONVOY_PRIORITIES; priority++)
            cr_assert_eq(p.batcher->queues[i].queued[priority], 0);
    }
    end();
    convoy_channel_destroy(&second_channel);
}

/* The lane's worker dies; nobody takes its place yet. */
static inline uint32_t go_down(int number)
{
    uint32_t again = convoy_lane_down(lanes[number], true);
    convoy_channel_reset(number == 0 ? &p.channel : &second_channel);
    workers[number]->submit_head = 0;
    return again;
}

/* Rows that the lane's worker was given and that it answers now; 0: it was given none. */
static inline uint32_t run_one(int number)
{
    uint32_t slot, rows = take_from(workers[number], &slot);
    if (rows > 0) {
        answer_from(workers[number], slot);
        cr_assert_eq(convoy_lane_collect(lanes[number]), 0);
    }
    return rows;
}

/* Rows that lie in the lane's slots. */
static inline uint32_t rows_of(int number)
{
    uint32_t rows = 0;
    for (int i = 0; i < CONVOY_MAX_SLOTS; i++)
        if (lanes[number]->slots[i].state != SLOT_FREE)
            rows += lanes[number]->slots[i].reserved;
    return rows;
}

/* The sums are those of the slots that are in use, but for what adding in another order makes of them. */
static inline void assert_load(int number)
{
    double backlog_us = 0, running_us = 0;
    for (int i = 0; i < CONVOY_MAX_SLOTS; i++) {
        const struct lane_slot *slot = &lanes[number]->slots[i];
        backlog_us += slot->state != SLOT_FREE ? slot->priced_us : 0;
        running_us += slot->state == SLOT_IN_FLIGHT ? slot->priced_us : 0;
    }
    const struct convoy_lane_load *load = &lanes[number]->load;
    cr_assert_float_eq(load->backlog_us, backlog_us, 1e-3, "%g, not %g", load->backlog_us, backlog_us);
    cr_assert_float_eq(load->running_us, running_us, 1e-3, "%g, not %g", load->running_us, running_us);
}

static inline void run_all(void)
{
    while (run_one(0) + run_one(1) > 0)
        for (int i = 0; i < 2; i++)
            assert_load(i);
}

/* An image of the model costs this much on the lane, as if it had run many. */
static inline void set_cost(int number, int model, uint64_t us)
{
    for (int i = 0; i < 50; i++)
        convoy_image_cost_ran(&lanes[number]->costs[model], 1, us, convoy_now_us());
    convoy_image_cost_ran(&p.batcher->queues[model].cost, 1, us, convoy_now_us());
}

#endif
