/* What ends items without an answer: a deadline that passed, a client that is gone, a slot that is too late,
 * a model that is gone, a daemon that stops. The first two cost time by the images that end, not by those
 * that wait. */
#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <unistd.h>

static struct convoy_item_group *group_of(struct convoy_list *link)
{
    return convoy_list_entry(link, struct convoy_item_group, deadline.link);
}

/* The group's items are to be ended by the control loop, soon. */
static void end_soon(struct convoy_batcher *batcher, struct convoy_item_group *group)
{
    convoy_list_remove(&group->deadline.link);
    convoy_list_add_last(&batcher->ending, &group->deadline.link);
    group->ending = true;
    convoy_batcher_wake_at(batcher, convoy_now_us());
}

void convoy_item_group_join(struct convoy_batcher *batcher, struct convoy_item *const *items, uint32_t n)
{
    struct convoy_item_group *group = items[0]->group;
    if (group->item_count == 0) {
        convoy_list_init(&group->items);
        convoy_list_init(&group->deadline.link);
        if (group->deadline_us != UINT64_MAX) {
            convoy_deadline_wheel_add(&batcher->deadlines, &group->deadline, group->deadline_us);
            convoy_batcher_wake_at(batcher, convoy_deadline_wheel_due_us(group->deadline_us));
        }
    }
    for (uint32_t i = 0; i < n; i++)
        convoy_list_add_last(&group->items, &items[i]->in_group);
    group->item_count += n;
    if (group->abandoned || group->ending)
        end_soon(batcher, group);
}

void convoy_item_group_leave(struct convoy_item *item)
{
    struct convoy_item_group *group = item->group;
    convoy_list_remove(&item->in_group);
    if (--group->item_count > 0)
        return;
    convoy_list_remove(&group->deadline.link);
    group->ending = false;
}

void convoy_item_look_again(struct convoy_batcher *batcher, const struct convoy_item *item)
{
    if (item->group->ending)
        convoy_batcher_wake_at(batcher, convoy_now_us());
}

void convoy_batcher_abandon(struct convoy_batcher *batcher, struct convoy_item_group *group)
{
    pthread_mutex_lock(&batcher->lock);
    group->abandoned = true;
    if (group->item_count > 0)
        end_soon(batcher, group);
    convoy_batcher_unlock(batcher);
}

/* Ends the items of the groups that are due. Those that a writer is at stay: it wakes the control loop again.
 */
static void end_groups(struct convoy_batcher *batcher, uint64_t now, struct convoy_list *finished)
{
    convoy_list_for_each(at, following, &batcher->ending) {
        struct convoy_item_group *group = group_of(at);
        int status = group->abandoned ? -ECONNABORTED : -ETIMEDOUT;
        group->ending = true;
        convoy_list_for_each(link, next, &group->items) {
            struct convoy_item *item = convoy_list_entry(link, struct convoy_item, in_group);
            if (!item->writing)
                convoy_item_finish(batcher, item, status, now, finished);
        }
    }
}

/* Ends the items of the slot's rows, which are not being written. */
static void end_rows(struct convoy_batcher *batcher, struct worker_slot *slot, int status, uint64_t now,
                     struct convoy_list *finished)
{
    for (uint32_t row = 0; slot->live > 0 && row < slot->reserved; row++)
        if (slot->items[row] != NULL)
            convoy_item_finish(batcher, slot->items[row], status, now, finished);
}

/* Ends all items of a model, or of all where model is NULL. */
static void end_all(struct convoy_batcher *batcher, const struct convoy_model_record *model, int status,
                    struct convoy_list *finished)
{
    uint64_t now = convoy_now_us();
    convoy_batcher_wait_written(batcher);
    for (uint32_t i = 0; i < batcher->model_count * CONVOY_PRIORITIES; i++) {
        uint32_t number = i / CONVOY_PRIORITIES;
        if (model != NULL && model->number != number)
            continue;
        convoy_list_for_each(at, following, &batcher->queues[number].parked[i % CONVOY_PRIORITIES])
            convoy_item_finish(batcher, item_of(at), status, now, finished);
    }
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        struct convoy_worker_slots *worker = batcher->workers[i];
        for (uint32_t number = 0; number < worker->channel->size.slots; number++) {
            struct worker_slot *slot = &worker->slots[number];
            if (slot->state != SLOT_FREE && (model == NULL || slot->model == model))
                end_rows(batcher, slot, status, now, finished);
        }
    }
}

