/* A worker that completes slots which it has not taken, some that it has already completed, and some that are
 * being submitted at this moment, for the thread sanitizer: the control loop looks at a completion's slot
 * without the lock, while other threads fill and submit slots. What such a worker answers is its own; each
 * image must be answered exactly once. The main thread is the control loop and the worker. */
#include "engine/base/clock.h"
#include "tests/threads/one_worker.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define SUBMITTERS 3
#define ROUNDS     4000
#define SLOTS      3

struct image {
    struct convoy_item item;
    struct convoy_item_group group;
    float outputs[1];
    uint32_t row;
    atomic_int done;
};

static struct image images[SUBMITTERS][ROUNDS];
static atomic_uint over;

static void on_done(struct convoy_item *item)
{
    struct image *image = item->context;
    CHECK(item->status == 0);
    CHECK(atomic_fetch_add(&image->done, 1) == 0);
}

static void *submit_all(void *context)
{
    struct image *own = context;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct image *image = &own[i];
        struct convoy_item *item = &image->item;
        uint64_t wait_us;
        image->group.deadline_us = UINT64_MAX;
        image->item = (struct convoy_item){.model = &model,
                                           .group = &image->group,
                                           .outputs = image->outputs,
                                           .source = &image->row,
                                           .source_bytes = sizeof image->row,
                                           .source_stays = true,
                                           .done = on_done,
                                           .context = image};
        while (convoy_batcher_admit(batcher, &model, 1, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us) != 0)
            sched_yield();
        convoy_batcher_submit(batcher, &item, 1);
    }
    atomic_fetch_add(&over, 1);
    return NULL;
}

int main(void)
{
    pthread_t threads[SUBMITTERS];
    uint32_t slot, nonsense = 0;
    open_batcher(SLOTS, 4, 2, (struct convoy_batcher_limits){4, 50, 20});
    for (uint32_t i = 0; i < SUBMITTERS; i++)
        CHECK(pthread_create(&threads[i], NULL, submit_all, images[i]) == 0);
    while (atomic_load(&over) < SUBMITTERS || convoy_batcher_pending(batcher) > 0) {
        struct pollfd timer = {.fd = convoy_batcher_timer(batcher), .events = POLLIN};
        for (uint32_t i = 0; i < 2 * SLOTS; i++) /* the slot's last submission, and the next */
            convoy_channel_finish(
                &end, &(struct convoy_done){i / 2, convoy_channel_slot(&end, i / 2)->generation + i % 2, 0});
        nonsense += convoy_worker_slots_collect(slots);
        while (convoy_channel_take_submitted(&end, &slot))
            ;
        if (poll(&timer, 1, 0) == 1)
            convoy_batcher_tick(batcher);
    }
    for (uint32_t i = 0; i < SUBMITTERS; i++) {
        pthread_join(threads[i], NULL);
        for (uint32_t k = 0; k < ROUNDS; k++)
            CHECK(atomic_load(&images[i][k].done) == 1);
    }
    CHECK(nonsense > 0);
    printf("%d images, %u completions of nothing\n", SUBMITTERS * ROUNDS, nonsense);
    close_batcher();
    return 0;
}
