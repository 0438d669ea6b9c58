#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

_Static_assert(CONVOY_BATCHER_WORKERS <= 32, "to_ring has a bit for each worker");

void convoy_batcher_unlock(struct convoy_batcher *batcher)
{
    uint32_t to_ring = batcher->to_ring;
    batcher->to_ring = 0;
    pthread_mutex_unlock(&batcher->lock);
    for (uint32_t number = 0; to_ring != 0; number++, to_ring >>= 1)
        if (to_ring & 1)
            convoy_channel_ring(batcher->workers[number]->channel);
}

static void init_queue(struct model_queue *queue)
{
    memset(queue, 0, sizeof *queue);
    for (int priority = 0; priority < CONVOY_PRIORITIES; priority++)
        convoy_list_init(&queue->parked[priority]);
}

int convoy_batcher_new(uint32_t models, uint32_t workers, struct convoy_metrics *metrics,
                       struct convoy_batcher **result, struct convoy_error *error)
{
    struct convoy_batcher *batcher = calloc(1, sizeof *batcher);
    if (batcher == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the batcher");
    batcher->queues = calloc(models + 1, sizeof *batcher->queues);
    batcher->workers = calloc(workers, sizeof *batcher->workers);
    batcher->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (batcher->queues == NULL || batcher->workers == NULL || batcher->timer_fd < 0) {
        free(batcher->queues);
        free(batcher->workers);
        free(batcher);
        return convoy_fail(error, -ENOMEM, "out of memory or descriptors for the batcher");
    }
    for (uint32_t model = 0; model < models + 1; model++)
        init_queue(&batcher->queues[model]);
    /* Held for less than a microsecond at a time by all HTTP threads: they spin a little before they sleep.
     */
    pthread_mutexattr_t adaptive;
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&batcher->lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    batcher->metrics = metrics;
    convoy_metrics_slots_in_use(metrics, 0); /* a gauge that is there before the first image */
    batcher->model_limit = models;
    batcher->worker_limit = workers;
    batcher->timer_at = UINT64_MAX;
    batcher->next_deadline_us = UINT64_MAX;
    *result = batcher;
    return 0;
}

void convoy_batcher_free(struct convoy_batcher *batcher)
{
    if (batcher == NULL)
        return;
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        struct convoy_worker_slots *worker = batcher->workers[i];
        for (uint32_t slot = 0; slot < CONVOY_MAX_SLOTS; slot++)
            free(worker->slots[slot].items);
        for (int i = 0; i < CONVOY_SLOT_LAYOUTS * CONVOY_PRIORITIES; i++)
            free(worker->open[i / CONVOY_PRIORITIES][i % CONVOY_PRIORITIES]);
        for (uint32_t model = 0; model < batcher->model_limit; model++)
            free(worker->layers[model].names);
        free(worker->layers);
        free(worker->costs);
        free(worker->models);
        free(worker);
    }
    close(batcher->timer_fd);
    pthread_mutex_destroy(&batcher->lock);
    free(batcher->workers);
    free(batcher->queues);
    free(batcher);
}

void convoy_batcher_set_limits(struct convoy_batcher *batcher, const struct convoy_model_record *model,
                               const struct convoy_batcher_limits *limits)
{
    pthread_mutex_lock(&batcher->lock);
    queue_of(batcher, model)->limits = *limits;
    if (batcher->model_count <= model->number)
        batcher->model_count = model->number + 1;
    convoy_batcher_unlock(batcher);
}

void convoy_batcher_model_new(struct convoy_batcher *batcher, const struct convoy_model_record *model)
{
    pthread_mutex_lock(&batcher->lock);
    init_queue(queue_of(batcher, model)); /* it is idle: nothing is parked */
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        struct convoy_worker_slots *worker = batcher->workers[i];
        free(worker->layers[model->number].names);
        worker->layers[model->number] = (struct worker_layers){0};
        worker->models[model->number] = WORKER_UNKNOWN;
        memset(&worker->costs[model->number], 0, sizeof worker->costs[0]);
    }
    convoy_batcher_unlock(batcher);
}

bool convoy_batcher_model_idle(struct convoy_batcher *batcher, const struct convoy_model_record *model)
{
    pthread_mutex_lock(&batcher->lock);
    const struct model_queue *queue = queue_of(batcher, model);
    bool idle = queue->waiting == 0 && queue->running == 0;
    for (int priority = 0; priority < CONVOY_PRIORITIES; priority++)
        idle = idle && queue->queued[priority] == 0;
    for (uint32_t i = 0; i < batcher->worker_count; i++)
        for (uint32_t slot = 0; slot < batcher->workers[i]->channel->size.slots; slot++)
            idle = idle && (batcher->workers[i]->slots[slot].state == SLOT_FREE ||
                            batcher->workers[i]->slots[slot].model != model);
    convoy_batcher_unlock(batcher);
    return idle;
}

void convoy_batcher_model_ready(struct convoy_batcher *batcher, struct convoy_model_record *model,
                                const struct convoy_model_shape *shape)
{
    uint64_t elements = (uint64_t)shape->channels * shape->height * shape->width;
    pthread_mutex_lock(&batcher->lock);
    struct model_queue *queue = queue_of(batcher, model);
    queue->input_stride[CONVOY_LAYOUT_U8_HWC] = convoy_slot_round(elements);
    queue->input_stride[CONVOY_LAYOUT_F32_CHW] = convoy_slot_round(elements * sizeof(float));
    queue->output_stride = convoy_slot_round(shape->outputs_per_row * sizeof(float));
    queue->outputs_per_row = shape->outputs_per_row;
    queue->metrics = model->metrics;
    queue->ready = true;
    queue->gone = false; /* it may have been, and come back */
    convoy_batcher_unlock(batcher);
}

