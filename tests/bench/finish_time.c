/* What a finished image costs the control loop, which passes all of them on: from the worker's completion in
 * the channel to the request in the list of its HTTP thread. Two threads on two cores take turns. One is the
 * HTTP threads and the worker: it makes requests, submits their rows and completes their slot, so that what
 * the control loop then reads was last written on another core, as it is in the daemon. The other is the
 * control loop, whose turn alone is timed. No HTTP, no sockets; with `awake` no system call either.
 *   bench_finish_time
 * Prints a line for each number of images in a slot and of HTTP threads: medians of ROUNDS, in nanoseconds an
 * image, while the HTTP threads are awake and while they sleep, so that each is to be woken. */
#include "engine/base/clock.h"
#include "server/http/http_thread.h"
#include "server/inference/inference_request_internal.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#define ROUNDS  5001
#define IMAGES  8 /* at most, so that the hold of batcher_hold.c commits them together */
#define THREADS 24
#define OUTPUTS 10

static struct convoy_metrics *metrics;
static struct convoy_batcher *batcher;
static struct convoy_channel channel, end;
static struct convoy_worker_slots *slots;
static struct convoy_model_record model;
static const struct convoy_model_shape shape = {
    .channels = 3, .height = 32, .width = 32, .outputs_per_row = OUTPUTS};
static struct convoy_pipeline pipeline;
static struct convoy_http_thread threads[THREADS];
static const uint8_t row[3 * 32 * 32];

/* Whose turn it is, and what the next turn is to measure. images 0: it is the end. */
static _Atomic bool loops_turn;
static uint32_t images, thread_count;
static bool asleep;

