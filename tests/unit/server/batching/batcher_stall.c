/* What is a hang: how long slots may be without progress. The time is the test's own. */
#include "tests/unit/server/batching/batcher_playground.h"

#include "engine/base/clock.h"

#include <inttypes.h>

#define HANG    2000000u
#define UNKNOWN 60000000u

static struct convoy_stall stall_at(uint64_t now_us)
{
    struct convoy_stall stall;
    convoy_worker_slots_stall(p.worker_slots, now_us, HANG, UNKNOWN, &stall);
    return stall;
}

/* Three images are under way, in two slots; returns when the first left, or a little later. */
static uint64_t begin_with_three(void)
{
    begin(4, 1, 0);
    for (int i = 0; i < 3; i++)
        submit(i);
    return convoy_now_us();
}

Test(batcher_stall, nothing_in_flight_is_no_hang)
{
    begin(4, 1, 0);
    cr_assert_not(stall_at(convoy_now_us() + 10 * UNKNOWN).hangs);
    end();
}

Test(batcher_stall, a_model_that_never_ran_has_the_loading_limit)
{
    uint64_t now = begin_with_three();
    cr_assert_not(stall_at(now + UNKNOWN - 1000000).hangs);
    cr_assert(stall_at(now + UNKNOWN + 1000).hangs);
    cr_assert_eq(stall_at(now).limit_us, UNKNOWN);
    end();
}

Test(batcher_stall, the_first_run_at_loading_is_an_estimate)
{
    uint64_t now = begin_with_three();
    convoy_worker_slots_first_run(p.worker_slots, &p.models[0], 1000000);
    /* One stream: the longer of the two slots that left, each of one image. */
    cr_assert_eq(stall_at(now).limit_us, HANG + 5 * 1000000);
    cr_assert_not(stall_at(now + HANG + 5 * 1000000 - 100000).hangs);
    cr_assert(stall_at(now + HANG + 5 * 1000000 + 1000).hangs);
    convoy_batcher_model_new(p.batcher, &p.models[1]);
    cr_assert_eq(stall_at(now).limit_us, HANG + 5 * 1000000, "another model's estimate was forgotten");
    convoy_worker_slots_first_run(p.worker_slots, &p.models[0], UINT64_C(1000000000000));
    cr_assert_eq(stall_at(now).limit_us, UNKNOWN, "a worker claimed %" PRIu64 " us", stall_at(now).limit_us);
    end();
}

Test(batcher_stall, what_images_cost_lately_is_the_better_estimate)
{
    uint32_t slot;
    begin_with_three();
    convoy_worker_slots_first_run(p.worker_slots, &p.models[0], 1000000000);
    cr_assert_eq(take(&slot), 1);
    answer(slot);
    collect();
    cr_assert_lt(stall_at(convoy_now_us()).limit_us, HANG + 20 * HANG);
    cr_assert(stall_at(convoy_now_us() + 30 * HANG).hangs);
    end();
}

Test(batcher_stall, progress_is_no_hang_but_not_for_ever)
{
    uint64_t now = begin_with_three(), limit = HANG + 5 * 1000;
    convoy_worker_slots_first_run(p.worker_slots, &p.models[0], 1000);
    for (int i = 1; i < 10; i++) {
        convoy_channel_progress(&p.worker);
        cr_assert_not(stall_at(now + (uint64_t)i * limit - 1000).hangs, "after %d limits", i);
    }
    for (int i = 10; i < 12; i++) {
        convoy_channel_progress(&p.worker);
        (void)stall_at(now + (uint64_t)i * limit);
    }
    cr_assert(stall_at(now + 11 * limit).hangs, "it reports progress and completes nothing");
    end();
}

Test(batcher_stall, progress_that_ends_is_a_hang_a_limit_later)
{
    uint64_t now = begin_with_three(), limit = HANG + 5 * 1000;
    convoy_worker_slots_first_run(p.worker_slots, &p.models[0], 1000);
    convoy_channel_progress(&p.worker);
    cr_assert_not(stall_at(now + limit - 1000).hangs);
    cr_assert_not(stall_at(now + 2 * limit - 2000).hangs);
    cr_assert(stall_at(now + 2 * limit).hangs);
    end();
}

/* One slot is never completed, while others come and go. */
Test(batcher_stall, a_slot_that_others_pass_by_for_ever_is_a_hang)
{
    enum { SLOTS = 4 };
    uint32_t stuck, slot;
    begin(SLOTS, 2, 0);
    convoy_worker_slots_first_run(p.worker_slots, &p.models[0], 1000);
    submit(0);
    cr_assert_eq(take(&stuck), 1);
    for (int i = 1; i <= SLOTS; i++) {
        cr_assert_eq(stall_at(convoy_now_us() + HANG).passed_us, 0, "after %d others it may still wait",
                     i - 1);
        submit(i);
        cr_assert_eq(take(&slot), 1);
        cr_assert_neq(slot, stuck);
        answer(slot);
        collect();
    }
    uint64_t passed_us = convoy_now_us();
    for (int i = SLOTS + 1; i < 100; i++) { /* and others are completed all the time */
        submit(i);
        cr_assert_eq(take(&slot), 1);
        answer(slot);
        collect();
    }
    cr_assert_not(stall_at(passed_us + HANG).hangs);
    struct convoy_stall stall = stall_at(passed_us + 5 * HANG);
    cr_assert(stall.hangs);
    cr_assert_geq(stall.passed_us, 4 * stall.limit_us);
    answer(stuck);
    collect();
    cr_assert_not(stall_at(passed_us + 5 * HANG).hangs);
    end();
}

Test(batcher_stall, forgiven_when_the_front_itself_was_stopped)
{
    uint64_t now = begin_with_three();
    convoy_worker_slots_first_run(p.worker_slots, &p.models[0], 1000);
    cr_assert(stall_at(now + 2 * HANG).hangs);
    while (convoy_now_us() < now + 10)
        ; /* so that what was before can be told from what is after */
    uint64_t before = convoy_now_us();
    convoy_worker_slots_forgive(p.worker_slots);
    cr_assert_leq(stall_at(before + HANG).quiet_us, HANG);
    cr_assert_leq(stall_at(before + HANG).since_us, HANG);
    end();
}
