/* The batcher and both ends of one channel, each on threads of its own, for the thread sanitizer: submitters
 * like the HTTP threads, a control loop, and a worker that dies now and then. Each image must be answered
 * exactly once, with its own answer or because its deadline passed. */
#include "server/batcher.h"
#include "engine/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SUBMITTERS 4
#define ROUNDS     3000 /* images per submitter */
#define WINDOW     40   /* images that a submitter has under way */
#define ROW_BYTES  16
#define DEATHS     25

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);                         \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

struct image {
    struct convoy_item item;
    float outputs[1];
    uint32_t value;
    atomic_int done;
    struct submitter *owner;
};

struct submitter {
    pthread_t thread;
    uint32_t number;
    pthread_mutex_t lock;
    pthread_cond_t one_done;
    int under_way;
    struct image images[ROUNDS];
};

static struct convoy_metrics *metrics;
static struct convoy_batcher *batcher;
static struct convoy_channel channel;
static struct convoy_lane *lane;
static struct convoy_model models[2];
static struct submitter submitters[SUBMITTERS];
static atomic_bool over, worker_over, die;
static atomic_uint deaths, timeouts, busy, hopeless;
static int wake_fd;

static void on_done(struct convoy_item *item)
{
    struct image *image = item->context;
    struct submitter *owner = image->owner;
    CHECK(atomic_fetch_add(&image->done, 1) == 0);
    if (item->status == 0)
        CHECK(image->outputs[0] == (float)image->value);
    else
        CHECK(item->status == -ETIMEDOUT);
    if (item->status != 0)
        atomic_fetch_add(&timeouts, 1);
    pthread_mutex_lock(&owner->lock);
    owner->under_way--;
    pthread_cond_signal(&owner->one_done);
    pthread_mutex_unlock(&owner->lock);
}

/* Tries until there is room; false when the deadline cannot be met. */
static bool admit(struct convoy_model *model, uint64_t deadline_us)
{
    uint64_t wait_us;
    int code;
    while ((code = convoy_batcher_admit(batcher, model, 1, CONVOY_PRIORITY_NORMAL, deadline_us, &wait_us)) ==
           -EBUSY)
        atomic_fetch_add(&busy, 1);
    CHECK(code == 0 || code == -ETIME);
    return code == 0;
}

static void *submit_all(void *context)
{
    struct submitter *self = context;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct image *image = &self->images[i];
        pthread_mutex_lock(&self->lock);
        while (self->under_way == WINDOW)
            pthread_cond_wait(&self->one_done, &self->lock);
        self->under_way++;
        pthread_mutex_unlock(&self->lock);
        image->value = self->number * ROUNDS + i;
        image->owner = self;
        image->item = (struct convoy_item){.model = &models[i % 2],
                                           .deadline_us = i % 7 == 0 ? convoy_now_us() + 300 : UINT64_MAX,
                                           .outputs = image->outputs,
                                           .done = on_done,
                                           .context = image};
        uint32_t row[ROW_BYTES / 4] = {image->value, image->value, image->value, image->value};
        if (!admit(image->item.model, image->item.deadline_us)) {
            /* Its deadline is too near: it comes in all the same, to run into it. */
            atomic_fetch_add(&hopeless, 1);
            CHECK(admit(image->item.model, UINT64_MAX));
        }
        convoy_batcher_submit(batcher, &image->item, row, sizeof row);
    }
    return NULL;
}

/* The worker's end, on a mapping of its own, as another process would have it. */
static void *work(void *context)
{
    struct convoy_channel end;
    struct convoy_error error;
    uint32_t slot;
    (void)context;
    CHECK(convoy_channel_attach(&end, channel.memory_fd, channel.submit_fd, channel.done_fd, &channel.size,
                                &error) == 0);
    while (!atomic_load(&worker_over)) {
        struct pollfd bell = {.fd = end.submit_fd, .events = POLLIN};
        poll(&bell, 1, 20);
        convoy_channel_quiet(end.submit_fd);
        while (!atomic_load(&worker_over) && convoy_channel_take_submitted(&end, &slot)) {
            struct convoy_slot header = *convoy_channel_slot(&end, slot);
            CHECK(header.rows > 0 && header.first + header.rows <= 8);
            for (uint32_t row = header.first; row < header.first + header.rows; row++) {
                uint32_t pixels[ROW_BYTES / 4];
                memcpy(pixels, convoy_channel_rows(&end, slot) + row * header.input_stride, sizeof pixels);
                CHECK(pixels[0] == pixels[3]);
                *(float *)(void *)(convoy_channel_outputs(&end, slot) + row * header.output_stride) =
                    (float)pixels[0];
            }
            /* Dies with the slot in flight, as a poisoned context would have it. */
            if (atomic_exchange(&die, false))
                goto dead;
            convoy_channel_finish(&end, &(struct convoy_done){slot, header.generation, 0});
        }
    }
dead:
    atomic_store(&worker_over, true);
    /* Only the mapping is this end's own. */
    end.memory_fd = end.submit_fd = end.done_fd = -1;
    convoy_channel_destroy(&end);
    CHECK(write(wake_fd, &(uint64_t){1}, sizeof(uint64_t)) == sizeof(uint64_t));
    return NULL;
}

