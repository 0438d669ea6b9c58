/* A loop that OpenMP's threads share. */
#include "engine/cpu/parallel.h"

#include <criterion/criterion.h>

#include <stdatomic.h>
#include <stddef.h>

#define MOST 1000

struct visits {
    int64_t count;
    atomic_int calls, times[MOST];
};

static void visit(void *context, struct convoy_cpu_range range)
{
    struct visits *visits = context;
    atomic_fetch_add(&visits->calls, 1);
    cr_assert(range.first % 16 == 0 && (range.end % 16 == 0 || range.end == visits->count), "%ld to %ld",
              (long)range.first, (long)range.end);
    for (int64_t i = range.first; i < range.end; i++)
        atomic_fetch_add(&visits->times[i], 1);
}

Test(parallel, threads_do_each_part_once)
{
    static const int64_t counts[] = {1, 15, 16, 17, 33, 128, MOST};
    for (int threads = 1; threads <= 5; threads++) {
        for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
            struct visits visits = {.count = counts[k]};
            convoy_cpu_parallel(threads, counts[k], visit, &visits);
            for (int64_t i = 0; i < MOST; i++)
                cr_assert_eq(visits.times[i], i < counts[k], "%d threads, %ld: place %ld %d times", threads,
                             (long)counts[k], (long)i, visits.times[i]);
            int64_t parts = (counts[k] + 15) / 16;
            cr_assert_eq(visits.calls, parts < threads ? (int)parts : threads);
        }
    }
}
