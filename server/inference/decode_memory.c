#include "server/inference/decode_memory.h"

#include <pthread.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static uint64_t taken;

bool convoy_decode_memory_take(uint64_t bytes, uint64_t most, uint64_t deadline_us)
{
    struct timespec end = {.tv_sec = (time_t)(deadline_us / 1000000),
                           .tv_nsec = (long)(deadline_us % 1000000) * 1000};
    int code = 0;
    pthread_mutex_lock(&lock);
    while (taken > 0 && taken + bytes > most && code == 0)
        code = pthread_cond_clockwait(&given, &lock, CLOCK_MONOTONIC, &end);
    bool got = taken == 0 || taken + bytes <= most;
    if (got)
        taken += bytes;
    pthread_mutex_unlock(&lock);
    return got;
}

void convoy_decode_memory_give(uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    taken -= bytes;
    pthread_cond_broadcast(&given);
    pthread_mutex_unlock(&lock);
}
