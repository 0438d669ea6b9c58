/* The client's clock: the monotonic one, in seconds. Any thread. */
#ifndef CONVOY_CLIENT_CLOCK_H
#define CONVOY_CLIENT_CLOCK_H

#include <time.h>

double client_clock_now(void);

/* The same moment, or duration, as what the system's calls take; seconds must not be negative. */
struct timespec client_clock_timespec(double seconds);

/* Sleeps until then, whatever signals come; a moment that is over is not waited for. */
void client_clock_wait_until(double when);

#endif
