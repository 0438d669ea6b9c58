/* Several devices: which of them gets an image, and where images go when one is lost. */
#include "batcher_playground.h"
#include "engine/base/clock.h"
#include "server/batcher_internal.h"

#include <errno.h>
#include <poll.h>

/* The second lane beside the playground's; both lanes by number. */
static struct convoy_channel second_channel;
static struct convoy_channel *workers[2], second_worker;
static struct convoy_lane *lanes[2];

static void come_up(int number, uint32_t streams)
{
    convoy_lane_up(lanes[number], streams);
    for (int model = 0; model < 2; model++)
        convoy_lane_model(lanes[number], &p.models[model], true, NULL, 0);
}

static void begin_two(uint32_t slots, uint32_t streams)
{
    begin(slots, streams, 1000000);
    add_lane(&second_channel, &second_worker, slots, "other", &lanes[1]);
    lanes[0] = p.lane;
    workers[0] = &p.worker;
    workers[1] = &second_worker;
    come_up(1, streams);
}

static void end_two(void)
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
static uint32_t go_down(int number)
{
    uint32_t again = convoy_lane_down(lanes[number], true);
    convoy_channel_reset(number == 0 ? &p.channel : &second_channel);
    workers[number]->submit_head = 0;
    return again;
}

/* Rows that the lane's worker was given and that it answers now; 0: it was given none. */
static uint32_t run_one(int number)
{
    uint32_t slot, rows = take_from(workers[number], &slot);
    if (rows > 0) {
        answer_from(workers[number], slot);
        cr_assert_eq(convoy_lane_collect(lanes[number]), 0);
    }
    return rows;
}

static void run_all(void)
{
    while (run_one(0) + run_one(1) > 0)
        ;
}

/* Rows that lie in the lane's slots. */
static uint32_t rows_of(int number)
{
    uint32_t rows = 0;
    for (int i = 0; i < CONVOY_MAX_SLOTS; i++)
        if (lanes[number]->slots[i].state != SLOT_FREE)
            rows += lanes[number]->slots[i].reserved;
    return rows;
}

/* An image of the model costs this much on the lane, as if it had run many. */
static void set_cost(int number, int model, uint64_t us)
{
    for (int i = 0; i < 50; i++)
        convoy_image_cost_ran(&lanes[number]->costs[model], 1, us, convoy_now_us());
    convoy_image_cost_ran(&p.batcher->queues[model].cost, 1, us, convoy_now_us());
}

/* Waits for the timer and does what it is for. */
static void tick(int longest_ms)
{
    struct pollfd timer = {.fd = convoy_batcher_timer(p.batcher), .events = POLLIN};
    cr_assert_eq(poll(&timer, 1, longest_ms), 1, "the timer never fired");
    convoy_batcher_tick(p.batcher);
}

Test(batcher_devices, idle_devices_take_turns)
{
    begin_two(4, 2);
    uint32_t runs[2] = {0, 0};
    for (int i = 0; i < 20; i++) {
        set_cost(0, 0, 1000); /* whatever the runs of this test took */
        set_cost(1, 0, 1050);
        submit(i);
        for (int lane = 0; lane < 2; lane++)
            runs[lane] += run_one(lane);
    }
    cr_assert(runs[0] == 10 && runs[1] == 10, "%u and %u of 20", runs[0], runs[1]);
    assert_answered(0, 20);
    end_two();
}

Test(batcher_devices, images_at_the_same_time_are_spread)
{
    begin_two(4, 1);
    for (int i = 0; i < 16; i++)
        submit(i);
    cr_assert(rows_of(0) >= 7 && rows_of(0) <= 9, "%u of 16", rows_of(0));
    run_all();
    assert_answered(0, 16);
    end_two();
}

Test(batcher_devices, the_faster_device_gets_more)
{
    begin_two(8, 1);
    set_cost(0, 0, 300000);
    set_cost(1, 0, 100000);
    for (int i = 0; i < 24; i++)
        submit(i);
    cr_assert(rows_of(1) >= 16 && rows_of(1) <= 20, "%u of 24", rows_of(1));
    run_all();
    assert_answered(0, 24);
    end_two();
}

