#include "engine/cpu/crew.h"
#include "engine/cpu/threads.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A thread of the crew's other than the caller's. */
struct mate {
    struct convoy_cpu_crew *crew;
    int member;
    pthread_t thread;
};

struct convoy_cpu_crew {
    pthread_mutex_t lock; /* all below */
    pthread_cond_t called, left;
    bool stopping;
    bool open;     /* mates may still join the job */
    uint64_t jobs; /* begun so far */
    int members;   /* of this job */
    int inside;    /* mates that are at work */
    void (*work)(void *context, int member);
    void *context;
    int mate_count;
    struct mate mates[];
};

/* Under the lock: waits for a job that mate has not seen; false when the crew stops. */
static bool wait_for_job(struct convoy_cpu_crew *crew, const struct mate *mate, uint64_t *seen)
{
    while (!crew->stopping && !(crew->open && *seen != crew->jobs && mate->member < crew->members))
        pthread_cond_wait(&crew->called, &crew->lock);
    *seen = crew->jobs;
    return !crew->stopping;
}

static void *serve(void *context)
{
    struct mate *mate = context;
    struct convoy_cpu_crew *crew = mate->crew;
    uint64_t seen = 0;
    omp_set_num_threads(1); /* of this thread: its primitives are made for one */
    pthread_mutex_lock(&crew->lock);
    while (wait_for_job(crew, mate, &seen)) {
        crew->inside++;
        pthread_mutex_unlock(&crew->lock);
        crew->work(crew->context, mate->member);
        pthread_mutex_lock(&crew->lock);
        if (--crew->inside == 0)
            pthread_cond_signal(&crew->left);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

int convoy_cpu_crew_start(int members, struct convoy_cpu_crew **result, struct convoy_error *error)
{
    struct convoy_cpu_crew *crew = calloc(1, sizeof *crew + (size_t)members * sizeof crew->mates[0]);
    if (crew == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for %d threads", members);
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->called, NULL);
    pthread_cond_init(&crew->left, NULL);
    sigset_t all, before; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = 0;
    for (int member = 1; member < members && code == 0; member++) {
        struct mate *mate = &crew->mates[crew->mate_count];
        *mate = (struct mate){.crew = crew, .member = member};
        code = pthread_create(&mate->thread, NULL, serve, mate);
        crew->mate_count += code == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        convoy_cpu_crew_stop(crew);
        return convoy_fail(error, -code, "cannot start a thread that computes: %s", strerror(code));
    }
    *result = crew;
    return 0;
}

void convoy_cpu_crew_run(struct convoy_cpu_crew *crew, int members, void (*work)(void *context, int member),
                         void *context)
{
    pthread_mutex_lock(&crew->lock);
    crew->work = work;
    crew->context = context;
    crew->members = members;
    crew->jobs++;
    crew->open = true;
    if (members > 1)
        pthread_cond_broadcast(&crew->called);
    pthread_mutex_unlock(&crew->lock);
    work(context, 0);
    pthread_mutex_lock(&crew->lock);
    crew->open = false;
    while (crew->inside > 0)
        pthread_cond_wait(&crew->left, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
}

void convoy_cpu_crew_stop(struct convoy_cpu_crew *crew)
{
    if (crew == NULL)
        return;
    pthread_mutex_lock(&crew->lock);
    crew->stopping = true;
    pthread_cond_broadcast(&crew->called);
    pthread_mutex_unlock(&crew->lock);
    for (int i = 0; i < crew->mate_count; i++)
        pthread_join(crew->mates[i].thread, NULL);
    pthread_cond_destroy(&crew->called);
    pthread_cond_destroy(&crew->left);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}
