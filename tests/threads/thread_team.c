/* A team of the CPU backend, for the thread sanitizer: every share of every job is taken once, by threads
 * whose numbers differ, and no thread is at work once a job has returned. */
#include "engine/cpu/thread_team.h"
#include "engine/cpu/openmp.h"
#include "tests/threads/check.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS 4
#define JOBS    20000
#define SHARES  9
#define LIMIT_S 60 /* of waiting for what takes microseconds on an idle machine */

struct job {
    pthread_mutex_t lock;
    int next;
    bool over;
    bool waits; /* the caller takes no share before another thread has taken one */
    bool inside[THREADS];
    int taken[SHARES]; /* not atomic: the sanitizer sees a share that two take, or one that is not waited for
                        */
};

static atomic_uint by_others; /* shares that were not the caller's */
static sem_t taken;           /* one of them, of a job that waits for it */

/* The team's threads call this of openmp.h; that team is not needed here. */
void omp_set_num_threads(int threads)
{
    CHECK(threads == 1);
}

static void wait_for_others(void)
{
    struct timespec limit;
    CHECK(clock_gettime(CLOCK_REALTIME, &limit) == 0);
    limit.tv_sec += LIMIT_S;
    CHECK(sem_timedwait(&taken, &limit) == 0);
}

static void work(void *context, int index)
{
    struct job *job = context;
    if (job->waits && index == 0)
        wait_for_others();
    pthread_mutex_lock(&job->lock);
    CHECK(!job->over && !job->inside[index]);
    job->inside[index] = true;
    while (job->next < SHARES) {
        int share = job->next++;
        pthread_mutex_unlock(&job->lock);
        job->taken[share]++;
        if (index > 0) {
            atomic_fetch_add_explicit(&by_others, 1, memory_order_relaxed);
            if (job->waits)
                sem_post(&taken);
        }
        pthread_mutex_lock(&job->lock);
    }
    job->inside[index] = false;
    pthread_mutex_unlock(&job->lock);
}

static void run_one(struct convoy_cpu_thread_team *team, int threads, bool waits)
{
    struct job job = {.lock = PTHREAD_MUTEX_INITIALIZER, .waits = waits};
    convoy_cpu_thread_team_run(team, threads, work, &job);
    job.over = true; /* unlocked: a thread that is still at work races with this */
    for (int i = 0; i < SHARES; i++)
        CHECK(job.taken[i] == 1);
    for (int i = 0; i < THREADS; i++)
        CHECK(!job.inside[i]);
}

int main(void)
{
    struct convoy_error error;
    struct convoy_cpu_thread_team *team;
    CHECK(convoy_cpu_thread_team_start(THREADS, &team, &error) == 0);
    for (int i = 0; i < JOBS; i++)
        run_one(team, 1 + i % THREADS, false);
    /* Where there is one core for all, the caller may have done all of these alone. */
    CHECK(sem_init(&taken, 0, 0) == 0);
    run_one(team, THREADS, true);
    convoy_cpu_thread_team_stop(team);
    CHECK(atomic_load(&by_others) > 0);

    CHECK(convoy_cpu_thread_team_start(1, &team, &error) == 0);
    run_one(team, 1, false);
    convoy_cpu_thread_team_stop(team);
    printf("%d jobs, %u shares by other threads\n", JOBS, atomic_load(&by_others));
    return 0;
}
