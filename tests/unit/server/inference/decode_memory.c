#include "server/inference/decode_memory.h"

#include "engine/base/clock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int inside, most_inside, refused;

static void *decode(void *context)
{
    (void)context;
    for (int i = 0; i < 200; i++) {
        if (!convoy_decode_memory_take(40, 100, convoy_now_us() + 60000000)) {
            atomic_fetch_add(&refused, 1);
            continue;
        }
        int now = atomic_fetch_add(&inside, 1) + 1, most = atomic_load(&most_inside);
        while (now > most && !atomic_compare_exchange_weak(&most_inside, &most, now))
            ;
        atomic_fetch_sub(&inside, 1);
        convoy_decode_memory_give(40);
    }
    return NULL;
}

Test(decode_memory, threads_wait_for_room, .timeout = 60)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, decode, NULL), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(refused, 0);
    cr_expect_leq(most_inside, 2, "%d at a time", most_inside);
}

Test(decode_memory, a_wait_ends_at_the_deadline, .timeout = 60)
{
    cr_assert(convoy_decode_memory_take(70, 100, 0));
    uint64_t begun = convoy_now_us();
    cr_expect_not(convoy_decode_memory_take(40, 100, begun + 30000));
    cr_expect_geq(convoy_now_us(), begun + 30000);
    cr_expect(convoy_decode_memory_take(30, 100, 0));
    convoy_decode_memory_give(30);
    convoy_decode_memory_give(70);
    cr_expect(convoy_decode_memory_take(1000, 100, 0), "one alone is let in, whatever it takes");
    convoy_decode_memory_give(1000);
}
