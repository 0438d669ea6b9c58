#include "engine/cpu/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_BYTES ((size_t)2 << 20)

void *convoy_cpu_allocate(size_t bytes)
{
    if (bytes < HUGE_BYTES)
        return aligned_alloc(64, bytes);
    void *memory = NULL;
    if (posix_memalign(&memory, HUGE_BYTES, bytes) != 0)
        return NULL;
    /* Where the kernel refuses, pages are small. */
    (void)madvise(memory, bytes / HUGE_BYTES * HUGE_BYTES, MADV_HUGEPAGE);
    return memory;
}