void convoy_batcher_return_files(struct convoy_batcher *batcher, const struct convoy_model_record *model,
                                 struct convoy_list *finished)
{
    uint64_t now = convoy_now_us();
    const struct model_queue *queue = queue_of(batcher, model);
    if (queue->takes_files)
        return;
    convoy_batcher_wait_written(batcher);
    for (int priority = 0; priority < CONVOY_PRIORITIES; priority++)
        convoy_list_for_each(at, following, &queue->parked[priority]) {
            if (item_of(at)->layout == CONVOY_LAYOUT_JPEG)
                convoy_item_finish(batcher, item_of(at), -EBADMSG, now, finished);
        }
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        struct convoy_worker_slots *worker = batcher->workers[i];
        for (uint32_t number = 0; number < worker->channel->size.slots; number++) {
            struct worker_slot *slot = &worker->slots[number];
            if ((slot->state != SLOT_OPEN && slot->state != SLOT_SEALED) || slot->model != model ||
                slot->layout != CONVOY_LAYOUT_JPEG)
                continue;
            end_rows(batcher, slot, -EBADMSG, now, finished);
            convoy_batcher_wake_at(batcher, now);
        }
    }
}

/* Answers the rows of slots that were given up, and frees slots that no worker has and whose rows no request
 * waits for any more. */
static void release_deserted(struct convoy_batcher *batcher, uint64_t now, struct convoy_list *finished)
{
    batcher->deserted = false;
    for (uint32_t i = 0; i < batcher->worker_count; i++) {
        struct convoy_worker_slots *worker = batcher->workers[i];
        for (uint32_t number = 0; number < worker->channel->size.slots; number++) {
            struct worker_slot *slot = &worker->slots[number];
            if ((slot->state != SLOT_OPEN && slot->state != SLOT_SEALED) || atomic_load(&slot->unwritten) > 0)
                continue;
            if (slot->given_up)
                end_rows(batcher, slot, -ETIMEDOUT, now, finished);
            if (slot->live > 0)
                continue;
            if (slot->state == SLOT_OPEN)
                worker->open[slot->layout][slot->priority][slot->model->number] = NO_SLOT;
            convoy_metrics_spared(slot->model->metrics, slot->abandoned);
            convoy_slot_release(worker, slot);
        }
    }
}

/* Ends what is due, and gives what became free to what waits. Called with the lock held, which it gives up;
 * calls done() of the finished. */
static void end_and_go_on(struct convoy_batcher *batcher, struct convoy_list *finished)
{
    uint64_t now = convoy_now_us();
    convoy_deadline_wheel_expire(&batcher->deadlines, now, &batcher->ending);
    end_groups(batcher, now, finished);
    if (batcher->deserted)
        release_deserted(batcher, now, finished);
    convoy_batcher_wake_at(batcher, convoy_deadline_wheel_next_us(&batcher->deadlines));
    for (uint32_t i = 0; i < batcher->worker_count; i++)
        convoy_worker_slots_pump(batcher->workers[i]);
    convoy_batcher_unlock(batcher);
    convoy_items_done(batcher, finished);
    pthread_mutex_lock(&batcher->lock);
    convoy_batcher_redispatch(batcher);
    convoy_batcher_unpark(batcher);
    convoy_batcher_unlock(batcher);
}

void convoy_batcher_tick(struct convoy_batcher *batcher)
{
    struct convoy_list finished;
    uint64_t expirations;
    ssize_t got = read(batcher->timer_fd, &expirations, sizeof expirations);
    (void)got;
    convoy_list_init(&finished);
    pthread_mutex_lock(&batcher->lock);
    atomic_store(&batcher->timer_at, UINT64_MAX);
    end_and_go_on(batcher, &finished);
}

void convoy_batcher_model_files(struct convoy_batcher *batcher, struct convoy_model_record *model,
                                bool takes_files)
{
    struct convoy_list finished;
    convoy_list_init(&finished);
    pthread_mutex_lock(&batcher->lock);
    bool took = queue_of(batcher, model)->takes_files;
    queue_of(batcher, model)->takes_files = takes_files;
    if (took)
        convoy_batcher_return_files(batcher, model, &finished);
    convoy_batcher_unlock(batcher);
    convoy_items_done(batcher, &finished);
}

void convoy_batcher_model_gone(struct convoy_batcher *batcher, struct convoy_model_record *model)
{
    struct convoy_list finished;
    convoy_list_init(&finished);
    pthread_mutex_lock(&batcher->lock);
    atomic_store(&queue_of(batcher, model)->admission.gone, true);
    end_all(batcher, model, -ENODEV, &finished);
    end_and_go_on(batcher, &finished);
}

void convoy_batcher_stop(struct convoy_batcher *batcher)
{
    struct convoy_list finished;
    convoy_list_init(&finished);
    pthread_mutex_lock(&batcher->lock);
    atomic_store(&batcher->stopped, true);
    end_all(batcher, NULL, -ECANCELED, &finished);
    end_and_go_on(batcher, &finished);
}
