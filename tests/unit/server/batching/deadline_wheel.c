/* The timing wheel beside a list that is searched. */
#include "server/batching/deadline_wheel.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define SLICE_US (UINT64_C(1) << CONVOY_WHEEL_SLICE_SHIFT)
#define TURN_US  (SLICE_US * CONVOY_WHEEL_BUCKETS)
#define START_US UINT64_C(123456789012)

static struct convoy_deadline_wheel wheel;

/* Expires what is due; returns how many that were, each of which was due. */
static uint32_t expire(uint64_t now_us)
{
    struct convoy_list expired, *link;
    uint32_t n = 0;
    convoy_list_init(&expired);
    convoy_deadline_wheel_expire(&wheel, now_us, &expired);
    for (; (link = convoy_list_take_first(&expired)) != NULL; n++)
        cr_assert_leq(convoy_list_entry(link, struct convoy_deadline, link)->when_us, now_us, "too early");
    return n;
}

static uint64_t next_us(void)
{
    return convoy_deadline_wheel_next_us(&wheel);
}

Test(deadline_wheel, what_is_due_expires_and_nothing_else)
{
    struct convoy_deadline soon, same_slice, later;
    convoy_deadline_wheel_init(&wheel, START_US);
    cr_assert_eq(next_us(), UINT64_MAX);
    convoy_deadline_wheel_add(&wheel, &soon, START_US + 10);
    convoy_deadline_wheel_add(&wheel, &same_slice, START_US + 20);
    convoy_deadline_wheel_add(&wheel, &later, START_US + 10 * SLICE_US);
    cr_assert_eq(expire(START_US + 9), 0);
    cr_assert_eq(expire(START_US + 10), 1);
    cr_assert_leq(next_us(), START_US + 20 + SLICE_US);
    cr_assert_eq(expire(START_US + 20), 1);
    cr_assert_eq(expire(START_US + 9 * SLICE_US), 0);
    cr_assert_eq(expire(START_US + 11 * SLICE_US), 1);
    cr_assert_eq(next_us(), UINT64_MAX);
}

Test(deadline_wheel, a_deadline_that_has_passed_expires_at_once)
{
    struct convoy_deadline deadline;
    convoy_deadline_wheel_init(&wheel, START_US);
    cr_assert_eq(expire(START_US + 5 * SLICE_US), 0);
    convoy_deadline_wheel_add(&wheel, &deadline, START_US);
    cr_assert_leq(next_us(), START_US + 6 * SLICE_US);
    cr_assert_eq(expire(START_US + 5 * SLICE_US), 1);
}

Test(deadline_wheel, a_deadline_beyond_a_turn_waits_for_its_own)
{
    struct convoy_deadline deadline;
    convoy_deadline_wheel_init(&wheel, START_US);
    convoy_deadline_wheel_add(&wheel, &deadline, START_US + 3 * TURN_US);
    for (uint64_t now = START_US; now < START_US + 3 * TURN_US; now += TURN_US / 7)
        cr_assert_eq(expire(now), 0);
    cr_assert_eq(expire(START_US + 3 * TURN_US + 1), 1);
}

Test(deadline_wheel, after_a_pause_longer_than_a_turn_all_expire)
{
    struct convoy_deadline deadlines[100];
    convoy_deadline_wheel_init(&wheel, START_US);
    for (uint32_t i = 0; i < 100; i++)
        convoy_deadline_wheel_add(&wheel, &deadlines[i], START_US + i * TURN_US / 60);
    cr_assert_eq(expire(START_US + 5 * TURN_US), 100);
    cr_assert_eq(next_us(), UINT64_MAX);
}

Test(deadline_wheel, as_a_search_would_have_it)
{
    enum { N = 2000 };
    static struct convoy_deadline deadlines[N];
    static bool in[N];
    uint64_t now = START_US;
    uint32_t held = 0;
    srand(7);
    convoy_deadline_wheel_init(&wheel, now);
    for (int round = 0; round < 200000; round++) {
        uint32_t i = (uint32_t)rand() % N;
        if (in[i] && rand() % 2) {
            convoy_list_remove(&deadlines[i].link);
            in[i] = false;
            held--;
        } else if (!in[i]) {
            uint64_t far = rand() % 4 == 0 ? 2 * TURN_US : 50 * SLICE_US;
            convoy_deadline_wheel_add(&wheel, &deadlines[i], now + (uint64_t)rand() % far);
            in[i] = true;
            held++;
        }
        if (round % 20 != 0)
            continue;
        /* Waiting until next_us() misses nothing by more than a slice. */
        uint64_t next = next_us();
        for (uint32_t k = 0; k < N; k++)
            cr_assert(!in[k] || next <= (deadlines[k].when_us > now ? deadlines[k].when_us : now) + SLICE_US);
        now += (uint64_t)rand() % (rand() % 500 == 0 ? 2 * TURN_US : 3 * SLICE_US);
        uint32_t due = 0;
        for (uint32_t k = 0; k < N; k++)
            if (in[k] && deadlines[k].when_us <= now) {
                in[k] = false;
                due++;
            }
        cr_assert_eq(expire(now), due);
        held -= due;
    }
    cr_assert_gt(held, 0);
}