Test(batcher_devices, an_idle_slow_device_is_left_alone_when_the_fast_one_is_sooner)
{
    begin_two(8, 1);
    set_cost(0, 0, 900000);
    set_cost(1, 0, 1000);
    for (int i = 0; i < 24; i++)
        submit(i);
    cr_assert_eq(rows_of(0), 0);
    run_all();
    assert_answered(0, 24);
    end_two();
}

Test(batcher_devices, other_models_images_count)
{
    begin_two(8, 1);
    set_cost(0, 0, 1000);
    set_cost(1, 0, 1000);
    set_cost(0, 1, 900000);
    set_cost(1, 1, 900000);
    submit_for(0, 1, UINT64_MAX, false);
    int busy = rows_of(0) == 1 ? 0 : 1;
    for (int i = 1; i < 20; i++)
        submit(i);
    cr_assert_eq(rows_of(busy), 1, "images were put behind one that takes 900 of them");
    run_all();
    assert_answered(0, 20);
    end_two();
}

Test(batcher_devices, company_is_looked_for_where_the_difference_does_not_matter)
{
    begin_two(8, 1);
    for (int lane = 0; lane < 2; lane++)
        set_cost(lane, 0, 1000);
    for (int i = 0; i < 26; i++)
        submit(i);
    /* Two that left alone, and six full slots. Another image is as well off on either, the next where that
     * is. */
    cr_assert(lanes[0]->used == 4 && lanes[1]->used == 4);
    submit(26);
    int first = lanes[0]->used == 5 ? 0 : 1;
    submit(27);
    cr_assert_eq(lanes[first]->used, 5);
    cr_assert_eq(lanes[!first]->used, 4, "two images gather in two slots");
    run_all();
    assert_answered(0, 28);
    end_two();
}

Test(batcher_devices, runs_teach_what_each_device_costs)
{
    begin_two(8, 1);
    submit(0);
    submit(1);
    run_all();
    cr_assert_gt(lanes[0]->costs[0].images, 0);
    cr_assert_gt(lanes[1]->costs[0].images, 0);
    cr_assert_eq(lanes[0]->costs[1].images, 0);
    assert_answered(0, 2);
    end_two();
}

Test(batcher_devices, a_model_goes_only_where_it_is_served)
{
    begin_two(4, 1);
    convoy_lane_model(lanes[0], &p.models[1], false, NULL, 0);
    for (int i = 0; i < 30; i++)
        submit_for(i, 1, UINT64_MAX, false);
    cr_assert_eq(rows_of(0), 0);
    cr_assert_eq(rows_of(1), 13, "one that left alone and three full slots; the rest is parked");
    run_all();
    assert_answered(0, 30);
    end_two();
}

Test(batcher_devices, what_waits_for_a_lost_device_goes_to_the_other)
{
    uint32_t slot;
    begin_two(8, 1);
    for (int i = 0; i < 40; i++)
        submit(i);
    cr_assert_gt(rows_of(0), 8);
    /* The first is alone in flight, a full slot is staged behind it. */
    cr_assert_gt(take(&slot), 0);
    uint32_t in_flight = lanes[0]->in_flight, again = go_down(0);
    cr_assert_eq(lanes[0]->used, in_flight, "what only waited stays");
    while (run_one(1) > 0)
        ;
    cr_assert_eq(p.done_count, 40 - (int)again);
    come_up(0, 1);
    run_all();
    assert_answered(0, 40);
    end_two();
}

