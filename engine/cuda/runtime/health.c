#include "engine/cuda/runtime/health.h"

#include "engine/base/clock.h"
#include "engine/cuda/runtime/nvml.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define END_MS 2000

struct convoy_cuda_health {
    pthread_t thread;
    uint32_t period_ms;
    void *context;
    void (*log)(void *context, const char *level, const char *text);

    pthread_mutex_t lock; /* all below; never held in a call of NVML or of log */
    pthread_cond_t changed;
    char bus[32];  /* "": not known yet */
    bool started;  /* NVML has found the GPU, or cannot */
    bool watched;  /* the watch was asked for */
    bool stop;     /* the thread is to end */
    bool ended;    /* it has */
    uint64_t told; /* Xids that a caller of read() knows of */
    struct convoy_device_health now;
};

__attribute__((format(printf, 3, 4))) static void say(const struct convoy_cuda_health *health,
                                                      const char *level, const char *format, ...)
{
    char text[CONVOY_ERROR_BYTES];
    va_list arguments;
    if (health->log == NULL)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    health->log(health->context, level, text);
}

/* Under the lock. until_us: convoy_now_us() time. False when it has passed. */
static bool wait_until(struct convoy_cuda_health *health, uint64_t until_us)
{
    struct timespec until = {.tv_sec = (time_t)(until_us / 1000000),
                             .tv_nsec = (long)(until_us % 1000000 * 1000)};
    return pthread_cond_timedwait(&health->changed, &health->lock, &until) != ETIMEDOUT;
}

/* The thread has found the GPU, or cannot. */
static void set_started(struct convoy_cuda_health *health)
{
    pthread_mutex_lock(&health->lock);
    health->started = true;
    pthread_cond_broadcast(&health->changed);
    pthread_mutex_unlock(&health->lock);
}

/* False when the thread is to end before the GPU's place is known. */
static bool know_bus(struct convoy_cuda_health *health)
{
    pthread_mutex_lock(&health->lock);
    while (health->bus[0] == '\0' && !health->stop)
        pthread_cond_wait(&health->changed, &health->lock);
    bool known = !health->stop; /* bus is not changed any more */
    pthread_mutex_unlock(&health->lock);
    return known;
}

/* False when the thread is to end before the watch was asked for. */
static bool await_watch(struct convoy_cuda_health *health)
{
    pthread_mutex_lock(&health->lock);
    while (!health->watched && !health->stop)
        pthread_cond_wait(&health->changed, &health->lock);
    bool watched = health->watched;
    pthread_mutex_unlock(&health->lock);
    return watched;
}

static void tell_what_is_known(const struct convoy_cuda_health *health, const uint64_t *values)
{
    char unknown[CONVOY_ERROR_BYTES / 2] = "";
    for (int i = 0; i < CONVOY_HEALTH_LAST_XID; i++) {
        size_t used = strlen(unknown);
        if (values[i] == CONVOY_HEALTH_UNKNOWN)
            snprintf(unknown + used, sizeof(unknown) - used, "%s%s",
                     used > 0 ? ", " : "; not of: ", convoy_health_names[i]);
    }
    say(health, "info", "NVML tells of the GPU's health%s", unknown);
}

static void keep(struct convoy_cuda_health *health, const uint64_t *values)
{
    pthread_mutex_lock(&health->lock);
    memcpy(health->now.values, values, sizeof(health->now.values));
    health->now.number++;
    pthread_cond_broadcast(&health->changed);
    pthread_mutex_unlock(&health->lock);
}

static bool is_stopped(struct convoy_cuda_health *health)
{
    pthread_mutex_lock(&health->lock);
    bool stop = health->stop;
    pthread_mutex_unlock(&health->lock);
    return stop;
}

/* Waits for errors until the next sample is due. */
static void wait_for_errors(struct convoy_cuda_health *health, struct convoy_nvml *nvml, uint64_t *values,
                            uint64_t until_us)
{
    uint64_t now_us, xid = 0;
    while ((now_us = convoy_now_us()) < until_us && !is_stopped(health)) {
        int got = convoy_nvml_wait(nvml, (unsigned)((until_us - now_us) / 1000) + 1, &xid);
        if (got > 0) {
            values[CONVOY_HEALTH_XIDS]++;
            values[CONVOY_HEALTH_LAST_XID] = xid;
            keep(health, values);
            say(health, "warning", "the driver reports an error of the GPU: Xid %llu",
                (unsigned long long)xid);
        } else if (got < 0) {
            pthread_mutex_lock(&health->lock);
            while (!health->stop && wait_until(health, until_us))
                continue;
            pthread_mutex_unlock(&health->lock);
        }
    }
}

