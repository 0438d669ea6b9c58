/* When the control loop is woken, and what other threads do meanwhile. The system call that arms the timer is
 * this program's own, so that a test can do something between the time that a thread wants and its arming. */
#include "engine/base/clock.h"
#include "server/batching/batcher_internal.h"
#include "tests/unit/server/batching/batcher_playground.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define FAR_US  600000000u /* no test runs for so long */
#define NEAR_US 300000u    /* a row is written in a much shorter time, also on a busy machine */
#define WAIT_MS 5000

/* Called once, instead of the next arming and before it. */
static void (*meanwhile)(void);
static int armings;

int timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
    void (*call)(void) = meanwhile;
    meanwhile = NULL;
    armings++;
    if (call != NULL)
        call();
    return (int)syscall(SYS_timerfd_settime, fd, flags, value, old);
}

static bool wakes(int limit_ms)
{
    struct pollfd timer = {.fd = convoy_batcher_timer(p.batcher), .events = POLLIN};
    return poll(&timer, 1, limit_ms) == 1;
}

/* One slot is in flight at a worker of one stream, the first that is opened later is the next. */
static uint32_t begin_busy(uint32_t max_delay_us)
{
    uint32_t slot;
    begin(4, 1, max_delay_us);
    submit(0);
    cr_assert_eq(take(&slot), 1);
    return slot;
}

/* An image whose deadline comes soon. */
static void submit_near(void)
{
    submit_for(2, 0, convoy_now_us() + NEAR_US, false);
}

static void finish(uint32_t slot)
{
    uint32_t next;
    answer(slot);
    collect();
    while (take(&next) > 0) {
        answer(next);
        collect();
    }
}

/* One thread plays both: under the lock it would wait for itself. */
Test(batcher_timer, of_two_threads_that_arm_at_once_the_earlier_time_counts, .timeout = 30)
{
    uint32_t slot = begin_busy(FAR_US);
    meanwhile = submit_near;
    submit_for(1, 1, convoy_now_us() + FAR_US, false);
    cr_assert_null(meanwhile);
    cr_assert(wakes(WAIT_MS), "the later time was armed last");
    finish(slot);
    assert_answered(0, 3);
    end();
}

Test(batcher_timer, a_loop_that_woke_is_woken_for_what_comes_later, .timeout = 30)
{
    uint32_t slot = begin_busy(FAR_US);
    for (int i = 1; i < 3; i++) {
        submit_for(i, 0, convoy_now_us() + NEAR_US, false);
        while (p.items[i].status != -ETIMEDOUT) {
            cr_assert(wakes(WAIT_MS), "time %d", i);
            convoy_batcher_tick(p.batcher);
        }
    }
    finish(slot);
    assert_answered(0, 1);
    end();
}

static void tick(void)
{
    convoy_batcher_tick(p.batcher);
}

Test(batcher_timer, a_loop_that_woke_before_the_arming_is_woken_again, .timeout = 30)
{
    uint32_t slot = begin_busy(NEAR_US), next;
    meanwhile = tick;
    submit(1);
    cr_assert_null(meanwhile);
    cr_assert(wakes(WAIT_MS));
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(take(&next), 1, "it was ripe and was not staged");
    answer(slot);
    answer(next);
    collect();
    assert_answered(0, 2);
    end();
}

Test(batcher_timer, nothing_is_armed_for_a_loop_that_wakes_earlier)
{
    uint32_t slot = begin_busy(FAR_US), next;
    armings = 0;
    submit(1);
    cr_assert_eq(armings, 1);
    submit(2);
    submit_for(3, 0, convoy_now_us() + FAR_US, false);
    cr_assert_eq(armings, 1);
    answer(slot);
    collect();
    cr_assert_eq(take(&next), 3);
    answer(next);
    collect();
    assert_answered(0, 4);
    end();
}

Test(batcher_timer, the_first_commit_to_a_slot_arms_the_timer)
{
    uint32_t slot = begin_busy(NEAR_US), next;
    submit(1);
    cr_assert(wakes(WAIT_MS));
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(take(&next), 1);
    answer(slot);
    answer(next);
    collect();
    assert_answered(0, 2);
    end();
}

Test(batcher_timer, the_commit_that_fills_a_slot_has_it_staged)
{
    uint32_t slot = begin_busy(FAR_US), next;
    for (int i = 1; i < 5; i++)
        submit(i);
    cr_assert_eq(take(&next), 4, "a full slot gathers");
    answer(slot);
    answer(next);
    collect();
    assert_answered(0, 5);
    end();
}
