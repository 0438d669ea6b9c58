/* Parked images: which is next among many models, and the threads that write their rows. */
#include "engine/base/clock.h"
#include "server/batching/batcher_internal.h"
#include "tests/unit/server/batching/batcher_playground.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define MODELS 150

/* The parked item that should be next, by a search through all. */
static const struct convoy_item *searched(const struct convoy_batcher *batcher, const bool *in)
{
    const struct convoy_item *best = NULL;
    for (int i = 0; i < ITEMS; i++) {
        const struct convoy_item *item = &p.items[i];
        if (!in[i])
            continue;
        if (best == NULL) {
            best = item;
            continue;
        }
        uint32_t a = item->model->number, b = best->model->number;
        double a_us = batcher->queues[a].fair.used_us, b_us = batcher->queues[b].fair.used_us;
        uint32_t a_rank = convoy_priority_rank(item->priority), b_rank = convoy_priority_rank(best->priority);
        bool before = a == b
                          ? a_rank < b_rank || (a_rank == b_rank && item->submitted_us < best->submitted_us)
                          : a_us < b_us;
        if (before)
            best = item;
    }
    return best;
}

Test(batcher_parked, the_next_one_is_what_a_search_through_all_models_finds)
{
    static struct convoy_model_record models[MODELS];
    static bool in[ITEMS];
    struct convoy_batcher *batcher;
    struct convoy_error error;
    uint32_t parked = 0;
    srand(3);
    cr_assert_eq(convoy_batcher_new(MODELS, 1, 0, convoy_metrics_new(), &batcher, &error), 0);
    for (uint32_t i = 0; i < MODELS; i++) {
        models[i] = (struct convoy_model_record){.number = i};
        convoy_batcher_set_limits(batcher, &models[i], &(struct convoy_batcher_limits){.max_queue = 1});
        batcher->queues[i].fair.used_us = rand() % 100000 + i / 1000.0; /* no two are equal */
    }
    for (uint64_t round = 1; round < 30000; round++) {
        int i = rand() % ITEMS;
        struct convoy_item *item = &p.items[i];
        if (in[i]) {
            convoy_item_unlink_parked(batcher, item);
            parked--;
        } else {
            *item = (struct convoy_item){.model = &models[rand() % MODELS],
                                         .priority = (enum convoy_priority)(rand() % CONVOY_PRIORITIES),
                                         .submitted_us = round};
            convoy_item_link_parked(batcher, item, &queue_of(batcher, item->model)->parked[item->priority]);
            parked++;
        }
        in[i] = !in[i];
        struct model_queue *queue = &batcher->queues[rand() % MODELS];
        queue->fair.used_us = (double)(rand() % 100000) + (double)(queue - batcher->queues) / 1000.0;
        convoy_parked_reorder(batcher, queue);
        const struct convoy_item *next =
            batcher->parked_count > 0 ? convoy_parked_next(batcher->parked[0]) : NULL;
        cr_assert_eq(next, searched(batcher, in), "round %d: another one is next", (int)round);
        cr_assert_eq(next == NULL, parked == 0);
    }
    convoy_metrics_free(batcher->metrics);
    convoy_batcher_free(batcher);
}

/* ---- The writers ---- */

static pthread_t tester;
static int reached[2], go_on[2]; /* pipes: the row of item `stuck` is being written; may be written */
static int stuck;
static atomic_bool stuck_written;

static void write_elsewhere(const struct convoy_item *item, uint8_t *target)
{
    char byte = 0;
    size_t index = (size_t)(item - p.items);
    cr_assert(index < 4 || !pthread_equal(pthread_self(), tester), "the control loop writes item %zu", index);
    if ((int)index == stuck)
        cr_assert_eq(write(reached[1], &byte, 1) + read(go_on[0], &byte, 1), 2);
    memset(target, (int)index, 8);
    if ((int)index == stuck)
        atomic_store(&stuck_written, true);
}

/* As begin(), with threads that write. */
static void begin_with_writers(uint32_t slots)
{
    struct convoy_error error;
    begin(slots, 1, 1000000);
    cr_assert_eq(convoy_batcher_writers_start(p.batcher, 2, &error), 0);
    tester = pthread_self();
    stuck = -1;
    cr_assert_eq(pipe(reached) + pipe(go_on), 0);
}

