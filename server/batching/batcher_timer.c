/* The timer that wakes the control loop. Under the lock it is only noted when the control loop is to wake;
 * the thread that gives up the lock arms the timer after that. Arming is a system call: measured under load
 * on two cores of a virtual machine it took 1 us on one path and 9 to 12 us on another, which is as long as a
 * thread looks for the lock before it sleeps. */
#include "server/batching/batcher_internal.h"

#include <sys/timerfd.h>

void convoy_batcher_wake_at(struct convoy_batcher *batcher, uint64_t when_us)
{
    if (when_us >= atomic_load_explicit(&batcher->timer_at, memory_order_relaxed))
        return;
    atomic_store(&batcher->timer_at, when_us);
    batcher->to_arm = true;
}

/* Two threads may arm at once, in either order. Each looks afterwards whether another time is wanted by now,
 * so the last one to arm has armed what is wanted. UINT64_MAX: the control loop woke meanwhile, which says
 * itself when to wake it again; a timer that was armed for it is for nothing. */
void convoy_batcher_arm(struct convoy_batcher *batcher)
{
    uint64_t at = atomic_load(&batcher->timer_at), armed;
    do {
        armed = at;
        if (armed == UINT64_MAX)
            return;
        struct itimerspec when = {
            .it_value = {.tv_sec = (time_t)(armed / 1000000u), .tv_nsec = (long)(armed % 1000000u) * 1000}};
        timerfd_settime(batcher->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    } while ((at = atomic_load(&batcher->timer_at)) != armed);
}

int convoy_batcher_timer(const struct convoy_batcher *batcher)
{
    return batcher->timer_fd;
}
