/* Counts the calls of the CUDA runtime by name, from outside of the program: NVIDIA's driver loads this
 * library into any process that starts with CUDA_INJECTION64_PATH naming it, and CUPTI calls back at each
 * call. What the worker says of itself on /metrics is checked against it (tests/gpu/calls.sh).
 *
 * Ten times a second the counts are written to the file CONVOY_CALLS_FILE.PID, a line "name count" each,
 * replaced as a whole. Built by hand where CUPTI is: it is no part of convoyd. */
#include <cupti.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MOST 4096

static _Atomic unsigned long counts[MOST];
static char path[512], fresh[520];

static void CUPTIAPI count(void *context, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *what)
{
    const CUpti_CallbackData *data = what;
    (void)context;
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && data->callbackSite == CUPTI_API_ENTER && id < MOST)
        atomic_fetch_add_explicit(&counts[id], 1, memory_order_relaxed);
}

static void write_counts(void)
{
    FILE *file = fopen(fresh, "w");
    if (file == NULL)
        return;
    for (CUpti_CallbackId id = 0; id < MOST; id++) {
        unsigned long calls = atomic_load_explicit(&counts[id], memory_order_relaxed);
        const char *name = NULL;
        if (calls > 0 && cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, id, &name) == CUPTI_SUCCESS)
            fprintf(file, "%s %lu\n", name, calls);
    }
    if (fclose(file) == 0)
        rename(fresh, path);
}

static void *keep_writing(void *context)
{
    (void)context;
    for (;;) {
        usleep(100000);
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
    if (cuptiSubscribe(&subscriber, count, NULL) != CUPTI_SUCCESS ||
        cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API) != CUPTI_SUCCESS ||
        pthread_create(&thread, NULL, keep_writing, NULL) != 0) {
        fputs("count_calls: CUPTI cannot be used\n", stderr);
        return 0;
    }
    return 1;
}