static void submit_staying(int first, uint32_t count, uint64_t deadline_us)
{
    struct convoy_item *items[ITEMS];
    struct convoy_item_group *group = group_at(first, deadline_us);
    for (uint32_t i = 0; i < count; i++) {
        items[i] = &p.items[first + (int)i];
        *items[i] = (struct convoy_item){.model = &p.models[0],
                                         .group = group,
                                         .outputs = p.outputs[first + (int)i],
                                         .write = write_elsewhere,
                                         .source_stays = true,
                                         .done = on_done};
    }
    cr_assert_eq(admit(0, count), 0);
    convoy_batcher_submit(p.batcher, items, count);
}

/* Waits until the worker is given a slot, and answers it. */
static void run_next(void)
{
    struct pollfd bell = {.fd = p.worker.doorbell_fd, .events = POLLIN};
    uint32_t slot;
    while (take(&slot) == 0) {
        cr_assert_eq(poll(&bell, 1, 5000), 1, "no slot comes");
        convoy_channel_clear_doorbell(p.worker.doorbell_fd);
    }
    answer(slot);
    collect();
}

Test(batcher_parked, rows_are_written_by_other_threads_than_the_control_loop, .timeout = 30)
{
    begin_with_writers(1);
    submit_staying(0, 4, UINT64_MAX);
    submit_staying(4, 200, UINT64_MAX);
    for (int batch = 0; batch < 51; batch++)
        run_next();
    assert_answered(0, 204);
    cr_assert(convoy_batcher_model_idle(p.batcher, &p.models[0]));
    end();
}

Test(batcher_parked, an_image_is_not_ended_while_its_row_is_written, .timeout = 30)
{
    char byte = 0;
    begin_with_writers(1);
    submit_staying(0, 4, UINT64_MAX);
    stuck = 5;
    submit_staying(4, 4, convoy_now_us() + 20000);
    run_next();
    cr_assert_eq(read(reached[0], &byte, 1), 1);
    while (convoy_now_us() <= convoy_deadline_wheel_due_us(p.groups[4].deadline_us))
        ; /* the timer has fired by then, and fires again only if it is armed again */
    convoy_batcher_tick(p.batcher);
    cr_assert_eq(p.done[5], 0, "its source is gone while it is copied");
    cr_assert_eq(write(go_on[1], &byte, 1), 1);
    struct pollfd timer = {.fd = convoy_batcher_timer(p.batcher), .events = POLLIN};
    while (p.done_count < 8) {
        cr_assert_eq(poll(&timer, 1, 5000), 1, "no timer ends it afterwards");
        convoy_batcher_tick(p.batcher);
    }
    for (int i = 4; i < 8; i++)
        cr_assert(p.done[i] == 1 && p.items[i].status == -ETIMEDOUT);
    uint32_t slot;
    while (take(&slot) > 0) {
        answer(slot);
        collect();
    }
    cr_assert(convoy_batcher_model_idle(p.batcher, &p.models[0]));
    end();
}

static void *let_go_on(void *context)
{
    char byte = 0;
    (void)context;
    while (!atomic_load(&p.batcher->stopped))
        sched_yield();
    cr_assert_eq(write(go_on[1], &byte, 1), 1);
    return NULL;
}

Test(batcher_parked, a_stop_waits_for_what_is_being_written, .timeout = 30)
{
    pthread_t thread;
    char byte = 0;
    begin_with_writers(1);
    submit_staying(0, 4, UINT64_MAX);
    stuck = 5;
    submit_staying(4, 4, UINT64_MAX);
    run_next();
    cr_assert_eq(read(reached[0], &byte, 1), 1);
    cr_assert_eq(pthread_create(&thread, NULL, let_go_on, NULL), 0);
    convoy_batcher_stop(p.batcher);
    cr_assert_eq(p.done_count, 8);
    cr_assert(atomic_load(&stuck_written), "images were ended while a row was written");
    for (int i = 4; i < 8; i++)
        cr_assert_eq(p.items[i].status, -ECANCELED);
    cr_assert_eq(convoy_batcher_pending(p.batcher), 0);
    pthread_join(thread, NULL);
    end();
}
