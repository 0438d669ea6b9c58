#include "server/http/buffer_pool.h"

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
/* A buffer may be so many times as large as what is asked for: a small body is not to hold a large one. */
#define TOO_LARGE 4u
/* One that lay idle while so many others were given back makes room for another. */
#define IDLE_FOR 256u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static struct kept {
    void *buffer;
    size_t room;
    bool lent;
    uint64_t given_back; /* when, on the clock turns */
} kept[MOST];
static uint32_t count;
static size_t bytes_kept;
static uint64_t turns;

/* Under the lock. */
static void drop(struct kept *one)
{
    bytes_kept -= one->room;
    *one = kept[--count];
}

/* Under the lock; NULL when it is not one of them. */
static struct kept *find(const void *buffer)
{
    for (uint32_t i = 0; i < count; i++)
        if (kept[i].buffer == buffer)
            return &kept[i];
    return NULL;
}

void *convoy_buffer_pool_kept(size_t bytes)
{
    struct kept *best = NULL;
    void *buffer = NULL;

    if (bytes < LEAST)
        return NULL;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++)
        if (!kept[i].lent && kept[i].room >= bytes && kept[i].room / TOO_LARGE <= bytes &&
            (best == NULL || kept[i].room < best->room))
            best = &kept[i];
    if (best != NULL) {
        best->lent = true;
        buffer = best->buffer;
        ASAN_UNPOISON_MEMORY_REGION(buffer, best->room);
    }
    pthread_mutex_unlock(&lock);
    return buffer;
}

void *convoy_buffer_pool_new(size_t bytes)
{
    void *buffer = convoy_buffer_pool_kept(bytes);
    return buffer != NULL ? buffer : malloc(bytes);
}

void *convoy_buffer_pool_grow(void *buffer, size_t bytes)
{
    size_t room = buffer == NULL ? 0 : malloc_usable_size(buffer);

    if (buffer != NULL && room >= bytes)
        return buffer;
    if (room >= LEAST) { /* one that is lent may move, and is the caller's then */
        pthread_mutex_lock(&lock);
        struct kept *one = find(buffer);
        if (one != NULL)
            drop(one);
        pthread_mutex_unlock(&lock);
    }
    return realloc(buffer, bytes);
}

/* Under the lock: those that lay idle for long go, until there is room; fills freed with them. */
static uint32_t make_room(size_t room, void **freed)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < count && (count == MOST || bytes_kept > CONVOY_BUFFER_POOL_BYTES - room);) {
        if (kept[i].lent || turns - kept[i].given_back < IDLE_FOR) {
            i++;
            continue;
        }
        ASAN_UNPOISON_MEMORY_REGION(kept[i].buffer, kept[i].room);
        freed[n++] = kept[i].buffer;
        drop(&kept[i]);
    }
    return n;
}

/* Under the lock: whether it stays. */
static bool keep(void *buffer, size_t room, void **freed, uint32_t *n)
{
    struct kept *one = find(buffer);

    turns++;
    *n = 0;
    if (one == NULL && room <= CONVOY_BUFFER_POOL_BYTES) {
        *n = make_room(room, freed);
        if (count < MOST && bytes_kept <= CONVOY_BUFFER_POOL_BYTES - room) {
            one = &kept[count++];
            *one = (struct kept){.buffer = buffer, .room = room};
            bytes_kept += room;
        }
    }
    if (one == NULL)
        return false;
    one->lent = false;
    one->given_back = turns;
    ASAN_POISON_MEMORY_REGION(buffer, room);
    return true;
}

void convoy_buffer_pool_free(void *buffer)
{
    size_t room = buffer == NULL ? 0 : malloc_usable_size(buffer);
    void *freed[MOST];
    uint32_t n = 0;

    if (room >= LEAST) {
        pthread_mutex_lock(&lock);
        bool stays = keep(buffer, room, freed, &n);
        pthread_mutex_unlock(&lock);
        if (stays)
            buffer = NULL;
    }
    for (uint32_t i = 0; i < n; i++)
        free(freed[i]);
    free(buffer);
}
