#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

_Static_assert(CONVOY_BATCHER_WORKERS <= 64, "to_ring has a bit for each worker");

void convoy_batcher_unlock(struct convoy_batcher *batcher)
{
    convoy_batcher_do_asked(batcher);
    uint64_t to_ring = batcher->to_ring;
    bool to_arm = batcher->to_arm;
    batcher->to_ring = 0;
    batcher->to_arm = false;
    pthread_mutex_unlock(&batcher->lock);
    for (uint32_t number = 0; to_ring != 0; number++, to_ring >>= 1)
        if (to_ring & 1)
            convoy_channel_ring(batcher->workers[number]->channel);
    if (to_arm)
        convoy_batcher_arm(batcher);
}

static void init_queue(struct model_queue *queue)
{
    *queue = (struct model_queue){0};
    for (int priority = 0; priority < CONVOY_PRIORITIES; priority++)
        convoy_list_init(&queue->parked[priority]);
}

static void free_memory(struct convoy_batcher *batcher)
{
    free(batcher->skipped);
    free(batcher->parked);
    free(batcher->workers);
    free(batcher->queues);
    free(batcher);
}

int convoy_batcher_new(uint32_t models, uint32_t workers, uint32_t writers, struct convoy_metrics *metrics,
                       struct convoy_batcher **result, struct convoy_error *error)
{
    struct convoy_batcher *batcher = aligned_alloc(_Alignof(struct convoy_batcher), sizeof *batcher);
    if (batcher == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the batcher");
    memset(batcher, 0, sizeof *batcher);
    batcher->queues = aligned_alloc(_Alignof(struct model_queue), (models + 1) * sizeof *batcher->queues);
    batcher->workers = calloc(workers, sizeof *batcher->workers);
    batcher->parked = calloc(models + 1, sizeof *batcher->parked);
    batcher->skipped = calloc(models + 1, sizeof *batcher->skipped);
    batcher->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (batcher->queues == NULL || batcher->workers == NULL || batcher->parked == NULL ||
        batcher->skipped == NULL || batcher->timer_fd < 0) {
        if (batcher->timer_fd >= 0)
            close(batcher->timer_fd);
        free_memory(batcher);
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
    atomic_init(&batcher->timer_at, UINT64_MAX);
    convoy_deadline_wheel_init(&batcher->deadlines, convoy_now_us());
    convoy_list_init(&batcher->ending);
    convoy_list_init(&batcher->to_write);
    int code = convoy_batcher_writers_start(batcher, writers, error);
    if (code != 0) {
        convoy_batcher_free(batcher);
        return code;
    }
    *result = batcher;
    return 0;
}

void convoy_batcher_free(struct convoy_batcher *batcher)
{
    if (batcher == NULL)
        return;
    convoy_batcher_writers_end(batcher);
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
        free(worker->first_run_us);
        free(worker->models);
        free(worker);
    }
    close(batcher->timer_fd);
    pthread_mutex_destroy(&batcher->lock);
    free_memory(batcher);
}

void convoy_batcher_set_limits(struct convoy_batcher *batcher, const struct convoy_model_record *model,
                               const struct convoy_batcher_limits *limits)
{
    pthread_mutex_lock(&batcher->lock);
    queue_of(batcher, model)->limits = *limits;
    atomic_store(&queue_of(batcher, model)->admission.max_queue, limits->max_queue);
    if (batcher->model_count <= model->number)
        batcher->model_count = model->number + 1;
    convoy_batcher_unlock(batcher);
}

void convoy_batcher_rows_only_where_served(struct convoy_batcher *batcher)
{
    batcher->at_first = WORKER_REFUSES;
}

void convoy_batcher_done_in_rounds(struct convoy_batcher *batcher, void (*begin)(void), void (*end)(void))
{
    batcher->begin_done = begin;
    batcher->end_done = end;
}

void convoy_batcher_model_new(struct convoy_batcher *batcher, const struct convoy_model_record *model)
{
    pthread_mutex_lock(&batcher->lock);
    init_queue(queue_of(batcher, model)); /* it is idle: nothing is parked */
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        struct convoy_worker_slots *worker = batcher->workers[i];
        free(worker->layers[model->number].names);
        worker->layers[model->number] = (struct worker_layers){0};
        worker->models[model->number] = (uint8_t)batcher->at_first;
        memset(&worker->costs[model->number], 0, sizeof worker->costs[0]);
        worker->first_run_us[model->number] = 0;
    }
    convoy_batcher_unlock(batcher);
}

bool convoy_batcher_model_idle(struct convoy_batcher *batcher, const struct convoy_model_record *model)
{
    pthread_mutex_lock(&batcher->lock);
    const struct model_queue *queue = queue_of(batcher, model);
    bool idle = queue->waiting == 0 && atomic_load(&queue->admission.running) == 0 &&
                atomic_load(&queue->admission.queued) == 0;
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
    queue->input_stride[CONVOY_LAYOUT_JPEG] = CONVOY_JPEG_ROW_BYTES;
    queue->output_stride = convoy_slot_round(shape->outputs_per_row * sizeof(float));
    queue->outputs_per_row = shape->outputs_per_row;
    queue->metrics = model->metrics;
    atomic_store(&queue->admission.gone, false); /* it may have been, and come back */
    atomic_store(&queue->admission.ready, true);
    convoy_batcher_unlock(batcher);
}

/* Where the count of a priority stands: the most urgent in the lowest bits. */
static uint32_t shift_of(enum convoy_priority priority)
{
    return COUNT_BITS * convoy_priority_rank(priority);
}

