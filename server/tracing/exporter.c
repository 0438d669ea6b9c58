#include "server/tracing/exporter.h"

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/log_limit.h"
#include "server/tracing/collector.h"
#include "server/tracing/otlp.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define CAPACITY 2048u
#define BATCH    256u
#define DELAY_US UINT64_C(1000000)
#define POST_MS  5000u
#define STOP_US  UINT64_C(2000000)
#define MS       UINT64_C(1000)
#define FIRST_FD 3u

struct convoy_exporter {
    struct convoy_metrics *metrics;
    struct convoy_collector *collector;
    uint64_t seed;
    uint64_t threshold; /* random numbers below it are sampled */
    bool all;           /* every one */
    _Atomic uint64_t drawn;
    pthread_t thread;
    struct convoy_request_span *batch; /* BATCH of them, the thread's */

    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    struct convoy_request_span *ring;
    uint32_t first, count;
    uint64_t first_us; /* when the first one came that waits */
    bool stops;
    _Atomic uint64_t stop_us; /* when the thread must have ended; UINT64_MAX: not yet known */
};

static bool gives_up(void *context)
{
    const struct convoy_exporter *exporter = context;

    return convoy_now_us() > atomic_load_explicit(&exporter->stop_us, memory_order_relaxed);
}

/* The condition's clock is the one of convoy_now_us(). Under the lock. */
static void wait_until(struct convoy_exporter *exporter, uint64_t until_us)
{
    struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                             .tv_nsec = (long)(until_us % 1000000) * 1000};

    (void)pthread_cond_timedwait(&exporter->changed, &exporter->lock, &until);
}

/* Waits until a batch is full or old enough, or the exporter stops, but until not_before_us at least; takes
 * it. 0: it has stopped, and nothing is left. */
static uint32_t take_batch(struct convoy_exporter *exporter, uint64_t not_before_us)
{
    uint32_t taken;

    pthread_mutex_lock(&exporter->lock);
    while (!exporter->stops) {
        uint64_t now_us = convoy_now_us();
        uint64_t due_us = exporter->count >= BATCH ? 0 : exporter->first_us + DELAY_US;
        if (due_us < not_before_us)
            due_us = not_before_us;
        if (exporter->count > 0 && now_us >= due_us)
            break;
        if (exporter->count > 0)
            wait_until(exporter, due_us);
        else
            pthread_cond_wait(&exporter->changed, &exporter->lock);
    }
    for (taken = 0; taken < BATCH && exporter->count > 0; taken++) {
        exporter->batch[taken] = exporter->ring[exporter->first];
        exporter->first = (exporter->first + 1) % CAPACITY;
        exporter->count--;
    }
    exporter->first_us = convoy_now_us(); /* of those that are left; the first of them is older */
    pthread_mutex_unlock(&exporter->lock);
    return taken;
}

/* How long a POST may take now. */
static uint32_t time_left_ms(const struct convoy_exporter *exporter)
{
    uint64_t stop_us = atomic_load_explicit(&exporter->stop_us, memory_order_relaxed),
             now_us = convoy_now_us();

    if (stop_us == UINT64_MAX)
        return POST_MS;
    return stop_us > now_us + MS ? (uint32_t)((stop_us - now_us) / MS) : 0;
}

/* False when the collector has not taken it. */
static bool send_batch(struct convoy_exporter *exporter, uint32_t count)
{
    static struct convoy_log_limit limit;
    struct convoy_json_writer json = {0};
    struct convoy_error error;
    uint32_t timeout_ms = time_left_ms(exporter);
    uint64_t unwritten;
    int code;

    convoy_otlp_write(&json, exporter->batch, count);
    if (json.failed)
        code = convoy_fail(&error, -ENOMEM, "out of memory");
    else if (timeout_ms == 0)
        code = convoy_fail(&error, -EIO, "the server stops");
    else
        code = convoy_collector_post(exporter->collector, json.bytes, json.length, timeout_ms, &error);
    convoy_json_writer_free(&json);
    convoy_metrics_traces(exporter->metrics, code == 0 ? "exported" : "failed", count);
    if (code != 0 && convoy_log_limit_pass(&limit, &unwritten))
        convoy_log(CONVOY_LOG_WARNING, "traces are lost: the collector (tracing.otlp_url) did not take them",
                   CONVOY_STR("reason", error.message), CONVOY_UINT("requests", count),
                   CONVOY_UINT("unwritten", unwritten));
    return code == 0;
}

