#include "engine/base/log_limit.h"

#include "engine/base/clock.h"

#define PAUSE_US 1000000u

bool convoy_log_limit_pass(struct convoy_log_limit *limit, uint64_t *unwritten)
{
    uint64_t now_us = convoy_now_us();
    uint64_t next_us = atomic_load_explicit(&limit->next_us, memory_order_relaxed);

    if (now_us < next_us || !atomic_compare_exchange_strong(&limit->next_us, &next_us, now_us + PAUSE_US)) {
        atomic_fetch_add_explicit(&limit->unwritten, 1, memory_order_relaxed);
        return false;
    }
    *unwritten = atomic_exchange_explicit(&limit->unwritten, 0, memory_order_relaxed);
    return true;
}

uint64_t convoy_log_limit_take(struct convoy_log_limit *limit)
{
    /* Nearly always none: a look leaves the cache line with all threads. */
    if (atomic_load_explicit(&limit->unwritten, memory_order_relaxed) == 0)
        return 0;
    return atomic_exchange_explicit(&limit->unwritten, 0, memory_order_relaxed);
}

void convoy_log_limit_lost(struct convoy_log_limit *limit, uint64_t lines)
{
    atomic_fetch_add_explicit(&limit->unwritten, lines, memory_order_relaxed);
}
