/* The batcher when more comes than can be served: the bound of its queue, deadlines, and who is refused
 * early. */
#include "engine/base/clock.h"
#include "tests/unit/server/batching/batcher_playground.h"

#include <errno.h>
#include <poll.h>

Test(batcher_overload, the_queue_is_bounded)
{
    uint32_t slot;
    begin(2, 1, 1000000);
    set_limits(4, 1000000, 10);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    for (int i = 1; i < 11; i++)
        submit(i);
    /* 4 of them left as a full slot, so 6 wait */
    cr_assert_eq(admit(0, 5), -EBUSY);
    cr_assert_eq(admit(0, 4), 0);
    cr_assert_eq(admit(0, 1), -EBUSY);
    convoy_batcher_cancel(p.batcher, &p.models[0], 1, CONVOY_PRIORITY_NORMAL);
    cr_assert_eq(admit(0, 1), 0);
    cr_assert_eq(admit(1, 10), 0, "another model has a queue of its own");
    cr_assert_eq(admit(1, 1), -EBUSY);
    cr_assert_eq(admit(1, 11), -E2BIG, "more than can ever wait");
    cr_assert_eq(admit(1, UINT32_MAX), -E2BIG);
    end();
}

/* The worker takes so many milliseconds for each slot, the largest of which have 4 images. */
static void learn_that_it_takes(int milliseconds)
{
    uint32_t slot;
    for (int i = 0; i < 16; i++)
        submit(i);
    while (take(&slot) > 0) {
        poll(NULL, 0, milliseconds); /* work, not waiting for anything */
        answer(slot);
        collect();
    }
}

static int admit_for(uint64_t us, uint64_t *wait_us)
{
    return convoy_batcher_admit(p.batcher, &p.models[0], 1, CONVOY_PRIORITY_NORMAL, convoy_now_us() + us,
                                wait_us);
}

Test(batcher_overload, before_a_batch_has_ended_what_a_row_took_at_loading_counts)
{
    uint64_t wait_us;
    begin(3, 1, 1000000);
    convoy_worker_slots_row(p.worker_slots, &p.models[0], 2000);
    cr_assert_eq(admit_for(1000, &wait_us), 0, "nothing waits");
    convoy_batcher_cancel(p.batcher, &p.models[0], 1, CONVOY_PRIORITY_NORMAL);
    submit(16);
    cr_assert_eq(admit_for(4000, &wait_us), -ETIME, "two of 2 ms, of 3 ms that may be spent");
    cr_assert_eq(wait_us, 4000);
    cr_assert_eq(admit_for(100000, &wait_us), 0);
    convoy_batcher_cancel(p.batcher, &p.models[0], 1, CONVOY_PRIORITY_NORMAL);
    cr_assert_eq(convoy_batcher_admit(p.batcher, &p.models[1], 500, CONVOY_PRIORITY_NORMAL,
                                      convoy_now_us() + 1000, &wait_us),
                 0, "of another model nothing is known");
    convoy_batcher_cancel(p.batcher, &p.models[1], 500, CONVOY_PRIORITY_NORMAL);
    end();
}

Test(batcher_overload, an_image_whose_deadline_would_pass_in_the_queue_is_refused)
{
    uint64_t wait_us;
    uint32_t slot;
    begin(3, 1, 1000000);
    submit(16);
    cr_assert_eq(admit_for(1000, &wait_us), 0, "nothing is known yet");
    cr_assert_eq(wait_us, 0);
    convoy_batcher_cancel(p.batcher, &p.models[0], 1, CONVOY_PRIORITY_NORMAL);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    learn_that_it_takes(5); /* at least 1 ms an image */
    assert_answered(0, 16);

    cr_assert_eq(admit_for(1000, &wait_us), 0, "a deadline is not too near for an idle worker");
    convoy_batcher_cancel(p.batcher, &p.models[0], 1, CONVOY_PRIORITY_NORMAL);
    submit(17);
    cr_assert_eq(admit_for(1000, &wait_us), -ETIME, "one runs: this one would be late");
    cr_assert_gt(wait_us, 1000);
    cr_assert_lt(wait_us, 60000000);
    cr_assert_eq(admit_for(3600000000u, &wait_us), 0, "who has time may wait");
    convoy_batcher_cancel(p.batcher, &p.models[0], 1, CONVOY_PRIORITY_NORMAL);
    cr_assert_eq(convoy_batcher_admit(p.batcher, &p.models[1], 1, CONVOY_PRIORITY_NORMAL,
                                      convoy_now_us() + 1000, &wait_us),
                 0, "of another model nothing is known");
    convoy_batcher_cancel(p.batcher, &p.models[1], 1, CONVOY_PRIORITY_NORMAL);
    cr_assert_eq(
        convoy_batcher_admit(p.batcher, &p.models[0], 501, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us),
        -E2BIG);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(16, 18);
    cr_assert_eq(admit_for(1000, &wait_us), 0, "what was refused left nothing behind");
    end();
}

