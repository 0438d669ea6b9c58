#include "client/term/clock.h"

#include <errno.h>

double convoy_clock_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

struct timespec convoy_clock_timespec(double seconds)
{
    time_t whole = (time_t)seconds;
    return (struct timespec){whole, (long)((seconds - (double)whole) * 1e9)};
}

void convoy_clock_wait_until(double when)
{
    struct timespec time = convoy_clock_timespec(when);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        ;
}
