#include "engine/base/thread_part.h"

#include <stdatomic.h>

uint32_t convoy_thread_part(void)
{
    static _Atomic uint32_t threads;
    static _Thread_local uint32_t mine; /* plus 1; 0: none yet */
    if (mine == 0)
        mine = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % CONVOY_THREAD_PARTS + 1;
    return mine - 1;
}