static void watch(struct convoy_cuda_health *health, struct convoy_nvml *nvml)
{
    uint64_t values[CONVOY_HEALTH_VALUES], due_us = convoy_now_us();
    convoy_nvml_watch_errors(nvml);
    values[CONVOY_HEALTH_XIDS] = nvml->events != NULL ? 0 : CONVOY_HEALTH_UNKNOWN;
    values[CONVOY_HEALTH_LAST_XID] = CONVOY_HEALTH_UNKNOWN;
    for (bool first = true; !is_stopped(health); first = false) {
        convoy_nvml_sample(nvml, values);
        keep(health, values);
        if (first)
            tell_what_is_known(health, values);
        due_us += (uint64_t)health->period_ms * 1000;
        if (due_us < convoy_now_us())
            due_us = convoy_now_us() + (uint64_t)health->period_ms * 1000; /* the sample took that long */
        wait_for_errors(health, nvml, values, due_us);
    }
}

static void *run(void *argument)
{
    struct convoy_cuda_health *health = argument;
    struct convoy_nvml nvml;
    struct convoy_error error;
    int code = convoy_nvml_open(&nvml, &error);
    bool found = code == 0 && know_bus(health); /* false: the end was asked for while NVML started */
    if (found)
        code = convoy_nvml_find(&nvml, health->bus, &error);
    set_started(health);
    if (await_watch(health)) {
        if (code != 0)
            say(health, "info", "nothing is known of the GPU's health: %s", error.message);
        else if (found)
            watch(health, &nvml);
    }
    convoy_nvml_close(&nvml);
    pthread_mutex_lock(&health->lock);
    health->ended = true;
    pthread_cond_broadcast(&health->changed);
    pthread_mutex_unlock(&health->lock);
    return NULL;
}

struct convoy_cuda_health *convoy_cuda_health_begin(uint32_t period_ms, void *context,
                                                    void (*log)(void *context, const char *level,
                                                                const char *text))
{
    struct convoy_cuda_health *health = calloc(1, sizeof(*health));
    if (health == NULL)
        return NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&health->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&health->lock, NULL);
    health->period_ms = period_ms;
    health->context = context;
    health->log = log;
    int code = pthread_create(&health->thread, NULL, run, health);
    if (code == 0)
        return health;
    say(health, "warning", "nothing is known of the GPU's health: no thread: %s", strerror(code));
    pthread_mutex_destroy(&health->lock);
    pthread_cond_destroy(&health->changed);
    free(health);
    return NULL;
}

void convoy_cuda_health_find(struct convoy_cuda_health *health, const char *bus, uint32_t limit_ms)
{
    uint64_t until_us = convoy_now_us() + (uint64_t)limit_ms * 1000;
    bool waits = true;
    pthread_mutex_lock(&health->lock);
    snprintf(health->bus, sizeof(health->bus), "%s", bus);
    pthread_cond_broadcast(&health->changed);
    while (!health->started && waits)
        waits = wait_until(health, until_us);
    pthread_mutex_unlock(&health->lock);
}

void convoy_cuda_health_watch(struct convoy_cuda_health *health)
{
    pthread_mutex_lock(&health->lock);
    bool started = health->started;
    health->watched = true;
    pthread_cond_broadcast(&health->changed);
    pthread_mutex_unlock(&health->lock);
    if (!started)
        say(health, "warning", "NVML does not answer: nothing is known of the GPU's health until it does");
}

bool convoy_cuda_health_read(struct convoy_cuda_health *health, uint32_t wait_ms,
                             struct convoy_device_health *result)
{
    uint64_t until_us = convoy_now_us() + (uint64_t)wait_ms * 1000;
    pthread_mutex_lock(&health->lock);
    const uint64_t *xids = &health->now.values[CONVOY_HEALTH_XIDS];
    while (wait_ms > 0 && health->now.number > 0 && !health->ended && *xids == health->told &&
           wait_until(health, until_us))
        continue;
    *result = health->now;
    bool known = health->now.number > 0;
    if (known && *xids != CONVOY_HEALTH_UNKNOWN)
        health->told = *xids;
    pthread_mutex_unlock(&health->lock);
    return known;
}

void convoy_cuda_health_end(struct convoy_cuda_health *health)
{
    if (health == NULL)
        return;
    uint64_t until_us = convoy_now_us() + END_MS * UINT64_C(1000);
    bool waits = true;
    pthread_mutex_lock(&health->lock);
    health->stop = true;
    pthread_cond_broadcast(&health->changed);
    while (!health->ended && waits)
        waits = wait_until(health, until_us);
    bool ended = health->ended;
    pthread_mutex_unlock(&health->lock);
    if (!ended) {
        pthread_detach(health->thread);
        return;
    }
    pthread_join(health->thread, NULL);
    pthread_mutex_destroy(&health->lock);
    pthread_cond_destroy(&health->changed);
    free(health);
}
