/* What supervisor.c and loading.c share; all of it belongs to the control loop but the atomics. */
#ifndef CONVOY_SERVER_SUPERVISOR_INTERNAL_H
#define CONVOY_SERVER_SUPERVISOR_INTERNAL_H

#include "server/workers/supervisor.h"
#include "server/workers/worker.h"

#include <stdatomic.h>

#define NO_MODEL     (-1)
#define MAX_COUNTERS 64 /* that a worker may export by name */

/* What LOADED said; it may come before the channel is laid out. */
struct kept_answer {
    bool loaded;
    struct convoy_model_shape shape;
    struct convoy_layer_name *layers; /* until the lane takes them */
};

/* One device's worker and what is known about the process that runs now. */
struct member {
    struct convoy_supervisor *supervisor;
    struct convoy_worker worker;
    struct convoy_lane *lane; /* NULL until the channel is laid out */
    struct convoy_device_metrics *metrics;
    char device[32];
    uint32_t streams;
    bool greeted, attached;
    bool serving;           /* this process has a model to serve */
    bool up;                /* attached and serving: counted in supervisor->up */
    bool completed;         /* this process finished a slot */
    char phase[16];         /* that it said last; "": none */
    uint32_t tuning_deaths; /* in a row, that came in the middle of tuning */
    int loading;            /* the model that it says it loads, or NO_MODEL */
    uint64_t loading_us;    /* since when */
    uint32_t counter_count; /* names of counters that it may export */
    char counters[MAX_COUNTERS][48];
    uint8_t *answered;        /* by model: LOADED or FAILED came */
    uint32_t *asked;          /* by model: LOADs that were not answered yet */
    uint8_t *deaths;          /* by model: workers here that its loading killed, in a row */
    struct kept_answer *kept; /* by model */
    uint64_t backoff_ms;
    uv_timer_t restart;
};

struct convoy_supervisor {
    uv_loop_t *loop;
    const struct convoy_config *config;
    struct convoy_registry *registry;
    struct convoy_metrics *metrics;
    struct convoy_batcher *batcher;
    struct convoy_worker_events events;
    uv_timer_cb on_restart;
    char backend[16]; /* what workers are started with; "auto" until the first HELLO */
    uint32_t member_count, up;
    struct member *members[CONVOY_MAX_DEVICES];
    bool *retry; /* by model: FAILED after it was READY, and asked for again */
    uint64_t retried_us;
    bool placed; /* models for devices that are not there are FAILED */
    bool sized;
    struct convoy_channel_size size;
    uv_timer_t watch, stop_timer;
    uv_poll_t batcher_timer;
    void (*stopped)(void *context);
    void *stopped_context;
    void (*changed)(void *context); /* a model became READY or FAILED; NULL: nobody asks */
    void *changed_context;

    atomic_ullong turned_us, last_up_us;
    atomic_bool any_up, draining;
};

#endif
