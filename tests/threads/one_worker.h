/* A batcher with one model and one worker, whose end of the channel the test holds: rows of one FP32 number
 * each. */
#ifndef CONVOY_TESTS_THREADS_ONE_WORKER_H
#define CONVOY_TESTS_THREADS_ONE_WORKER_H

#include "server/batching/batcher.h"
#include "tests/threads/check.h"

static struct convoy_metrics *metrics;
static struct convoy_batcher *batcher;
static struct convoy_channel channel, end; /* the front's end and the worker's */
static struct convoy_worker_slots *slots;
static struct convoy_model_record model = {.name = "a"};

/* The worker runs so many slots at once, of slot_count with at most slot_rows rows. */
static void open_batcher(uint32_t slot_count, uint32_t slot_rows, uint32_t streams,
                         struct convoy_batcher_limits limits)
{
    struct convoy_error error;
    struct convoy_channel_size size = {.slots = slot_count,
                                       .input_bytes = slot_rows * UINT64_C(64),
                                       .output_bytes = slot_rows * UINT64_C(64)};
    struct convoy_model_shape shape = {.channels = 1, .height = 4, .width = 1, .outputs_per_row = 1};
    metrics = convoy_metrics_new();
    model.metrics = convoy_metrics_model(metrics, "a");
    CHECK(convoy_batcher_new(1, 1, 0, metrics, &batcher, &error) == 0);
    CHECK(convoy_channel_create(&channel, &error) == 0);
    CHECK(convoy_channel_lay_out(&channel, &size, &error) == 0);
    CHECK(convoy_channel_attach(&end, channel.memory_fd, channel.worker_doorbell_fd, &size, &error) == 0);
    CHECK(convoy_worker_slots_new(batcher, &channel, "cuda:0", &slots, &error) == 0);
    convoy_batcher_set_limits(batcher, &model, &limits);
    convoy_batcher_model_ready(batcher, &model, &shape);
    convoy_worker_slots_up(slots, streams);
    convoy_worker_slots_model(slots, &model, true, NULL, 0);
}

static void close_batcher(void)
{
    convoy_batcher_free(batcher);
    convoy_channel_destroy(&end);
    convoy_channel_destroy(&channel);
    convoy_metrics_free(metrics);
}

#endif
