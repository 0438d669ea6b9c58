/* Flat combining (Hendler, Incze, Shavit and Tzafrir, 2010): short work under the batcher's lock is done by
 * the thread that has it, for all threads that ask meanwhile. On 32 cores HTTP threads that took the lock
 * themselves slept 1.5 times a request, and each turn began with fetching the batcher's cache lines from
 * another core. */
#include "server/batching/batcher_internal.h"

#include "engine/base/pause.h"

/* How often a thread looks whether its work is done before it sleeps for the lock: some 10 us, longer than a
 * turn takes. */
#define LOOKS     300u
#define TRY_EVERY 8u /* looks */

void convoy_batcher_do_asked(struct convoy_batcher *batcher)
{
    if (atomic_load_explicit(&batcher->asked, memory_order_relaxed) == NULL)
        return;
    struct batcher_work *newest = atomic_exchange_explicit(&batcher->asked, NULL, memory_order_acquire);
    struct batcher_work *oldest = NULL;
    while (newest != NULL) {
        struct batcher_work *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct batcher_work *next = oldest->next; /* it may be gone as soon as it is done */
        oldest->run(oldest);
        atomic_store_explicit(&oldest->done, true, memory_order_release);
        oldest = next;
    }
}

static void ask(struct convoy_batcher *batcher, struct batcher_work *work)
{
    struct batcher_work *newest = atomic_load_explicit(&batcher->asked, memory_order_relaxed);
    do
        work->next = newest;
    while (!atomic_compare_exchange_weak_explicit(&batcher->asked, &newest, work, memory_order_release,
                                                  memory_order_relaxed));
}

void convoy_batcher_run(struct convoy_batcher *batcher, struct batcher_work *work)
{
    if (pthread_mutex_trylock(&batcher->lock) == 0) {
        work->run(work);
        convoy_batcher_unlock(batcher);
        return;
    }
    atomic_store_explicit(&work->done, false, memory_order_relaxed);
    ask(batcher, work);
    for (uint32_t look = 1; look <= LOOKS; look++) {
        if (atomic_load_explicit(&work->done, memory_order_acquire))
            return;
        convoy_pause();
        if (look % TRY_EVERY == 0 && pthread_mutex_trylock(&batcher->lock) == 0) {
            convoy_batcher_unlock(batcher);
            return;
        }
    }
    pthread_mutex_lock(&batcher->lock);
    convoy_batcher_unlock(batcher); /* which does what is still asked */
}
