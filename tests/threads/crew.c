/* A crew of the CPU backend, for the thread sanitizer: every share of every job is taken once, by members
 * whose numbers differ, and nobody is at work once a job has returned. */
#include "engine/cpu/crew.h"
#include "engine/cpu/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMBERS 4
#define JOBS    20000
#define SHARES  9

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);                         \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

struct job {
    pthread_mutex_t lock;
    int next;
    bool over;
    bool inside[MEMBERS];
    int taken[SHARES]; /* not atomic: the sanitizer sees a share that two take, or one that is not waited for
                        */
};

static atomic_uint by_mates; /* shares that were not the caller's */

/* The crew's threads call this of OpenMP's; no team is needed here. */
void omp_set_num_threads(int threads)
{
    CHECK(threads == 1);
}

static void work(void *context, int member)
{
    struct job *job = context;
    pthread_mutex_lock(&job->lock);
    CHECK(!job->over && !job->inside[member]);
    job->inside[member] = true;
    while (job->next < SHARES) {
        int share = job->next++;
        pthread_mutex_unlock(&job->lock);
        job->taken[share]++;
        if (member > 0)
            atomic_fetch_add_explicit(&by_mates, 1, memory_order_relaxed);
        pthread_mutex_lock(&job->lock);
    }
    job->inside[member] = false;
    pthread_mutex_unlock(&job->lock);
}

static void run_one(struct convoy_cpu_crew *crew, int members)
{
    struct job job = {.lock = PTHREAD_MUTEX_INITIALIZER};
    convoy_cpu_crew_run(crew, members, work, &job);
    job.over = true; /* unlocked: whoever is still at work races with this */
    for (int i = 0; i < SHARES; i++)
        CHECK(job.taken[i] == 1);
    for (int i = 0; i < MEMBERS; i++)
        CHECK(!job.inside[i]);
}

int main(void)
{
    struct convoy_error error;
    struct convoy_cpu_crew *crew;
    CHECK(convoy_cpu_crew_start(MEMBERS, &crew, &error) == 0);
    for (int i = 0; i < JOBS; i++)
        run_one(crew, 1 + i % MEMBERS);
    convoy_cpu_crew_stop(crew);
    CHECK(atomic_load(&by_mates) > 0);

    CHECK(convoy_cpu_crew_start(1, &crew, &error) == 0);
    run_one(crew, 1);
    convoy_cpu_crew_stop(crew);
    printf("%d jobs, %u shares by mates\n", JOBS, atomic_load(&by_mates));
    return 0;
}
