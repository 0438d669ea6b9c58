/* The pool of threads that decode: every index once, jobs in turn, within a budget of memory. */
#include "server/inference/decode_pool.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define JOBS  40
#define COUNT 25
#define ROOM  100 /* the budget of memory */

struct counted {
    struct convoy_decode_job job;
    atomic_int seen[COUNT];
};

static uint64_t count(struct convoy_decode_job *job, uint32_t index)
{
    atomic_fetch_add(&((struct counted *)job)->seen[index], 1);
    return 0;
}

/* One thread; the first job holds it until the others are there. */
struct in_order {
    struct convoy_decode_job job;
    int place; /* when it was worked on */
};

static sem_t held, let_go, placed;
static atomic_int places;

static uint64_t hold(struct convoy_decode_job *job, uint32_t index)
{
    (void)job;
    (void)index;
    sem_post(&held);
    sem_wait(&let_go);
    return 0;
}

/* A pool of which one thread is held by the job, until let_go. */
static struct convoy_decode_pool *start_held(uint32_t threads, struct convoy_decode_job *holds)
{
    struct convoy_decode_pool *pool;
    struct convoy_error error;

    sem_init(&held, 0, 0);
    sem_init(&let_go, 0, 0);
    sem_init(&placed, 0, 0);
    cr_assert_eq(convoy_decode_pool_start(threads, ROOM, &pool, &error), 0, "%s", error.message);
    convoy_decode_pool_add(pool, holds);
    sem_wait(&held);
    return pool;
}

static uint64_t take_place(struct convoy_decode_job *job, uint32_t index)
{
    (void)index;
    ((struct in_order *)job)->place = ++places;
    return 0;
}

Test(decode_pool, what_goes_first_goes_before_all_that_wait_and_in_turn)
{
    static struct in_order jobs[5] = {{.job = {.count = 1, .work = hold}},
                                      {.job = {.count = 1, .work = take_place}},
                                      {.job = {.count = 1, .work = take_place}},
                                      {.job = {.count = 1, .work = take_place, .first = true}},
                                      {.job = {.count = 1, .work = take_place, .first = true}}};
    struct convoy_decode_pool *pool = start_held(1, &jobs[0].job);
    for (int i = 1; i < 5; i++)
        convoy_decode_pool_add(pool, &jobs[i].job);
    sem_post(&let_go);
    convoy_decode_pool_end(pool);
    cr_assert_eq(convoy_decode_pool_wait_us(pool, 1000), 0, "it may be asked still");
    convoy_decode_pool_stop(pool);
    for (int i = 1; i < 5; i++)
        cr_expect_eq(jobs[i].place, i > 2 ? i - 2 : i + 2, "job %d was number %d", i, jobs[i].place);
}

static uint64_t take_place_and_tell(struct convoy_decode_job *job, uint32_t index)
{
    take_place(job, index);
    sem_post(&placed);
    return 0;
}

/* The last two of three that need memory do not fit side by side, so that their order is told by their
 * places. */
Test(decode_pool, what_needs_memory_waits_for_it_in_turn_and_the_rest_goes_on, .timeout = 60)
{
    static struct in_order jobs[5] = {{.job = {.count = 1, .work = hold, .memory = 70}},
                                      {.job = {.count = 1, .work = take_place, .memory = 95}},
                                      {.job = {.count = 1, .work = take_place, .memory = 10}},
                                      {.job = {.count = 1, .work = take_place_and_tell}},
                                      {.job = {.count = 1, .work = take_place_and_tell}}};
    struct convoy_decode_pool *pool = start_held(2, &jobs[0].job);
    for (int i = 1; i < 5; i++)
        convoy_decode_pool_add(pool, &jobs[i].job);
    sem_wait(&placed);
    sem_wait(&placed);
    cr_expect(jobs[1].place == 0 && jobs[2].place == 0,
              "what does not fit runs, or what came later overtakes it");
    sem_post(&let_go);
    convoy_decode_pool_stop(pool);
    cr_expect_eq(jobs[1].place, 3);
    cr_expect_eq(jobs[2].place, 4);
}

Test(decode_pool, one_alone_is_let_in_whatever_memory_it_takes, .timeout = 60)
{
    static struct in_order jobs[2] = {{.job = {.count = 1, .work = take_place, .memory = 1000}},
                                      {.job = {.count = 1, .work = take_place, .memory = 1000}}};
    struct convoy_decode_pool *pool;
    struct convoy_error error;

    cr_assert_eq(convoy_decode_pool_start(2, ROOM, &pool, &error), 0, "%s", error.message);
    convoy_decode_pool_add(pool, &jobs[0].job);
    convoy_decode_pool_add(pool, &jobs[1].job);
    convoy_decode_pool_stop(pool);
    cr_expect_eq(jobs[0].place + jobs[1].place, 3);
}

