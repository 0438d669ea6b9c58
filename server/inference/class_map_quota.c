#include "server/inference/class_map_quota.h"

#include <stdatomic.h>

static atomic_uint under_way;

bool convoy_class_map_take(void)
{
    if (atomic_fetch_add_explicit(&under_way, 1, memory_order_relaxed) < CONVOY_CLASS_MAP_REQUESTS)
        return true;
    convoy_class_map_give();
    return false;
}

void convoy_class_map_give(void)
{
    atomic_fetch_sub_explicit(&under_way, 1, memory_order_relaxed);
}
