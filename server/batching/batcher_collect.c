/* What comes back from a worker: the control loop takes completions, and ends the items of their rows. All
 * images of all devices pass through here on one thread, so what can be done once a slot is not done once a
 * row (tests/bench/finish_time.c).
 *
 * A slot in flight and its items are the control loop's alone, which is why outputs and times are copied
 * before the lock is taken: the HTTP threads' lines of memory, and the worker's, come to this core meanwhile.
 */
#include "server/batching/batcher_internal.h"

#include "engine/base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Completions taken per call, so that a faulty worker cannot occupy the control loop. */
#define COLLECT_MOST (2u * CONVOY_MAX_SLOTS)

_Static_assert(CONVOY_MAX_SLOTS <= 64, "take_completions() has a bit for each slot");

/* A range that ran. */
struct completion {
    uint32_t slot;
    int status;
    double took_us; /* as the worker says; below 0: it failed */
    uint64_t now;   /* when it was taken */
};

/* A time reported by a worker is used only where it can be one. */
static float plausible(float us)
{
    return us >= 0 && us < 1e9f ? us : 0;
}

static void copy_layers(struct convoy_item *item, const struct worker_layers *known,
                        const struct convoy_slot_report *report)
{
    uint32_t layers = report->layers < known->count ? report->layers : known->count;
    item->layers = layers > 0 ? calloc(layers, sizeof *item->layers) : NULL;
    item->layer_count = item->layers != NULL ? layers : 0;
    for (uint32_t i = 0; i < item->layer_count; i++) {
        memcpy(item->layers[i].name, known->names[i].name, sizeof item->layers[i].name);
        memcpy(item->layers[i].kernel, known->names[i].kernel, sizeof item->layers[i].kernel);
        item->layers[i].us = plausible(report->layer_us[i]);
    }
}

/* The worker may have written anything, and go on writing. */
static void copy_map(const struct convoy_worker_slots *worker, uint32_t slot,
                     const struct convoy_slot_report *report, struct convoy_item *item)
{
    uint64_t values = (uint64_t)report->map_height * report->map_width;
    if (values < 1 || values > CONVOY_MAX_CLASS_MAP)
        return;
    item->class_map = malloc(values * sizeof(float));
    if (item->class_map == NULL)
        return;
    memcpy(item->class_map, convoy_channel_class_map(worker->channel, slot), values * sizeof(float));
    item->map_class = report->map_class;
    item->map_height = report->map_height;
    item->map_width = report->map_width;
}

/* What the slot asked for: the worker may go on writing, so it is read once. All of it would be 10 KB. */
static void copy_report(const struct worker_slot *slot, const struct convoy_slot_report *from,
                        struct convoy_slot_report *report)
{
    if (slot->profile) {
        *report = *from;
        return;
    }
    report->input_us = from->input_us;
    report->compute_us = from->compute_us;
    report->output_us = from->output_us;
    report->map_class = from->map_class;
    report->map_height = from->map_height;
    report->map_width = from->map_width;
    if (slot->layout == CONVOY_LAYOUT_JPEG)
        memcpy(report->undecoded, from->undecoded, sizeof report->undecoded);
}

/* What a completion's status is for its images. */
static int status_of(const struct worker_slot *slot, int status)
{
    bool says_why =
        slot->map != CONVOY_MAP_NONE && (status == -EAGAIN || status == -ESTALE || status == -ENOMEM);
    return status == 0 || says_why ? status : -EIO;
}

static void answer_item(struct convoy_worker_slots *worker, struct worker_slot *slot,
                        struct convoy_item *item, const struct convoy_slot_report *report, uint32_t batch,
                        uint64_t now)
{
    item->input_us = plausible(report->input_us);
    item->compute_us = plausible(report->compute_us);
    item->output_us = plausible(report->output_us);
    item->batch_size = batch;
    item->retries = slot->retries;
    memcpy(item->device, worker->device, sizeof item->device);
    /* What the device did not use was waiting: in the slot, behind other slots, for another worker. */
    uint64_t used = (uint64_t)(item->input_us + item->compute_us + item->output_us);
    uint64_t all = now - item->submitted_us;
    item->queue_us = all > used ? all - used : 0;
    if (slot->profile)
        copy_layers(item, &worker->layers[item->model->number], report);
}

/* Whether the device could not decode the file of a row that ran. index: from the range's first row on. */
static bool is_undecoded(const struct worker_slot *slot, const struct convoy_slot_report *report,
                         uint32_t index)
{
    return slot->layout == CONVOY_LAYOUT_JPEG && index < CONVOY_JPEG_ROWS_MAX &&
           (report->undecoded[index / 64] >> (index % 64) & 1) != 0;
}

/* Takes what the worker completed, each slot once; counts what is no completion of a slot in flight. Without
 * the lock. */
static uint32_t take_completions(struct convoy_worker_slots *worker, struct completion *completions,
                                 uint32_t *nonsense)
{
    uint32_t count = 0;
    uint64_t taken = 0; /* bits by slot number */
    struct convoy_done done;
    for (uint32_t i = 0; i < COLLECT_MOST && convoy_channel_take_done(worker->channel, &done); i++) {
        const struct worker_slot *slot =
            done.slot < worker->channel->size.slots ? &worker->slots[done.slot] : NULL;
        if (slot == NULL || slot->state != SLOT_IN_FLIGHT || slot->generation != done.generation ||
            (taken >> done.slot & 1) != 0) {
            ++*nonsense;
            continue;
        }
        taken |= UINT64_C(1) << done.slot;
        completions[count++] = (struct completion){.slot = done.slot, .status = done.status};
    }
    return count;
}

