/* Monotonic time. All durations inside convoyd are microseconds from this clock. Any thread. */
#ifndef CONVOY_ENGINE_BASE_CLOCK_H
#define CONVOY_ENGINE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Microseconds since some fixed point in the past (CLOCK_MONOTONIC). */
static inline uint64_t convoy_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

/* The same in nanoseconds, for sums of durations that are mostly shorter than a microsecond. */
static inline uint64_t convoy_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
