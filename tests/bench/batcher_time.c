/* What the batcher takes for one image when many wait: the time of an admission, of a submission that is
 * parked, of the completion of a batch of one with the choice of who is next, and of a request whose client
 * leaves. One thread, a worker that answers at once, rows of 8 bytes, so that nothing but the batcher's own
 * work is measured. Beside it the same with one model and few images: the costs must not grow with models
 * times images. bench_batcher_time Prints a line for each number of models and of waiting images: medians of
 * ROUNDS, in nanoseconds. */
#include "engine/base/clock.h"
#include "server/batching/batcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 20001
#define MODELS 1024
#define IMAGES 4096

static struct convoy_metrics *metrics;
static struct convoy_batcher *batcher;
static struct convoy_channel channel, end;
static struct convoy_worker_slots *slots;
static struct convoy_model_record models[MODELS];
static struct convoy_item items[IMAGES + 64], *idle[IMAGES + 64];
static struct convoy_item_group groups[IMAGES + 64];
static uint32_t idle_count;
static const uint8_t row[8];
static float outputs[2];

static void must(bool true_, const char *what)
{
    if (true_)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void on_done(struct convoy_item *item)
{
    idle[idle_count++] = item;
}

static uint64_t median(uint64_t *times, uint32_t n)
{
    for (uint32_t gap = n / 2; gap > 0; gap /= 2) /* Shell's sort */
        for (uint32_t i = gap; i < n; i++) {
            uint64_t time = times[i];
            uint32_t at = i;
            for (; at >= gap && times[at - gap] > time; at -= gap)
                times[at] = times[at - gap];
            times[at] = time;
        }
    return times[n / 2];
}

static uint64_t admit(struct convoy_model_record *model)
{
    uint64_t wait_us, begun = convoy_now_ns();
    must(convoy_batcher_admit(batcher, model, 1, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us) == 0,
         "an image is not admitted");
    return convoy_now_ns() - begun;
}

/* An admitted image of the model; returns its item. *ns: what that took. */
static struct convoy_item *submit(struct convoy_model_record *model, uint64_t *ns)
{
    must(idle_count > 0, "no item is idle");
    struct convoy_item *item = idle[--idle_count];
    groups[item - items] = (struct convoy_item_group){.deadline_us = convoy_now_us() + 600000000};
    *item = (struct convoy_item){.model = model,
                                 .group = &groups[item - items],
                                 .outputs = outputs,
                                 .source = row,
                                 .source_bytes = sizeof row,
                                 .source_stays = true,
                                 .done = on_done};
    uint64_t begun = convoy_now_ns();
    convoy_batcher_submit(batcher, &item, 1);
    *ns = convoy_now_ns() - begun;
    return item;
}

/* The worker answers a slot; returns what the front took to collect it and to give the row to the next. */
static uint64_t complete(void)
{
    uint32_t slot;
    must(convoy_channel_take_submitted(&end, &slot), "the worker has nothing to run");
    convoy_channel_finish(&end, &(struct convoy_done){slot, convoy_channel_slot(&end, slot)->generation, 0});
    uint64_t begun = convoy_now_ns();
    convoy_worker_slots_collect(slots);
    return convoy_now_ns() - begun;
}

static void measure(uint32_t model_count, uint32_t waiting)
{
    static uint64_t admission[ROUNDS], submission[ROUNDS], completion[ROUNDS], departure[ROUNDS];
    uint64_t ns;
    uint32_t next = 0;
    for (uint32_t i = 0; i < waiting; i++, next++) {
        admit(&models[next % model_count]);
        submit(&models[next % model_count], &ns);
    }
    for (uint32_t i = 0; i < ROUNDS; i++, next++) {
        struct convoy_model_record *model = &models[next % model_count];
        admission[i] = admit(model);
        submit(model, &submission[i]);
        completion[i] = complete();
        admit(model);
        struct convoy_item *item = submit(model, &ns);
        uint64_t begun = convoy_now_ns();
        convoy_batcher_abandon(batcher, item->group);
        convoy_batcher_tick(batcher);
        departure[i] = convoy_now_ns() - begun;
    }
    printf("%6u %8u %10llu %11llu %11llu %14llu\n", model_count, waiting,
           (unsigned long long)median(admission, ROUNDS), (unsigned long long)median(submission, ROUNDS),
           (unsigned long long)median(completion, ROUNDS), (unsigned long long)median(departure, ROUNDS));
    while (convoy_batcher_pending(batcher) > 0)
        complete();
}

int main(void)
{
    struct convoy_error error;
    struct convoy_channel_size size = {.slots = 8, .input_bytes = 4096, .output_bytes = 4096};
    struct convoy_model_shape shape = {.channels = 1, .height = 8, .width = 1, .outputs_per_row = 2};
    metrics = convoy_metrics_new();
    must(metrics != NULL && convoy_batcher_new(MODELS, 1, 0, metrics, &batcher, &error) == 0,
         "out of memory");
    must(convoy_channel_create(&channel, &error) == 0 &&
             convoy_channel_lay_out(&channel, &size, &error) == 0 &&
             convoy_channel_attach(&end, channel.memory_fd, channel.worker_doorbell_fd, &size, &error) == 0 &&
             convoy_worker_slots_new(batcher, &channel, "null", &slots, &error) == 0,
         "no channel");
    for (uint32_t i = 0; i < MODELS; i++) {
        models[i] = (struct convoy_model_record){.number = i, .name = "model"};
        convoy_batcher_set_limits(batcher, &models[i], &(struct convoy_batcher_limits){1, 0, 100000, 1});
        convoy_batcher_model_ready(batcher, &models[i], &shape);
        convoy_worker_slots_model(slots, &models[i], true, NULL, 0);
    }
    for (uint32_t i = 0; i < IMAGES + 64; i++)
        idle[idle_count++] = &items[i];
    convoy_worker_slots_up(slots, 3);
    printf("models  waiting  admit, ns  submit, ns  finish, ns  client gone, ns\n");
    measure(1, 64);
    measure(1, IMAGES);
    measure(MODELS, MODELS);
    measure(MODELS, IMAGES);
    convoy_batcher_free(batcher);
    convoy_channel_destroy(&end);
    convoy_channel_destroy(&channel);
    convoy_metrics_free(metrics);
    return 0;
}
