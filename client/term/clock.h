/* The client's clock: the monotonic one, in seconds. Any thread. */
#ifndef CONVOY_CLIENT_CLOCK_H
#define CONVOY_CLIENT_CLOCK_H

#include <time.h>

double convoy_clock_now(void);

/* The same moment, or duration, as what the system's calls take; seconds must not be negative. */
struct timespec convoy_clock_timespec(double seconds);

/* Sleeps until then, whatever signals come; a moment that is over is not waited for. */
void convoy_clock_wait_until(double when);

#endif
