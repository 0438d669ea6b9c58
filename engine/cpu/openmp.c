#include "engine/cpu/openmp.h"

#include "engine/cpu/wait_word.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_THREADS 1024

/* A thread of the team, other than the caller's. */
struct helper {
    struct convoy_cpu_wait_word go; /* the number of its latest region */
    int index;
    pthread_t handle;
};

static struct {
    pthread_mutex_t turn; /* a region's caller holds it; guards count, helpers and region */
    int count;
    struct helper *helpers[MOST_THREADS];
    bool stopping;
    /* Of the region; its threads read these. */
    uint32_t region;
    void (*body)(void *context);
    void *context;
    int size;
    atomic_int working;               /* helpers that are not done */
    struct convoy_cpu_wait_word done; /* the latest region that all helpers are done with */
    atomic_int arrived;               /* at the barrier */
    struct convoy_cpu_wait_word barrier;
} team = {.turn = PTHREAD_MUTEX_INITIALIZER};

/* Of each thread. */
static _Thread_local int chosen; /* by omp_set_num_threads(); 0: not yet */
static _Thread_local int number;
static _Thread_local int size = 1;
static _Thread_local bool inside;
static _Thread_local struct convoy_cpu_patience patience;

static int default_threads(void)
{
    const char *wish = getenv("OMP_NUM_THREADS");
    long threads = wish != NULL ? strtol(wish, NULL, 10) : 0;
    cpu_set_t allowed;
    if (threads < 1 && sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        threads = CPU_COUNT(&allowed);
    if (threads < 1) /* more processors than a cpu_set_t has */
        threads = sysconf(_SC_NPROCESSORS_ONLN);
    return threads < 1 ? 1 : threads < MOST_THREADS ? (int)threads : MOST_THREADS;
}

void omp_set_num_threads(int threads)
{
    chosen = threads < 1 ? 1 : threads < MOST_THREADS ? threads : MOST_THREADS;
}

int omp_get_max_threads(void)
{
    if (chosen == 0)
        chosen = default_threads();
    return chosen;
}

int omp_get_num_threads(void)
{
    return size;
}

int omp_get_thread_num(void)
{
    return number;
}

int omp_in_parallel(void)
{
    return inside;
}

static void run_part(int index)
{
    number = index;
    size = team.size;
    inside = true;
    team.body(team.context);
    number = 0;
    size = 1;
    inside = false;
}

static void *serve(void *context)
{
    struct helper *helper = context;
    uint32_t seen = 0;
    for (;;) {
        convoy_cpu_wait_word_wait(&helper->go, seen, &patience);
        seen = helper->go.value;
        if (team.stopping)
            return NULL;
        run_part(helper->index);
        if (atomic_fetch_sub(&team.working, 1) == 1)
            convoy_cpu_wait_word_set(&team.done, seen);
    }
}

static int start_one(void)
{
    struct helper *helper = aligned_alloc(_Alignof(struct helper), sizeof *helper);
    if (helper == NULL)
        return -1;
    memset(helper, 0, sizeof *helper);
    helper->index = team.count + 1;
    int code = pthread_create(&helper->handle, NULL, serve, helper);
    if (code != 0)
        free(helper);
    else
        team.helpers[team.count++] = helper;
    return code;
}

/* With the turn held. */
static void start_up_to(int count)
{
    if (team.count >= count)
        return;
    sigset_t all, before; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (team.count < count)
        if (start_one() != 0) {
            fprintf(stderr, "the CPU backend cannot start thread %d of %d\n", team.count + 2, count + 1);
            abort();
        }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* With the turn held. A region's number is never 0, which is what helpers have seen at first. */
static void next_region(void)
{
    if (++team.region == 0)
        team.region = 1;
}

static void run_alone(void (*body)(void *context), void *context)
{
    int number_before = number, size_before = size;
    number = 0;
    size = 1;
    body(context);
    number = number_before;
    size = size_before;
}

void GOMP_parallel(void (*body)(void *context), void *context, unsigned threads, unsigned flags)
{
    (void)flags;
    int wanted = threads == 0 ? omp_get_max_threads() : threads < MOST_THREADS ? (int)threads : MOST_THREADS;
    if (inside || wanted == 1) {
        run_alone(body, context);
        return;
    }
    pthread_mutex_lock(&team.turn);
    start_up_to(wanted - 1);
    uint32_t before = team.done.value;
    next_region();
    team.body = body;
    team.context = context;
    team.size = wanted;
    atomic_store(&team.working, wanted - 1);
    for (int i = 0; i < wanted - 1; i++)
        convoy_cpu_wait_word_set(&team.helpers[i]->go, team.region);
    run_part(0);
    convoy_cpu_wait_word_wait(&team.done, before, &patience);
    pthread_mutex_unlock(&team.turn);
}

void GOMP_barrier(void)
{
    if (size == 1)
        return;
    uint32_t before = team.barrier.value;
    if (atomic_fetch_add(&team.arrived, 1) + 1 < size) {
        convoy_cpu_wait_word_wait(&team.barrier, before, &patience);
        return;
    }
    atomic_store(&team.arrived, 0);
    convoy_cpu_wait_word_set(&team.barrier, before + 1);
}

void convoy_cpu_openmp_stop(void)
{
    pthread_mutex_lock(&team.turn);
    team.stopping = true;
    next_region();
    for (int i = 0; i < team.count; i++) {
        convoy_cpu_wait_word_set(&team.helpers[i]->go, team.region);
        pthread_join(team.helpers[i]->handle, NULL);
        free(team.helpers[i]);
    }
    team.count = 0;
    team.stopping = false;
    pthread_mutex_unlock(&team.turn);
}
