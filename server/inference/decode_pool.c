#include "server/inference/decode_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The cost of decoding is averaged over the last images of about this size together: some twenty photos. By
 * size, so that a burst of small images, whose time says little about a photo's, changes little. */
#define MEMORY 100e6

/* The assumed cost of a unit until the first image is decoded: photos measured 3 to 6 ns on one core of two.
 * Without it, a burst of photos would be admitted that cannot be decoded in time. */
#define GUESS_US 0.004

struct convoy_decode_pool {
    pthread_mutex_t lock; /* all below */
    pthread_cond_t filled;
    bool stopping;
    uint64_t memory, memory_taken; /* the budget, and what the indices that are worked on take of it */
    uint64_t waiting_size;         /* of images that no thread has begun */
    double spent_us, spent_on;     /* recent decoding time, and the size decoded in that time */
    /* With indices that no thread has taken; the next one first. Those of `urgent` go before `jobs`. */
    struct convoy_list urgent, jobs;
    uint32_t count, running; /* threads: ever, and not joined yet */
    pthread_t threads[];
};

/* What index counts for: the images of a form are taken for equally large. */
static uint64_t share(const struct convoy_decode_job *job, uint32_t index)
{
    uint64_t each = job->size / job->count;
    return index == 0 ? job->size - each * (job->count - 1) : each;
}

/* An index that a thread works on. */
struct turn {
    struct convoy_decode_job *job;
    uint32_t index;
    uint64_t size, memory;
};

/* Under the lock: the first job of list whose memory is there; NULL when there is none. Of those that need
 * memory none overtakes another, so that a large one gets its turn. */
static struct convoy_decode_job *next_of(const struct convoy_decode_pool *pool, struct convoy_list *list)
{
    bool some_wait = false;
    convoy_list_for_each(at, following, list) {
        struct convoy_decode_job *job = convoy_list_entry(at, struct convoy_decode_job, link);
        bool fits = pool->memory_taken == 0 || pool->memory_taken + job->memory <= pool->memory;
        if (job->memory == 0 || (fits && !some_wait))
            return job;
        some_wait = true;
    }
    return NULL;
}

/* Under the lock: the next index in turn; false when there is none, or none whose memory is there. */
static bool take(struct convoy_decode_pool *pool, struct turn *turn)
{
    struct convoy_decode_job *job = next_of(pool, &pool->urgent);
    if (job == NULL)
        job = next_of(pool, &pool->jobs);
    if (job == NULL)
        return false;
    convoy_list_remove(&job->link);
    *turn = (struct turn){.job = job, .index = job->taken++, .memory = job->memory};
    turn->size = share(job, turn->index);
    pool->waiting_size -= turn->size;
    pool->memory_taken += turn->memory;
    if (job->taken < job->count)
        convoy_list_add_last(job->first ? &pool->urgent : &pool->jobs, &job->link);
    return true;
}

/* Under the lock. */
static bool is_empty(const struct convoy_decode_pool *pool)
{
    return convoy_list_empty(&pool->urgent) && convoy_list_empty(&pool->jobs);
}

/* Under the lock: threads that found no job whose memory was there, or whose turn it was, look again. */
static void look_again(struct convoy_decode_pool *pool)
{
    if (!is_empty(pool))
        pthread_cond_broadcast(&pool->filled);
}

/* Under the lock. */
static void learn(struct convoy_decode_pool *pool, uint64_t took_us, uint64_t size)
{
    if (took_us == 0 || size == 0)
        return;
    pool->spent_us += (double)took_us;
    pool->spent_on += (double)size;
    if (pool->spent_on > MEMORY) {
        pool->spent_us /= 2;
        pool->spent_on /= 2;
    }
}