Test(batcher_devices, moved_images_keep_their_order)
{
    begin_two(8, 1);
    for (int i = 0; i < 64; i++)
        submit(i);
    while (run_one(0) > 0 && p.done_count < 4)
        ;
    go_down(0);
    /* Of those that moved and those that were there, the oldest run first: none of the last quarter before
     * the last of the first quarter that was not in flight. */
    uint32_t slot, rows;
    int last_of_first = 0, runs = 0, first_of_last = 1000;
    while ((rows = take_from(workers[1], &slot)) > 0) {
        const struct convoy_slot *header = convoy_channel_slot(workers[1], slot);
        runs++;
        for (uint32_t row = 0; row < rows; row++) {
            int item = convoy_channel_rows(workers[1], slot)[row * header->input_stride];
            if (item < 16)
                last_of_first = runs;
            if (item >= 48 && first_of_last == 1000)
                first_of_last = runs;
        }
        answer_from(workers[1], slot);
        cr_assert_eq(convoy_lane_collect(lanes[1]), 0);
    }
    cr_assert_leq(last_of_first, first_of_last);
    come_up(0, 1);
    run_all();
    assert_answered(0, 64);
    end_two();
}

Test(batcher_devices, a_lane_that_is_down_gets_nothing_while_another_serves)
{
    begin_two(4, 1);
    go_down(0);
    for (int i = 0; i < 40; i++)
        submit(i);
    cr_assert_eq(rows_of(0), 0);
    run_all();
    assert_answered(0, 40);
    end_two();
}

Test(batcher_devices, with_all_devices_gone_images_wait_for_the_first_that_is_back)
{
    begin_two(4, 1);
    go_down(0);
    go_down(1);
    for (int i = 0; i < 40; i++)
        submit(i);
    come_up(1, 1);
    cr_assert_eq(rows_of(0), 0, "rows are left where no worker is");
    run_all();
    assert_answered(0, 40);
    end_two();
}

/* Two images in flight, one on each; which lane has item 0. */
static int one_each(void)
{
    uint32_t slots[2];
    submit(0);
    int first = rows_of(0) == 1 ? 0 : 1;
    submit(1);
    cr_assert_eq(take_from(workers[0], &slots[0]), 1);
    cr_assert_eq(take_from(workers[1], &slots[1]), 1);
    answer_from(workers[!first], slots[!first]);
    cr_assert_eq(convoy_lane_collect(lanes[!first]), 0);
    return first;
}

Test(batcher_devices, suspects_wait_for_their_own_worker_first)
{
    begin_two(4, 1);
    int lost = one_each();
    cr_assert_eq(go_down(lost), 1);
    cr_assert_eq(rows_of(lost), 1, "a suspect went to another device at once");
    come_up(lost, 1);
    cr_assert_eq(run_one(lost), 1);
    cr_assert_eq(run_one(!lost), 0);
    assert_answered(0, 2);
    cr_assert_eq(p.items[0].retries, 1);
    end_two();
}

Test(batcher_devices, suspects_move_when_no_worker_comes)
{
    begin_two(4, 1);
    int lost = one_each();
    uint64_t began = convoy_now_us();
    go_down(lost);
    while (rows_of(!lost) == 0)
        tick(5000);
    cr_assert_geq(convoy_now_us() - began, 900000, "it did not wait for its worker");
    cr_assert_eq(rows_of(lost), 0);
    cr_assert_eq(run_one(!lost), 1);
    assert_answered(0, 2);
    cr_assert_eq(p.items[0].retries, 1);
    cr_assert_str_eq(p.items[0].device, lost == 0 ? "other" : "cpu");
    end_two();
}

Test(batcher_devices, suspects_move_at_once_when_the_next_worker_cannot_be_started)
{
    begin_two(4, 1);
    int lost = one_each();
    go_down(lost);
    convoy_lane_lost(lanes[lost]);
    cr_assert_eq(run_one(!lost), 1);
    assert_answered(0, 2);
    end_two();
}

