/* A number for whose change threads wait. */
#include "engine/cpu/wait_word.h"

#include "engine/base/clock.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <stdbool.h>

#define TURNS   20000
#define WAIT_US 20000000u

TestSuite(wait_word, .timeout = 60);

struct pair {
    struct convoy_cpu_wait_word ours, theirs;
    atomic_bool stop;
};

/* Sets `ours` once the waiter sleeps. */
static void *set_for_a_sleeper(void *context)
{
    struct pair *pair = context;
    while (atomic_load(&pair->ours.sleepers) == 0)
        ;
    convoy_cpu_wait_word_set(&pair->ours, 1);
    return NULL;
}

Test(wait_word, a_wait_that_ends_asleep_halves_the_time_to_spin)
{
    struct convoy_cpu_patience patience = {0};
    uint32_t wanted = CONVOY_CPU_SPIN_MOST_NS;
    for (int turn = 0; turn < 8; turn++) {
        struct pair pair = {0};
        pthread_t thread;
        cr_assert_eq(pthread_create(&thread, NULL, set_for_a_sleeper, &pair), 0);
        convoy_cpu_wait_word_wait(&pair.ours, 0, &patience);
        pthread_join(thread, NULL);
        wanted = wanted / 2 > CONVOY_CPU_SPIN_LEAST_NS ? wanted / 2 : CONVOY_CPU_SPIN_LEAST_NS;
        cr_assert_eq(patience.spin_ns, wanted, "turn %d: %u ns, not %u", turn, patience.spin_ns, wanted);
        cr_assert_eq(pair.ours.sleepers, 0);
    }
    cr_assert_eq(wanted, CONVOY_CPU_SPIN_LEAST_NS);
}

/* About every microsecond, so that most waits begin before a change and see it while they spin. */
static void *set_again_and_again(void *context)
{
    struct pair *pair = context;
    uint64_t next_ns = convoy_now_ns();
    for (uint32_t value = 1; !atomic_load(&pair->stop); value++) {
        while (convoy_now_ns() < next_ns)
            ;
        convoy_cpu_wait_word_set(&pair->ours, value);
        next_ns = convoy_now_ns() + 1000;
    }
    return NULL;
}

Test(wait_word, a_wait_that_ends_spinning_doubles_it)
{
    struct convoy_cpu_patience patience = {CONVOY_CPU_SPIN_LEAST_NS};
    struct pair pair = {0};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, set_again_and_again, &pair), 0);
    uint64_t end_us = convoy_now_us() + WAIT_US;
    while (patience.spin_ns < CONVOY_CPU_SPIN_MOST_NS) {
        cr_assert_lt(convoy_now_us(), end_us, "it is %u ns still", patience.spin_ns);
        convoy_cpu_wait_word_wait(&pair.ours, pair.ours.value, &patience);
    }
    atomic_store(&pair.stop, true);
    pthread_join(thread, NULL);
    cr_assert_eq(patience.spin_ns, CONVOY_CPU_SPIN_MOST_NS);
}

Test(wait_word, a_value_that_has_changed_already_is_not_waited_for)
{
    struct convoy_cpu_patience patience = {0};
    struct convoy_cpu_wait_word word = {.value = 7};
    convoy_cpu_wait_word_wait(&word, 6, &patience);
    cr_assert_eq(patience.spin_ns, 0);
}

static void *answer(void *context)
{
    struct pair *pair = context;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        convoy_cpu_wait_word_wait(&pair->theirs, turn, &(struct convoy_cpu_patience){1});
        convoy_cpu_wait_word_set(&pair->ours, turn + 1);
    }
    return NULL;
}

/* Each waits for the other in turns, with little patience, so that they often fall asleep at the very time.
 */
Test(wait_word, no_change_is_missed)
{
    struct pair pair = {0};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, answer, &pair), 0);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        convoy_cpu_wait_word_set(&pair.theirs, turn + 1);
        convoy_cpu_wait_word_wait(&pair.ours, turn, &(struct convoy_cpu_patience){1});
        cr_assert_eq(pair.ours.value, turn + 1);
    }
    pthread_join(thread, NULL);
}
