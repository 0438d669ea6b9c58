/* The batcher: gathers images of one model into a slot and sends slots to workers.
 *
 * Who is next: models share the device by weight (fair_queue.h), whatever each of them has waiting; within a
 * model the more urgent image goes first, then the older one.
 *
 * Work-conserving: while a worker can take a slot, one leaves at once with whatever waits, so a lone request
 * never waits for company; otherwise images gather until the slot is full or its oldest has waited
 * max_delay_us.
 *
 * An image's way: convoy_batcher_admit() reserves room in the model's queue (max_queue images) for all images
 * of a request, unless they would wait past their deadline; then images are decoded by the caller and
 * handed over with convoy_batcher_submit(), which reserves rows in a slot, writes and commits them, or parks
 * them when every slot is in use. done() is called exactly once for each submitted item.
 *
 * Threads: admit, cancel and submit from any thread; done() is called on the control loop's thread, never
 * under a lock of the batcher; when the item cannot be taken after all (the daemon stops, the model was given
 * up, memory is out), from within submit(). */
#ifndef CONVOY_SERVER_BATCHER_H
#define CONVOY_SERVER_BATCHER_H

#include "engine/base/error.h"
#include "engine/base/list.h"
#include "engine/ipc/channel.h"
#include "server/batching/priority.h"
#include "server/models/model.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_batcher;

struct convoy_layer_name {
    char name[64], kernel[64];
};

struct convoy_layer_time {
    char name[64], kernel[64];
    float us;
};

/* One image in flight. The caller owns it. */
struct convoy_item {
    /* set by the caller */
    struct convoy_model *model;
    enum convoy_input_layout layout;
    enum convoy_priority priority;
    bool profile;         /* travels alone and times each layer */
    uint64_t deadline_us; /* convoy_now_us() time after which the answer is of no use; the batcher may bring
                             it forward */
    float *outputs;       /* room for shape.outputs_per_row floats, written before done() */
    void (*done)(struct convoy_item *item);
    void *context;
    /* Its row, shape's H x W x C bytes or floats: read, or written by write() where that is set. Where the
     * source stays as it is until done(): without the batcher's lock, on the caller's thread before submit()
     * returns, or on the control loop. Where it does not: before submit() returns, and with the lock held
     * when no slot is free. */
    const void *source;
    size_t source_bytes;
    void (*write)(const struct convoy_item *item, uint8_t *target); /* NULL: source is copied as it is */
    bool source_stays;

    /* set by the batcher before done() */
    int status; /* 0; -ETIMEDOUT: the deadline passed, or would have before a late batch was done; -EIO:
                   running it killed the worker again and again; -ENODEV: its model can no longer be served;
                   -ENOMEM; -ECANCELED: the daemon stops */
    float input_us, compute_us, output_us;
    uint64_t queue_us; /* from submit() to the start of the run that succeeded */
    uint32_t batch_size;
    uint32_t retries;
    uint64_t finished_us;             /* convoy_now_us() when the batch finished */
    char device[32];                  /* "cpu", "cuda:0" */
    struct convoy_layer_time *layers; /* malloc'd, when profiled; the caller frees */
    uint32_t layer_count;

    /* the batcher's own */
    struct convoy_list link; /* in a list of parked items, or of finished ones; in none while it has a row */
    uint8_t *kept_row;
    bool parked;
    uint64_t submitted_us;
    int32_t worker, slot, row;
};

/* Reserves room for n images of model. What is less urgent does not count: it waits behind them. -EBUSY when
 * its queue is full now, -ETIME when what waits and runs already would keep them, by the rate at which images
 * finish (service_time.h), for more than three quarters of the time left until deadline_us: computing images
 * that nobody can wait for any more would take the place of others. -E2BIG when n is more than max_queue and
 * could never wait, -ESHUTDOWN once the batcher refuses (stopping), -ENODEV when the
 * model cannot be served (any more). What was admitted must be submitted or
 * given back with convoy_batcher_cancel().
 *
 * *wait_us: how long the request would take by that estimate, also when it is refused; 0 while there is
 * none. Where nothing waits or runs no deadline is too near. */
int convoy_batcher_admit(struct convoy_batcher *batcher, struct convoy_model *model, uint32_t n,
                         enum convoy_priority priority, uint64_t deadline_us, uint64_t *wait_us);
/* Bytes of rows that a slot of the workers takes; 0 while there is no worker. A row that is larger could
 * never be run and must not be admitted. Any thread. */
uint64_t convoy_batcher_slot_bytes(struct convoy_batcher *batcher);
void convoy_batcher_cancel(struct convoy_batcher *batcher, struct convoy_model *model, uint32_t n,
                           enum convoy_priority priority);

/* Hands over n (at least 1) admitted images of one model, layout, priority and deadline, all with a profile
 * or none. They travel together as far as there is room: what has its row in a slot leaves when all of these
 * have theirs. Items, and what write() reads, must outlive both done() and this call. */
