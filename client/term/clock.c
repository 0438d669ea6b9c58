#include "client/term/clock.h"

#include <errno.h>

double client_clock_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

struct timespec client_clock_timespec(double seconds)
{
    time_t whole = (time_t)seconds;
    return (struct timespec){whole, (long)((seconds - (double)whole) * 1e9)};
}

void client_clock_wait_until(double when)
{
    struct timespec time = client_clock_timespec(when);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        ;
}