/* Admitted images that are not in flight and go before those of this priority, or with them. */
static uint64_t queued_before(uint64_t queued, enum convoy_priority priority)
{
    uint64_t before = 0;
    for (uint32_t shift = 0; shift <= shift_of(priority); shift += COUNT_BITS)
        before += queued >> shift & ((UINT64_C(1) << COUNT_BITS) - 1);
    return before;
}

void convoy_queue_add(struct model_queue *queue, enum convoy_priority priority, int64_t images)
{
    /* Modulo 2^64: a negative number subtracts, and no count falls below 0. */
    atomic_fetch_add(&queue->admission.queued, (uint64_t)images << shift_of(priority));
    convoy_metrics_queue_add(queue->metrics, images);
}

void convoy_queue_publish(struct model_queue *queue)
{
    atomic_store_explicit(&queue->admission.image_us, convoy_service_time_image_us(&queue->service),
                          memory_order_relaxed);
    atomic_store_explicit(&queue->admission.company, convoy_service_time_company(&queue->service),
                          memory_order_relaxed);
}

void convoy_worker_slots_row(struct convoy_worker_slots *worker, const struct convoy_model_record *model,
                             uint64_t us)
{
    struct convoy_batcher *batcher = worker->batcher;
    pthread_mutex_lock(&batcher->lock);
    struct model_queue *queue = queue_of(batcher, model);
    /* As if all devices had the model: if they do not, admission takes more. */
    convoy_service_time_guess(&queue->service, (double)us / batcher->worker_count);
    convoy_queue_publish(queue);
    convoy_batcher_unlock(batcher);
}

int convoy_batcher_admit(struct convoy_batcher *batcher, struct convoy_model_record *model, uint32_t n,
                         enum convoy_priority priority, uint64_t deadline_us, uint64_t *wait_us)
{
    struct model_queue *queue = queue_of(batcher, model);
    struct admission_state *admission = &queue->admission;
    uint64_t now = convoy_now_us(), all = atomic_load(&admission->queued);
    uint32_t max_queue = atomic_load_explicit(&admission->max_queue, memory_order_relaxed);

    /* What changes beside this makes the estimate no worse than it is; the bound of the queue is exact. */
    do {
        uint64_t queued = queued_before(all, priority);
        uint64_t ahead = queued + atomic_load_explicit(&admission->running, memory_order_relaxed);
        *wait_us = convoy_service_time_wait_us(
            atomic_load_explicit(&admission->image_us, memory_order_relaxed),
            atomic_load_explicit(&admission->company, memory_order_relaxed), ahead + n);
        if (atomic_load(&batcher->stopped))
            return -ESHUTDOWN;
        if (atomic_load(&admission->gone) || !atomic_load(&admission->ready))
            return -ENODEV;
        if (n > max_queue)
            return -E2BIG;
        if (queued > max_queue - n)
            return -EBUSY;
        if (ahead > 0 && *wait_us > convoy_service_time_spendable_us(deadline_us, now))
            return -ETIME;
    } while (
        !atomic_compare_exchange_weak(&admission->queued, &all, all + ((uint64_t)n << shift_of(priority))));
    convoy_metrics_queue_add(queue->metrics, n);
    return 0;
}

uint64_t convoy_batcher_slot_bytes(struct convoy_batcher *batcher)
{
    return atomic_load_explicit(&batcher->slot_bytes, memory_order_relaxed);
}

uint64_t convoy_batcher_file_bytes(struct convoy_batcher *batcher)
{
    uint64_t bytes = convoy_batcher_slot_bytes(batcher);
    uint64_t headers = (uint64_t)CONVOY_JPEG_ROWS_MAX * CONVOY_JPEG_ROW_BYTES;
    return bytes > headers ? bytes - headers : 0;
}

void convoy_batcher_readmit(struct convoy_batcher *batcher, struct convoy_model_record *model,
                            enum convoy_priority priority)
{
    convoy_queue_add(queue_of(batcher, model), priority, 1);
}

void convoy_batcher_cancel(struct convoy_batcher *batcher, struct convoy_model_record *model, uint32_t n,
                           enum convoy_priority priority)
{
    convoy_queue_add(queue_of(batcher, model), priority, -(int64_t)n);
}

void convoy_item_forget_row(struct convoy_item *item)
{
    free(item->kept_row);
    item->kept_row = NULL;
}

/* Nothing of the model waits or runs: the time until something does is not the device's. */
static void rest(struct model_queue *queue)
{
    if (queue->waiting == 0 && atomic_load_explicit(&queue->admission.running, memory_order_relaxed) == 0)
        convoy_service_time_interrupted(&queue->service);
}

void convoy_item_finish(struct convoy_batcher *batcher, struct convoy_item *item, int status, uint64_t now,
                        struct convoy_list *finished)
{
    struct model_queue *queue = queue_of(batcher, item->model);
    if (item->parked) {
        convoy_item_unlink_parked(batcher, item);
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
        if (--slot->live == 0)
            batcher->deserted = true;
    }
    if (status != 0)
        rest(queue);
    convoy_item_forget_row(item);
    item->status = status;
    item->finished_us = now;
    convoy_list_add_last(finished, &item->link);
    convoy_item_group_leave(item);
    batcher->pending--;
}

void convoy_items_done(struct convoy_batcher *batcher, struct convoy_list *finished)
{
    struct convoy_list *link;
    if (convoy_list_empty(finished))
        return;
    if (batcher->begin_done != NULL)
        batcher->begin_done();
    while ((link = convoy_list_take_first(finished)) != NULL)
        item_of(link)->done(item_of(link)); /* its owner may free it */
    if (batcher->end_done != NULL)
        batcher->end_done();
}

uint64_t convoy_batcher_pending(struct convoy_batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    uint64_t pending = batcher->pending;
    convoy_batcher_unlock(batcher);
    return pending;
}
