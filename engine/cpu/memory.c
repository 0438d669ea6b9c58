#include "engine/cpu/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)

#ifdef __SANITIZE_ADDRESS__ /* which knows the bounds of what comes from malloc alone */

static void *map(size_t bytes)
{
    void *memory = NULL;
    return posix_memalign(&memory, HUGE_BYTES, bytes) == 0 ? memory : NULL;
}

static void unmap(void *memory, size_t bytes)
{
    (void)bytes;
    free(memory);
}

#else

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* At a multiple of HUGE_BYTES. */
static void *map(size_t bytes)
{
    size_t wanted = whole_pages(bytes);
    if (bytes > SIZE_MAX / 2)
        return NULL;
    char *memory =
        mmap(NULL, wanted + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    size_t before = (HUGE_BYTES - (uintptr_t)memory % HUGE_BYTES) % HUGE_BYTES;
    if (before > 0)
        munmap(memory, before);
    munmap(memory + before + wanted, HUGE_BYTES - before);
    return memory + before;
}

static void unmap(void *memory, size_t bytes)
{
    munmap(memory, whole_pages(bytes));
}

#endif

void *convoy_cpu_allocate(size_t bytes)
{
    if (bytes < HUGE_BYTES)
        return aligned_alloc(64, bytes);
    void *memory = map(bytes);
    if (memory != NULL) /* where the kernel refuses, pages are small */
        (void)madvise(memory, bytes / HUGE_BYTES * HUGE_BYTES, MADV_HUGEPAGE);
    return memory;
}

void convoy_cpu_free(void *memory, size_t bytes)
{
    if (memory != NULL && bytes >= HUGE_BYTES)
        unmap(memory, bytes);
    else
        free(memory);
}
