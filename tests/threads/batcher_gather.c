/* Rows of several threads that gather in a slot while the worker is busy, for the thread sanitizer: commits
 * beside the timer, which is armed without the lock. In each round a slot is in flight that does not end,
 * and nothing but the timer may say that the rows behind it have gathered: were a commit
 * or an arming lost between two threads, it would fire in ten minutes, or at no time. Some rows bring a
 * deadline, each earlier than all before, so that both times are armed in one round. The main thread is the
 * control loop and the worker. */
#include "engine/base/clock.h"
#include "tests/threads/one_worker.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SUBMITTERS 5
#define ROUNDS     4000
#define LIMIT_MS   20000     /* of what takes less than a millisecond */
#define FAR_US     600000000 /* of the first deadline; it outlasts the test */
#define SLICE_US   40000     /* more than the deadline wheel tells apart */

struct image {
    struct convoy_item item;
    struct convoy_item_group group;
    float outputs[1];
    uint32_t value;
};

static struct image images[SUBMITTERS + 1]; /* the last one is the main thread's */
static pthread_barrier_t round_begins, round_is_over;
static uint64_t begun_us;
static atomic_uint done_count;

static void on_done(struct convoy_item *item)
{
    struct image *image = item->context;
    CHECK(item->status == 0);
    CHECK(image->outputs[0] == (float)image->value);
    atomic_fetch_add(&done_count, 1);
}

static void submit(uint32_t number, uint32_t round, uint64_t deadline_us)
{
    struct image *image = &images[number];
    struct convoy_item *item = &image->item;
    uint64_t wait_us;
    *image =
        (struct image){.group = {.deadline_us = deadline_us}, .value = round * (SUBMITTERS + 1) + number};
    image->item = (struct convoy_item){.model = &model,
                                       .group = &image->group,
                                       .outputs = image->outputs,
                                       .source = &image->value,
                                       .source_bytes = sizeof image->value,
                                       .done = on_done,
                                       .context = image};
    CHECK(convoy_batcher_admit(batcher, &model, 1, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us) == 0);
    convoy_batcher_submit(batcher, &item, 1);
}

/* Every other one has deadlines; every third holds its row back for a moment. */
static void *submit_all(void *context)
{
    uint32_t number = (uint32_t)((struct image *)context - images);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&round_begins);
        if (number % 3 == 2)
            convoy_batcher_hold();
        submit(number, round,
               (round + number) % 2 == 0 ? begun_us + FAR_US - round * (uint64_t)SLICE_US : UINT64_MAX);
        convoy_batcher_let_go();
        pthread_barrier_wait(&round_is_over);
    }
    return NULL;
}

/* The worker answers each row with the number that it holds. */
static void answer(uint32_t number)
{
    struct convoy_slot header = *convoy_channel_slot(&end, number);
    for (uint32_t row = header.first; row < header.first + header.rows; row++) {
        uint32_t value;
        memcpy(&value, convoy_channel_rows(&end, number) + row * header.input_stride, sizeof value);
        *(float *)(void *)(convoy_channel_outputs(&end, number) + row * header.output_stride) = (float)value;
    }
    convoy_channel_finish(&end, &(struct convoy_done){number, header.generation, 0});
}

/* Waits for the slot that is staged, by the control loop when it is woken for what has gathered, or by a
 * thread that commits a row then. */
static uint32_t wait_for_staged(void)
{
    uint32_t number;
    struct pollfd fds[] = {{.fd = convoy_batcher_timer(batcher), .events = POLLIN},
                           {.fd = end.doorbell_fd, .events = POLLIN}};
    while (!convoy_channel_take_submitted(&end, &number)) {
        CHECK(poll(fds, 2, LIMIT_MS) > 0);
        (void)convoy_channel_clear_doorbell(end.doorbell_fd);
        if (fds[0].revents != 0)
            convoy_batcher_tick(batcher);
    }
    return number;
}

int main(void)
{
    pthread_t threads[SUBMITTERS];
    uint64_t together = 0;
    begun_us = convoy_now_us();
    open_batcher(4, 64, 1, (struct convoy_batcher_limits){64, 0, 100});
    pthread_barrier_init(&round_begins, NULL, SUBMITTERS + 1);
    pthread_barrier_init(&round_is_over, NULL, SUBMITTERS + 1);
    for (uint32_t i = 0; i < SUBMITTERS; i++)
        CHECK(pthread_create(&threads[i], NULL, submit_all, &images[i]) == 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t running, number;
        convoy_batcher_set_limits(batcher, &model,
                                  &(struct convoy_batcher_limits){64, 20 * (round % 8), 100});
        submit(SUBMITTERS, round, UINT64_MAX);
        CHECK(convoy_channel_take_submitted(&end, &running));
        pthread_barrier_wait(&round_begins);
        number = wait_for_staged();
        together += convoy_channel_slot(&end, number)->rows;
        pthread_barrier_wait(&round_is_over);
        answer(running);
        answer(number);
        CHECK(convoy_worker_slots_collect(slots) == 0);
        while (convoy_channel_take_submitted(&end, &number)) {
            answer(number);
            CHECK(convoy_worker_slots_collect(slots) == 0);
        }
        CHECK(atomic_exchange(&done_count, 0) == SUBMITTERS + 1);
    }
    for (uint32_t i = 0; i < SUBMITTERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(convoy_batcher_pending(batcher) == 0);
    printf("%d rounds, %.1f of %d rows gathered\n", ROUNDS, (double)together / ROUNDS, SUBMITTERS);
    close_batcher();
    pthread_barrier_destroy(&round_begins);
    pthread_barrier_destroy(&round_is_over);
    return 0;
}
