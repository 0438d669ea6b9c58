/* The batcher over a real channel, with the test playing the worker and the control loop. */
#include "server/batcher.h"
#include "engine/base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#define ITEMS 600

struct playground {
    struct convoy_metrics *metrics;
    struct convoy_batcher *batcher;
    struct convoy_channel channel, worker;
    struct convoy_lane *lane;
    struct convoy_model models[2];
    struct convoy_item items[ITEMS];
    float outputs[ITEMS][2];
    int done[ITEMS];
    int done_count;
};

static struct playground p;

static void on_done(struct convoy_item *item)
{
    size_t index = (size_t)(item - p.items);
    p.done[index]++;
    p.done_count++;
}

static void set_limits(uint32_t max_batch, uint32_t max_delay_us, uint32_t max_queue)
{
    for (int i = 0; i < 2; i++)
        convoy_batcher_set_limits(p.batcher, &p.models[i],
                                  &(struct convoy_batcher_limits){max_batch, max_delay_us, max_queue});
}

/* Rows of 8 x 1 x 1 bytes, 2 outputs; max_batch 4; slots as given. */
static void begin(uint32_t slots, uint32_t streams, uint32_t max_delay_us)
{
    struct convoy_error error;
    struct convoy_channel_size size = {.slots = slots, .input_bytes = 64 * 4, .output_bytes = 64 * 4};
    struct convoy_model_shape shape = {.channels = 1, .height = 8, .width = 1, .outputs_per_row = 2};
    memset(&p, 0, sizeof p);
    p.metrics = convoy_metrics_new();
    cr_assert_eq(convoy_batcher_new(2, 1, p.metrics, &p.batcher, &error), 0);
    for (uint32_t i = 0; i < 2; i++)
        p.models[i] = (struct convoy_model){.number = i,
                                            .name = i == 0 ? "a" : "b",
                                            .metrics = convoy_metrics_model(p.metrics, i == 0 ? "a" : "b")};
    set_limits(4, max_delay_us, 500);
    cr_assert_eq(convoy_channel_create(&p.channel, &error), 0);
    cr_assert_eq(convoy_channel_lay_out(&p.channel, &size, &error), 0);
    cr_assert_eq(convoy_channel_attach(&p.worker, p.channel.memory_fd, p.channel.submit_fd, p.channel.done_fd,
                                       &size, &error),
                 0);
    cr_assert_eq(convoy_lane_new(p.batcher, &p.channel, "cpu", &p.lane, &error), 0);
    for (int i = 0; i < 2; i++) {
        convoy_batcher_model_ready(p.batcher, &p.models[i], &shape);
        convoy_lane_model(p.lane, &p.models[i], true, NULL, 0);
    }
    if (streams > 0)
        convoy_lane_up(p.lane, streams);
}

static void end(void)
{
    convoy_batcher_free(p.batcher);
    convoy_channel_destroy(&p.channel);
    convoy_metrics_free(p.metrics);
}

static int admit(int model, uint32_t n)
{
    uint64_t wait_us;
    return convoy_batcher_admit(p.batcher, &p.models[model], n, UINT64_MAX, &wait_us);
}

static void submit_for(int index, int model, uint64_t deadline_us, bool profile)
{
    uint8_t row[8];
    memset(row, index, sizeof row);
    p.items[index] = (struct convoy_item){.model = &p.models[model],
                                          .deadline_us = deadline_us,
                                          .profile = profile,
                                          .outputs = p.outputs[index],
                                          .done = on_done};
    cr_assert_eq(admit(model, 1), 0);
    convoy_batcher_submit(p.batcher, &p.items[index], row, sizeof row);
}

static void submit(int index)
{
    submit_for(index, 0, UINT64_MAX, false);
}

/* The worker takes a slot; its rows must be as the front promised. Returns the number of rows, 0 for none. */
static uint32_t take(uint32_t *slot)
{
    if (!convoy_channel_take_submitted(&p.worker, slot))
        return 0;
    return convoy_channel_slot(&p.worker, *slot)->rows;
}

/* Each row answers with its own first byte, so that a row in the wrong place is seen. */
static void answer(uint32_t slot)
{
    struct convoy_slot header = *convoy_channel_slot(&p.worker, slot);
    for (uint32_t row = header.first; row < header.first + header.rows; row++) {
        float *output =
            (float *)(void *)(convoy_channel_outputs(&p.worker, slot) + row * header.output_stride);
        output[0] = output[1] = convoy_channel_rows(&p.worker, slot)[row * header.input_stride];
    }
    convoy_channel_finish(&p.worker, &(struct convoy_done){slot, header.generation, 0});
}

