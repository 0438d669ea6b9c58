/* A batcher over a real channel, with the test playing the worker and the control loop: what the tests of the
 * batcher share. */
#ifndef CONVOY_TESTS_UNIT_BATCHER_PLAYGROUND_H
#define CONVOY_TESTS_UNIT_BATCHER_PLAYGROUND_H

#include "server/batching/batcher.h"

#include <criterion/criterion.h>
#include <string.h>

#define ITEMS 600

struct playground {
    struct convoy_metrics *metrics;
    struct convoy_batcher *batcher;
    struct convoy_channel channel, worker;
    struct convoy_worker_slots *worker_slots;
    struct convoy_model_record models[2];
    struct convoy_item items[ITEMS];
    struct convoy_item_group groups[ITEMS]; /* of the item of the same number, or of those from it on */
    float outputs[ITEMS][2];
    int done[ITEMS];
    int done_count;
};

static struct playground p;
static uint64_t slot_bytes = 64 * 4;   /* of rows */
static uint64_t output_bytes = 64 * 4; /* of a slot; a row takes 64 */

static inline void on_done(struct convoy_item *item)
{
    size_t index = (size_t)(item - p.items);
    p.done[index]++;
    p.done_count++;
}

static inline void set_limits(uint32_t max_batch, uint32_t max_delay_us, uint32_t max_queue)
{
    for (int i = 0; i < 2; i++)
        convoy_batcher_set_limits(p.batcher, &p.models[i],
                                  &(struct convoy_batcher_limits){max_batch, max_delay_us, max_queue});
}

/* A worker and both ends of its channel. */
static inline void add_worker(struct convoy_channel *channel, struct convoy_channel *worker, uint32_t slots,
                              const char *device, struct convoy_worker_slots **worker_slots)
{
    struct convoy_error error;
    struct convoy_channel_size size = {
        .slots = slots, .input_bytes = slot_bytes, .output_bytes = output_bytes};
    cr_assert_eq(convoy_channel_create(channel, &error), 0);
    cr_assert_eq(convoy_channel_lay_out(channel, &size, &error), 0);
    cr_assert_eq(
        convoy_channel_attach(worker, channel->memory_fd, channel->worker_doorbell_fd, &size, &error), 0);
    cr_assert_eq(convoy_worker_slots_new(p.batcher, channel, device, worker_slots, &error), 0);
}

/* Rows of 8 x 1 x 1 bytes, 2 outputs; max_batch 4; slots as given. */
static inline void begin(uint32_t slots, uint32_t streams, uint32_t max_delay_us)
{
    struct convoy_error error;
    struct convoy_model_shape shape = {.channels = 1, .height = 8, .width = 1, .outputs_per_row = 2};
    memset(&p, 0, sizeof p);
    p.metrics = convoy_metrics_new();
    cr_assert_eq(convoy_batcher_new(2, 2, 0, p.metrics, &p.batcher, &error), 0);
    for (uint32_t i = 0; i < 2; i++)
        p.models[i] =
            (struct convoy_model_record){.number = i,
                                         .name = i == 0 ? "a" : "b",
                                         .metrics = convoy_metrics_model(p.metrics, i == 0 ? "a" : "b")};
    set_limits(4, max_delay_us, 500);
    add_worker(&p.channel, &p.worker, slots, "cpu", &p.worker_slots);
    for (int i = 0; i < 2; i++) {
        convoy_batcher_model_ready(p.batcher, &p.models[i], &shape);
        convoy_worker_slots_model(p.worker_slots, &p.models[i], true, NULL, 0);
    }
    if (streams > 0)
        convoy_worker_slots_up(p.worker_slots, streams);
}

static inline void end(void)
{
    convoy_batcher_free(p.batcher);
    convoy_channel_destroy(&p.channel);
    convoy_metrics_free(p.metrics);
}

static inline int admit(int model, uint32_t n)
{
    uint64_t wait_us;
    return convoy_batcher_admit(p.batcher, &p.models[model], n, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us);
}

/* A group with this deadline for the items from this one on. */
static inline struct convoy_item_group *group_at(int index, uint64_t deadline_us)
{
    p.groups[index] = (struct convoy_item_group){.deadline_us = deadline_us};
    return &p.groups[index];
}

static inline void submit_for(int index, int model, uint64_t deadline_us, bool profile)
{
    uint8_t row[8];
    memset(row, index, sizeof row);
    p.items[index] = (struct convoy_item){.model = &p.models[model],
                                          .group = group_at(index, deadline_us),
                                          .profile = profile,
                                          .outputs = p.outputs[index],
                                          .source = row,
                                          .source_bytes = sizeof row,
                                          .done = on_done};
    cr_assert_eq(admit(model, 1), 0);
    convoy_batcher_submit(p.batcher, (struct convoy_item *[]){&p.items[index]}, 1);
}

static inline void submit(int index)
{
    submit_for(index, 0, UINT64_MAX, false);
}

/* The worker takes a slot; its rows must be as the front promised. Returns the number of rows, 0 for none. */
static inline uint32_t take_from(struct convoy_channel *worker, uint32_t *slot)
{
    if (!convoy_channel_take_submitted(worker, slot))
        return 0;
    return convoy_channel_slot(worker, *slot)->rows;
}

static inline uint32_t take(uint32_t *slot)
{
    return take_from(&p.worker, slot);
}

/* Each row answers with its own first byte, so that a row in the wrong place is seen. */
static inline void answer_from(struct convoy_channel *worker, uint32_t slot)
{
    struct convoy_slot header = *convoy_channel_slot(worker, slot);
    for (uint32_t row = header.first; row < header.first + header.rows; row++) {
        float *output = (float *)(void *)(convoy_channel_outputs(worker, slot) + row * header.output_stride);
        output[0] = output[1] = convoy_channel_rows(worker, slot)[row * header.input_stride];
    }
    convoy_channel_finish(worker, &(struct convoy_done){slot, header.generation, 0});
}

static inline void answer(uint32_t slot)
{
    answer_from(&p.worker, slot);
}

static inline void collect(void)
{
    cr_assert_eq(convoy_worker_slots_collect(p.worker_slots), 0);
}

/* The worker dies and another comes up. */
static inline uint32_t replace_worker(void)
{
    uint32_t again = convoy_worker_slots_down(p.worker_slots, true);
    convoy_channel_reset(&p.channel);
    p.worker.submit_head = 0;
    convoy_worker_slots_up(p.worker_slots, 1);
    for (int i = 0; i < 2; i++)
        convoy_worker_slots_model(p.worker_slots, &p.models[i], true, NULL, 0);
    return again;
}

static inline void assert_answered(int from, int to)
{
    for (int i = from; i < to; i++) {
        cr_assert_eq(p.done[i], 1, "item %d was answered %d times", i, p.done[i]);
        cr_assert_eq(p.items[i].status, 0, "item %d: status %d", i, p.items[i].status);
        cr_assert_eq(p.outputs[i][1], (float)(uint8_t)i, "item %d got the answer of %g", i, p.outputs[i][1]);
    }
}

#endif