static void must(bool true_, const char *what)
{
    if (true_)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void pin(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    must(sched_setaffinity(0, sizeof set, &set) == 0, "two cores are needed");
}

static void ask_for_one(struct convoy_http_thread *thread)
{
    struct convoy_model_view view = {.model = &model, .shape = shape};
    uint64_t wait_us;
    convoy_model_hold(&model);
    must(convoy_batcher_admit(batcher, &model, 1, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us) == 0,
         "an image is not admitted");
    struct convoy_inference_request *inference = convoy_inference_request_new(&view, 1);
    must(inference != NULL, "out of memory");
    inference->pipeline = &pipeline;
    inference->suspension.thread = thread;
    atomic_init(&inference->suspension.over, false);
    inference->group.deadline_us = convoy_now_us() + 600000000;
    atomic_store(&inference->left, 1);
    atomic_store(&inference->refs, 2);
    struct convoy_item *item = convoy_inference_make_item(inference, 0, CONVOY_LAYOUT_U8_HWC);
    item->source = row;
    item->source_bytes = sizeof row;
    convoy_batcher_submit(batcher, &item, 1);
}

/* The worker's part. */
static void complete(void)
{
    uint32_t number, done = 0;
    while (convoy_channel_take_submitted(&end, &number)) {
        const struct convoy_slot *slot = convoy_channel_slot(&end, number);
        memset(convoy_channel_outputs(&end, number), 0, slot->rows * slot->output_stride);
        done += slot->rows;
        convoy_channel_finish(&end, &(struct convoy_done){number, slot->generation, 0});
    }
    must(done == images, "the images did not leave together");
    convoy_channel_clear_doorbell(end.doorbell_fd);
    convoy_channel_clear_doorbell(channel.doorbell_fd);
}

/* The requests are answered; returns how many. */
static uint32_t end_requests(struct convoy_http_thread *thread)
{
    struct convoy_list *link;
    uint32_t count = 0;
    pthread_mutex_lock(&thread->lock);
    while ((link = convoy_list_take_first(&thread->resumed)) != NULL) {
        struct convoy_suspension *suspension = convoy_list_entry(link, struct convoy_suspension, resumed);
        convoy_inference_request_drop(
            convoy_list_entry(suspension, struct convoy_inference_request, suspension));
        count++;
    }
    atomic_store(&thread->sleeps, asleep);
    thread->to_ring = NULL;
    pthread_mutex_unlock(&thread->lock);
    return count;
}

static void *serve(void *context)
{
    (void)context;
    pin(0);
    while (images > 0) {
        convoy_batcher_hold();
        for (uint32_t i = 0; i < images; i++)
            ask_for_one(&threads[i % thread_count]);
        convoy_batcher_let_go();
        complete();
        uint32_t waiting = images;
        atomic_store(&loops_turn, true);
        while (atomic_load(&loops_turn))
            ;
        for (uint32_t i = 0; i < THREADS; i++)
            waiting -= end_requests(&threads[i]);
        must(waiting == 0, "a request was not resumed");
    }
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* To be called in a turn of the control loop; the next one takes what is set here. Nanoseconds an image. */
static double measure(uint32_t next_images, uint32_t next_threads, bool next_asleep)
{
    static uint64_t times[ROUNDS];
    images = next_images;
    thread_count = next_threads;
    asleep = next_asleep;
    for (int32_t i = -1; i < ROUNDS; i++) {
        while (!atomic_load(&loops_turn))
            ;
        uint64_t begun = convoy_now_ns();
        must(convoy_worker_slots_collect(slots) == 0, "a completion is not known");
        if (i >= 0)
            times[i] = convoy_now_ns() - begun;
        if (i < ROUNDS - 1)
            atomic_store(&loops_turn, false);
    }
    qsort(times, ROUNDS, sizeof times[0], by_size);
    return (double)times[ROUNDS / 2] / next_images;
}

static void prepare(void)
{
    struct convoy_error error;
    const struct convoy_channel_size size = {
        .slots = 8, .input_bytes = 256 * sizeof row, .output_bytes = 256 * 64};
    metrics = convoy_metrics_new();
    must(metrics != NULL && convoy_batcher_new(1, 1, 0, metrics, &batcher, &error) == 0, "out of memory");
    must(convoy_channel_create(&channel, &error) == 0 &&
             convoy_channel_lay_out(&channel, &size, &error) == 0 &&
             convoy_channel_attach(&end, channel.memory_fd, channel.worker_doorbell_fd, &size, &error) == 0 &&
             convoy_worker_slots_new(batcher, &channel, "null", &slots, &error) == 0,
         "no channel");
    model.name = "model";
    model.metrics = convoy_metrics_model(metrics, "model");
    model.statistics = convoy_statistics_new(256);
    must(model.metrics != NULL && model.statistics != NULL, "out of memory");
    convoy_batcher_set_limits(batcher, &model, &(struct convoy_batcher_limits){256, 500, 4096, 1});
    convoy_batcher_model_ready(batcher, &model, &shape);
    convoy_worker_slots_model(slots, &model, true, NULL, 0);
    convoy_worker_slots_up(slots, 3);
    convoy_batcher_done_in_rounds(batcher, convoy_resume_hold, convoy_resume_let_go);
    pipeline.batcher = batcher;
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_mutex_init(&threads[i].lock, NULL);
        convoy_list_init(&threads[i].resumed);
        convoy_list_init(&threads[i].held);
        threads[i].wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        must(threads[i].wake_fd >= 0, "no eventfd");
    }
}

int main(void)
{
    static const uint32_t cases[][2] = {{1, 1}, {4, 1}, {4, 4}, {8, 1}, {8, 8}};
    pthread_t other;
    prepare();
    images = cases[0][0];
    thread_count = cases[0][1];
    must(pthread_create(&other, NULL, serve, NULL) == 0, "no thread");
    pin(1);
    printf("images a slot  HTTP threads  awake, ns an image  asleep, ns an image\n");
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double awake = measure(cases[i][0], cases[i][1], false);
        printf("%13u %13u %19.0f", cases[i][0], cases[i][1], awake);
        printf(" %20.0f\n", measure(cases[i][0], cases[i][1], true));
        fflush(stdout);
    }
    images = 0;
    atomic_store(&loops_turn, false);
    pthread_join(other, NULL);
    return 0;
}
