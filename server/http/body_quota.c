#include "server/http/body_quota.h"

#include <stdatomic.h>

static atomic_size_t bodies, answers;

static bool take(atomic_size_t *taken, size_t bytes, size_t limit)
{
    size_t before = atomic_fetch_add_explicit(taken, bytes, memory_order_relaxed);
    if (before <= limit && bytes <= limit - before)
        return true;
    atomic_fetch_sub_explicit(taken, bytes, memory_order_relaxed);
    return false;
}

bool convoy_body_quota_take(size_t bytes, size_t limit)
{
    return take(&bodies, bytes, limit);
}

void convoy_body_quota_give(size_t bytes)
{
    atomic_fetch_sub_explicit(&bodies, bytes, memory_order_relaxed);
}

bool convoy_answer_quota_take(size_t bytes, size_t limit)
{
    return take(&answers, bytes, limit);
}

void convoy_answer_quota_give(size_t bytes)
{
    atomic_fetch_sub_explicit(&answers, bytes, memory_order_relaxed);
}