/* Hands the outputs of the range that ran to its items, and what is known of the run; item->status says how
 * each ends. Without the lock. */
static void answer_range(struct convoy_worker_slots *worker, struct completion *completion)
{
    uint32_t number = completion->slot;
    int status = completion->status;
    struct worker_slot *slot = &worker->slots[number];
    struct model_queue *queue = queue_of(worker->batcher, slot->model);
    struct row_range range = slot->ranges[slot->range_count - 1];
    uint64_t now = completion->now = convoy_now_us();
    struct convoy_slot_report report;
    copy_report(slot, convoy_channel_report(worker->channel, number), &report);
    const uint8_t *outputs = convoy_channel_outputs(worker->channel, number);
    struct convoy_observations waits = {0};

    for (uint32_t row = range.first; row < range.first + range.rows; row++) {
        struct convoy_item *item = slot->items[row];
        if (item == NULL)
            continue;
        bool undecoded = status == 0 && is_undecoded(slot, &report, row - range.first);
        if (status == 0 && !undecoded) {
            memcpy(item->outputs, outputs + row * queue->output_stride,
                   queue->outputs_per_row * sizeof(float));
            answer_item(worker, slot, item, &report, range.rows, now);
            if (slot->map != CONVOY_MAP_NONE)
                copy_map(worker, number, &report, item);
            convoy_observations_add(&waits, item->queue_us);
        }
        item->status = undecoded ? -EBADMSG : status_of(slot, status);
    }
    if (waits.times > 0)
        convoy_model_waited(slot->model, &waits);
    completion->took_us = -1;
    if (status == 0) {
        struct convoy_batch_times times = {(uint64_t)plausible(report.input_us),
                                           (uint64_t)plausible(report.compute_us),
                                           (uint64_t)plausible(report.output_us)};
        completion->took_us = (double)plausible(report.input_us) + (double)plausible(report.compute_us) +
                              (double)plausible(report.output_us);
        convoy_model_ran(slot->model, worker->metrics, range.rows, &times);
    }
}

/* Ends the items of the range that ran, and lets the slot go on or frees it. */
static void finish_range(struct convoy_worker_slots *worker, const struct completion *completion,
                         struct convoy_list *finished)
{
    struct worker_slot *slot = &worker->slots[completion->slot];
    struct convoy_batcher *batcher = worker->batcher;
    struct model_queue *queue = queue_of(batcher, slot->model);
    struct row_range range = slot->ranges[slot->range_count - 1];
    uint64_t now = completion->now;

    for (uint32_t row = range.first; row < range.first + range.rows; row++)
        if (slot->items[row] != NULL)
            convoy_item_finish(batcher, slot->items[row], slot->items[row]->status, now, finished);
    convoy_fair_queue_settle(&queue->fair, queue->limits.weight, range.rows, slot->charged_us,
                             completion->took_us);
    convoy_parked_reorder(batcher, queue);
    /* A map may have waited until a network was loaded, which says nothing of other images. */
    if (completion->status == 0 && slot->map == CONVOY_MAP_NONE) {
        uint64_t since_us = worker->progress_us > slot->left_us ? worker->progress_us : slot->left_us;
        convoy_service_time_finished(&queue->service, now, range.rows, now - slot->left_us,
                                     queue->waiting > 0);
        convoy_queue_publish(queue);
        convoy_image_cost_ran(&worker->costs[slot->model->number], range.rows, now - since_us, now);
        convoy_image_cost_ran(&queue->cost, range.rows, now - since_us, now);
    }
    atomic_fetch_sub(&queue->admission.running, range.rows);
    atomic_fetch_sub(running_of(worker, slot->layout), 1);
    worker->load.running_us =
        atomic_fetch_sub(&worker->in_flight, 1) > 1 ? worker->load.running_us - slot->priced_us : 0;
    if (slot->map != CONVOY_MAP_NONE)
        atomic_fetch_sub(&worker->streams, 1);
    convoy_stall_completed(worker, now);
    slot->range_count--;
    if (slot->range_count > 0)
        slot->state = SLOT_SEALED;
    else
        convoy_slot_release(worker, slot);
}

uint32_t convoy_worker_slots_collect(struct convoy_worker_slots *worker)
{
    struct convoy_list finished;
    struct completion completions[CONVOY_MAX_SLOTS];
    uint32_t nonsense = 0, count = take_completions(worker, completions, &nonsense);
    convoy_list_init(&finished);
    for (uint32_t i = 0; i < count; i++)
        answer_range(worker, &completions[i]);
    pthread_mutex_lock(&worker->batcher->lock);
    for (uint32_t i = 0; i < count; i++)
        finish_range(worker, &completions[i], &finished);
    convoy_worker_slots_pump(worker);
    bool more = worker->batcher->orphaned || worker->batcher->parked_count > 0;
    convoy_batcher_unlock(worker->batcher);
    convoy_items_done(worker->batcher, &finished); /* they do not wait until others' rows are written */
    if (!more)
        return nonsense;
    pthread_mutex_lock(&worker->batcher->lock);
    convoy_batcher_redispatch(worker->batcher);
    convoy_batcher_unpark(worker->batcher);
    convoy_batcher_unlock(worker->batcher);
    return nonsense;
}
