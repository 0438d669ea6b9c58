/* The batcher: what travels together, when it leaves, and what happens when a worker dies. */
#include "tests/unit/server/batching/batcher_playground.h"

#include <errno.h>
#include <poll.h>

Test(batcher, a_lone_image_leaves_at_once)
{
    uint32_t slot;
    begin(2, 1, 1000000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(0, 1);
    cr_assert_eq(p.items[0].batch_size, 1);
    cr_assert_str_eq(p.items[0].device, "cpu");
    cr_assert_eq(convoy_batcher_pending(p.batcher), 0);
    end();
}

Test(batcher, while_the_worker_is_busy_images_gather)
{
    uint32_t slot, next;
    begin(3, 1, 1000000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    submit(1);
    submit(2);
    submit(3);
    cr_assert_eq(take(&next), 0, "a slot that is not full left while the worker was busy");
    answer(slot);
    collect();
    cr_assert_eq(take(&next), 3, "what gathered leaves together when the worker is free");
    answer(next);
    collect();
    assert_answered(0, 4);
    cr_assert_eq(p.items[2].batch_size, 3);
    end();
}

Test(batcher, a_full_slot_leaves_though_the_worker_is_busy)
{
    uint32_t slot, next;
    begin(3, 1, 1000000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    for (int i = 1; i < 6; i++)
        submit(i);
    cr_assert_eq(take(&next), 4);
    answer(slot);
    answer(next);
    collect();
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(0, 6);
    end();
}

Test(batcher, a_slot_that_waited_max_delay_is_staged)
{
    uint32_t slot, next;
    begin(4, 1, 2000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    submit(1);
    cr_assert_eq(take(&next), 0);
    struct pollfd timer = {.fd = convoy_batcher_timer(p.batcher), .events = POLLIN};
    cr_assert_eq(poll(&timer, 1, 5000), 1, "the timer never fired");
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(take(&next), 1);
    /* one slot is staged, more keep gathering */
    submit(2);
    cr_assert_eq(poll(&timer, 1, 20), 0);
    answer(slot);
    answer(next);
    collect();
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(0, 3);
    end();
}

Test(batcher, past_the_slots_images_are_parked_in_order)
{
    uint32_t slot;
    begin(2, 1, 1000000);
    for (int i = 0; i < 50; i++)
        submit(i);
    int rounds = 0;
    while (p.done_count < 50 && rounds++ < 100) {
        while (take(&slot) > 0)
            answer(slot);
        collect();
    }
    assert_answered(0, 50);
    cr_assert_leq(rounds, 14, "parked images should travel in full slots, took %d rounds", rounds);
    end();
}

Test(batcher, models_do_not_share_a_slot)
{
    uint32_t slot, next;
    begin(4, 1, 1000000);
    submit_for(0, 0, UINT64_MAX, false);
    cr_assert_eq(take(&slot), 1);
    submit_for(1, 0, UINT64_MAX, false);
    submit_for(2, 1, UINT64_MAX, false);
    submit_for(3, 0, UINT64_MAX, false);
    answer(slot);
    collect();
    cr_assert_eq(take(&next), 1);
    cr_assert_eq(convoy_channel_slot(&p.worker, next)->model, 1, "it had nothing of the device so far");
    answer(next);
    collect();
    cr_assert_eq(take(&next), 2);
    cr_assert_eq(convoy_channel_slot(&p.worker, next)->model, 0);
    answer(next);
    collect();
    assert_answered(0, 4);
    end();
}

Test(batcher, a_profiled_image_travels_alone)
{
    uint32_t slot, next;
    begin(4, 1, 1000000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    submit(1);
    submit_for(2, 0, UINT64_MAX, true);
    submit(3);
    uint32_t rows = take(&next);
    cr_assert_eq(rows, 1);
    cr_assert_eq(convoy_channel_slot(&p.worker, next)->profile, 1);
    answer(next);
    answer(slot);
    collect();
    cr_assert_eq(take(&slot), 2);
    answer(slot);
    collect();
    assert_answered(0, 4);
    end();
}

Test(batcher, after_a_death_slots_run_again_one_at_a_time)
{
    uint32_t first, second, slot, none;
    begin(4, 2, 1000000);
    submit(0);
    submit(1);
    cr_assert_eq(take(&first), 1);
    cr_assert_eq(take(&second), 1);
    submit(2);
    cr_assert_eq(replace_worker(), 2);
    cr_assert_eq(take(&slot), 1);
    cr_assert_eq(take(&none), 0, "a second slot ran beside a suspect one");
    answer(slot);
    collect();
    cr_assert_eq(take(&slot), 1);
    cr_assert_eq(take(&none), 0);
    answer(slot);
    collect();
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(0, 3);
    cr_assert_eq(p.items[0].retries, 1);
    cr_assert_eq(p.items[2].retries, 0);
    end();
}

/* The first row of the slot that the worker takes next: the number of its item. */
static int take_item(uint32_t *slot)
{
    cr_assert_neq(take(slot), 0);
    struct convoy_slot header = *convoy_channel_slot(&p.worker, *slot);
    return convoy_channel_rows(&p.worker, *slot)[header.first * header.input_stride];
}

Test(batcher, what_waited_when_the_next_worker_came_up_goes_before_the_suspects)
{
    uint32_t slot, none;
    begin(4, 1, 1000000);
    submit(0);
    cr_assert_eq(take_item(&slot), 0);
    submit(1);
    replace_worker();
    cr_assert_eq(take_item(&slot), 1, "a suspect went before what had waited");
    submit(2);
    cr_assert_eq(take(&none), 0, "something ran beside what goes before a suspect");
    answer(slot);
    collect();
    cr_assert_eq(take_item(&slot), 0, "what came later went before a suspect");
    answer(slot);
    collect();
    cr_assert_eq(take_item(&slot), 2);
    answer(slot);
    collect();
    assert_answered(0, 3);
    end();
}

Test(batcher, those_who_wait_cannot_keep_the_suspects_from_running)
{
    uint32_t slot;
    begin(8, 1, 1000000);
    submit(0);
    cr_assert_eq(take_item(&slot), 0);
    for (int death = 1; death <= 2; death++) {
        submit(death);
        replace_worker();
        if (death == 1)
            cr_assert_eq(take_item(&slot), 1);
    }
    cr_assert_eq(take_item(&slot), 0, "a third slot in a row went before the suspects");
    for (int i = 0; i < 3; i++) {
        answer(slot);
        collect();
        if (i < 2)
            cr_assert_eq(take_item(&slot), i + 1);
    }
    assert_answered(0, 3);
    end();
}

/* Whether item 3 is among the rows that the worker has taken. */
static bool is_deadly(uint32_t slot)
{
    struct convoy_slot header = *convoy_channel_slot(&p.worker, slot);
    for (uint32_t row = header.first; row < header.first + header.rows; row++)
        if (convoy_channel_rows(&p.worker, slot)[row * header.input_stride] == 3)
            return true;
    return false;
}

/* Of `count` items, which travel together, item 3 kills each worker that runs it. Returns how many die. */
static int deaths_until_all_are_answered(int count)
{
    uint32_t slot;
    int deaths = 0;
    submit(0);
    cr_assert_eq(take(&slot), 1);
    for (int i = 1; i < count; i++)
        submit(i);
    answer(slot);
    collect();
    while (p.done_count < count && deaths < 20) {
        cr_assert_neq(take(&slot), 0);
        if (is_deadly(slot)) {
            replace_worker();
            deaths++;
        } else {
            answer(slot);
            collect();
        }
    }
    assert_answered(0, 3);
    assert_answered(4, count);
    cr_assert_eq(p.done[3], 1);
    cr_assert_eq(p.items[3].status, -EIO);
    return deaths;
}

Test(batcher, only_the_image_that_kills_gets_an_error)
{
    uint32_t slot;
    begin(4, 1, 1000000);
    int deaths = deaths_until_all_are_answered(5);
    cr_assert_eq(deaths, 3, "in flight, alone, itself: 3 deaths, not %d", deaths);
    submit(5);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(5, 6);
    end();
}

Test(batcher, it_is_found_among_64_by_the_fourth_death)
{
    slot_bytes = output_bytes = 64 * 64;
    begin(4, 1, 1000000);
    set_limits(64, 1000000, 500);
    int deaths = deaths_until_all_are_answered(65);
    cr_assert_eq(deaths, 4, "in flight, alone, among eight, itself: 4 deaths, not %d", deaths);
    end();
}

Test(batcher, a_death_while_loading_blames_no_slot)
{
    uint32_t slot;
    begin(2, 1, 1000000);
    submit(0);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(take(&slot), 1);
        convoy_worker_slots_down(p.worker_slots, false);
        convoy_channel_reset(&p.channel);
        p.worker.submit_head = 0;
        convoy_worker_slots_up(p.worker_slots, 1);
        convoy_worker_slots_model(p.worker_slots, &p.models[0], true, NULL, 0);
    }
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(0, 1);
    cr_assert_eq(p.items[0].retries, 5);
    end();
}

Test(batcher, without_a_worker_images_wait_in_their_slot)
{
    uint32_t slot;
    begin(2, 0, 1000000);
    for (int i = 0; i < 3; i++)
        submit(i);
    cr_assert_eq(take(&slot), 0);
    convoy_worker_slots_up(p.worker_slots, 1);
    cr_assert_eq(take(&slot), 3);
    answer(slot);
    collect();
    assert_answered(0, 3);
    end();
}

Test(batcher, nonsense_from_a_worker_changes_nothing)
{
    uint32_t slot;
    begin(2, 1, 1000000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    uint32_t generation = convoy_channel_slot(&p.worker, slot)->generation;
    convoy_channel_finish(&p.worker, &(struct convoy_done){slot, generation + 1, 0});
    convoy_channel_finish(&p.worker, &(struct convoy_done){1 - slot, generation, 0});
    convoy_channel_finish(&p.worker, &(struct convoy_done){4000000000u, generation, 0});
    cr_assert_eq(convoy_worker_slots_collect(p.worker_slots), 3);
    cr_assert_eq(p.done_count, 0);
    answer(slot);
    collect();
    convoy_channel_finish(&p.worker, &(struct convoy_done){slot, generation, 0});
    cr_assert_eq(convoy_worker_slots_collect(p.worker_slots), 1, "a completion counts once");
    assert_answered(0, 1);
    end();
}

Test(batcher, an_old_completion_fits_no_later_slot)
{
    uint32_t slot;
    begin(1, 1, 1000000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    uint32_t generation = convoy_channel_slot(&p.worker, slot)->generation;
    answer(slot);
    collect();
    submit(1);
    cr_assert_eq(take(&slot), 1);
    convoy_channel_finish(&p.worker, &(struct convoy_done){slot, generation, 0});
    cr_assert_eq(convoy_worker_slots_collect(p.worker_slots), 1);
    cr_assert_eq(p.done[1], 0);
    answer(slot);
    collect();
    assert_answered(0, 2);
    end();
}

Test(batcher, rows_that_nobody_waits_for_hold_up_no_other_model)
{
    uint32_t slot;
    begin(2, 1, 1000000);
    submit_for(0, 0, UINT64_MAX, false);
    cr_assert_eq(take(&slot), 1);
    convoy_worker_slots_down(p.worker_slots, true); /* the slot is suspect now */
    convoy_channel_reset(&p.channel);
    p.worker.submit_head = 0;
    convoy_batcher_model_gone(p.batcher, &p.models[0]);
    cr_assert_eq(p.items[0].status, -ENODEV);
    convoy_worker_slots_up(p.worker_slots, 1);
    convoy_worker_slots_model(p.worker_slots, &p.models[0], false, NULL, 0);
    convoy_worker_slots_model(p.worker_slots, &p.models[1], true, NULL, 0);
    submit_for(1, 1, UINT64_MAX, false);
    cr_assert_eq(take(&slot), 1, "an image waited behind a slot of a model that is gone");
    answer(slot);
    collect();
    assert_answered(1, 2);
    end();
}

Test(batcher, a_job_that_the_worker_refuses_is_an_error_of_its_images)
{
    uint32_t slot;
    begin(2, 1, 1000000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    convoy_channel_finish(
        &p.worker, &(struct convoy_done){slot, convoy_channel_slot(&p.worker, slot)->generation, -ENOENT});
    collect();
    cr_assert_eq(p.done[0], 1);
    cr_assert_eq(p.items[0].status, -EIO);
    end();
}

Test(batcher, a_model_that_is_gone_answers_what_waits)
{
    uint32_t slot;
    begin(2, 1, 1000000);
    submit_for(0, 0, UINT64_MAX, false);
    cr_assert_eq(take(&slot), 1);
    submit_for(1, 0, UINT64_MAX, false);
    submit_for(2, 1, UINT64_MAX, false);
    convoy_batcher_model_gone(p.batcher, &p.models[0]);
    cr_assert_eq(p.items[0].status, -ENODEV);
    cr_assert_eq(p.items[1].status, -ENODEV);
    cr_assert_eq(p.done[2], 0);
    cr_assert_eq(admit(0, 1), -ENODEV);
    answer(slot);
    collect();
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(2, 3);
    end();
}

Test(batcher, stopping_answers_everything)
{
    uint32_t slot;
    begin(1, 1, 1000000);
    for (int i = 0; i < 10; i++)
        submit(i);
    cr_assert_eq(take(&slot), 1);
    convoy_batcher_stop(p.batcher);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(p.done[i], 1);
        cr_assert_eq(p.items[i].status, -ECANCELED);
    }
    cr_assert_eq(convoy_batcher_pending(p.batcher), 0);
    cr_assert_eq(admit(0, 1), -ESHUTDOWN);
    end();
}

Test(batcher, a_number_is_free_when_nothing_of_its_model_is_left)
{
    uint32_t slot, first;
    begin(2, 1, 0);
    cr_assert(convoy_batcher_model_idle(p.batcher, &p.models[0]));
    cr_assert_eq(admit(0, 1), 0);
    cr_assert(!convoy_batcher_model_idle(p.batcher, &p.models[0]), "an image is admitted");
    convoy_batcher_cancel(p.batcher, &p.models[0], 1, CONVOY_PRIORITY_NORMAL);
    submit(0);
    cr_assert_eq(take(&first), 1);
    cr_assert(!convoy_batcher_model_idle(p.batcher, &p.models[0]), "an image runs");
    cr_assert(convoy_batcher_model_idle(p.batcher, &p.models[1]), "the other model's does");
    submit(1);
    answer(first);
    collect();
    cr_assert(!convoy_batcher_model_idle(p.batcher, &p.models[0]), "an image waited");
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(0, 2);
    cr_assert(convoy_batcher_model_idle(p.batcher, &p.models[0]));
    convoy_batcher_model_new(p.batcher, &p.models[0]);
    uint64_t wait_us;
    cr_assert_eq(
        convoy_batcher_admit(p.batcher, &p.models[0], 1, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us),
        -ENODEV, "another model has the number, which no worker has loaded");
    end();
}
