#include "engine/base/shared_lock.h"

void convoy_shared_lock_init(struct convoy_shared_lock *lock)
{
    for (uint32_t part = 0; part < CONVOY_THREAD_PARTS; part++)
        pthread_mutex_init(&lock->parts[part].mutex, NULL);
}

void convoy_shared_lock_destroy(struct convoy_shared_lock *lock)
{
    for (uint32_t part = 0; part < CONVOY_THREAD_PARTS; part++)
        pthread_mutex_destroy(&lock->parts[part].mutex);
}

void convoy_shared_lock_read(struct convoy_shared_lock *lock)
{
    pthread_mutex_lock(&lock->parts[convoy_thread_part()].mutex);
}

void convoy_shared_lock_end_read(struct convoy_shared_lock *lock)
{
    pthread_mutex_unlock(&lock->parts[convoy_thread_part()].mutex);
}

void convoy_shared_lock_write(struct convoy_shared_lock *lock)
{
    for (uint32_t part = 0; part < CONVOY_THREAD_PARTS; part++)
        pthread_mutex_lock(&lock->parts[part].mutex);
}

void convoy_shared_lock_end_write(struct convoy_shared_lock *lock)
{
    for (uint32_t part = CONVOY_THREAD_PARTS; part > 0; part--)
        pthread_mutex_unlock(&lock->parts[part - 1].mutex);
}
