/* What bench_channel_rate measures, and how it is told: channel_rate.c, channel_report.c. */
#ifndef CONVOY_TESTS_BENCH_CHANNEL_RATE_H
#define CONVOY_TESTS_BENCH_CHANNEL_RATE_H

#include "engine/ipc/channel.h"
#include "server/models/model.h"
#include "server/workers/worker_process.h"

#include <stdbool.h>
#include <stdint.h>

#define MOST 1000000 /* slots whose times are kept; later ones are not looked at */

enum stage { STARTING, TUNING, ALONE, WAITING /* for the other devices */, BUSY, LAST, ENDED };

struct samples {
    size_t count;
    float values[MOST];
};

/* All devices. */
struct group {
    uv_loop_t loop;
    struct convoy_link *link; /* to the process that starts the workers */
    uv_poll_t master;
    uv_prepare_t turn;
    uint32_t count;
    struct bench *benches;
    int failed; /* the exit status */
};

/* One device: a worker and its channel. */
struct bench {
    struct group *group;
    uv_timer_t watch;
    struct convoy_worker_process process;
    struct convoy_model_record model;
    struct convoy_channel_size size;
    struct convoy_model_shape shape;
    uint64_t row_bytes, output_bytes; /* of a row, as they lie in a slot */
    uint32_t batch, streams;          /* streams: as the worker says */
    double seconds;
    char device[32];

    enum stage stage;
    uint32_t quiet; /* heartbeats */
    uint32_t in_flight;
    uint32_t generation[CONVOY_MAX_SLOTS];             /* of the slot's last submission */
    uint64_t outputs[CONVOY_MAX_SLOTS];                /* hash, from the first measurement */
    uint64_t began_us, counted_us, ended_us, moved_us; /* of the stage; counting from; until; last slot */
    uint64_t slots_done, slots_counted;                /* in this stage */
    bool measured;                                     /* for long enough: it goes on while others are not */
    struct samples input, compute, output, busy_compute;
};

/* Prints the line of JSON; sorts the samples. */
void bench_report(const struct group *group);

#endif