Test(batcher_overload, an_admitted_image_that_is_still_decoded_does_not_wait_for_the_device)
{
    uint64_t wait_us;
    uint32_t slot;
    begin(3, 1, 1000000);
    cr_assert_eq(admit(0, 1), 0); /* a large one, whose decoding goes on */
    for (int i = 0; i < 12; i++) {
        submit(i);
        cr_assert_eq(take(&slot), 1);
        answer(slot);
        collect();
        poll(NULL, 0, 30); /* the device has nothing to do */
    }
    submit(12);
    cr_assert_eq(take(&slot), 1);
    cr_assert_eq(admit_for(60000, &wait_us), 0, "an image takes microseconds, not %llu",
                 (unsigned long long)wait_us);
    convoy_batcher_cancel(p.batcher, &p.models[0], 2, CONVOY_PRIORITY_NORMAL);
    answer(slot);
    collect();
    assert_answered(0, 13);
    end();
}

Test(batcher_overload, a_slot_that_would_be_late_as_a_whole_is_not_run)
{
    uint32_t slot, next;
    begin(4, 1, 1000000);
    learn_that_it_takes(40); /* at least 10 ms an image */
    struct pollfd timer = {.fd = convoy_batcher_timer(p.batcher), .events = POLLIN};
    submit_for(16, 0, convoy_now_us() + 1000, false);
    cr_assert_eq(take(&slot), 1);
    while (p.done_count < 17) {
        cr_assert_eq(poll(&timer, 1, 5000), 1, "the timer never fired");
        convoy_batcher_tick(p.batcher);
    }
    cr_assert_eq(p.items[16].status, -ETIMEDOUT, "late while it ran");
    for (int i = 17; i < 21; i++)
        submit_for(i, 0, convoy_now_us() + 20000, false);
    cr_assert_eq(take(&next), 0, "one image and four take 50 ms");
    for (int i = 21; i < 25; i++)
        submit_for(i, 0, i < 24 ? convoy_now_us() + 20000 : UINT64_MAX, false);
    cr_assert_eq(take(&next), 4, "the next slot leaves for the sake of one that has time");
    cr_assert_eq(p.done_count, 17, "no client is answered but by the control loop");
    cr_assert_eq(poll(&timer, 1, 5000), 1, "the timer never fired");
    convoy_batcher_tick(p.batcher);
    for (int i = 17; i < 21; i++)
        cr_assert(p.done[i] == 1 && p.items[i].status == -ETIMEDOUT, "item %d: %d", i, p.items[i].status);
    answer(slot);
    answer(next);
    collect();
    assert_answered(24, 25);
    cr_assert_eq(convoy_batcher_admit(p.batcher, &p.models[0], 500, CONVOY_PRIORITY_NORMAL, UINT64_MAX,
                                      &(uint64_t){0}),
                 0, "the queue is empty again");
    cr_assert_eq(convoy_batcher_pending(p.batcher), 0);
    convoy_batcher_cancel(p.batcher, &p.models[0], 500, CONVOY_PRIORITY_NORMAL);
    for (int i = 25; i < 29; i++) { /* nothing runs: whatever is remembered, work is done */
        submit_for(i, 0, convoy_now_us() + 1000000, false);
        cr_assert_eq(take(&next), 1);
        answer(next);
        collect();
    }
    end();
}

