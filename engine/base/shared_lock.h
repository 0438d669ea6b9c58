/* A lock that many threads take to read, with each request, and few to write: a mutex for each part
 * (thread_part.h). Who reads locks the part of its thread, which no other core has in its cache; who writes
 * locks them all, in order, for some microseconds.
 *
 * A thread that reads must not lock it again. What a thread locked it unlocks itself. */
#ifndef CONVOY_ENGINE_BASE_SHARED_LOCK_H
#define CONVOY_ENGINE_BASE_SHARED_LOCK_H

#include "engine/base/thread_part.h"

#include <pthread.h>

/* What it is in must be allocated with its alignment. */
struct convoy_shared_lock {
    struct {
        _Alignas(64) pthread_mutex_t mutex;
    } parts[CONVOY_THREAD_PARTS];
};

void convoy_shared_lock_init(struct convoy_shared_lock *lock);
void convoy_shared_lock_destroy(struct convoy_shared_lock *lock);

void convoy_shared_lock_read(struct convoy_shared_lock *lock);
void convoy_shared_lock_end_read(struct convoy_shared_lock *lock);

void convoy_shared_lock_write(struct convoy_shared_lock *lock);
void convoy_shared_lock_end_write(struct convoy_shared_lock *lock);

#endif
