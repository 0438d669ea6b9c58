/* Who is next: models share the device by weight, and within a model the more urgent image goes first. */
#include "server/batching/batcher_internal.h"
#include "tests/unit/server/batching/batcher_playground.h"

#include <errno.h>

static void submit_as(int index, int model, enum convoy_priority priority)
{
    uint8_t row[8];
    uint64_t wait_us;
    memset(row, index, sizeof row);
    p.items[index] = (struct convoy_item){.model = &p.models[model],
                                          .group = group_at(index, UINT64_MAX),
                                          .priority = priority,
                                          .outputs = p.outputs[index],
                                          .source = row,
                                          .source_bytes = sizeof row,
                                          .done = on_done};
    cr_assert_eq(convoy_batcher_admit(p.batcher, &p.models[model], 1, priority, UINT64_MAX, &wait_us), 0);
    convoy_batcher_submit(p.batcher, (struct convoy_item *[]){&p.items[index]}, 1);
}

/* The worker runs what it was given first, for so many microseconds of the device; returns the model. */
static uint32_t run(const float us_of[2])
{
    uint32_t slot;
    cr_assert_gt(take(&slot), 0, "nothing leaves");
    uint32_t model = convoy_channel_slot(&p.worker, slot)->model;
    *convoy_channel_report(&p.worker, slot) = (struct convoy_slot_report){.compute_us = us_of[model]};
    answer(slot);
    collect();
    return model;
}

static void set_weights(uint32_t a, uint32_t b)
{
    for (int i = 0; i < 2; i++)
        convoy_batcher_set_limits(
            p.batcher, &p.models[i],
            &(struct convoy_batcher_limits){.max_batch = 4, .max_queue = 500, .weight = i == 0 ? a : b});
}

/* Of batches runs from now on, how many are model b's, while both have more waiting than that. */
static int runs_of_b(int runs, const float us_of[2])
{
    int found = 0;
    for (int i = 0; i < runs; i++)
        found += run(us_of) == 1;
    return found;
}

static void flood(int from, int count, int model)
{
    for (int i = from; i < from + count; i++)
        submit_as(i, model, CONVOY_PRIORITY_NORMAL);
}

static void drain(const float us_of[2], int items)
{
    while (p.done_count < items)
        (void)run(us_of);
    for (int i = 0; i < items; i++) {
        cr_assert_eq(p.done[i], 1);
        cr_assert_eq(p.items[i].status, 0);
        cr_assert_eq(p.outputs[i][0], (float)(uint8_t)i);
    }
}

static const float alike[2] = {100, 100};

Test(batcher_fair_queue, a_flood_does_not_hold_up_another_model)
{
    begin(4, 1, 0);
    flood(0, 200, 0);
    submit_as(200, 1, CONVOY_PRIORITY_NORMAL);
    /* Two slots are with the worker, and the next that is free is the newcomer's: not 50 batches later. */
    int before = 0;
    while (run(alike) == 0)
        before++;
    cr_assert_leq(before, 3, "%d batches of the other went before", before);
    drain(alike, 201);
    end();
}

Test(batcher_fair_queue, models_that_wait_get_the_device_by_weight)
{
    begin(4, 1, 0);
    set_weights(1, 3);
    flood(0, 300, 0);
    flood(300, 300, 1);
    int b = runs_of_b(80, alike);
    cr_assert(b >= 57 && b <= 63, "%d of 80", b);
    drain(alike, 600);
    end();
}

Test(batcher_fair_queue, the_devices_time_counts_and_not_the_batches)
{
    static const float uneven[2] = {300, 100};
    begin(4, 1, 0);
    flood(0, 300, 0);
    flood(300, 300, 1);
    int b = runs_of_b(80, uneven);
    cr_assert(b >= 57 && b <= 63, "%d of 80", b);
    drain(uneven, 600);
    end();
}