Test(batcher_overload, an_estimate_alone_gives_up_no_slot)
{
    uint32_t slot, next;
    begin(4, 1, 1000000);
    learn_that_it_takes(40);
    submit(16);
    cr_assert_eq(take(&slot), 1);
    for (int i = 17; i < 21; i++)
        submit_for(i, 0, convoy_now_us() + 20000, false);
    cr_assert_eq(take(&next), 4, "none was late yet");
    answer(slot);
    answer(next);
    collect();
    assert_answered(16, 21);
    end();
}

Test(batcher_overload, rows_of_a_worker_that_died_do_not_count_twice)
{
    uint64_t before_us, after_us;
    uint32_t slot;
    begin(3, 1, 1000000);
    learn_that_it_takes(5); /* at least 1 ms an image */
    submit(16);
    cr_assert_eq(admit_for(3600000000u, &before_us), 0);
    convoy_batcher_cancel(p.batcher, &p.models[0], 1, CONVOY_PRIORITY_NORMAL);
    cr_assert_eq(take(&slot), 1);
    replace_worker();
    cr_assert_eq(take(&slot), 1);
    cr_assert_eq(admit_for(3600000000u, &after_us), 0);
    cr_assert_eq(before_us, after_us, "%llu us became %llu us", (unsigned long long)before_us,
                 (unsigned long long)after_us);
    convoy_batcher_cancel(p.batcher, &p.models[0], 1, CONVOY_PRIORITY_NORMAL);
    answer(slot);
    collect();
    assert_answered(0, 17);
    cr_assert_eq(admit_for(1000, &after_us), 0, "nothing waits or runs");
    end();
}

Test(batcher_overload, a_deadline_ends_what_waits_and_what_runs)
{
    uint32_t slot, next;
    begin(1, 1, 1000000);
    uint64_t soon = convoy_now_us() + 3000;
    submit_for(0, 0, soon, false); /* in flight */
    submit_for(1, 0, soon, false); /* parked: the one slot is taken */
    submit_for(2, 0, UINT64_MAX, false);
    cr_assert_eq(take(&slot), 1);
    struct pollfd timer = {.fd = convoy_batcher_timer(p.batcher), .events = POLLIN};
    while (p.done_count < 2) {
        cr_assert_eq(poll(&timer, 1, 5000), 1, "the timer never fired");
        convoy_batcher_tick(p.batcher);
    }
    cr_assert_eq(p.items[0].status, -ETIMEDOUT);
    cr_assert_eq(p.items[1].status, -ETIMEDOUT);
    answer(slot);
    collect();
    cr_assert_eq(p.done[0], 1, "an item is answered once");
    cr_assert_eq(take(&next), 1);
    answer(next);
    collect();
    assert_answered(2, 3);
    cr_assert_eq(admit(0, 500), 0, "the queue is empty again");
    end();
}

Test(batcher_overload, images_of_a_client_that_has_left_are_spared_though_they_come_later)
{
    size_t length;
    begin(2, 0, 0);
    struct convoy_item_group *group = group_at(0, UINT64_MAX);
    uint8_t row[8] = {0};
    convoy_batcher_abandon(p.batcher, group);
    for (int i = 0; i < 2; i++) {
        p.items[i] = (struct convoy_item){.model = &p.models[0],
                                          .group = group,
                                          .outputs = p.outputs[i],
                                          .source = row,
                                          .source_bytes = sizeof row,
                                          .done = on_done};
        cr_assert_eq(admit(0, 1), 0);
        convoy_batcher_submit(p.batcher, (struct convoy_item *[]){&p.items[i]}, 1);
    }
    submit(2);
    convoy_batcher_tick(p.batcher);
    cr_assert(p.done[0] == 1 && p.done[1] == 1 && p.done[2] == 0);
    cr_assert_eq(p.items[0].status, -ECONNABORTED);
    convoy_batcher_abandon(p.batcher, p.items[2].group);
    convoy_batcher_tick(p.batcher);
    char *text = convoy_metrics_render(p.metrics, &length);
    cr_assert_not_null(strstr(text, "convoyd_spared_images_total{model=\"a\"} 3\n"), "%s", text);
    free(text);
    cr_assert(convoy_batcher_model_idle(p.batcher, &p.models[0]));
    end();
}