static void *work(void *context)
{
    struct convoy_decode_pool *pool = context;
    struct turn turn;

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        if (take(pool, &turn)) {
            pthread_mutex_unlock(&pool->lock);
            uint64_t took_us = turn.job->work(turn.job, turn.index);
            pthread_mutex_lock(&pool->lock);
            learn(pool, took_us, turn.size);
            pool->memory_taken -= turn.memory;
            if (turn.memory > 0)
                look_again(pool);
        } else if (pool->stopping) {
            break;
        } else {
            pthread_cond_wait(&pool->filled, &pool->lock);
        }
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int convoy_decode_pool_start(uint32_t threads, uint64_t memory, struct convoy_decode_pool **result,
                             struct convoy_error *error)
{
    struct convoy_decode_pool *pool = calloc(1, sizeof *pool + threads * sizeof pool->threads[0]);

    if (pool == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the threads that decode images");
    pool->memory = memory;
    convoy_list_init(&pool->urgent);
    convoy_list_init(&pool->jobs);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->filled, NULL);
    for (; pool->count < threads; pool->count++, pool->running++) {
        int code = pthread_create(&pool->threads[pool->count], NULL, work, pool);
        if (code != 0) {
            convoy_decode_pool_stop(pool);
            return convoy_fail(error, -code, "cannot start a thread that decodes images: %s", strerror(code));
        }
        pthread_setname_np(pool->threads[pool->count], "convoyd-decode");
    }
    *result = pool;
    return 0;
}

/* Under the lock. */
static void add(struct convoy_decode_pool *pool, struct convoy_decode_job *job)
{
    job->taken = 0;
    pool->waiting_size += job->size;
    convoy_list_add_last(job->first ? &pool->urgent : &pool->jobs, &job->link);
    /* Several threads can work on a job of several images. */
    if (job->count > 1)
        pthread_cond_broadcast(&pool->filled);
    else
        pthread_cond_signal(&pool->filled);
}

void convoy_decode_pool_add(struct convoy_decode_pool *pool, struct convoy_decode_job *job)
{
    pthread_mutex_lock(&pool->lock);
    add(pool, job);
    pthread_mutex_unlock(&pool->lock);
}

bool convoy_decode_pool_try(struct convoy_decode_pool *pool, struct convoy_decode_job *job)
{
    pthread_mutex_lock(&pool->lock);
    bool goes_on = !pool->stopping;
    if (goes_on)
        add(pool, job);
    pthread_mutex_unlock(&pool->lock);
    return goes_on;
}

uint32_t convoy_decode_pool_withdraw(struct convoy_decode_pool *pool, struct convoy_decode_job *job)
{
    pthread_mutex_lock(&pool->lock);
    uint32_t first = job->taken;
    if (first < job->count) {
        for (; job->taken < job->count; job->taken++)
            pool->waiting_size -= share(job, job->taken);
        convoy_list_remove(&job->link);
        if (job->memory > 0)
            look_again(pool);
    }
    pthread_mutex_unlock(&pool->lock);
    return first;
}

struct handover {
    struct convoy_decode_pool *pool;
    struct convoy_decode_job *job;
};

static void hand_over(void *context)
{
    const struct handover *handover = context;

    convoy_decode_pool_add(handover->pool, handover->job);
}

bool convoy_decode_pool_suspend(struct convoy_decode_pool *pool, struct convoy_suspension *suspension,
                                struct convoy_decode_job *job)
{
    struct handover handover = {pool, job};

    return convoy_suspend(suspension, hand_over, &handover);
}

bool convoy_decode_pool_busy(struct convoy_decode_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    bool busy = pool->waiting_size > 0;
    pthread_mutex_unlock(&pool->lock);
    return busy;
}

uint64_t convoy_decode_pool_wait_us(struct convoy_decode_pool *pool, uint64_t size)
{
    pthread_mutex_lock(&pool->lock);
    double each_us = pool->spent_on > 0 ? pool->spent_us / pool->spent_on : GUESS_US;
    double us = pool->waiting_size > 0 ? (double)(pool->waiting_size + size) * each_us : 0;
    pthread_mutex_unlock(&pool->lock);
    return (uint64_t)(us / pool->count);
}

void convoy_decode_pool_end(struct convoy_decode_pool *pool)
{
    if (pool == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->filled);
    pthread_mutex_unlock(&pool->lock);
    while (pool->running > 0)
        pthread_join(pool->threads[--pool->running], NULL);
}

void convoy_decode_pool_stop(struct convoy_decode_pool *pool)
{
    if (pool == NULL)
        return;
    convoy_decode_pool_end(pool);
    pthread_cond_destroy(&pool->filled);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
