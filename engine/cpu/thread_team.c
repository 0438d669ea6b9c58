#include "engine/cpu/thread_team.h"
#include "engine/cpu/openmp.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A thread of the team, other than the caller's. */
struct team_thread {
    struct convoy_cpu_thread_team *team;
    int index;
    pthread_t handle;
};

struct convoy_cpu_thread_team {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t called, left;
    bool stopping;
    bool open;       /* threads may still join the job */
    uint64_t jobs;   /* begun so far */
    int job_threads; /* of this job, the caller's included */
    int inside;      /* threads[] that are at work */
    void (*work)(void *context, int index);
    void *context;
    int thread_count;
    struct team_thread threads[];
};

/* With the lock held: waits for a job that thread has not seen; false when the team stops. */
static bool wait_for_job(struct convoy_cpu_thread_team *team, const struct team_thread *thread,
                         uint64_t *seen)
{
    while (!team->stopping && !(team->open && *seen != team->jobs && thread->index < team->job_threads))
        pthread_cond_wait(&team->called, &team->lock);
    *seen = team->jobs;
    return !team->stopping;
}

static void *serve(void *context)
{
    struct team_thread *thread = context;
    struct convoy_cpu_thread_team *team = thread->team;
    uint64_t seen = 0;
    omp_set_num_threads(1); /* of this thread: its primitives are made for one */
    pthread_mutex_lock(&team->lock);
    while (wait_for_job(team, thread, &seen)) {
        team->inside++;
        pthread_mutex_unlock(&team->lock);
        team->work(team->context, thread->index);
        pthread_mutex_lock(&team->lock);
        if (--team->inside == 0)
            pthread_cond_signal(&team->left);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

int convoy_cpu_thread_team_start(int threads, struct convoy_cpu_thread_team **result,
                                 struct convoy_error *error)
{
    struct convoy_cpu_thread_team *team = calloc(1, sizeof *team + (size_t)threads * sizeof team->threads[0]);
    if (team == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for %d threads", threads);
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->called, NULL);
    pthread_cond_init(&team->left, NULL);
    sigset_t all, before; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = 0;
    for (int index = 1; index < threads && code == 0; index++) {
        struct team_thread *thread = &team->threads[team->thread_count];
        *thread = (struct team_thread){.team = team, .index = index};
        code = pthread_create(&thread->handle, NULL, serve, thread);
        team->thread_count += code == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        convoy_cpu_thread_team_stop(team);
        return convoy_fail(error, -code, "cannot start a thread that computes: %s", strerror(code));
    }
    *result = team;
    return 0;
}

void convoy_cpu_thread_team_run(struct convoy_cpu_thread_team *team, int threads,
                                void (*work)(void *context, int index), void *context)
{
    pthread_mutex_lock(&team->lock);
    team->work = work;
    team->context = context;
    team->job_threads = threads;
    team->jobs++;
    team->open = true;
    if (threads > 1)
        pthread_cond_broadcast(&team->called);
    pthread_mutex_unlock(&team->lock);
    work(context, 0);
    pthread_mutex_lock(&team->lock);
    team->open = false;
    while (team->inside > 0)
        pthread_cond_wait(&team->left, &team->lock);
    pthread_mutex_unlock(&team->lock);
}

void convoy_cpu_thread_team_stop(struct convoy_cpu_thread_team *team)
{
    if (team == NULL)
        return;
    pthread_mutex_lock(&team->lock);
    team->stopping = true;
    pthread_cond_broadcast(&team->called);
    pthread_mutex_unlock(&team->lock);
    for (int i = 0; i < team->thread_count; i++)
        pthread_join(team->threads[i].handle, NULL);
    pthread_cond_destroy(&team->called);
    pthread_cond_destroy(&team->left);
    pthread_mutex_destroy(&team->lock);
    free(team);
}
