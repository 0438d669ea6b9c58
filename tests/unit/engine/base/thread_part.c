/* Parts by thread, and what is kept in them: counters and the shared lock. */
#include "engine/base/part_count.h"
#include "engine/base/shared_lock.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <stdalign.h>

#define THREADS (CONVOY_THREAD_PARTS + 3) /* some share a part */

static struct convoy_part_count counter;
static struct convoy_shared_lock lock;

static void *ask(void *context)
{
    uint32_t *part = context;
    *part = convoy_thread_part();
    cr_assert_eq(convoy_thread_part(), *part, "it changed");
    return NULL;
}

static void on_threads(uint32_t count, void *(*run)(void *context), uint32_t results[])
{
    pthread_t threads[THREADS];
    for (uint32_t i = 0; i < count; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, run, &results[i]), 0);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

Test(thread_part, as_many_threads_as_parts_have_one_each)
{
    uint32_t parts[CONVOY_THREAD_PARTS];
    bool taken[CONVOY_THREAD_PARTS] = {0};
    on_threads(CONVOY_THREAD_PARTS, ask, parts);
    for (uint32_t i = 0; i < CONVOY_THREAD_PARTS; i++) {
        cr_assert_lt(parts[i], CONVOY_THREAD_PARTS);
        cr_assert_not(taken[parts[i]], "part %u is two threads'", parts[i]);
        taken[parts[i]] = true;
    }
}

Test(thread_part, more_threads_share_them)
{
    uint32_t parts[THREADS], threads[CONVOY_THREAD_PARTS] = {0};
    on_threads(THREADS, ask, parts);
    for (uint32_t i = 0; i < THREADS; i++) {
        cr_assert_lt(parts[i], CONVOY_THREAD_PARTS);
        threads[parts[i]]++;
    }
    for (uint32_t i = 0; i < CONVOY_THREAD_PARTS; i++)
        cr_assert(threads[i] == 1 || threads[i] == 2, "part %u is %u threads'", i, threads[i]);
}

static void *count(void *context)
{
    (void)context;
    for (uint64_t i = 1; i <= 1000; i++)
        convoy_part_count_add(&counter, i);
    return NULL;
}

static void *subtract(void *context)
{
    (void)context;
    for (uint64_t i = 1; i <= 1000; i++)
        convoy_part_count_add(&counter, 0 - i);
    return NULL;
}

Test(part_count, is_the_sum_of_all_threads)
{
    uint32_t unused[THREADS];
    cr_assert_eq(convoy_part_count_get(&counter), 0);
    on_threads(THREADS, count, unused);
    cr_assert_eq(convoy_part_count_get(&counter), (uint64_t)THREADS * 500500);
}

Test(part_count, what_one_thread_adds_another_takes)
{
    uint32_t unused[THREADS];
    on_threads(3, count, unused);
    on_threads(2, subtract, unused);
    cr_assert_eq(convoy_part_count_get(&counter), 500500);
    on_threads(1, subtract, unused);
    cr_assert_eq(convoy_part_count_get(&counter), 0);
}

Test(part_count, is_never_below_zero)
{
    convoy_part_count_add(&counter, UINT64_MAX);
    cr_assert_eq(convoy_part_count_get(&counter), 0);
    convoy_part_count_add(&counter, 3);
    cr_assert_eq(convoy_part_count_get(&counter), 2);
}

Test(part_count, each_part_has_a_cache_line)
{
    cr_assert_eq(sizeof counter.parts[0], 64);
    cr_assert_eq((uintptr_t)&counter % 64, 0);
    cr_assert_eq(sizeof lock.parts[0] % 64, 0);
}

/* Whether another thread could lock its part now: 0 or EBUSY, as its result. */
static void *try_read(void *context)
{
    uint32_t part = convoy_thread_part();
    int code = pthread_mutex_trylock(&lock.parts[part].mutex);
    if (code == 0)
        pthread_mutex_unlock(&lock.parts[part].mutex);
    *(uint32_t *)context = (uint32_t)code;
    return NULL;
}

/* How many of the threads of all parts but this one's could read. */
static uint32_t readers(void)
{
    uint32_t codes[CONVOY_THREAD_PARTS - 1], could = 0;
    on_threads(CONVOY_THREAD_PARTS - 1, try_read, codes);
    for (uint32_t i = 0; i < CONVOY_THREAD_PARTS - 1; i++)
        could += codes[i] == 0;
    return could;
}

Test(shared_lock, readers_do_not_wait_for_each_other_and_a_writer_keeps_all_out)
{
    uint32_t first;
    convoy_shared_lock_init(&lock);
    on_threads(1, ask, &first); /* this thread has another part */
    cr_assert_neq(convoy_thread_part(), first);
    convoy_shared_lock_read(&lock);
    cr_assert_eq(pthread_mutex_trylock(&lock.parts[convoy_thread_part()].mutex), EBUSY);
    cr_assert_eq(readers(), CONVOY_THREAD_PARTS - 1);
    convoy_shared_lock_end_read(&lock);
    convoy_shared_lock_write(&lock);
    for (uint32_t part = 0; part < CONVOY_THREAD_PARTS; part++)
        cr_assert_eq(pthread_mutex_trylock(&lock.parts[part].mutex), EBUSY, "part %u is open", part);
    convoy_shared_lock_end_write(&lock);
    convoy_shared_lock_read(&lock);
    convoy_shared_lock_end_read(&lock);
    convoy_shared_lock_write(&lock);
    convoy_shared_lock_end_write(&lock);
    convoy_shared_lock_destroy(&lock);
}
