/* Two workers: what the tests of several devices share, on top of batcher_playground.h. */
#ifndef CONVOY_TESTS_UNIT_BATCHER_TWO_WORKERS_H
#define CONVOY_TESTS_UNIT_BATCHER_TWO_WORKERS_H

#include "engine/base/clock.h"
#include "server/batching/batcher_internal.h"
#include "tests/unit/server/batching/batcher_playground.h"

/* The second worker beside the playground's; both workers by number. */
static struct convoy_channel second_channel;
static struct convoy_channel *workers[2], second_worker;
static struct convoy_worker_slots *worker_slots[2];

static inline void come_up(int number, uint32_t streams)
{
    convoy_worker_slots_up(worker_slots[number], streams);
    for (int model = 0; model < 2; model++)
        convoy_worker_slots_model(worker_slots[number], &p.models[model], true, NULL, 0);
}

static inline void begin_two(uint32_t slots, uint32_t streams)
{
    begin(slots, streams, 1000000);
    add_worker(&second_channel, &second_worker, slots, "other", &worker_slots[1]);
    worker_slots[0] = p.worker_slots;
    workers[0] = &p.worker;
    workers[1] = &second_worker;
    come_up(1, streams);
}

static inline void end_two(void)
{
    cr_assert_eq(convoy_batcher_pending(p.batcher), 0);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(worker_slots[i]->used, 0);
        cr_assert_eq(worker_slots[i]->load.backlog_us, 0, "%g us are left of worker %d's backlog",
                     worker_slots[i]->load.backlog_us, i);
        cr_assert_eq(worker_slots[i]->load.running_us, 0);
        cr_assert_eq(worker_slots[i]->suspects, 0);
    }
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(atomic_load(&p.batcher->queues[i].admission.running), 0);
        cr_assert_eq(atomic_load(&p.batcher->queues[i].admission.queued), 0);
        cr_assert_eq(p.batcher->queues[i].waiting, 0);
    }
    end();
    convoy_channel_destroy(&second_channel);
}

/* The worker dies; no other takes its place yet. */
static inline uint32_t go_down(int number)
{
    uint32_t again = convoy_worker_slots_down(worker_slots[number], true);
    convoy_channel_reset(number == 0 ? &p.channel : &second_channel);
    workers[number]->submit_head = 0;
    return again;
}

/* Rows that the worker was given and that it answers now; 0: it was given none. */
static inline uint32_t run_one(int number)
{
    uint32_t slot, rows = take_from(workers[number], &slot);
    if (rows > 0) {
        answer_from(workers[number], slot);
        cr_assert_eq(convoy_worker_slots_collect(worker_slots[number]), 0);
    }
    return rows;
}

/* Rows that lie in the worker's slots. */
static inline uint32_t rows_of(int number)
{
    uint32_t rows = 0;
    for (int i = 0; i < CONVOY_MAX_SLOTS; i++)
        if (worker_slots[number]->slots[i].state != SLOT_FREE)
            rows += worker_slots[number]->slots[i].reserved;
    return rows;
}

/* The sums are those of the slots that are in use, but for what adding in another order makes of them. */
static inline void assert_load(int number)
{
    double backlog_us = 0, running_us = 0;
    for (int i = 0; i < CONVOY_MAX_SLOTS; i++) {
        const struct worker_slot *slot = &worker_slots[number]->slots[i];
        backlog_us += slot->state != SLOT_FREE ? slot->priced_us : 0;
        running_us += slot->state == SLOT_IN_FLIGHT ? slot->priced_us : 0;
    }
    const struct convoy_worker_load *load = &worker_slots[number]->load;
    cr_assert_float_eq(load->backlog_us, backlog_us, 1e-3, "%g, not %g", load->backlog_us, backlog_us);
    cr_assert_float_eq(load->running_us, running_us, 1e-3, "%g, not %g", load->running_us, running_us);
}

static inline void run_all(void)
{
    while (run_one(0) + run_one(1) > 0)
        for (int i = 0; i < 2; i++)
            assert_load(i);
}

/* An image of the model costs this much on the worker, as if it had run many. */
static inline void set_cost(int number, int model, uint64_t us)
{
    for (int i = 0; i < 50; i++)
        convoy_image_cost_ran(&worker_slots[number]->costs[model], 1, us, convoy_now_us());
    convoy_image_cost_ran(&p.batcher->queues[model].cost, 1, us, convoy_now_us());
}

#endif