static void *run(void *context)
{
    struct convoy_exporter *exporter = context;
    uint64_t not_before_us = 0;
    uint32_t count;

    /* libcurl opens descriptors that a worker would inherit which starts meanwhile. In a table of descriptors
     * that this thread and its children have for themselves no fork of another thread finds them. (The thread
     * sanitizer knows one table alone, and takes two descriptors of one number for a race.) */
    if (close_range(FIRST_FD, ~0u, CLOSE_RANGE_UNSHARE) != 0)
        convoy_log(CONVOY_LOG_DEBUG, "the exporter of traces shares the table of descriptors",
                   CONVOY_INT("errno", errno));
    while ((count = take_batch(exporter, not_before_us)) > 0)
        not_before_us = send_batch(exporter, count) ? 0 : convoy_now_us() + DELAY_US;
    return NULL;
}

static int start(struct convoy_exporter *exporter, const struct convoy_tracing_config *config,
                 struct convoy_error *error)
{
    pthread_condattr_t attributes;

    exporter->ring = calloc(CAPACITY, sizeof exporter->ring[0]);
    exporter->batch = calloc(BATCH, sizeof exporter->batch[0]);
    if (exporter->ring == NULL || exporter->batch == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the traces");
    int code = convoy_collector_new(config->otlp_url, gives_up, exporter, &exporter->collector, error);
    if (code != 0)
        return code;
    exporter->seed = convoy_hash_seed();
    exporter->all = config->sample >= 1;
    exporter->threshold = exporter->all ? 0 : (uint64_t)ldexp(config->sample, 64);
    atomic_store_explicit(&exporter->stop_us, UINT64_MAX, memory_order_relaxed);
    pthread_mutex_init(&exporter->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&exporter->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    code = pthread_create(&exporter->thread, NULL, run, exporter);
    if (code == 0)
        return 0;
    pthread_cond_destroy(&exporter->changed);
    pthread_mutex_destroy(&exporter->lock);
    return convoy_fail(error, -EAGAIN, "no thread for the traces");
}

static void free_parts(struct convoy_exporter *exporter)
{
    convoy_collector_free(exporter->collector);
    free(exporter->batch);
    free(exporter->ring);
    free(exporter);
}

int convoy_exporter_new(const struct convoy_tracing_config *config, struct convoy_metrics *metrics,
                        struct convoy_exporter **result, struct convoy_error *error)
{
    static const char *const outcomes[] = {"exported", "failed", "dropped"};

    *result = NULL;
    if (config->otlp_url == NULL)
        return 0;
    struct convoy_exporter *exporter = calloc(1, sizeof *exporter);
    if (exporter == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the traces");
    exporter->metrics = metrics;
    int code = start(exporter, config, error);
    if (code != 0) {
        free_parts(exporter);
        return code;
    }
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++)
        convoy_metrics_traces(metrics, outcomes[i], 0);
    *result = exporter;
    return 0;
}

void convoy_exporter_free(struct convoy_exporter *exporter)
{
    if (exporter == NULL)
        return;
    pthread_mutex_lock(&exporter->lock);
    exporter->stops = true;
    atomic_store_explicit(&exporter->stop_us, convoy_now_us() + STOP_US, memory_order_relaxed);
    pthread_cond_signal(&exporter->changed);
    pthread_mutex_unlock(&exporter->lock);
    pthread_join(exporter->thread, NULL);
    pthread_cond_destroy(&exporter->changed);
    pthread_mutex_destroy(&exporter->lock);
    free_parts(exporter);
}

bool convoy_exporter_samples(struct convoy_exporter *exporter)
{
    uint64_t number = atomic_fetch_add_explicit(&exporter->drawn, 1, memory_order_relaxed);

    return exporter->all || convoy_hash(exporter->seed, &number, sizeof number) < exporter->threshold;
}

void convoy_exporter_add(struct convoy_exporter *exporter, const struct convoy_request_span *span)
{
    pthread_mutex_lock(&exporter->lock);
    bool fits = exporter->count < CAPACITY;
    if (fits) {
        if (exporter->count == 0)
            exporter->first_us = convoy_now_us();
        exporter->ring[(exporter->first + exporter->count) % CAPACITY] = *span;
        exporter->count++;
        if (exporter->count == 1 || exporter->count == BATCH)
            pthread_cond_signal(&exporter->changed);
    }
    pthread_mutex_unlock(&exporter->lock);
    if (!fits)
        convoy_metrics_traces(exporter->metrics, "dropped", 1);
}