Test(batcher_devices, a_suspect_that_moved_runs_alone_after_what_waited)
{
    uint32_t slot, none;
    begin_two(4, 2);
    int lost = one_each();
    go_down(lost);
    submit(2); /* with the other's worker */
    submit(3);
    cr_assert_eq(take_from(workers[!lost], &slot), 1);
    uint32_t second;
    cr_assert_eq(take_from(workers[!lost], &second), 1);
    convoy_lane_lost(lanes[lost]);
    cr_assert_eq(take_from(workers[!lost], &none), 0, "a suspect runs beside others");
    answer_from(workers[!lost], slot);
    cr_assert_eq(convoy_lane_collect(lanes[!lost]), 0);
    cr_assert_eq(take_from(workers[!lost], &none), 0, "a suspect runs beside others");
    answer_from(workers[!lost], second);
    cr_assert_eq(convoy_lane_collect(lanes[!lost]), 0);
    submit(4);
    cr_assert_eq(take_from(workers[!lost], &slot), 1);
    cr_assert_eq(convoy_channel_rows(workers[!lost], slot)[0], 0);
    cr_assert_eq(take_from(workers[!lost], &none), 0, "something runs beside a suspect");
    answer_from(workers[!lost], slot);
    cr_assert_eq(convoy_lane_collect(lanes[!lost]), 0);
    run_all();
    assert_answered(0, 5);
    end_two();
}

Test(batcher_devices, the_image_that_kills_is_found_wherever_it_goes)
{
    begin_two(4, 1);
    for (int i = 0; i < 10; i++)
        submit(i);
    /* Item 3 kills whichever worker has it, and nobody comes in its place until the other is dead too. */
    int deaths = 0;
    while (p.done_count < 10 && deaths < 30) {
        for (int lane = 0; lane < 2; lane++) {
            uint32_t slot, rows = take_from(workers[lane], &slot);
            bool deadly = false;
            for (uint32_t row = 0; row < rows; row++) {
                const struct convoy_slot *header = convoy_channel_slot(workers[lane], slot);
                deadly =
                    deadly || convoy_channel_rows(workers[lane],
                                                  slot)[(header->first + row) * header->input_stride] == 3;
            }
            if (deadly) {
                go_down(lane);
                if (!lanes[!lane]->up)
                    come_up(!lane, 1);
                convoy_lane_lost(lanes[lane]);
                deaths++;
            } else if (rows > 0) {
                answer_from(workers[lane], slot);
                cr_assert_eq(convoy_lane_collect(lanes[lane]), 0);
            }
        }
    }
    cr_assert_leq(deaths, 4, "%d deaths", deaths);
    assert_answered(0, 3);
    assert_answered(4, 10);
    cr_assert_eq(p.items[3].status, -EIO);
    end_two();
}

Test(batcher_devices, a_suspect_finds_no_free_slot_and_waits_for_one)
{
    begin_two(2, 1);
    int lost = one_each();
    for (int i = 2; i < 30; i++)
        submit(i);
    uint32_t again = go_down(lost);
    cr_assert_gt(again, 0);
    convoy_lane_lost(lanes[lost]);
    cr_assert_eq(lanes[!lost]->used, 2);
    while (run_one(!lost) > 0)
        ;
    assert_answered(0, 30);
    end_two();
}

Test(batcher_devices, what_waits_for_a_lost_device_still_has_its_deadline)
{
    begin_two(4, 1);
    go_down(0);
    go_down(1);
    for (int i = 0; i < 6; i++)
        submit_for(i, 0, convoy_now_us() + 50000, false);
    while (p.done_count < 6)
        tick(5000);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(p.items[i].status, -ETIMEDOUT);
    end_two();
}

Test(batcher_devices, a_profiled_image_moves_too)
{
    begin_two(4, 1);
    go_down(1);
    go_down(0);
    submit_for(0, 0, UINT64_MAX, true);
    submit(1);
    int empty = rows_of(0) == 0 ? 0 : 1;
    come_up(empty, 1);
    cr_assert_eq(rows_of(!empty), 0);
    while (run_one(empty) > 0)
        ;
    assert_answered(0, 2);
    cr_assert_eq(p.items[0].batch_size, 1);
    end_two();
}
