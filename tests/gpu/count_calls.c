/* Counts and times the calls of the CUDA runtime by name, from outside of the program: NVIDIA's driver loads
 * this library into any process that starts with CUDA_INJECTION64_PATH naming it, and CUPTI calls back where
 * each call begins and ends. What the worker says of itself on /metrics is checked against it (calls.sh), and
 * what a run costs is told with it (tests/bench/oneshot.sh).
 *
 * Ten times a second, and when the process ends, the file CONVOY_CALLS_FILE.PID is replaced as a whole: a
 * line "name calls microseconds longest" for each function that was called, microseconds being all its calls
 * together. A file CONVOY_CALLS_FILE.PID.reset starts the counts again: it is removed once all counts are 0.
 *
 * Only the runtime: what it calls in the driver, making the context for example, is inside its own time. Two
 * things are not seen. The driver loads this library in cuInit(), so the call in which that happened (the
 * process's first) has begun already; its end, for which no beginning was noted, is passed over. And what
 * runs after exit handlers began is over before anybody could write it. Built by count_calls.sh where CUPTI
 * is: it is no part of convoyd. */
#include <cupti.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MOST  4096
#define DEPTH 16 /* calls that a thread is in at once */

static struct {
    _Atomic uint64_t calls, ns, longest_ns;
} functions[MOST];
static char path[512], fresh[520], reset[520];
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

/* The calls that this thread is in, the innermost last. */
static _Thread_local struct {
    uint32_t call; /* CUPTI's number for this one call */
    uint64_t begun_ns;
} within[DEPTH];
static _Thread_local unsigned depth;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void begin(CUpti_CallbackId id, uint32_t call)
{
    atomic_fetch_add_explicit(&functions[id].calls, 1, memory_order_relaxed);
    if (depth < DEPTH) {
        within[depth].call = call;
        within[depth].begun_ns = now_ns();
    }
    depth++;
}

static void end(CUpti_CallbackId id, uint32_t call)
{
    uint64_t now = now_ns();
    unsigned i = depth < DEPTH ? depth : DEPTH;
    while (i > 0 && within[i - 1].call != call)
        i--;
    if (i == 0) { /* begun before we were there, or too deep to have been timed */
        depth -= depth > DEPTH;
        return;
    }
    depth = i - 1;
    uint64_t taken = now - within[depth].begun_ns;
    atomic_fetch_add_explicit(&functions[id].ns, taken, memory_order_relaxed);
    uint64_t longest = atomic_load_explicit(&functions[id].longest_ns, memory_order_relaxed);
    while (taken > longest &&
           !atomic_compare_exchange_weak_explicit(&functions[id].longest_ns, &longest, taken,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

static void CUPTIAPI see(void *context, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *what)
{
    const CUpti_CallbackData *data = what;
    (void)context;
    if (domain != CUPTI_CB_DOMAIN_RUNTIME_API || id >= MOST)
        return;
    if (data->callbackSite == CUPTI_API_ENTER)
        begin(id, data->correlationId);
    else
        end(id, data->correlationId);
}

static void write_counts(void)
{
    pthread_mutex_lock(&writing);
    FILE *file = fopen(fresh, "w");
    for (CUpti_CallbackId id = 0; file != NULL && id < MOST; id++) {
        uint64_t calls = atomic_load_explicit(&functions[id].calls, memory_order_relaxed);
        const char *name = NULL;
        if (calls > 0 && cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, id, &name) == CUPTI_SUCCESS)
            fprintf(file, "%s %lu %.3f %.3f\n", name, (unsigned long)calls,
                    (double)atomic_load_explicit(&functions[id].ns, memory_order_relaxed) / 1e3,
                    (double)atomic_load_explicit(&functions[id].longest_ns, memory_order_relaxed) / 1e3);
    }
    if (file != NULL && fclose(file) == 0)
        rename(fresh, path);
    pthread_mutex_unlock(&writing);
}

static void begin_anew(void)
{
    for (CUpti_CallbackId id = 0; id < MOST; id++) {
        atomic_store_explicit(&functions[id].calls, 0, memory_order_relaxed);
        atomic_store_explicit(&functions[id].ns, 0, memory_order_relaxed);
        atomic_store_explicit(&functions[id].longest_ns, 0, memory_order_relaxed);
    }
    unlink(reset);
}

static void *keep_writing(void *context)
{
    (void)context;
    for (;;) {
        usleep(100000);
        if (access(reset, F_OK) == 0)
            begin_anew();
        write_counts();
    }
    return NULL;
}

int InitializeInjection(void);
int InitializeInjection(void)
{
    CUpti_SubscriberHandle subscriber;
    pthread_t thread;
    const char *file = getenv("CONVOY_CALLS_FILE");
    snprintf(path, sizeof path, "%s.%d", file != NULL ? file : "/tmp/cuda-calls", (int)getpid());
    snprintf(fresh, sizeof fresh, "%s.new", path);
    snprintf(reset, sizeof reset, "%s.reset", path);
    if (cuptiSubscribe(&subscriber, see, NULL) != CUPTI_SUCCESS ||
        cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API) != CUPTI_SUCCESS ||
        pthread_create(&thread, NULL, keep_writing, NULL) != 0 || atexit(write_counts) != 0) {
        fputs("count_calls: CUPTI cannot be used\n", stderr);
        return 0;
    }
    return 1;
}
