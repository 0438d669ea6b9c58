/* The team that oneDNN computes with, in place of libgomp's. */
#include "engine/cpu/openmp.h"

#include "engine/base/clock.h"

#include <criterion/criterion.h>

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST    6
#define WAIT_US 20000000u

TestSuite(openmp, .timeout = 60);

struct region {
    int size;
    atomic_int calls[MOST], wrong;
};

static void note(void *context)
{
    struct region *region = context;
    int number = omp_get_thread_num();
    bool right = omp_get_num_threads() == region->size && number >= 0 && number < region->size &&
                 omp_in_parallel() == (region->size > 1);
    if (right)
        atomic_fetch_add(&region->calls[number], 1);
    else
        atomic_fetch_add(&region->wrong, 1);
}

Test(openmp, each_thread_of_a_region_is_called_once)
{
    for (int run = 0; run < 3000; run++) {
        int size = (int[]){2, 5, 1, 3, 2, 2}[run % 6];
        struct region region = {.size = size};
        GOMP_parallel(note, &region, (unsigned)size, 0);
        cr_assert_eq(region.wrong, 0, "run %d, %d threads", run, size);
        for (int i = 0; i < MOST; i++)
            cr_assert_eq(region.calls[i], i < size, "run %d: thread %d of %d", run, i, size);
    }
    cr_assert_eq(omp_get_num_threads(), 1);
    cr_assert_eq(omp_get_thread_num(), 0);
    cr_assert(!omp_in_parallel());
}

Test(openmp, the_callers_size_is_the_regions)
{
    struct region region = {.size = 4};
    omp_set_num_threads(4);
    GOMP_parallel(note, &region, 0, 0);
    cr_assert_eq(region.wrong, 0);
    cr_assert(region.calls[0] == 1 && region.calls[3] == 1);
}

static void *size_of_another_thread(void *context)
{
    *(int *)context = omp_get_max_threads();
    return NULL;
}

Test(openmp, the_environment_says_how_many_until_a_thread_chooses)
{
    int other = 0;
    pthread_t thread;
    setenv("OMP_NUM_THREADS", "3,2", 1);
    omp_set_num_threads(5);
    cr_assert_eq(pthread_create(&thread, NULL, size_of_another_thread, &other), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(omp_get_max_threads(), 5);
    cr_assert_eq(other, 3);
}

struct phases {
    atomic_int arrived, early;
};

static void walk_phases(void *context)
{
    struct phases *phases = context;
    for (int phase = 1; phase <= 500; phase++) {
        atomic_fetch_add(&phases->arrived, 1);
        GOMP_barrier();
        if (atomic_load(&phases->arrived) < phase * omp_get_num_threads())
            atomic_fetch_add(&phases->early, 1);
        GOMP_barrier();
    }
}

Test(openmp, a_barrier_lets_go_when_all_have_come)
{
    for (unsigned threads = 1; threads <= 4; threads++) {
        struct phases phases = {0};
        GOMP_parallel(walk_phases, &phases, threads, 0);
        cr_assert_eq(phases.early, 0, "%u threads", threads);
        cr_assert_eq(phases.arrived, (int)threads * 500);
    }
}

struct nest {
    struct region inner[MOST];
    atomic_int wrong;
};

static void note_alone(void *context)
{
    atomic_int *calls = context;
    if (omp_get_num_threads() == 1 && omp_get_thread_num() == 0 && omp_in_parallel())
        atomic_fetch_add(calls, 1);
    GOMP_barrier();
}

static void go_inside(void *context)
{
    struct nest *nest = context;
    int number = omp_get_thread_num(), size = omp_get_num_threads();
    GOMP_parallel(note_alone, &nest->inner[number].calls[0], 3, 0);
    if (omp_get_thread_num() != number || omp_get_num_threads() != size)
        atomic_fetch_add(&nest->wrong, 1);
}

Test(openmp, a_region_inside_another_runs_alone)
{
    struct nest nest = {0};
    GOMP_parallel(go_inside, &nest, 3, 0);
    cr_assert_eq(nest.wrong, 0);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(nest.inner[i].calls[0], 1);
}

static atomic_int of_caller[2];

static void work_for(void *context)
{
    const int *caller = context;
    atomic_fetch_add(&of_caller[*caller], 1);
}

static void *call_often(void *context)
{
    for (int i = 0; i < 1000; i++)
        GOMP_parallel(work_for, context, 3, 0);
    return NULL;
}

Test(openmp, regions_of_two_callers_are_each_done)
{
    int callers[2] = {0, 1};
    pthread_t other;
    cr_assert_eq(pthread_create(&other, NULL, call_often, &callers[1]), 0);
    call_often(&callers[0]);
    pthread_join(other, NULL);
    cr_assert_eq(of_caller[0], 3000);
    cr_assert_eq(of_caller[1], 3000);
}

/* How many threads the process has; of them, how many are in a state ('S': asleep). */
static int threads_in(char wanted, int *all)
{
    int count = 0;
    *all = 0;
    DIR *folder = opendir("/proc/self/task");
    cr_assert_not_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char path[300], state = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (file == NULL)
            continue;
        if (fscanf(file, "%*d (%*[^)]) %c", &state) == 1) {
            *all += 1;
            count += state == wanted;
        }
        fclose(file);
    }
    closedir(folder);
    return count;
}

Test(openmp, threads_without_work_sleep_and_are_woken)
{
    int before = 0, all = 0;
    threads_in('S', &before);
    for (int turn = 0; turn < 5; turn++) {
        struct region region = {.size = 3};
        GOMP_parallel(note, &region, 3, 0);
        cr_assert(region.calls[1] == 1 && region.calls[2] == 1);
        uint64_t end_us = convoy_now_us() + WAIT_US;
        while (threads_in('S', &all) < 2)
            cr_assert_lt(convoy_now_us(), end_us, "of %d threads too few sleep", all);
        cr_assert_eq(all, before + 2);
    }
}

Test(openmp, threads_end_when_they_are_stopped_and_start_again)
{
    int before = 0, all = 0;
    threads_in('S', &before);
    for (int turn = 0; turn < 3; turn++) {
        struct region region = {.size = 4};
        GOMP_parallel(note, &region, 4, 0);
        cr_assert_eq(region.calls[3], 1);
        threads_in('S', &all);
        cr_assert_eq(all, before + 3);
        convoy_cpu_openmp_stop();
        uint64_t end_us = convoy_now_us() + WAIT_US;
        do { /* a thread that was joined is listed for a moment */
            cr_assert_lt(convoy_now_us(), end_us, "%d threads, %d before", all, before);
            threads_in('S', &all);
        } while (all != before);
    }
}
