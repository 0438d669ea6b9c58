/* The CPU backend's team in place of OpenMP's, for the thread sanitizer: what a region's caller wrote is seen
 * by its threads, what these wrote by the caller and, behind a barrier, by each other; of two callers, too.
 */
#include "engine/cpu/openmp.h"
#include "tests/threads/check.h"

#include <pthread.h>
#include <stdio.h>

#define THREADS 3
#define REGIONS 5000

/* Not atomic: the sanitizer sees a number that is read before it is there. */
struct region {
    int given, taken[THREADS], sums[THREADS];
};

static void work(void *context)
{
    struct region *region = context;
    int number = omp_get_thread_num();
    CHECK(omp_get_num_threads() == THREADS);
    region->taken[number] = region->given + number;
    GOMP_barrier();
    for (int i = 0; i < THREADS; i++)
        region->sums[number] += region->taken[i];
}

static void *run_regions(void *context)
{
    struct region *region = context;
    for (int i = 0; i < REGIONS; i++) {
        *region = (struct region){.given = i};
        GOMP_parallel(work, region, THREADS, 0);
        for (int k = 0; k < THREADS; k++)
            CHECK(region->sums[k] == THREADS * i + THREADS * (THREADS - 1) / 2);
    }
    return NULL;
}

int main(void)
{
    struct region ours, theirs;
    pthread_t other;
    CHECK(pthread_create(&other, NULL, run_regions, &theirs) == 0);
    run_regions(&ours);
    pthread_join(other, NULL);
    convoy_cpu_openmp_stop();
    run_regions(&ours);
    convoy_cpu_openmp_stop();
    printf("%d regions of %d threads\n", 3 * REGIONS, THREADS);
    return 0;
}
