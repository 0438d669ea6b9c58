/* Rows that a thread holds back, to commit them together. */
#include "tests/unit/server/batching/batcher_playground.h"

#include <errno.h>
#include <pthread.h>

/* Up to so many images of 64 bytes, which is more than is held. */
static void begin_large(void)
{
    begin(4, 1, 1000000);
    set_limits(16, 1000000, 500);
}

Test(batcher_hold, what_is_held_leaves_together)
{
    uint32_t slot;
    begin(4, 1, 1000000);
    convoy_batcher_hold();
    submit(0);
    submit(1);
    submit(2);
    cr_assert_eq(take(&slot), 0, "it left before it was let go");
    convoy_batcher_let_go();
    cr_assert_eq(take(&slot), 3);
    answer(slot);
    collect();
    assert_answered(0, 3);
    end();
}

Test(batcher_hold, nothing_is_held_afterwards)
{
    uint32_t slot;
    begin(4, 2, 1000000);
    convoy_batcher_hold();
    convoy_batcher_let_go();
    submit(0);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    end();
}

Test(batcher_hold, a_full_slot_and_the_next_are_let_go_together)
{
    uint32_t slot;
    begin(4, 2, 1000000);
    convoy_batcher_hold();
    for (int i = 0; i < 6; i++)
        submit(i);
    convoy_batcher_let_go();
    cr_assert_eq(take(&slot), 4);
    answer(slot);
    cr_assert_eq(take(&slot), 2);
    answer(slot);
    collect();
    assert_answered(0, 6);
    end();
}

/* Slots of two models take turns. */
Test(batcher_hold, rows_of_no_more_than_eight_slots_are_held)
{
    uint32_t slot, rows = 0, taken;
    begin_large();
    convoy_batcher_hold();
    for (int i = 0; i < 7; i++)
        submit_for(i, i % 2, UINT64_MAX, false);
    cr_assert_eq(take(&slot), 0);
    submit_for(7, 1, UINT64_MAX, false);
    while ((taken = take(&slot)) > 0) {
        rows += taken;
        answer(slot);
        collect();
    }
    convoy_batcher_let_go();
    cr_assert_eq(rows, 8, "%u rows left", rows);
    assert_answered(0, 8);
    end();
}

Test(batcher_hold, three_rows_where_there_are_many_cores)
{
    uint32_t slot;
    begin_large();
    convoy_batcher_hold_by_cores(8);
    convoy_batcher_hold();
    submit(0);
    submit(1);
    cr_assert_eq(take(&slot), 0);
    submit(2);
    cr_assert_eq(take(&slot), 3);
    answer(slot);
    collect();
    submit(3);
    cr_assert_eq(take(&slot), 0, "it holds again");
    convoy_batcher_let_go();
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(0, 4);
    end();
}

/* With fewer cores many more, but not any number. */
Test(batcher_hold, thirty_two_rows_where_there_are_few_cores)
{
    uint32_t slot;
    slot_bytes = output_bytes = UINT64_C(64) * 40;
    begin(4, 1, 1000000);
    set_limits(40, 1000000, 500);
    convoy_batcher_hold_by_cores(7);
    convoy_batcher_hold();
    for (int i = 0; i < 31; i++)
        submit(i);
    cr_assert_eq(take(&slot), 0);
    submit(31);
    cr_assert_eq(take(&slot), 32);
    answer(slot);
    collect();
    convoy_batcher_let_go();
    assert_answered(0, 32);
    end();
}

static void *submit_elsewhere(void *context)
{
    submit(*(const int *)context);
    return NULL;
}

/* On a thread that holds nothing. */
static void elsewhere(int index)
{
    pthread_t other;
    pthread_create(&other, NULL, submit_elsewhere, &index);
    pthread_join(other, NULL);
}

Test(batcher_hold, each_thread_holds_its_own)
{
    uint32_t slot;
    begin(4, 2, 1000000);
    convoy_batcher_hold();
    submit_for(0, 1, UINT64_MAX, false); /* in a slot of its own */
    elsewhere(1);
    cr_assert_eq(take(&slot), 1);
    cr_assert_eq(convoy_channel_slot(&p.worker, slot)->model, 0, "that of the other thread");
    answer(slot);
    convoy_batcher_let_go();
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    assert_answered(0, 2);
    end();
}

Test(batcher_hold, a_slot_that_could_leave_takes_no_more_rows)
{
    uint32_t slot;
    begin(4, 2, 1000000);
    convoy_batcher_hold();
    submit(0);
    elsewhere(1); /* beside the row that is held */
    cr_assert_eq(take(&slot), 0);
    elsewhere(2);
    cr_assert_eq(take(&slot), 1, "it waits for what another thread holds");
    cr_assert_eq(convoy_channel_rows(&p.worker, slot)[0], 2);
    answer(slot);
    convoy_batcher_let_go();
    cr_assert_eq(take(&slot), 2);
    answer(slot);
    collect();
    assert_answered(0, 3);
    end();
}

Test(batcher_hold, the_last_slot_goes_on_gathering)
{
    uint32_t slot;
    begin(1, 1, 1000000);
    convoy_batcher_hold();
    submit(0);
    elsewhere(1);
    elsewhere(2);
    cr_assert_eq(take(&slot), 0, "a row is held");
    convoy_batcher_let_go();
    cr_assert_eq(take(&slot), 3, "a row was parked");
    answer(slot);
    collect();
    assert_answered(0, 3);
    end();
}

Test(batcher_hold, a_slot_for_which_its_worker_has_no_time_goes_on_gathering)
{
    uint32_t slot, first;
    begin(4, 1, 1000000);
    elsewhere(0);
    cr_assert_eq(take(&first), 1);
    convoy_batcher_hold();
    submit(1);
    elsewhere(2);
    elsewhere(3);
    convoy_batcher_let_go();
    answer(first);
    collect();
    cr_assert_eq(take(&slot), 3);
    answer(slot);
    collect();
    assert_answered(0, 4);
    end();
}

Test(batcher_hold, a_client_that_left_meanwhile_costs_nothing)
{
    uint32_t slot;
    begin(4, 1, 1000000);
    convoy_batcher_hold();
    submit(0);
    convoy_batcher_abandon(p.batcher, &p.groups[0]);
    convoy_batcher_tick(p.batcher);
    convoy_batcher_let_go();
    cr_assert_eq(take(&slot), 0, "it ran");
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(p.done[0], 1);
    cr_assert_eq(p.items[0].status, -ECONNABORTED);
    cr_assert_eq(convoy_batcher_pending(p.batcher), 0);
    end();
}