Test(batcher_fair_queue, a_model_that_rested_has_saved_nothing_up)
{
    begin(4, 1, 0);
    flood(0, 100, 0);
    (void)runs_of_b(20, alike); /* model a alone, for 2,000 us */
    flood(100, 200, 0);
    flood(300, 200, 1);
    int b = runs_of_b(20, alike);
    cr_assert(b >= 8 && b <= 12, "%d of 20", b);
    drain(alike, 500);
    end();
}

Test(batcher_fair_queue, a_run_is_charged_when_it_begins_and_corrected_when_it_ends)
{
    struct convoy_fair_queue fair = {0};
    double now_us = 50;
    convoy_fair_queue_enter(&fair, now_us);
    cr_assert_eq(fair.used_us, 50);
    double charged_us = convoy_fair_queue_charge(&fair, 2, 10, &now_us);
    cr_assert_eq(now_us, 50);
    cr_assert_eq(fair.used_us, 55, "a microsecond an image while nothing is known");
    convoy_fair_queue_settle(&fair, 2, 10, charged_us, 100);
    cr_assert_eq(fair.used_us, 100, "half of 100 us at twice the weight");
    charged_us = convoy_fair_queue_charge(&fair, 2, 4, &now_us);
    cr_assert_eq(now_us, 100);
    cr_assert_eq(fair.used_us, 120, "10 us an image");
    convoy_fair_queue_settle(&fair, 2, 4, charged_us, -1);
    cr_assert_eq(fair.used_us, 100, "it did not run");
    convoy_fair_queue_enter(&fair, 70);
    cr_assert_eq(fair.used_us, 100, "a clock does not go back");
    charged_us = convoy_fair_queue_charge(&fair, 0, 4, &now_us);
    convoy_fair_queue_settle(&fair, 0, 4, charged_us, 0);
    cr_assert_eq(fair.used_us, 140, "a device that tells no times");
}

Test(batcher_fair_queue, a_worker_that_dies_takes_the_charge_along)
{
    begin(2, 1, 0);
    const struct convoy_fair_queue *fair = &queue_of(p.batcher, &p.models[0])->fair;
    flood(0, 100, 0);
    (void)runs_of_b(5, alike);
    cr_assert_gt(fair->used_us, 500.5, "what the worker has is charged");
    (void)convoy_worker_slots_down(p.worker_slots, true);
    cr_assert_float_eq(fair->used_us, 500, 1e-6, "%g us were charged for 5 runs of 100 us", fair->used_us);
    replace_worker();
    drain(alike, 100);
    end();
}

Test(batcher_fair_queue, the_urgent_go_first_and_the_background_last)
{
    begin(2, 1, 1000000);
    for (int i = 0; i < 40; i++)
        submit_as(i, 0, CONVOY_PRIORITY_BACKGROUND);
    for (int i = 40; i < 60; i++)
        submit_as(i, 0, CONVOY_PRIORITY_NORMAL);
    for (int i = 60; i < 64; i++)
        submit_as(i, 0, CONVOY_PRIORITY_URGENT);
    /* What filled the slots before goes out first: 1 and 4 images. */
    (void)run(alike);
    (void)run(alike);
    int background = p.done_count;
    cr_assert_leq(background, 9);
    (void)run(alike);
    cr_assert_eq(p.done[60] + p.done[61] + p.done[62] + p.done[63], 4, "the urgent");
    while (p.done_count < background + 24)
        (void)run(alike);
    for (int i = 40; i < 60; i++)
        cr_assert_eq(p.done[i], 1, "the usual before the background: %d", i);
    drain(alike, 64);
    end();
}

Test(batcher_fair_queue, priorities_do_not_share_a_slot)
{
    uint32_t slot;
    begin(4, 1, 1000000);
    submit_as(0, 0, CONVOY_PRIORITY_NORMAL);
    submit_as(1, 0, CONVOY_PRIORITY_BACKGROUND);
    submit_as(2, 0, CONVOY_PRIORITY_URGENT);
    submit_as(3, 0, CONVOY_PRIORITY_BACKGROUND);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    cr_assert_eq(take(&slot), 1);
    cr_assert_eq(convoy_channel_rows(&p.worker, slot)[0], 2, "the urgent one");
    answer(slot);
    collect();
    cr_assert_eq(take(&slot), 2);
    answer(slot);
    collect();
    assert_answered(0, 4);
    end();
}

