/* The pool of threads that decode: every index once, jobs in turn. */
#include "server/decode_pool.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#define JOBS  40
#define COUNT 25

struct counted {
    struct convoy_decode_job job;
    atomic_int seen[COUNT];
};

static void count(struct convoy_decode_job *job, uint32_t index)
{
    atomic_fetch_add(&((struct counted *)job)->seen[index], 1);
}

Test(decode_pool, works_on_every_index_once)
{
    static struct counted jobs[JOBS];
    struct convoy_decode_pool *pool;
    struct convoy_error error;

    cr_assert_eq(convoy_decode_pool_start(4, &pool, &error), 0, "%s", error.message);
    for (int i = 0; i < JOBS; i++) {
        jobs[i].job.count = (uint32_t)(i % COUNT) + 1;
        jobs[i].job.work = count;
        convoy_decode_pool_add(pool, &jobs[i].job);
    }
    convoy_decode_pool_stop(pool);
    for (int i = 0; i < JOBS; i++)
        for (int k = 0; k < COUNT; k++)
            cr_assert_eq(jobs[i].seen[k], k <= i % COUNT ? 1 : 0, "job %d, index %d", i, k);
}

/* One thread, held back at its first step until both jobs wait: then they take turns. */
static sem_t entered, go;
static char order[16];
static int steps;

struct lettered {
    struct convoy_decode_job job;
    char letter;
};

static void note(struct convoy_decode_job *job, uint32_t index)
{
    (void)index;
    if (steps == 0) {
        sem_post(&entered);
        sem_wait(&go);
    }
    order[steps++] = ((struct lettered *)job)->letter;
}

Test(decode_pool, jobs_take_turns)
{
    struct lettered many = {.job = {.count = 4, .work = note}, .letter = 'm'};
    struct lettered one = {.job = {.count = 1, .work = note}, .letter = 'o'};
    struct lettered two = {.job = {.count = 2, .work = note}, .letter = 't'};
    struct convoy_decode_pool *pool;
    struct convoy_error error;

    sem_init(&entered, 0, 0);
    sem_init(&go, 0, 0);
    cr_assert_eq(convoy_decode_pool_start(1, &pool, &error), 0, "%s", error.message);
    convoy_decode_pool_add(pool, &many.job);
    sem_wait(&entered);
    convoy_decode_pool_add(pool, &one.job);
    convoy_decode_pool_add(pool, &two.job);
    sem_post(&go);
    convoy_decode_pool_stop(pool);
    cr_assert_str_eq(order, "mmotmtm");
}

struct freed {
    struct convoy_decode_job job;
    atomic_int left;
};

static void free_last(struct convoy_decode_job *job, uint32_t index)
{
    struct freed *freed = (struct freed *)job;

    (void)index;
    if (atomic_fetch_sub(&freed->left, 1) == 1)
        free(freed);
}

/* The address sanitizer sees it when the pool touches a job that its last step has freed. */
Test(decode_pool, does_not_touch_a_job_after_its_last_step)
{
    struct convoy_decode_pool *pool;
    struct convoy_error error;

    cr_assert_eq(convoy_decode_pool_start(3, &pool, &error), 0, "%s", error.message);
    for (int i = 0; i < 500; i++) {
        struct freed *freed = calloc(1, sizeof *freed);
        freed->job.count = 3;
        freed->job.work = free_last;
        freed->left = 3;
        convoy_decode_pool_add(pool, &freed->job);
    }
    convoy_decode_pool_stop(pool);
}
