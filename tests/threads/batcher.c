/* The batcher and both ends of two channels, each on threads of its own, for the thread sanitizer: submitters
 * like the HTTP threads, a control loop, and workers that die now and then; sometimes no worker takes their
 * place for a while, and what they had goes to the other. Some clients leave, which another thread notices,
 * and some submitters hold their rows back to commit several runs together. Some are files, which the devices
 * take now and then, and of which they cannot decode some. Each image must be answered exactly once, with its
 * own answer, because its deadline passed, because its client left, or because it is a file that comes back.
 */
#include "server/batching/batcher.h"
#include "engine/base/clock.h"
#include "engine/base/wake_fd.h"
#include "tests/threads/check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUBMITTERS 4
#define ROUNDS     3000 /* images per submitter */
#define WINDOW     40   /* images that a submitter has under way */
#define ROW_BYTES  16
#define RUN        5 /* images that are handed over together, at most */
#define DEATHS     25
#define DEVICES    2
#define AWAY_US    30000 /* every third time until the next worker comes */
#define HELD       3     /* runs that are committed together, by submitters of odd numbers */

struct image {
    struct convoy_item item;
    struct convoy_item_group group; /* of the items from this one on */
    float outputs[1];
    uint32_t value, row[ROW_BYTES / 4];
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
static struct convoy_model_record models[2];
static struct submitter submitters[SUBMITTERS];
static atomic_bool over;
static atomic_uint deaths, timeouts, busy, hopeless, left, decoded, returned;
static _Atomic(struct convoy_item_group *) leaving; /* a group whose client leaves; NULL: none */

/* A worker and what the front has of it. */
static struct device {
    struct convoy_channel channel;
    struct convoy_worker_slots *slots;
    pthread_t worker;
    atomic_bool worker_over, die;
    int wake_fd;
    uint64_t back_us; /* when the next worker comes; 0: one is there */
} devices[DEVICES];

static void on_done(struct convoy_item *item)
{
    struct image *image = item->context;
    struct submitter *owner = image->owner;
    CHECK(atomic_fetch_add(&image->done, 1) == 0);
    if (item->status == 0)
        CHECK(image->outputs[0] == (float)image->value);
    else if (item->status == -EBADMSG)
        CHECK(item->layout == CONVOY_LAYOUT_JPEG);
    else
        CHECK(item->status == -ETIMEDOUT || item->status == -ECONNABORTED);
    if (item->status == 0)
        atomic_fetch_add(&decoded, item->layout == CONVOY_LAYOUT_JPEG);
    else
        atomic_fetch_add(item->status == -ETIMEDOUT      ? &timeouts
                         : item->status == -ECONNABORTED ? &left
                                                         : &returned,
                         1);
    pthread_mutex_lock(&owner->lock);
    owner->under_way--;
    pthread_cond_signal(&owner->one_done);
    pthread_mutex_unlock(&owner->lock);
}

/* A row whose file is the image's row. */
static void write_file(const struct convoy_item *item, uint8_t *target)
{
    const struct convoy_jpeg_row header = {.length = (uint32_t)item->source_bytes,
                                           .offset = item->file_offset};
    memcpy(target, &header, sizeof header);
    memcpy(target + item->file_offset, item->source, item->source_bytes);
}

/* Tries until there is room for n; false when the deadline cannot be met. */
static bool admit(struct convoy_model_record *model, uint32_t n, uint64_t deadline_us)
{
    uint64_t wait_us;
    int code;
    while ((code = convoy_batcher_admit(batcher, model, n, CONVOY_PRIORITY_NORMAL, deadline_us, &wait_us)) ==
           -EBUSY)
        atomic_fetch_add(&busy, 1);
    CHECK(code == 0 || code == -ETIME);
    return code == 0;
}

/* Waits until so few are under way that n more may be. */
static void take_part(struct submitter *self, uint32_t n)
{
    pthread_mutex_lock(&self->lock);
    while (self->under_way + (int)n > WINDOW)
        pthread_cond_wait(&self->one_done, &self->lock);
    self->under_way += (int)n;
    pthread_mutex_unlock(&self->lock);
}

/* Of the n that were taken part with, so many were not handed over. */
static void give_back(struct submitter *self, uint32_t n)
{
    pthread_mutex_lock(&self->lock);
    self->under_way -= (int)n;
    pthread_mutex_unlock(&self->lock);
}

/* Runs of 1 to RUN images. Every other run has rows that are gone when submit() returns. */
static void *submit_all(void *context)
{
    struct submitter *self = context;
    uint32_t n, given = 0;
    for (uint32_t begun = 0, run = 0; begun < ROUNDS; begun += n, run++) {
        uint32_t passing[RUN][ROW_BYTES / 4];
        struct convoy_item *items[RUN];
        uint64_t deadline_us = run % 7 == 0 ? convoy_now_us() + 300 : UINT64_MAX;
        n = run % RUN + 1 < ROUNDS - begun ? run % RUN + 1 : ROUNDS - begun;
        if (run % HELD == 0) {
            convoy_batcher_let_go(); /* what is waited for next may be what is held */
            take_part(self, HELD * RUN);
            given = 0;
            if (self->number % 2 == 1)
                convoy_batcher_hold();
        }
        given += n;
        struct convoy_item_group *group = &self->images[begun].group;
        *group = (struct convoy_item_group){.deadline_us = deadline_us};
        for (uint32_t i = 0; i < n; i++) {
            struct image *image = &self->images[begun + i];
            bool stays = run % 2 == 0, file = run % 6 == 0;
            uint32_t *row = stays ? image->row : passing[i];
            image->value = self->number * ROUNDS + begun + i;
            image->owner = self;
            for (int k = 0; k < ROW_BYTES / 4; k++)
                row[k] = image->value;
            image->item = (struct convoy_item){.model = &models[run / 2 % 2],
                                               .group = group,
                                               .outputs = image->outputs,
                                               .source = row,
                                               .source_bytes = ROW_BYTES,
                                               .source_stays = stays,
                                               .layout = file ? CONVOY_LAYOUT_JPEG : CONVOY_LAYOUT_U8_HWC,
                                               .write = file ? write_file : NULL,
                                               .pixels = file,
                                               .done = on_done,
                                               .context = image};
            items[i] = &image->item;
        }
        if (!admit(items[0]->model, n, deadline_us)) {
            /* Its deadline is too near: it comes in all the same, to run into it. */
            atomic_fetch_add(&hopeless, 1);
            CHECK(admit(items[0]->model, n, UINT64_MAX));
        }
        convoy_batcher_submit(batcher, items, n);
        memset(passing, 0xee, sizeof passing);
        if (run % 5 == 0)
            atomic_store(&leaving, group);
        if (run % HELD == HELD - 1 || begun + n == ROUNDS)
            give_back(self, HELD * RUN - given);
    }
    convoy_batcher_let_go();
    return NULL;
}

/* Like an HTTP thread that finds clients gone. */
static void *leave(void *context)
{
    (void)context;
    while (!atomic_load(&over)) {
        struct convoy_item_group *group = atomic_exchange(&leaving, NULL);
        if (group != NULL)
            convoy_batcher_abandon(batcher, group);
        sched_yield();
    }
    return NULL;
}

/* The worker's end, on a mapping of its own, as another process would have it. */
static void *work(void *context)
{
    struct device *device = context;
    const struct convoy_channel *front = &device->channel;
    struct convoy_channel end;
    struct convoy_error error;
    uint32_t slot;
    CHECK(convoy_channel_attach(&end, front->memory_fd, front->worker_doorbell_fd, &front->size, &error) ==
          0);
    while (!atomic_load(&device->worker_over)) {
        struct pollfd bell = {.fd = end.doorbell_fd, .events = POLLIN};
        poll(&bell, 1, 20);
        (void)convoy_channel_clear_doorbell(end.doorbell_fd);
        while (!atomic_load(&device->worker_over) && convoy_channel_take_submitted(&end, &slot)) {
            struct convoy_slot header = *convoy_channel_slot(&end, slot);
            CHECK(header.rows > 0 && header.first + header.rows <= 8);
            struct convoy_slot_report *report = convoy_channel_report(&end, slot);
            memset(report->undecoded, 0, sizeof report->undecoded);
            for (uint32_t row = header.first; row < header.first + header.rows; row++) {
                const uint8_t *at = convoy_channel_rows(&end, slot) + row * header.input_stride;
                uint32_t pixels[ROW_BYTES / 4];
                struct convoy_jpeg_row file = {0};
                if (header.layout == CONVOY_LAYOUT_JPEG) {
                    memcpy(&file, at, sizeof file);
                    CHECK(file.length == ROW_BYTES);
                }
                memcpy(pixels, at + file.offset, sizeof pixels);
                CHECK(pixels[0] == pixels[3]);
                if (pixels[0] % 13 == 0) /* which says nothing of rows that are no files */
                    report->undecoded[0] |= UINT64_C(1) << (row - header.first);
                *(float *)(void *)(convoy_channel_outputs(&end, slot) + row * header.output_stride) =
                    (float)pixels[0];
            }
            convoy_channel_progress(&end);
            /* Dies with the slot in flight, as a poisoned context would have it. */
            if (atomic_exchange(&device->die, false))
                goto dead;
            convoy_channel_finish(&end, &(struct convoy_done){slot, header.generation, 0});
        }
    }
dead:
    atomic_store(&device->worker_over, true);
    /* Only the mapping is this end's own. */
    end.memory_fd = end.doorbell_fd = -1;
    convoy_channel_destroy(&end);
    convoy_wake_fd_ring(device->wake_fd);
    return NULL;
}

static void come_up(struct device *device)
{
    device->back_us = 0;
    atomic_store(&device->worker_over, false);
    CHECK(pthread_create(&device->worker, NULL, work, device) == 0);
    convoy_worker_slots_up(device->slots, 2);
    convoy_worker_slots_ahead(device->slots, 2);
    for (int i = 0; i < 2; i++)
        convoy_worker_slots_model(device->slots, &models[i], true, NULL, 0);
}

static void go_down(struct device *device)
{
    convoy_wake_fd_clear(device->wake_fd);
    pthread_join(device->worker, NULL);
    CHECK(convoy_worker_slots_collect(device->slots) == 0);
    uint32_t number = atomic_fetch_add(&deaths, 1);
    for (int i = 0; i < 2; i++) /* the next worker has a decoder, or not */
        convoy_batcher_model_files(batcher, &models[i], number % 4 != 3);
    convoy_worker_slots_down(device->slots, false);
    convoy_channel_reset(&device->channel);
    device->back_us = convoy_now_us() + (number % 3 == 0 ? AWAY_US : 0);
    if (number % 2 == 0)
        convoy_worker_slots_lost(device->slots);
}

static void *control(void *context)
{
    uint64_t next_death = convoy_now_us() + 20000;
    (void)context;
    for (int i = 0; i < DEVICES; i++)
        come_up(&devices[i]);
    while (!atomic_load(&over)) {
        struct pollfd fds[2 * DEVICES + 1] = {{.fd = convoy_batcher_timer(batcher), .events = POLLIN}};
        for (int i = 0; i < DEVICES; i++) {
            fds[1 + 2 * i] = (struct pollfd){.fd = devices[i].channel.doorbell_fd, .events = POLLIN};
            fds[2 + 2 * i] = (struct pollfd){.fd = devices[i].wake_fd, .events = POLLIN};
        }
        poll(fds, 2 * DEVICES + 1, 5);
        if (fds[0].revents != 0)
            convoy_batcher_tick(batcher);
        for (int i = 0; i < DEVICES; i++) {
            struct device *device = &devices[i];
            if (fds[1 + 2 * i].revents != 0) {
                CHECK(convoy_channel_clear_doorbell(device->channel.doorbell_fd));
                CHECK(convoy_worker_slots_collect(device->slots) == 0);
                struct convoy_stall stall;
                convoy_worker_slots_stall(device->slots, convoy_now_us(), 60000000, 60000000, &stall);
                CHECK(!stall.hangs);
            }
            if (fds[2 + 2 * i].revents != 0 && atomic_load(&device->worker_over))
                go_down(device);
            if (device->back_us != 0 && convoy_now_us() >= device->back_us)
                come_up(device);
        }
        if (convoy_now_us() > next_death && atomic_load(&deaths) < DEATHS) {
            atomic_store(&devices[atomic_load(&deaths) % DEVICES].die, true);
            next_death = convoy_now_us() + 20000;
        }
    }
    for (int i = 0; i < DEVICES; i++) {
        if (devices[i].back_us != 0)
            continue;
        atomic_store(&devices[i].worker_over, true);
        pthread_join(devices[i].worker, NULL);
    }
    return NULL;
}

int main(void)
{
    struct convoy_error error;
    struct convoy_channel_size size = {.slots = 6, .input_bytes = 17 * 1024, .output_bytes = 64 * 8};
    struct convoy_model_shape shape = {.channels = 1, .height = ROW_BYTES, .width = 1, .outputs_per_row = 1};
    pthread_t loop, leaver;
    metrics = convoy_metrics_new();
    CHECK(convoy_batcher_new(2, DEVICES, 2, metrics, &batcher, &error) == 0);
    for (uint32_t i = 0; i < 2; i++) {
        models[i] =
            (struct convoy_model_record){.number = i,
                                         .name = i == 0 ? "a" : "b",
                                         .metrics = convoy_metrics_model(metrics, i == 0 ? "a" : "b")};
        convoy_batcher_set_limits(batcher, &models[i], &(struct convoy_batcher_limits){8, 200, 60});
    }
    for (int i = 0; i < DEVICES; i++) {
        struct device *device = &devices[i];
        device->wake_fd = convoy_wake_fd_new();
        CHECK(convoy_channel_create(&device->channel, &error) == 0);
        CHECK(convoy_channel_lay_out(&device->channel, &size, &error) == 0);
        CHECK(convoy_worker_slots_new(batcher, &device->channel, i == 0 ? "cuda:0" : "cuda:1", &device->slots,
                                      &error) == 0);
    }
    for (int i = 0; i < 2; i++)
        convoy_batcher_model_ready(batcher, &models[i], &shape);
    for (int i = 0; i < 2; i++)
        convoy_batcher_model_files(batcher, &models[i], true);
    CHECK(pthread_create(&loop, NULL, control, NULL) == 0);
    CHECK(pthread_create(&leaver, NULL, leave, NULL) == 0);
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
    pthread_join(leaver, NULL);
    CHECK(convoy_batcher_pending(batcher) == 0);
    CHECK(atomic_load(&deaths) > 0 && atomic_load(&left) > 0);
    CHECK(atomic_load(&decoded) > 0 && atomic_load(&returned) > 0);
    printf("%d images, %u workers died, %u deadlines passed and %u were seen to pass, "
           "%u left, %u files were decoded and %u came back, %u times the queue was full\n",
           SUBMITTERS * ROUNDS, atomic_load(&deaths), atomic_load(&timeouts), atomic_load(&hopeless),
           atomic_load(&left), atomic_load(&decoded), atomic_load(&returned), atomic_load(&busy));
    convoy_batcher_free(batcher);
    for (int i = 0; i < DEVICES; i++) {
        convoy_channel_destroy(&devices[i].channel);
        close(devices[i].wake_fd);
    }
    convoy_metrics_free(metrics);
    return 0;
}