static void *control(void *context)
{
    pthread_t worker;
    uint64_t next_death = convoy_now_us() + 20000;
    (void)context;
    CHECK(pthread_create(&worker, NULL, work, NULL) == 0);
    for (int i = 0; i < 2; i++)
        convoy_lane_model(lane, &models[i], true, NULL, 0);
    convoy_lane_up(lane, 2);
    while (!atomic_load(&over)) {
        struct pollfd fds[] = {{.fd = channel.done_fd, .events = POLLIN},
                               {.fd = convoy_batcher_timer(batcher), .events = POLLIN},
                               {.fd = wake_fd, .events = POLLIN}};
        poll(fds, 3, 20);
        if (fds[0].revents != 0) {
            convoy_channel_quiet(channel.done_fd);
            CHECK(convoy_lane_collect(lane) == 0);
        }
        if (fds[1].revents != 0)
            convoy_batcher_tick(batcher);
        if (convoy_now_us() > next_death && atomic_load(&deaths) < DEATHS) {
            atomic_store(&die, true);
            next_death = convoy_now_us() + 20000;
        }
        if (fds[2].revents != 0 && atomic_load(&worker_over)) {
            convoy_channel_quiet(wake_fd);
            pthread_join(worker, NULL);
            CHECK(convoy_lane_collect(lane) == 0);
            atomic_fetch_add(&deaths, 1);
            convoy_lane_down(lane, false);
            convoy_channel_reset(&channel);
            atomic_store(&worker_over, false);
            CHECK(pthread_create(&worker, NULL, work, NULL) == 0);
            for (int i = 0; i < 2; i++)
                convoy_lane_model(lane, &models[i], true, NULL, 0);
            convoy_lane_up(lane, 2);
        }
    }
    atomic_store(&worker_over, true);
    pthread_join(worker, NULL);
    return NULL;
}

int main(void)
{
    struct convoy_error error;
    struct convoy_channel_size size = {.slots = 4, .input_bytes = 64 * 8, .output_bytes = 64 * 8};
    struct convoy_model_shape shape = {.channels = 1, .height = ROW_BYTES, .width = 1, .outputs_per_row = 1};
    pthread_t loop;
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    metrics = convoy_metrics_new();
    CHECK(convoy_batcher_new(2, 1, metrics, &batcher, &error) == 0);
    for (uint32_t i = 0; i < 2; i++) {
        models[i] = (struct convoy_model){.number = i,
                                          .name = i == 0 ? "a" : "b",
                                          .metrics = convoy_metrics_model(metrics, i == 0 ? "a" : "b")};
        convoy_batcher_set_limits(batcher, &models[i], &(struct convoy_batcher_limits){8, 200, 60});
    }
    CHECK(convoy_channel_create(&channel, &error) == 0);
    CHECK(convoy_channel_lay_out(&channel, &size, &error) == 0);
    CHECK(convoy_lane_new(batcher, &channel, "cpu", &lane, &error) == 0);
    for (int i = 0; i < 2; i++)
        convoy_batcher_model_ready(batcher, &models[i], &shape);
    CHECK(pthread_create(&loop, NULL, control, NULL) == 0);
    for (uint32_t i = 0; i < SUBMITTERS; i++) {
        submitters[i].number = i;
        pthread_mutex_init(&submitters[i].lock, NULL);
        pthread_cond_init(&submitters[i].one_done, NULL);
        CHECK(pthread_create(&submitters[i].thread, NULL, submit_all, &submitters[i]) == 0);
    }
    for (uint32_t i = 0; i < SUBMITTERS; i++) {
        struct submitter *submitter = &submitters[i];
        pthread_join(submitter->thread, NULL);
        pthread_mutex_lock(&submitter->lock);
        while (submitter->under_way > 0)
            pthread_cond_wait(&submitter->one_done, &submitter->lock);
        pthread_mutex_unlock(&submitter->lock);
        for (uint32_t k = 0; k < ROUNDS; k++)
            CHECK(atomic_load(&submitter->images[k].done) == 1);
    }
    atomic_store(&over, true);
    pthread_join(loop, NULL);
    CHECK(convoy_batcher_pending(batcher) == 0);
    CHECK(atomic_load(&deaths) > 0);
    printf("%d images, %u workers died, %u deadlines passed and %u were seen to pass, "
           "%u times the queue was full\n",
           SUBMITTERS * ROUNDS, atomic_load(&deaths), atomic_load(&timeouts), atomic_load(&hopeless),
           atomic_load(&busy));
    convoy_batcher_free(batcher);
    convoy_channel_destroy(&channel);
    convoy_metrics_free(metrics);
    close(wake_fd);
    return 0;
}
