/* When the control loop is woken, and what other threads do meanwhile. The system call that arms the timer is
 * this program's own, so that a test can do something between the time that a thread wants and its arming. */
#include "engine/base/clock.h"
#include "server/batching/batcher_internal.h"
#include "tests/unit/server/batching/batcher_playground.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
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

/* A row that gathers for a shorter time. */
static void submit_near(void)
{
    set_limits(4, NEAR_US, 500);
    submit(2);
}

/* One thread plays both: under the lock it would wait for itself. */
Test(batcher_timer, of_two_threads_that_arm_at_once_the_earlier_time_counts, .timeout = 30)
{
    uint32_t slot = begin_busy(FAR_US), next;
    meanwhile = submit_near;
    submit_for(1, 1, convoy_now_us() + FAR_US, false);
    cr_assert_null(meanwhile);
    cr_assert(wakes(WAIT_MS), "the later time was armed last");
    convoy_batcher_tick(p.batcher);
    answer(slot);
    collect();
    while (take(&next) > 0) {
        answer(next);
        collect();
    }
    assert_answered(0, 3);
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

/* ---- Commits to a slot that gathers ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool reserved, may_commit, committed;
} turn = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void set(bool *flag)
{
    pthread_mutex_lock(&turn.lock);
    *flag = true;
    pthread_cond_signal(&turn.changed);
    pthread_mutex_unlock(&turn.lock);
}

/* False when it is not set within WAIT_MS. */
static bool wait_for(const bool *flag)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_MS / 1000;
    int code = 0;
    pthread_mutex_lock(&turn.lock);
    while (!*flag && code == 0)
        code = pthread_cond_timedwait(&turn.changed, &turn.lock, &end);
    bool is_set = *flag;
    pthread_mutex_unlock(&turn.lock);
    return is_set;
}

/* Like an HTTP thread: writes a row, and commits it when it is told to. */
static void *commit_later(void *context)
{
    (void)context;
    convoy_batcher_hold();
    submit(2);
    set(&turn.reserved);
    wait_for(&turn.may_commit);
    convoy_batcher_let_go();
    set(&turn.committed);
    return NULL;
}

Test(batcher_timer, a_commit_to_a_slot_that_gathers_takes_no_lock, .timeout = 30)
{
    uint32_t slot = begin_busy(NEAR_US), next;
    pthread_t thread;
    submit(1); /* gathers: the timer is armed for it */
    cr_assert_eq(pthread_create(&thread, NULL, commit_later, NULL), 0);
    cr_assert(wait_for(&turn.reserved));
    pthread_mutex_lock(&p.batcher->lock);
    set(&turn.may_commit);
    bool committed = wait_for(&turn.committed);
    pthread_mutex_unlock(&p.batcher->lock);
    pthread_join(thread, NULL);
    cr_assert(committed, "it waited for the lock");
    cr_assert_eq(take(&next), 0, "it did not gather");
    cr_assert(wakes(WAIT_MS));
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(take(&next), 2, "it was ripe and was not staged");
    answer(slot);
    answer(next);
    collect();
    assert_answered(0, 3);
    end();
}

Test(batcher_timer, a_slot_whose_image_was_abandoned_before_the_commit_is_freed_when_it_is_ripe,
     .timeout = 30)
{
    uint32_t slot = begin_busy(NEAR_US), next;
    submit(1); /* gathers: the timer is armed for it */
    convoy_batcher_hold();
    submit_for(2, 1, UINT64_MAX, false);
    convoy_batcher_abandon(p.batcher, p.items[2].group);
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(p.items[2].status, -ECONNABORTED);
    convoy_batcher_let_go();
    while (convoy_worker_slots_waits_for(p.worker_slots, &p.models[1])) {
        cr_assert(wakes(WAIT_MS), "the slot is never freed");
        convoy_batcher_tick(p.batcher);
    }
    answer(slot);
    collect();
    while (take(&next) > 0) {
        answer(next);
        collect();
    }
    assert_answered(0, 2);
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

/* The slots of two models gather, and one is ripe long before the other: the timer that is armed for the
 * later one does not do for both. */
Test(batcher_timer, a_slot_that_is_ripe_earlier_arms_the_timer_again)
{
    uint32_t slot = begin_busy(FAR_US), next;
    submit_for(1, 1, UINT64_MAX, false);
    submit_near();
    cr_assert(wakes(WAIT_MS));
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(take(&next), 1);
    cr_assert_eq(convoy_channel_slot(&p.worker, next)->model, 0);
    answer(slot);
    answer(next);
    collect();
    while (take(&next) > 0) {
        answer(next);
        collect();
    }
    assert_answered(0, 3);
    end();
}
