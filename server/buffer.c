#include "server/buffer.h"

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size)   ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

/* Below, memory comes from the heap, whose pages mostly stay. */
#define LEAST 131072u
#define MOST  256u /* buffers */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static struct kept {
    void *buffer;
    size_t room;
} kept[MOST];
static uint32_t count;
static size_t bytes_kept;

void *convoy_buffer_kept(size_t bytes)
{
    struct kept best = {NULL, SIZE_MAX};
    uint32_t at = 0;

    if (bytes < LEAST)
        return NULL;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++)
        if (kept[i].room >= bytes && kept[i].room < best.room)
            best = kept[at = i];
    if (best.buffer != NULL) {
        kept[at] = kept[--count];
        bytes_kept -= best.room;
    }
    pthread_mutex_unlock(&lock);
    if (best.buffer != NULL)
        ASAN_UNPOISON_MEMORY_REGION(best.buffer, best.room);
    return best.buffer;
}

void *convoy_buffer_new(size_t bytes)
{
    void *buffer = convoy_buffer_kept(bytes);
    return buffer != NULL ? buffer : malloc(bytes);
}

void *convoy_buffer_grow(void *buffer, size_t bytes)
{
    if (buffer != NULL && malloc_usable_size(buffer) >= bytes)
        return buffer;
    return realloc(buffer, bytes);
}

void convoy_buffer_free(void *buffer)
{
    size_t room = buffer == NULL ? 0 : malloc_usable_size(buffer);
    bool keep = false;

    if (room >= LEAST) {
        ASAN_POISON_MEMORY_REGION(buffer, room);
        pthread_mutex_lock(&lock);
        keep = count < MOST && room <= CONVOY_BUFFERS_KEPT - bytes_kept;
        if (keep) {
            kept[count++] = (struct kept){buffer, room};
            bytes_kept += room;
        }
        pthread_mutex_unlock(&lock);
        if (keep)
            return;
        ASAN_UNPOISON_MEMORY_REGION(buffer, room);
    }
    free(buffer);
}