void convoy_batcher_submit(struct convoy_batcher *batcher, struct convoy_item *const *items, uint32_t n);

/* Images submitted whose done() was not called yet, over all models. Any thread. */
uint64_t convoy_batcher_pending(struct convoy_batcher *batcher);

/* ---- What follows is the control loop's: one thread calls it. ---- */

struct convoy_batcher_limits {
    uint32_t max_batch, max_delay_us, max_queue; /* max_queue: see convoy_batcher_admit() */
    uint32_t weight;                             /* of the model's share of the device; 0 is taken as 1 */
};

/* models: how many numbers there can be. workers: how many workers there can be. */
int convoy_batcher_new(uint32_t models, uint32_t workers, struct convoy_metrics *metrics,
                       struct convoy_batcher **batcher, struct convoy_error *error);
/* Every item's done() must have been called. */
void convoy_batcher_free(struct convoy_batcher *batcher);

/* The number is this model's from now on; what was known under it is forgotten. Of a model that had it before
 * nothing may be left (convoy_batcher_model_idle()). */
void convoy_batcher_model_new(struct convoy_batcher *batcher, const struct convoy_model *model);
/* No image of the model waits or runs, and no slot is its. */
bool convoy_batcher_model_idle(struct convoy_batcher *batcher, const struct convoy_model *model);
/* Limits of a model; again at SIGHUP (max_batch must stay). Any thread. */
void convoy_batcher_set_limits(struct convoy_batcher *batcher, const struct convoy_model *model,
                               const struct convoy_batcher_limits *limits);
/* The model's rows are known from now on and its images are taken. */
void convoy_batcher_model_ready(struct convoy_batcher *batcher, struct convoy_model *model,
                                const struct convoy_model_shape *shape);
/* The model can no longer be served: what waits for it gets -ENODEV. */
void convoy_batcher_model_gone(struct convoy_batcher *batcher, struct convoy_model *model);
/* From now on nothing is admitted; all that waits or runs gets -ECANCELED. */
void convoy_batcher_stop(struct convoy_batcher *batcher);

/* A timerfd that becomes readable when convoy_batcher_tick() has something to do. */
int convoy_batcher_timer(const struct convoy_batcher *batcher);
/* Answers items whose deadline passed and lets slots go that gathered long enough. */
void convoy_batcher_tick(struct convoy_batcher *batcher);

/* A worker is one worker's slots. It outlives the worker: where no other worker serves a model, its rows stay
 * while another worker is started. Where one does, they go there: what only waits at once, what was in flight
 * when the worker died after a second without one (batcher_redispatch.c). */
struct convoy_worker_slots;

/* channel: laid out, the supervisor's, must outlive the worker. device: as the worker calls itself. */
int convoy_worker_slots_new(struct convoy_batcher *batcher, struct convoy_channel *channel,
                            const char *device, struct convoy_worker_slots **worker,
                            struct convoy_error *error);
/* A worker is attached and takes up to streams slots at once. */
void convoy_worker_slots_up(struct convoy_worker_slots *worker, uint32_t streams);
/* The worker on this worker can serve the model now, or never will. layers (malloc'd, may be NULL) names what
 * a profile times; the worker takes it over. */
void convoy_worker_slots_model(struct convoy_worker_slots *worker, const struct convoy_model *model,
                               bool can_serve, struct convoy_layer_name *layers, uint32_t layer_count);
/* The worker has rows of the model that wait for it. */
bool convoy_worker_slots_waits_for(struct convoy_worker_slots *worker, const struct convoy_model *model);
/* Takes completions; bounded work per call. Returns how many made no sense. */
uint32_t convoy_worker_slots_collect(struct convoy_worker_slots *worker);
/* The worker died. Its slots in flight will run again, one at a time, after what waits when the next worker
 * comes up (but for every third death in a row, so that they do run); a slot that was alone in flight and had
 * been in flight before is halved, and a single image that is left gets -EIO. blame_slots is false when the
 * worker is known to have died of something else (loading a model). Returns how many images run again. */
uint32_t convoy_worker_slots_down(struct convoy_worker_slots *worker, bool blame_slots);
/* The worker that was to replace the one that died could not be started: the rest goes to other workers now.
 */
void convoy_worker_slots_lost(struct convoy_worker_slots *worker);
/* Slots that the worker has. */
uint32_t convoy_worker_slots_in_flight(struct convoy_worker_slots *worker);
/* Microseconds since the worker made progress while slots are in flight; 0 when none is. */
uint64_t convoy_worker_slots_stalled_us(struct convoy_worker_slots *worker);
/* The time until now does not count as stalled. */
void convoy_worker_slots_forgive(struct convoy_worker_slots *worker);

#endif