static void collect(void)
{
    cr_assert_eq(convoy_lane_collect(p.lane), 0);
}

/* The worker dies and another comes up. */
static uint32_t replace_worker(void)
{
    uint32_t again = convoy_lane_down(p.lane, true);
    convoy_channel_reset(&p.channel);
    p.worker.submit_head = 0;
    convoy_lane_up(p.lane, 1);
    for (int i = 0; i < 2; i++)
        convoy_lane_model(p.lane, &p.models[i], true, NULL, 0);
    return again;
}

static void assert_answered(int from, int to)
{
    for (int i = from; i < to; i++) {
        cr_assert_eq(p.done[i], 1, "item %d was answered %d times", i, p.done[i]);
        cr_assert_eq(p.items[i].status, 0, "item %d: status %d", i, p.items[i].status);
        cr_assert_eq(p.outputs[i][1], (float)(uint8_t)i, "item %d got the answer of %g", i, p.outputs[i][1]);
    }
}

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

Test(batcher, the_queue_is_bounded)
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
    convoy_batcher_cancel(p.batcher, &p.models[0], 1);
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
    return convoy_batcher_admit(p.batcher, &p.models[0], 1, convoy_now_us() + us, wait_us);
}

Test(batcher, an_image_whose_deadline_would_pass_in_the_queue_is_refused)
{
    uint64_t wait_us;
    uint32_t slot;
    begin(3, 1, 1000000);
    submit(16);
    cr_assert_eq(admit_for(1000, &wait_us), 0, "nothing is known yet");
    cr_assert_eq(wait_us, 0);
    convoy_batcher_cancel(p.batcher, &p.models[0], 1);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    learn_that_it_takes(5); /* at least 1 ms an image */
    assert_answered(0, 16);

    cr_assert_eq(admit_for(1000, &wait_us), 0, "a deadline is not too near for an idle worker");
    convoy_batcher_cancel(p.batcher, &p.models[0], 1);
    submit(17);
    cr_assert_eq(admit_for(1000, &wait_us), -ETIME, "one runs: this one would be late");
    cr_assert_gt(wait_us, 1000);
    cr_assert_lt(wait_us, 60000000);
    cr_assert_eq(admit_for(3600000000u, &wait_us), 0, "who has time may wait");
    convoy_batcher_cancel(p.batcher, &p.models[0], 1);
    cr_assert_eq(convoy_batcher_admit(p.batcher, &p.models[1], 1, convoy_now_us() + 1000, &wait_us), 0,
                 "of another model nothing is known");
    convoy_batcher_cancel(p.batcher, &p.models[1], 1);
    cr_assert_eq(convoy_batcher_admit(p.batcher, &p.models[0], 501, UINT64_MAX, &wait_us), -E2BIG);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(16, 18);
    cr_assert_eq(admit_for(1000, &wait_us), 0, "what was refused left nothing behind");
    end();
}

Test(batcher, a_slot_that_would_be_late_as_a_whole_is_not_run)
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
    cr_assert_eq(p.done_count, 17, "nobody is answered but by the control loop");
    cr_assert_eq(poll(&timer, 1, 5000), 1, "the timer never fired");
    convoy_batcher_tick(p.batcher);
    for (int i = 17; i < 21; i++)
        cr_assert(p.done[i] == 1 && p.items[i].status == -ETIMEDOUT, "item %d: %d", i, p.items[i].status);
    answer(slot);
    answer(next);
    collect();
    assert_answered(24, 25);
    cr_assert_eq(convoy_batcher_admit(p.batcher, &p.models[0], 500, UINT64_MAX, &(uint64_t){0}), 0,
                 "the queue is empty again");
    cr_assert_eq(convoy_batcher_pending(p.batcher), 0);
    convoy_batcher_cancel(p.batcher, &p.models[0], 500);
    for (int i = 25; i < 29; i++) { /* nothing runs: whatever is remembered, work is done */
        submit_for(i, 0, convoy_now_us() + 1000000, false);
        cr_assert_eq(take(&next), 1);
        answer(next);
        collect();
    }
    end();
}

