#include "server/batcher_internal.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

int convoy_batcher_new(uint32_t models, uint32_t lanes, struct convoy_metrics *metrics,
                       struct convoy_batcher **result, struct convoy_error *error)
{
    struct convoy_batcher *batcher = calloc(1, sizeof *batcher);
    if (batcher == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the batcher");
    batcher->queues = calloc(models + 1, sizeof *batcher->queues);
    batcher->lanes = calloc(lanes, sizeof *batcher->lanes);
    batcher->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (batcher->queues == NULL || batcher->lanes == NULL || batcher->timer_fd < 0) {
        free(batcher->queues);
        free(batcher->lanes);
        free(batcher);
        return convoy_fail(error, -ENOMEM, "out of memory or descriptors for the batcher");
    }
    pthread_mutex_init(&batcher->lock, NULL);
    batcher->metrics = metrics;
    convoy_metrics_slots_in_use(metrics, 0); /* a gauge that is there before the first image */
    batcher->model_limit = models;
    batcher->lane_limit = lanes;
    batcher->timer_at = UINT64_MAX;
    batcher->next_deadline_us = UINT64_MAX;
    *result = batcher;
    return 0;
}

void convoy_batcher_free(struct convoy_batcher *batcher)
{
    if (batcher == NULL)
        return;
    for (uint32_t i = 0; i < batcher->lane_count; i++) {
        struct convoy_lane *lane = batcher->lanes[i];
        for (uint32_t slot = 0; slot < CONVOY_MAX_SLOTS; slot++)
            free(lane->slots[slot].items);
        for (int i = 0; i < FORMS * CONVOY_PRIORITIES; i++)
            free(lane->open[i / CONVOY_PRIORITIES][i % CONVOY_PRIORITIES]);
        for (uint32_t model = 0; model < batcher->model_limit; model++)
            free(lane->layers[model].names);
        free(lane->layers);
        free(lane->costs);
        free(lane->models);
        free(lane);
    }
    close(batcher->timer_fd);
    pthread_mutex_destroy(&batcher->lock);
    free(batcher->lanes);
    free(batcher->queues);
    free(batcher);
}

void convoy_batcher_set_limits(struct convoy_batcher *batcher, const struct convoy_model *model,
                               const struct convoy_batcher_limits *limits)
{
    pthread_mutex_lock(&batcher->lock);
    queue_of(batcher, model)->limits = *limits;
    if (batcher->model_count <= model->number)
        batcher->model_count = model->number + 1;
    pthread_mutex_unlock(&batcher->lock);
}

void convoy_batcher_model_new(struct convoy_batcher *batcher, const struct convoy_model *model)
{
    pthread_mutex_lock(&batcher->lock);
    *queue_of(batcher, model) = (struct model_queue){0};
    for (uint32_t i = 0; i < batcher->lane_count; i++) {
        struct convoy_lane *lane = batcher->lanes[i];
        free(lane->layers[model->number].names);
        lane->layers[model->number] = (struct lane_layers){0};
        lane->models[model->number] = LANE_UNKNOWN;
        memset(&lane->costs[model->number], 0, sizeof lane->costs[0]);
    }
    pthread_mutex_unlock(&batcher->lock);
}

bool convoy_batcher_model_idle(struct convoy_batcher *batcher, const struct convoy_model *model)
{
    pthread_mutex_lock(&batcher->lock);
    const struct model_queue *queue = queue_of(batcher, model);
    bool idle = queue->waiting == 0 && queue->running == 0;
    for (int priority = 0; priority < CONVOY_PRIORITIES; priority++)
        idle = idle && queue->queued[priority] == 0;
    for (uint32_t i = 0; i < batcher->lane_count; i++)
        for (uint32_t slot = 0; slot < batcher->lanes[i]->channel->size.slots; slot++)
            idle = idle && (batcher->lanes[i]->slots[slot].state == SLOT_FREE ||
                            batcher->lanes[i]->slots[slot].model != model);
    pthread_mutex_unlock(&batcher->lock);
    return idle;
}

void convoy_batcher_model_ready(struct convoy_batcher *batcher, struct convoy_model *model,
                                const struct convoy_model_shape *shape)
{
    uint64_t elements = (uint64_t)shape->channels * shape->height * shape->width;
    pthread_mutex_lock(&batcher->lock);
    struct model_queue *queue = queue_of(batcher, model);
    queue->input_stride[CONVOY_SLOT_U8_HWC] = convoy_slot_round(elements);
    queue->input_stride[CONVOY_SLOT_F32_CHW] = convoy_slot_round(elements * sizeof(float));
    queue->output_stride = convoy_slot_round(shape->outputs_per_row * sizeof(float));
    queue->outputs_per_row = shape->outputs_per_row;
    queue->metrics = model->metrics;
    queue->ready = true;
    queue->gone = false; /* it may have been, and come back */
    pthread_mutex_unlock(&batcher->lock);
}

void convoy_queue_changed(struct convoy_batcher *batcher, const struct convoy_model *model)
{
    uint64_t waiting = 0; /* the metric is of a name: all its versions together */
    for (uint32_t i = 0; i < batcher->model_count; i++)
        if (batcher->queues[i].metrics == model->metrics)
            for (int priority = 0; priority < CONVOY_PRIORITIES; priority++)
                waiting += batcher->queues[i].queued[priority];
    convoy_metrics_queue(model->metrics, waiting);
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

int convoy_batcher_admit(struct convoy_batcher *batcher, struct convoy_model *model, uint32_t n,
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
        queue->queued[priority] += n;
    convoy_queue_changed(batcher, model);
    pthread_mutex_unlock(&batcher->lock);
    return code;
}

uint64_t convoy_batcher_slot_bytes(struct convoy_batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    uint64_t bytes = batcher->lane_count > 0 ? batcher->lanes[0]->channel->size.input_bytes : 0;
    pthread_mutex_unlock(&batcher->lock);
    return bytes;
}

void convoy_batcher_cancel(struct convoy_batcher *batcher, struct convoy_model *model, uint32_t n,
                           enum convoy_priority priority)
{
    pthread_mutex_lock(&batcher->lock);
    queue_of(batcher, model)->queued[priority] -= n;
    convoy_queue_changed(batcher, model);
    pthread_mutex_unlock(&batcher->lock);
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

/* Rows of this model that a slot of the channel takes; 0 when not even one fits. */
static uint32_t slot_capacity(const struct convoy_lane *lane, const struct model_queue *queue,
                              enum convoy_slot_form form)
{
    const struct convoy_channel_size *size = &lane->channel->size;
    uint64_t rows = queue->limits.max_batch;
    if (rows > size->input_bytes / queue->input_stride[form])
        rows = size->input_bytes / queue->input_stride[form];
    if (rows > size->output_bytes / queue->output_stride)
        rows = size->output_bytes / queue->output_stride;
    return (uint32_t)rows;
}

static int open_slot(struct convoy_lane *lane, const struct convoy_item *item)
{
    struct convoy_batcher *batcher = lane->batcher;
    const struct model_queue *queue = queue_of(batcher, item->model);
    uint32_t capacity = slot_capacity(lane, queue, item->form);
    int number = capacity > 0 ? convoy_lane_free_slot(lane) : NO_SLOT;
    if (number == NO_SLOT)
        return NO_SLOT;
    struct lane_slot *slot = &lane->slots[number];
    memset(slot, 0, offsetof(struct lane_slot, items));
    slot->state = SLOT_OPEN;
    slot->model = item->model;
    slot->form = item->form;
    slot->priority = item->priority;
    slot->capacity = capacity;
    slot->opened_us = convoy_now_us();
    slot->order = batcher->orders++;
    slot->range_count = 0;
    lane->used++;
    convoy_metrics_slots_in_use(batcher->metrics, ++batcher->slots_in_use);
    return number;
}

/* Finds a row for item: in a slot that gathers, else in a fresh one. False when every slot is in use. */
static bool reserve(struct convoy_batcher *batcher, struct convoy_item *item, struct convoy_lane **where)
{
    struct convoy_lane *lane = convoy_batcher_choose_lane(batcher, item);
    if (lane == NULL)
        return false;
    int number = item->profile ? NO_SLOT : *open_slot_of(lane, item);
    if (number == NO_SLOT) {
        number = open_slot(lane, item);
        if (number == NO_SLOT)
            return false;
        lane->slots[number].profile = item->profile;
        if (item->profile)
            lane->slots[number].capacity = 1;
        else
            *open_slot_of(lane, item) = number;
    }
    struct lane_slot *slot = &lane->slots[number];
    item->worker = 0;
    for (uint32_t i = 0; i < batcher->lane_count; i++)
        if (batcher->lanes[i] == lane)
            item->worker = (int32_t)i;
    item->slot = number;
    item->row = (int32_t)slot->reserved;
    slot->items[slot->reserved++] = item;
    convoy_slot_price(lane, slot,
                      convoy_image_cost_us(&lane->costs[item->model->number],
                                           &queue_of(batcher, item->model)->cost, convoy_now_us()));
    lane->chosen = ++batcher->choices;
    if (!convoy_lane_serves(lane, item->model))
        batcher->stranded = true; /* another lane may serve it sooner */
    if (slot->reserved == slot->capacity) {
        slot->state = SLOT_SEALED;
        if (!item->profile)
            *open_slot_of(lane, item) = NO_SLOT;
    }
    *where = lane;
    return true;
}

/* Copies a reserved row in and commits it. Called with the lock held, which is dropped for the copy: other
 * threads fill their rows of the same slot meanwhile. item may be gone once the lock is dropped. */
static void fill(struct convoy_batcher *batcher, struct convoy_lane *lane, const struct convoy_item *item,
                 const void *row, size_t row_bytes)
{
    struct lane_slot *slot = &lane->slots[item->slot];
    const struct model_queue *queue = queue_of(batcher, item->model);
    uint8_t *target = convoy_channel_rows(lane->channel, (uint32_t)item->slot) +
                      (uint32_t)item->row * queue->input_stride[item->form];
    pthread_mutex_unlock(&batcher->lock);
    memcpy(target, row, row_bytes);
    pthread_mutex_lock(&batcher->lock);
    slot->committed++;
    /* Its worker may have died meanwhile: the control loop takes the slot to another. */
    if (!convoy_lane_serves(lane, slot->model) && convoy_batcher_serves(batcher, slot->model))
        convoy_batcher_wake_at(batcher, convoy_now_us());
    convoy_lane_pump(lane);
}

static size_t row_bytes_of(const struct model_queue *queue, enum convoy_slot_form form)
{
    return queue->input_stride[form];
}

/* False when memory is out. */
static bool park(struct convoy_batcher *batcher, struct convoy_item *item, const void *row, size_t row_bytes)
{
    struct model_queue *queue = queue_of(batcher, item->model);
    item->parked_row = calloc(1, row_bytes_of(queue, item->form));
    if (item->parked_row == NULL)
        return false;
    memcpy(item->parked_row, row, row_bytes);
    convoy_item_link_parked(queue, item, NULL);
    return true;
}

void convoy_item_link_parked(struct model_queue *queue, struct convoy_item *item, struct convoy_item *before)
{
    struct convoy_item **last = &queue->parked_last[item->priority];
    item->next = before;
    item->previous = before != NULL ? before->previous : *last;
    *(item->previous != NULL ? &item->previous->next : &queue->parked_first[item->priority]) = item;
    *(before != NULL ? &before->previous : last) = item;
}

static void unlink_parked(struct model_queue *queue, struct convoy_item *item)
{
    *(item->previous != NULL ? &item->previous->next : &queue->parked_first[item->priority]) = item->next;
    *(item->next != NULL ? &item->next->previous : &queue->parked_last[item->priority]) = item->previous;
    item->next = item->previous = NULL;
}

void convoy_batcher_submit(struct convoy_batcher *batcher, struct convoy_item *item, const void *row,
                           size_t row_bytes)
{
    struct convoy_lane *lane;
    item->status = 0;
    item->retries = 0;
    item->layers = NULL;
    item->layer_count = 0;
    item->next = item->previous = NULL;
    item->parked_row = NULL;
    item->slot = NO_SLOT;
    item->submitted_us = convoy_now_us();
    pthread_mutex_lock(&batcher->lock);
    struct model_queue *queue = queue_of(batcher, item->model);
    batcher->pending++;
    if (queue->waiting == 0)
        convoy_share_wakes(&queue->share, batcher->share_us);
    queue->waiting++; /* before fill() drops the lock: the worker may have the row by then */
    if (item->deadline_us < batcher->next_deadline_us) {
        batcher->next_deadline_us = item->deadline_us;
        convoy_batcher_wake_at(batcher, item->deadline_us);
    }
    /* Behind those that wait already, or a stream of newcomers would starve them; but for what is less
     * urgent. */
    const struct convoy_item *waits = next_parked_of(queue);
    bool first =
        waits == NULL || convoy_priority_rank(waits->priority) > convoy_priority_rank(item->priority);
    int refusal = 0;
    if (batcher->stopped)
        refusal = -ECANCELED;
    else if (queue->gone)
        refusal = -ENODEV;
    else if (first && reserve(batcher, item, &lane))
        fill(batcher, lane, item, row, row_bytes);
    else if (!park(batcher, item, row, row_bytes))
        refusal = -ENOMEM;
    if (refusal != 0) {
        queue->waiting--;
        queue->queued[item->priority]--;
        batcher->pending--;
        item->status = refusal;
        item->finished_us = item->submitted_us;
    }
    pthread_mutex_unlock(&batcher->lock);
    if (refusal != 0)
        item->done(item);
}

/* a before b: whose model had less of the device, then whose image is older. */
static bool parked_before(const struct convoy_batcher *batcher, const struct convoy_item *a,
                          const struct convoy_item *b)
{
    double a_us = batcher->queues[a->model->number].share.used_us;
    double b_us = batcher->queues[b->model->number].share.used_us;
    if (a_us != b_us)
        return a_us < b_us;
    if (a->submitted_us != b->submitted_us)
        return a->submitted_us < b->submitted_us;
    return a->model->number < b->model->number;
}

/* The image that is next to get a row, which it then has. A model that finds none is passed over: another may
 * have an open slot. */
static struct convoy_item *next_parked(struct convoy_batcher *batcher, struct convoy_lane **lane)
{
    const struct convoy_item *passed = NULL;
    for (;;) {
        struct convoy_item *best = NULL;
        for (uint32_t i = 0; i < batcher->model_count; i++) {
            struct convoy_item *item = next_parked_of(&batcher->queues[i]);
            if (item != NULL && (passed == NULL || parked_before(batcher, passed, item)) &&
                (best == NULL || parked_before(batcher, item, best)))
                best = item;
        }
        if (best == NULL || reserve(batcher, best, lane))
            return best;
        passed = best;
    }
}

void convoy_batcher_unpark(struct convoy_batcher *batcher)
{
    struct convoy_lane *lane;
    struct convoy_item *item;
    while ((item = next_parked(batcher, &lane)) != NULL) {
        struct model_queue *queue = queue_of(batcher, item->model);
        unlink_parked(queue, item);
        uint8_t *row = item->parked_row;
        item->parked_row = NULL;
        fill(batcher, lane, item, row, row_bytes_of(queue, item->form));
        free(row);
    }
}

void convoy_item_finish(struct convoy_batcher *batcher, struct convoy_item *item, int status,
                        struct convoy_item **finished)
{
    struct model_queue *queue = queue_of(batcher, item->model);
    if (item->parked_row != NULL) {
        unlink_parked(queue, item);
        free(item->parked_row);
        item->parked_row = NULL;
        queue->queued[item->priority]--;
        queue->waiting--;
    } else if (item->slot != NO_SLOT) {
        struct lane_slot *slot = &batcher->lanes[item->worker]->slots[item->slot];
        const struct row_range *running = &slot->ranges[slot->range_count - (slot->range_count > 0)];
        uint32_t row = (uint32_t)item->row;
        bool runs =
            slot->state == SLOT_IN_FLIGHT && row >= running->first && row < running->first + running->rows;
        if (!runs) {
            queue->queued[item->priority]--;
            queue->waiting--;
        } else if (status == -ETIMEDOUT) {
            queue->late = true;
        }
        slot->items[item->row] = NULL;
    }
    convoy_queue_changed(batcher, item->model);
    item->status = status;
    item->finished_us = convoy_now_us();
    item->next = *finished;
    *finished = item;
    batcher->pending--;
}

void convoy_items_done(struct convoy_item *finished)
{
    while (finished != NULL) {
        struct convoy_item *next = finished->next;
        finished->done(finished); /* its owner may free it */
        finished = next;
    }
}

uint64_t convoy_batcher_pending(struct convoy_batcher *batcher)
{
    pthread_mutex_lock(&batcher->lock);
    uint64_t pending = batcher->pending;
    pthread_mutex_unlock(&batcher->lock);
    return pending;
}

int convoy_batcher_timer(const struct convoy_batcher *batcher)
{
    return batcher->timer_fd;
}