Test(batcher_fair_queue, what_is_less_urgent_does_not_keep_others_out)
{
    uint64_t wait_us;
    begin(1, 1, 0);
    set_limits(4, 0, 10);
    struct convoy_model_record *model = &p.models[0];
    cr_assert_eq(convoy_batcher_admit(p.batcher, model, 10, CONVOY_PRIORITY_BACKGROUND, UINT64_MAX, &wait_us),
                 0);
    cr_assert_eq(convoy_batcher_admit(p.batcher, model, 1, CONVOY_PRIORITY_BACKGROUND, UINT64_MAX, &wait_us),
                 -EBUSY);
    cr_assert_eq(convoy_batcher_admit(p.batcher, model, 10, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us), 0);
    cr_assert_eq(convoy_batcher_admit(p.batcher, model, 1, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us),
                 -EBUSY);
    cr_assert_eq(convoy_batcher_admit(p.batcher, model, 10, CONVOY_PRIORITY_URGENT, UINT64_MAX, &wait_us), 0);
    cr_assert_eq(convoy_batcher_admit(p.batcher, model, 1, CONVOY_PRIORITY_URGENT, UINT64_MAX, &wait_us),
                 -EBUSY);
    convoy_batcher_cancel(p.batcher, model, 10, CONVOY_PRIORITY_URGENT);
    convoy_batcher_cancel(p.batcher, model, 10, CONVOY_PRIORITY_NORMAL);
    convoy_batcher_cancel(p.batcher, model, 10, CONVOY_PRIORITY_BACKGROUND);
    cr_assert_eq(admit(0, 10), 0);
    convoy_batcher_cancel(p.batcher, model, 10, CONVOY_PRIORITY_NORMAL);
    end();
}

/* What an image costs is learnt from the time between two batches, as long as the model did not rest in
 * between. */
Test(batcher_fair_queue, a_model_whose_less_urgent_images_wait_has_not_rested)
{
    begin(2, 0, 0);
    uint64_t *since_us = &queue_of(p.batcher, &p.models[0])->service.since_us;
    submit_as(0, 0, CONVOY_PRIORITY_URGENT);
    submit_as(1, 0, CONVOY_PRIORITY_BACKGROUND);
    *since_us = 5;
    convoy_batcher_abandon(p.batcher, p.items[0].group);
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(p.done[0], 1);
    cr_assert_eq(*since_us, 5, "one still waits");
    convoy_batcher_abandon(p.batcher, p.items[1].group);
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(p.done[1], 1);
    cr_assert_eq(*since_us, 0, "nothing waits");
    end();
}

Test(batcher_fair_queue, a_run_is_charged_with_the_times_that_the_worker_reports)
{
    uint32_t slot;
    begin(3, 1, 1000000);
    const struct convoy_fair_queue *fair = &queue_of(p.batcher, &p.models[0])->fair;
    submit(0);
    cr_assert_eq(take(&slot), 1);
    *convoy_channel_report(&p.worker, slot) =
        (struct convoy_slot_report){.input_us = 1, .compute_us = 20, .output_us = 300};
    answer(slot);
    collect();
    cr_assert_float_eq(fair->used_us, 321, 1e-6);
    cr_assert_float_eq(fair->row_us, 321, 1e-6);
    submit(1);
    cr_assert_eq(take(&slot), 1);
    convoy_channel_finish(
        &p.worker, &(struct convoy_done){slot, convoy_channel_slot(&p.worker, slot)->generation, -EIO});
    collect();
    cr_assert_float_eq(fair->used_us, 321, 1e-6, "a run that failed is paid for");
    cr_assert_float_eq(fair->row_us, 321, 1e-6);
    end();
}
