/* The monotonic clock in seconds. Any thread. */
#ifndef CONVOY_CLIENT_CLOCK_H
#define CONVOY_CLIENT_CLOCK_H

#include <time.h>

/* Returns the time since an arbitrary start. */
double client_clock_now(void);

/* Converts a time or duration, at least 0, for system calls. */
struct timespec client_clock_timespec(double seconds);

/* Sleeps until the clock shows `when`, also across signals; returns at once if it is past. */
void client_clock_wait_until(double when);

#endif