Test(batcher, an_estimate_alone_gives_up_no_slot)
{
    uint32_t slot, next;
    begin(4, 1, 1000000);
    learn_that_it_takes(40);
    submit(16);
    cr_assert_eq(take(&slot), 1);
    for (int i = 17; i < 21; i++)
        submit_for(i, 0, convoy_now_us() + 20000, false);
    cr_assert_eq(take(&next), 4, "nobody was late yet");
    answer(slot);
    answer(next);
    collect();
    assert_answered(16, 21);
    end();
}

Test(batcher, rows_of_a_worker_that_died_do_not_count_twice)
{
    uint64_t before_us, after_us;
    uint32_t slot;
    begin(3, 1, 1000000);
    learn_that_it_takes(5); /* at least 1 ms an image */
    submit(16);
    cr_assert_eq(admit_for(3600000000u, &before_us), 0);
    convoy_batcher_cancel(p.batcher, &p.models[0], 1);
    cr_assert_eq(take(&slot), 1);
    replace_worker();
    cr_assert_eq(take(&slot), 1);
    cr_assert_eq(admit_for(3600000000u, &after_us), 0);
    cr_assert_eq(before_us, after_us, "%llu us became %llu us", (unsigned long long)before_us,
                 (unsigned long long)after_us);
    convoy_batcher_cancel(p.batcher, &p.models[0], 1);
    answer(slot);
    collect();
    assert_answered(0, 17);
    cr_assert_eq(admit_for(1000, &after_us), 0, "nothing waits or runs");
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
    cr_assert_eq(take(&next), 2);
    cr_assert_eq(convoy_channel_slot(&p.worker, next)->model, 0);
    answer(next);
    collect();
    cr_assert_eq(take(&next), 1);
    cr_assert_eq(convoy_channel_slot(&p.worker, next)->model, 1);
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

Test(batcher, a_deadline_ends_what_waits_and_what_runs)
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

Test(batcher, only_the_image_that_kills_gets_an_error)
{
    uint32_t slot;
    int deaths = 0;
    begin(4, 1, 1000000);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    for (int i = 1; i < 5; i++)
        submit(i);
    answer(slot);
    collect();
    while (p.done_count < 5 && deaths < 20) {
        uint32_t rows = take(&slot);
        cr_assert_neq(rows, 0);
        struct convoy_slot header = *convoy_channel_slot(&p.worker, slot);
        bool deadly = false;
        for (uint32_t row = header.first; row < header.first + rows; row++)
            deadly = deadly || convoy_channel_rows(&p.worker, slot)[row * header.input_stride] == 3;
        if (deadly) {
            replace_worker();
            deaths++;
        } else {
            answer(slot);
            collect();
        }
    }
    cr_assert_eq(deaths, 4, "in flight, alone, its half, itself: 4 deaths, not %d", deaths);
    assert_answered(0, 3);
    assert_answered(4, 5);
    cr_assert_eq(p.done[3], 1);
    cr_assert_eq(p.items[3].status, -EIO);
    submit(5);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(5, 6);
    end();
}

Test(batcher, a_death_while_loading_blames_no_slot)
{
    uint32_t slot;
    begin(2, 1, 1000000);
    submit(0);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(take(&slot), 1);
        convoy_lane_down(p.lane, false);
        convoy_channel_reset(&p.channel);
        p.worker.submit_head = 0;
        convoy_lane_up(p.lane, 1);
        convoy_lane_model(p.lane, &p.models[0], true, NULL, 0);
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
    convoy_lane_up(p.lane, 1);
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
    cr_assert_eq(convoy_lane_collect(p.lane), 3);
    cr_assert_eq(p.done_count, 0);
    answer(slot);
    collect();
    convoy_channel_finish(&p.worker, &(struct convoy_done){slot, generation, 0});
    cr_assert_eq(convoy_lane_collect(p.lane), 1, "a completion counts once");
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
    cr_assert_eq(convoy_lane_collect(p.lane), 1);
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
    convoy_lane_down(p.lane, true); /* the slot is suspect now */
    convoy_channel_reset(&p.channel);
    p.worker.submit_head = 0;
    convoy_batcher_model_gone(p.batcher, &p.models[0]);
    cr_assert_eq(p.items[0].status, -ENODEV);
    convoy_lane_up(p.lane, 1);
    convoy_lane_model(p.lane, &p.models[0], false, NULL, 0);
    convoy_lane_model(p.lane, &p.models[1], true, NULL, 0);
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
    cr_assert_eq(admit(0, 1), -ESHUTDOWN);
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
