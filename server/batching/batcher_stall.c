/* How long a worker's slots have been without progress, and how long they may be. */
#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#define TIMES_EXPECTED 5
#define TIMES_LIMIT    10 /* so much longer a worker lives that reports progress and completes nothing */
#define TIMES_PASSED   4  /* so much longer one that completes other slots, and one of them never */

/* Microseconds that the slot in flight should take; false when that is not known: nothing of its model has
 * run yet, or a network may have to be loaded for it. */
static bool expect(const struct convoy_worker_slots *worker, const struct worker_slot *slot, uint64_t now_us,
                   double *us)
{
    uint32_t model = slot->model->number;
    const struct convoy_image_cost *here = &worker->costs[model];
    const struct convoy_image_cost *everywhere = &worker->batcher->queues[model].cost;
    double image_us = (double)worker->first_run_us[model];
    if (everywhere->images > 0)
        image_us = convoy_image_cost_us(here, everywhere, now_us);
    *us = image_us * slot->ranges[slot->range_count - 1].rows;
    return image_us > 0 && slot->map == CONVOY_MAP_NONE;
}

/* What is a hang of the slots in flight. As many slots run at once as the worker has streams, and share the
 * device; those beyond only wait for it. */
static uint64_t limit_of(const struct convoy_worker_slots *worker, uint64_t now_us, uint64_t hang_us,
                         uint64_t unknown_us)
{
    double longest_us = 0, sum_us = 0, us;
    for (uint32_t i = 0; i < worker->channel->size.slots; i++) {
        const struct worker_slot *slot = &worker->slots[i];
        if (slot->state != SLOT_IN_FLIGHT)
            continue;
        if (!expect(worker, slot, now_us, &us))
            return unknown_us;
        sum_us += us;
        longest_us = us > longest_us ? us : longest_us;
    }
    double streams_us = longest_us * worker->streams;
    double limit_us = (double)hang_us + TIMES_EXPECTED * (sum_us < streams_us ? sum_us : streams_us);
    /* A worker that claims a long first run gains no more time than one without an estimate. */
    uint64_t most_us = unknown_us > hang_us ? unknown_us : hang_us;
    return limit_us < (double)most_us ? (uint64_t)limit_us : most_us;
}

void convoy_worker_slots_first_run(struct convoy_worker_slots *worker,
                                   const struct convoy_model_record *model, uint64_t us)
{
    pthread_mutex_lock(&worker->batcher->lock);
    worker->first_run_us[model->number] = us;
    convoy_batcher_unlock(worker->batcher);
}

static uint64_t since(uint64_t then_us, uint64_t now_us)
{
    return now_us > then_us ? now_us - then_us : 0;
}

void convoy_stall_completed(struct convoy_worker_slots *worker, uint64_t now_us)
{
    uint32_t count = worker->channel->size.slots;
    worker->progress_us = worker->noticed_us = now_us;
    for (uint32_t i = 0; i < count; i++)
        if (worker->slots[i].state == SLOT_IN_FLIGHT && ++worker->slots[i].passed == count)
            worker->slots[i].passed_us = now_us;
}

/* For how long a slot has been in flight after all that the worker had before it were completed. */
static uint64_t passed_for(const struct convoy_worker_slots *worker, uint64_t now_us)
{
    uint32_t count = worker->channel->size.slots;
    uint64_t longest_us = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct worker_slot *slot = &worker->slots[i];
        uint64_t us =
            slot->state == SLOT_IN_FLIGHT && slot->passed >= count ? since(slot->passed_us, now_us) : 0;
        longest_us = us > longest_us ? us : longest_us;
    }
    return longest_us;
}

void convoy_worker_slots_stall(struct convoy_worker_slots *worker, uint64_t now_us, uint64_t hang_us,
                               uint64_t unknown_us, struct convoy_stall *stall)
{
    uint32_t count = convoy_channel_progress_count(worker->channel);
    *stall = (struct convoy_stall){0};
    pthread_mutex_lock(&worker->batcher->lock);
    if (count != worker->progress_count)
        worker->noticed_us = now_us;
    worker->progress_count = count;
    if (worker->in_flight > 0) {
        stall->quiet_us = since(worker->noticed_us, now_us);
        stall->since_us = since(worker->progress_us, now_us);
        stall->limit_us = limit_of(worker, now_us, hang_us, unknown_us);
        stall->passed_us = passed_for(worker, now_us);
        stall->hangs = stall->quiet_us > stall->limit_us || stall->since_us / TIMES_LIMIT > stall->limit_us ||
                       stall->passed_us / TIMES_PASSED > stall->limit_us;
    }
    convoy_batcher_unlock(worker->batcher);
}

void convoy_worker_slots_forgive(struct convoy_worker_slots *worker)
{
    pthread_mutex_lock(&worker->batcher->lock);
    worker->progress_us = worker->noticed_us = convoy_now_us();
    for (uint32_t i = 0; i < worker->channel->size.slots; i++)
        worker->slots[i].passed_us = worker->noticed_us;
    for (uint32_t i = 0; i < worker->batcher->model_count; i++)
        convoy_service_time_interrupted(&worker->batcher->queues[i].service);
    convoy_batcher_unlock(worker->batcher);
}
