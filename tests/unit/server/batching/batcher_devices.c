/* Several devices: which of them gets an image. */
#include "tests/unit/server/batching/batcher_two_workers.h"

Test(batcher_devices, idle_devices_take_turns)
{
    begin_two(4, 2);
    uint32_t runs[2] = {0, 0};
    for (int i = 0; i < 20; i++) {
        set_cost(0, 0, 1000); /* whatever the runs of this test took */
        set_cost(1, 0, 1050);
        submit(i);
        for (int device = 0; device < 2; device++)
            runs[device] += run_one(device);
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
    for (int device = 0; device < 2; device++)
        set_cost(device, 0, 1000);
    for (int i = 0; i < 26; i++)
        submit(i);
    /* Two that left alone, and six full slots. Another image is as well off on either, the next where that
     * is. */
    cr_assert(worker_slots[0]->used == 4 && worker_slots[1]->used == 4);
    submit(26);
    int first = worker_slots[0]->used == 5 ? 0 : 1;
    submit(27);
    cr_assert_eq(worker_slots[first]->used, 5);
    cr_assert_eq(worker_slots[!first]->used, 4, "two images gather in two slots");
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
    cr_assert_gt(worker_slots[0]->costs[0].images, 0);
    cr_assert_gt(worker_slots[1]->costs[0].images, 0);
    cr_assert_eq(worker_slots[0]->costs[1].images, 0);
    assert_answered(0, 2);
    end_two();
}

Test(batcher_devices, a_model_goes_only_where_it_is_served)
{
    begin_two(4, 1);
    convoy_worker_slots_model(worker_slots[0], &p.models[1], false, NULL, 0);
    for (int i = 0; i < 30; i++)
        submit_for(i, 1, UINT64_MAX, false);
    cr_assert_eq(rows_of(0), 0);
    cr_assert_eq(rows_of(1), 13, "one that left alone and three full slots; the rest is parked");
    run_all();
    assert_answered(0, 30);
    end_two();
}

Test(batcher_devices, a_profiled_image_goes_where_a_slot_is_free)
{
    begin_two(2, 1);
    set_cost(0, 0, 1000);
    set_cost(1, 0, 900000);
    submit(0);
    submit(1);
    cr_assert_eq(worker_slots[0]->used, 2);
    submit_for(2, 0, UINT64_MAX, true);
    cr_assert_eq(rows_of(1), 1, "it waits for a slot though the other worker has one");
    run_all();
    assert_answered(0, 3);
    end_two();
}