/* Withdrawn while it waits for memory: it takes none, and the next one gets its turn. */
Test(decode_pool, what_is_withdrawn_needs_no_memory, .timeout = 60)
{
    static struct in_order jobs[4] = {{.job = {.count = 1, .work = hold, .memory = 70}},
                                      {.job = {.count = 1, .work = take_place, .memory = 40}},
                                      {.job = {.count = 1, .work = take_place_and_tell, .memory = 30}},
                                      {.job = {.count = 1, .work = take_place_and_tell}}};
    struct convoy_decode_pool *pool = start_held(2, &jobs[0].job);
    convoy_decode_pool_add(pool, &jobs[1].job);
    convoy_decode_pool_add(pool, &jobs[2].job);
    convoy_decode_pool_add(pool, &jobs[3].job);
    sem_wait(&placed); /* the other thread has looked at all, and is about to sleep */
    cr_assert_eq(convoy_decode_pool_withdraw(pool, &jobs[1].job), 0);
    sem_wait(&placed); /* beside the one that is held: it is its turn now */
    sem_post(&let_go);
    convoy_decode_pool_stop(pool);
    cr_expect_eq(jobs[1].place, 0);
}

Test(decode_pool, works_on_every_index_once)
{
    static struct counted jobs[JOBS];
    struct convoy_decode_pool *pool;
    struct convoy_error error;

    cr_assert_eq(convoy_decode_pool_start(4, ROOM, &pool, &error), 0, "%s", error.message);
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

static uint64_t note(struct convoy_decode_job *job, uint32_t index)
{
    (void)index;
    if (steps == 0) {
        sem_post(&entered);
        sem_wait(&go);
    }
    order[steps++] = ((struct lettered *)job)->letter;
    return 0;
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
    cr_assert_eq(convoy_decode_pool_start(1, ROOM, &pool, &error), 0, "%s", error.message);
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

static uint64_t free_last(struct convoy_decode_job *job, uint32_t index)
{
    struct freed *freed = (struct freed *)job;

    (void)index;
    if (atomic_fetch_sub(&freed->left, 1) == 1)
        free(freed);
    return 0;
}

/* The address sanitizer sees it when the pool touches a job that its last step has freed. */
Test(decode_pool, does_not_touch_a_job_after_its_last_step)
{
    struct convoy_decode_pool *pool;
    struct convoy_error error;

    cr_assert_eq(convoy_decode_pool_start(3, ROOM, &pool, &error), 0, "%s", error.message);
    for (int i = 0; i < 500; i++) {
        struct freed *freed = calloc(1, sizeof *freed);
        freed->job.count = 3;
        freed->job.work = free_last;
        freed->left = 3;
        convoy_decode_pool_add(pool, &freed->job);
    }
    convoy_decode_pool_stop(pool);
}

/* Each image takes what its test says; the last holds the thread back until the test has asked. */
struct timed {
    struct convoy_decode_job job;
    uint64_t us;
    bool holds;
};

static uint64_t take_time(struct convoy_decode_job *job, uint32_t index)
{
    struct timed *timed = (struct timed *)job;

    (void)index;
    if (timed->holds) {
        sem_post(&entered);
        sem_wait(&go);
    }
    return timed->us;
}

Test(decode_pool, says_how_long_a_newcomer_would_wait)
{
    struct timed known = {.job = {.count = 1, .size = 1000, .work = take_time}, .us = 500};
    struct timed passed_over = {.job = {.count = 1, .size = 1000, .work = take_time}, .us = 0};
    struct timed holds = {.job = {.count = 1, .size = 7, .work = take_time}, .holds = true};
    struct timed waits = {.job = {.count = 3, .size = 10001, .work = take_time}, .us = 500};
    struct convoy_decode_pool *pool;
    struct convoy_error error;

    sem_init(&entered, 0, 0);
    sem_init(&go, 0, 0);
    cr_assert_eq(convoy_decode_pool_start(1, ROOM, &pool, &error), 0, "%s", error.message);
    cr_assert_eq(convoy_decode_pool_wait_us(pool, 1000000), 0, "nothing waits");
    convoy_decode_pool_add(pool, &known.job); /* half a microsecond a unit */
    convoy_decode_pool_add(pool, &passed_over.job);
    convoy_decode_pool_add(pool, &holds.job);
    sem_wait(&entered);
    cr_assert_eq(convoy_decode_pool_wait_us(pool, 1000000), 0, "nothing waits: it would be begun at once");
    convoy_decode_pool_add(pool, &waits.job);
    cr_assert_eq(convoy_decode_pool_wait_us(pool, 999), 5500);
    sem_post(&go);
    convoy_decode_pool_stop(pool);
}

Test(decode_pool, nothing_is_taken_once_it_ends)
{
    struct convoy_decode_job holds = {.count = 1, .work = hold}, job = {.count = 1, .size = 5, .work = hold};
    struct convoy_decode_pool *pool = start_held(1, &holds);

    cr_assert_not(convoy_decode_pool_busy(pool), "what is worked on does not wait");
    cr_assert(convoy_decode_pool_try(pool, &job));
    cr_assert(convoy_decode_pool_busy(pool));
    cr_assert_eq(convoy_decode_pool_withdraw(pool, &job), 0);
    cr_assert_not(convoy_decode_pool_busy(pool));
    sem_post(&let_go);
    convoy_decode_pool_end(pool);
    cr_assert_not(convoy_decode_pool_try(pool, &job));
    convoy_decode_pool_stop(pool);
}
