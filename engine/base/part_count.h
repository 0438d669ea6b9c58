/* A counter that all threads add to, in parts (thread_part.h), each on a cache line of its own. Relaxed
 * atomics: any thread adds and reads at any time. A read sees all additions that happened before it; so a
 * counter to which nothing negative is added never falls.
 *
 * Zero bytes are a counter of 0; aligned as its type says. */
#ifndef CONVOY_ENGINE_BASE_PART_COUNT_H
#define CONVOY_ENGINE_BASE_PART_COUNT_H

#include "engine/base/thread_part.h"

#include <stdatomic.h>
#include <stdint.h>

struct convoy_part_count {
    struct {
        _Alignas(64) _Atomic uint64_t value; /* modulo 2^64: it may have been taken from elsewhere */
    } parts[CONVOY_THREAD_PARTS];
};

/* Modulo 2^64: UINT64_MAX subtracts 1. */
static inline void convoy_part_count_add(struct convoy_part_count *count, uint64_t amount)
{
    atomic_fetch_add_explicit(&count->parts[convoy_thread_part()].value, amount, memory_order_relaxed);
}

/* The sum. Of a number that falls, too, and that others change meanwhile, it is what it was about now, and
 * not below 0. */
static inline uint64_t convoy_part_count_get(const struct convoy_part_count *count)
{
    uint64_t sum = 0;
    for (uint32_t part = 0; part < CONVOY_THREAD_PARTS; part++)
        sum += atomic_load_explicit(&count->parts[part].value, memory_order_relaxed);
    return (int64_t)sum < 0 ? 0 : sum;
}

#endif