void convoy_queue_add(struct model_queue *queue, enum convoy_priority priority, int64_t images)
{
    queue->queued[priority] = (uint32_t)(queue->queued[priority] + images);
    convoy_metrics_queue_add(queue->metrics, images);
}

/* Images that are admitted and go before those of this priority, or with them. */
static uint64_t queued_before(const struct model_queue *queue, enum convoy_priority priority)
{
    uint64_t before = 0;
    for (int other = 0; other < CONVOY_PRIORITIES; other++)
        if (convoy_priority_rank((enum convoy_priority)other) <= convoy_priority_rank(priority))
            before += queue->queued[other];
    return before;
}

int convoy_batcher_admit(struct convoy_batcher *batcher, struct convoy_model_record *model, uint32_t n,
                         enum convoy_priority priority, uint64_t deadline_us, uint64_t *wait_us)
{
    pthread_mutex_lock(&batcher->lock);
    struct model_queue *queue = queue_of(batcher, model);
    uint64_t queued = queued_before(queue, priority), ahead = queued + queue->running;
    if (queued_before(queue, CONVOY_PRIORITY_BACKGROUND) + queue->running == 0)
        convoy_service_time_interrupted(&queue->service); /* it rested */
    *wait_us = convoy_service_time_wait_us(&queue->service, ahead + n);
    int code = 0;
    if (batcher->stopped)
        code = -ESHUTDOWN;
    else if (queue->gone || !queue->ready)
        code = -ENODEV;
    else if (n > queue->limits.max_queue)
        code = -E2BIG;
    else if (queued > queue->limits.max_queue - n)
        code = -EBUSY;
    else if (ahead > 0 && *wait_us > convoy_service_time_spendable_us(deadline_us, convoy_now_us()))
        code = -ETIME;
    else
        convoy_queue_add(queue, priority, n);
    convoy_batcher_unlock(batcher);
    return code;
}

uint64_t convoy_batcher_slot_bytes(struct convoy_batcher *batcher)
{
    return atomic_load_explicit(&batcher->slot_bytes, memory_order_relaxed);
}

void convoy_batcher_cancel(struct convoy_batcher *batcher, struct convoy_model_record *model, uint32_t n,
                           enum convoy_priority priority)
{
    pthread_mutex_lock(&batcher->lock);
    convoy_queue_add(queue_of(batcher, model), priority, -(int64_t)n);
    convoy_batcher_unlock(batcher);
}

void convoy_batcher_wake_at(struct convoy_batcher *batcher, uint64_t when_us)
{
    if (when_us >= batcher->timer_at)
        return;
    batcher->timer_at = when_us;
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(when_us / 1000000u), .tv_nsec = (long)(when_us % 1000000u) * 1000}};
    timerfd_settime(batcher->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

void convoy_item_link_parked(struct convoy_item *item, struct convoy_list *before)
{
    convoy_list_add_before(before, &item->link);
    item->parked = true;
}

void convoy_item_unlink_parked(struct convoy_item *item)
{
    convoy_list_remove(&item->link);
    item->parked = false;
}

void convoy_item_forget_row(struct convoy_item *item)
{
    free(item->kept_row);
    item->kept_row = NULL;
}

void convoy_item_finish(struct convoy_batcher *batcher, struct convoy_item *item, int status, uint64_t now,
                        struct convoy_list *finished)
{
    struct model_queue *queue = queue_of(batcher, item->model);
    if (item->parked) {
        convoy_item_unlink_parked(item);
        convoy_queue_add(queue, item->priority, -1);
        queue->waiting--;
        if (status == -ECONNABORTED)
            convoy_metrics_spared(queue->metrics, 1);
    } else if (item->slot != NO_SLOT) {
        struct worker_slot *slot = &batcher->workers[item->worker]->slots[item->slot];
        const struct row_range *running = &slot->ranges[slot->range_count - (slot->range_count > 0)];
        uint32_t row = (uint32_t)item->row;
        bool runs =
            slot->state == SLOT_IN_FLIGHT && row >= running->first && row < running->first + running->rows;
        if (!runs) {
            convoy_queue_add(queue, item->priority, -1);
            queue->waiting--;
            slot->abandoned += status == -ECONNABORTED;
        } else if (status == -ETIMEDOUT) {
            queue->late = true;
        }
        slot->items[item->row] = NULL;
    }
    convoy_item_forget_row(item);
    item->status = status;
    item->finished_us = now;
    convoy_list_add_last(finished, &item->link);
    batcher->pending--;
}

void convoy_items_done(struct convoy_list *finished)
{
    struct convoy_list *link;
    while ((link = convoy_list_take_first(finished)) != NULL)
        item_of(link)->done(item_of(link)); /* its owner may free it */
}

uint64_t convoy_batcher_pending(struct convoy_batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    uint64_t pending = batcher->pending;
    convoy_batcher_unlock(batcher);
    return pending;
}

int convoy_batcher_timer(const struct convoy_batcher *batcher)
{
    return batcher->timer_fd;
}
