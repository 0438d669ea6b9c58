#include "server/http/http_thread.h"

#include "server/http/suspension.h"

#include <criterion/criterion.h>

#include <sys/eventfd.h>
#include <unistd.h>

Test(http_threads, leave_a_quarter_of_many_cores_to_workers_and_decoders)
{
    static const uint32_t cores_and_threads[][2] = {{1, 1}, {2, 2},   {7, 7},  {8, 6},
                                                    {9, 7}, {16, 12}, {32, 24}};
    for (size_t i = 0; i < sizeof cores_and_threads / sizeof cores_and_threads[0]; i++)
        cr_assert_eq(convoy_http_threads_for(cores_and_threads[i][0]), cores_and_threads[i][1], "%u cores",
                     cores_and_threads[i][0]);
}

/* ---- What the control loop resumes: the test looks where the threads would. ---- */

#define THREADS 4

static struct convoy_http_thread threads[THREADS];
static struct convoy_suspension suspensions[8];

static void begin(void)
{
    for (int i = 0; i < THREADS; i++) {
        pthread_mutex_init(&threads[i].lock, NULL);
        convoy_list_init(&threads[i].resumed);
        convoy_list_init(&threads[i].held);
        threads[i].wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        atomic_init(&threads[i].sleeps, true);
    }
    for (int i = 0; i < 8; i++)
        suspensions[i].thread = &threads[i % THREADS];
}

static void end(void)
{
    for (int i = 0; i < THREADS; i++)
        close(threads[i].wake_fd);
}

TestSuite(resumptions, .init = begin, .fini = end);

/* How often the thread was rung since it was last asked. */
static uint64_t rings(int thread)
{
    uint64_t count = 0;
    return read(threads[thread].wake_fd, &count, sizeof count) == sizeof count ? count : 0;
}

static uint32_t resumed(int thread)
{
    uint32_t count = 0;
    convoy_list_for_each(at, following, &threads[thread].resumed)
        count += convoy_list_entry(at, struct convoy_suspension, resumed)->thread == &threads[thread];
    return count;
}

Test(resumptions, one_that_is_not_held_is_handed_over_at_once)
{
    convoy_resume(&suspensions[0]);
    cr_assert_eq(resumed(0), 1);
    cr_assert_eq(rings(0), 1);
    convoy_resume(&suspensions[0]);
    convoy_resume(&suspensions[4]);
    cr_assert_eq(resumed(0), 2, "the second time does nothing");
    cr_assert_eq(rings(0), 0, "it does not sleep any more");
}

Test(resumptions, what_is_held_is_handed_over_together_in_its_order)
{
    convoy_resume_hold();
    convoy_resume(&suspensions[0]);
    convoy_resume(&suspensions[4]);
    cr_assert_eq(resumed(0), 0);
    cr_assert(convoy_suspension_over(&suspensions[0]));
    cr_assert_eq(rings(0), 0);
    convoy_resume_let_go();
    cr_assert_eq(resumed(0), 2);
    cr_assert_eq(threads[0].resumed.next, &suspensions[0].resumed);
    cr_assert_eq(rings(0), 1);
    cr_assert_null(threads[0].to_ring);
    convoy_resume(&suspensions[1]);
    cr_assert_eq(resumed(1), 1, "it holds no more");
}

/* Each thread that sleeps is rung, by the loop or by one that the loop rang, and none twice. */
static void assert_all_woken(uint64_t by_the_loop)
{
    uint64_t rung[THREADS], sum = 0;
    for (int i = 0; i < THREADS; i++)
        sum += rung[i] = rings(i);
    cr_assert_eq(sum, by_the_loop);
    for (int i = 0; i < THREADS; i++) {
        if (threads[i].to_ring == NULL)
            continue;
        cr_assert_eq(rung[i], 1, "thread %d is asked to ring and was not woken", i);
        rung[threads[i].to_ring - threads]++;
    }
    for (int i = 0; i < THREADS; i++) {
        cr_assert_eq(rung[i], resumed(i) > 0, "thread %d", i);
        cr_assert_not(atomic_load(&threads[i].sleeps) && resumed(i) > 0);
    }
}

Test(resumptions, of_two_that_sleep_one_wakes_the_other)
{
    convoy_resume_hold();
    for (int i = 0; i < 8; i++)
        convoy_resume(&suspensions[i]);
    convoy_resume_let_go();
    assert_all_woken(2);
}

Test(resumptions, of_three_that_sleep_two_are_woken_here)
{
    convoy_resume_hold();
    for (int i = 0; i < 3; i++)
        convoy_resume(&suspensions[i]);
    convoy_resume_let_go();
    assert_all_woken(2);
}

Test(resumptions, one_that_is_awake_wakes_none)
{
    atomic_store(&threads[1].sleeps, false);
    convoy_resume_hold();
    for (int i = 0; i < 2; i++)
        convoy_resume(&suspensions[i]);
    convoy_resume_let_go();
    cr_assert_eq(rings(0), 1);
    cr_assert_eq(rings(1), 0);
    cr_assert_null(threads[0].to_ring);
    cr_assert_null(threads[1].to_ring);
    cr_assert_eq(resumed(1), 1);
}

Test(resumptions, threads_of_different_servers_do_not_wake_each_other)
{
    static char servers[2]; /* told apart by their addresses alone */
    for (int i = 0; i < THREADS; i++)
        threads[i].http = (struct convoy_http *)(void *)&servers[i % 2];
    convoy_resume_hold();
    for (int i = 0; i < 3; i++)
        convoy_resume(&suspensions[i]);
    convoy_resume_let_go();
    for (int i = 0; i < THREADS; i++)
        cr_assert(threads[i].to_ring == NULL || threads[i].to_ring->http == threads[i].http);
    assert_all_woken(3);
}
