/* The start of a process, while the machine's clock is set. clock_gettime() is the test's own. */
#include "server/metrics/process_sample.h"

#include <criterion/criterion.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static time_t set_by; /* seconds that the clock was set forward */

int clock_gettime(clockid_t clock, struct timespec *time);
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME)
        time->tv_sec += set_by;
    return result;
}

Test(process_sample, a_start_does_not_move_when_the_clock_is_set)
{
    struct convoy_process_sample before, after;
    cr_assert(convoy_process_sample(getpid(), &before));
    set_by = 3600;
    bool read = convoy_process_sample(getpid(), &after);
    set_by = 0;
    cr_assert(read);
    cr_assert_eq(after.start_seconds, before.start_seconds, "%.9f became %.9f", before.start_seconds,
                 after.start_seconds);
}
