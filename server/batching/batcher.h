/* The batcher: gathers images of one model into a slot and sends slots to workers.
 *
 * Order: models share the device by weight (fair_queue.h), however many images each has waiting; within a
 * model the more urgent image goes first, then the older one.
 *
 * Work-conserving: while a worker can take a slot, one leaves at once with the images that wait, so a single
 * image never waits for others. Otherwise images gather until the slot is full or its oldest image has waited
 * max_delay_us.
 *
 * An image's way: convoy_batcher_admit() reserves room in the model's queue (max_queue images) for all images
 * of a request, unless they would wait past their deadline. The caller then decodes them and hands them over
 * with convoy_batcher_submit(), which reserves rows in a slot, writes and commits them, or parks the images
 * when every slot is in use: the batcher's own threads write them once there is room. done() is called
 * exactly once for each submitted item.
 *
 * Threads: admit, cancel, submit, abandon, slot_bytes, pending and set_limits from any thread; all else on
 * the control loop. done() is called on the control loop's thread; when an item cannot be taken after all
 * (its deadline has passed, the daemon stops, the model was given up, memory is out), from within submit().
 * It is never called under a lock of the batcher.
 *
 * Locks: one lock guards which row an image gets and which slot leaves, for these are one order over all
 * models and workers (fair_queue.h). It is held for some 100 ns, once for each request while the workers are
 * busy: admission takes none, nor does the end of writing a row that nothing waits for. It is not held while
 * rows or outputs are written or copied, while done() runs, while a doorbell is rung and while the timer is
 * armed. No other lock is taken while it is held. */
#ifndef CONVOY_SERVER_BATCHER_H
#define CONVOY_SERVER_BATCHER_H

#include "engine/base/error.h"
#include "engine/base/list.h"
#include "engine/ipc/channel.h"
#include "server/batching/deadline_wheel.h"
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

/* What the images of one request share. The caller owns it; it must outlive done() of all its items. */
struct convoy_item_group {
    /* Set by the caller: convoy_now_us() time after which answers are of no use; UINT64_MAX: there is none.
     * All else is 0. */
    uint64_t deadline_us;

    /* the batcher's own */
    struct convoy_list items; /* those that were submitted and are not done */
    uint32_t item_count;      /* their number */
    struct convoy_deadline deadline;
    bool abandoned, ending; /* ending: the control loop is about to end its items */
};

/* One image in flight. The caller owns it. */
struct convoy_item {
    /* set by the caller */
    struct convoy_model_record *model;
    enum convoy_input_layout layout;
    enum convoy_priority priority;
    bool profile; /* travels alone and times each layer */
    uint32_t map; /* as struct convoy_slot's: travels alone, for a class activation map */
    struct convoy_item_group *group;
    float *outputs; /* room for shape.outputs_per_row floats, written before done() */
    void (*done)(struct convoy_item *item);
    void *context;
    /* Its row, shape's H x W x C bytes or floats: read, or written by write() where that is set, without the
     * batcher's lock. Where the source stays as it is until done(): on the caller's thread before submit()
     * returns, or on one of the batcher's. Where it does not: before submit() returns.
     *
     * A file (CONVOY_LAYOUT_JPEG) is at most convoy_batcher_file_bytes() long; its source stays, and write()
     * writes the row's header to target and the source, of source_bytes, to target + file_offset. */
    const void *source;
    size_t source_bytes;
    void (*write)(const struct convoy_item *item, uint8_t *target); /* NULL: source is copied as it is */
    bool source_stays;
    uint64_t pixels; /* of a file's picture, as coded */

    /* set by the batcher before write() */
    uint32_t file_offset;

    /* set by the batcher before done() */
    int status; /* 0; -ETIMEDOUT: the deadline passed, or would have before a late batch was done; -EIO:
                   running it killed the worker again and again; -ENODEV: its model can no longer be served;
                   -ENOMEM; -ECANCELED: the daemon stops; -ECONNABORTED: it was abandoned; -EBADMSG: the
                   device could not decode its file, decoding it killed the worker again and again, or its
                   model is served by a device that decodes none (any more): the caller may decode it and
                   submit the pixels (convoy_batcher_readmit()). With a map also -EAGAIN: the worker may not
                   load what computes it yet; -ESTALE: the model's files are others by now */
    float input_us, compute_us, output_us;
    uint64_t queue_us; /* from submit() to the start of the run that succeeded */
    uint32_t batch_size;
    uint32_t retries;
    uint64_t finished_us;             /* convoy_now_us() when the batch finished */
    char device[32];                  /* "cpu", "cuda:0" */
    struct convoy_layer_time *layers; /* malloc'd, when profiled; the caller frees */
    uint32_t layer_count;
    /* With a map: map_height x map_width values, malloc'd, the caller frees; NULL when the worker sent none,
     * or memory was out. The caller checks the sizes and the class against the model. */
    float *class_map;
    uint32_t map_class, map_height, map_width;

    /* the batcher's own */
    struct convoy_list link; /* in a list of parked items, of rows to write, or of finished items */
    struct convoy_list in_group;
    uint8_t *kept_row;
    bool parked;
    bool writing; /* one of the batcher's threads writes its row, or is about to: it is not ended meanwhile */
    uint64_t submitted_us;
    int32_t worker, slot, row;
};

/* True when it shares its slot with no other image. */
static inline bool convoy_item_is_alone(const struct convoy_item *item)
{
    return item->profile || item->map != CONVOY_MAP_NONE;
}

/* Who asked for the items of the group is gone: the control loop ends those that were submitted, and those
 * that will be. Rows that run are finished, rows of a slot that other items wait for run with it; all else is
 * not computed, and counted as spared. Any thread. */
void convoy_batcher_abandon(struct convoy_batcher *batcher, struct convoy_item_group *group);

/* Reserves room for n images of model. Images that are less urgent do not count: they wait behind these.
 *
 * -EBUSY: the queue is full now. -ETIME: by the rate at which images finish (service_time.h), what waits and
 * runs already would keep these images for more than three quarters of the time left until deadline_us;
 * computing images whose client has given up would take the place of others. -E2BIG: n is more than max_queue
 * and could never wait. -ESHUTDOWN: the batcher refuses (the daemon stops). -ENODEV: the model cannot be
 * served (any more).
 *
 * What was admitted must be submitted, or given back with convoy_batcher_cancel().
 *
 * *wait_us: how long the request would take by that estimate, also when it is refused; 0 while there is no
 * estimate. Where nothing waits or runs no deadline is too near. */
int convoy_batcher_admit(struct convoy_batcher *batcher, struct convoy_model_record *model, uint32_t n,
                         enum convoy_priority priority, uint64_t deadline_us, uint64_t *wait_us);
/* Bytes of rows that a slot of the workers takes; 0 while there is no worker. A row that is larger could
 * never be run and must not be admitted. Any thread. */
uint64_t convoy_batcher_slot_bytes(struct convoy_batcher *batcher);
/* Bytes of the largest file that a slot takes (CONVOY_LAYOUT_JPEG). Any thread. */
uint64_t convoy_batcher_file_bytes(struct convoy_batcher *batcher);
/* Reserves room for an image whose item ended with -EBADMSG, whatever waits: it was admitted before, and
 * comes back once at most. Any thread. */
void convoy_batcher_readmit(struct convoy_batcher *batcher, struct convoy_model_record *model,
                            enum convoy_priority priority);
void convoy_batcher_cancel(struct convoy_batcher *batcher, struct convoy_model_record *model, uint32_t n,
                           enum convoy_priority priority);

/* Hands over n (at least 1) admitted images of one model, layout, priority and group, all with the same
 * profile and map. They travel together as far as there is room: a slot with rows of these images leaves when
 * all of those are written. Items, and what write() reads, must outlive both done() and this call. */
void convoy_batcher_submit(struct convoy_batcher *batcher, struct convoy_item *const *items, uint32_t n);

/* From hold() to let_go() the calling thread's rows are written and not committed, so that they leave in one
 * slot, with one lock and one doorbell, and the worker does not take the processor from the thread that makes
 * the next ones. For threads that have several requests at hand and do not wait for anything in between; at
 * most 32 rows are held at a time. Measured on two cores with 64 connections of single images and the null
 * backend: 24 us of processor time a request instead of 34, and a context switch of the worker for every 25th
 * image instead of every third. */
void convoy_batcher_hold(void);
/* Where there are eight cores or more, three rows are held at a time. Many threads have rows in one slot
 * then, which leaves with the last of them: with up to 64 rows held by each of 24 threads all slots waited
 * for some thread. On 32 cores with 256 connections, in one run: 0.95 of the bare server with three rows,
 * 0.82 with one, 0.58 with 64. Before the threads begin. */
void convoy_batcher_hold_by_cores(uint32_t cores);
void convoy_batcher_let_go(void);

/* Images submitted whose done() was not called yet, over all models. Any thread. */
uint64_t convoy_batcher_pending(struct convoy_batcher *batcher);

/* ---- For the control loop alone ---- */

struct convoy_batcher_limits {
    uint32_t max_batch, max_delay_us, max_queue; /* max_queue: see convoy_batcher_admit() */
    uint32_t weight;                             /* of the model's share of the device; 0 is taken as 1 */
};

#define CONVOY_BATCHER_WORKERS 64
#define CONVOY_BATCHER_WRITERS 8

/* models, workers: the most model numbers and workers that there can be; workers <= CONVOY_BATCHER_WORKERS.
 * writers: threads that write the rows of parked images into slots, at most CONVOY_BATCHER_WRITERS; 0: the
 * control loop does it, which then takes no completions meanwhile (for tests). Errors: -ENOMEM, -EAGAIN. */
int convoy_batcher_new(uint32_t models, uint32_t workers, uint32_t writers, struct convoy_metrics *metrics,
                       struct convoy_batcher **batcher, struct convoy_error *error);
/* Ends the writers. Every item's done() must have been called. */
void convoy_batcher_free(struct convoy_batcher *batcher);

/* From now on a worker gets no row of a model before it serves it. Otherwise rows of a model that no worker
 * serves wait in the slots of any worker that has not refused it, which may load it later. To be called
 * before there are workers. */
void convoy_batcher_rows_only_where_served(struct convoy_batcher *batcher);

/* begin() and end() are called on the control loop before and after it calls done() of the items that ended
 * together, so that what their owners do can be done once for all of them. NULL: nothing. */
void convoy_batcher_done_in_rounds(struct convoy_batcher *batcher, void (*begin)(void), void (*end)(void));

/* Gives the number to this model and forgets what was known of the model that had it before, which must be
 * idle (convoy_batcher_model_idle()). */
void convoy_batcher_model_new(struct convoy_batcher *batcher, const struct convoy_model_record *model);
/* True when no image of the model waits or runs, and no slot holds one. */
bool convoy_batcher_model_idle(struct convoy_batcher *batcher, const struct convoy_model_record *model);
/* Sets a model's limits, also again at SIGHUP (max_batch must stay). Any thread. */
void convoy_batcher_set_limits(struct convoy_batcher *batcher, const struct convoy_model_record *model,
                               const struct convoy_batcher_limits *limits);
/* Tells the size of the model's rows; from now on its images are admitted. */
void convoy_batcher_model_ready(struct convoy_batcher *batcher, struct convoy_model_record *model,
                                const struct convoy_model_shape *shape);
/* Whether all devices that serve the model decode JPEG files. While they do not, its files get -EBADMSG. Not
 * before convoy_batcher_model_ready(). */
void convoy_batcher_model_files(struct convoy_batcher *batcher, struct convoy_model_record *model,
                                bool takes_files);
/* The model can no longer be served: its waiting images get -ENODEV. */
void convoy_batcher_model_gone(struct convoy_batcher *batcher, struct convoy_model_record *model);
/* From now on nothing is admitted; all images that wait or run get -ECANCELED. */
void convoy_batcher_stop(struct convoy_batcher *batcher);

/* A timerfd, the batcher's, that becomes readable when convoy_batcher_tick() has something to do. */
int convoy_batcher_timer(const struct convoy_batcher *batcher);
/* Answers items whose deadline passed, and submits slots that gathered long enough. */
void convoy_batcher_tick(struct convoy_batcher *batcher);

/* The slots of one worker, and what is known of it. They outlive the worker's process: while no other worker
 * serves a model, its rows stay here until the next process is started. Where another worker does, they go
 * there: rows that only waited at once, slots that were in flight when the process died after a second
 * without a new one (batcher_redispatch.c). */
struct convoy_worker_slots;

/* channel: laid out; the supervisor's, must outlive the slots. device: the worker's own name for it, copied.
 * The batcher owns and frees *worker. Errors: -ENOMEM. */
int convoy_worker_slots_new(struct convoy_batcher *batcher, struct convoy_channel *channel,
                            const char *device, struct convoy_worker_slots **worker,
                            struct convoy_error *error);
/* A worker process is attached and takes up to `streams` slots at once. */
void convoy_worker_slots_up(struct convoy_worker_slots *worker, uint32_t streams);
/* The device decodes so many slots of files while it computes others: as many more are staged for it, as far
 * as slots are left to gather rows in. After convoy_worker_slots_up(). */
void convoy_worker_slots_ahead(struct convoy_worker_slots *worker, uint32_t files);
/* The worker serves the model now (can_serve), or never will. layers (malloc'd, may be NULL) are the names of
 * what a profile times; the batcher takes them over. */
void convoy_worker_slots_model(struct convoy_worker_slots *worker, const struct convoy_model_record *model,
                               bool can_serve, struct convoy_layer_name *layers, uint32_t layer_count);
/* True when a slot of this worker holds rows of the model. */
bool convoy_worker_slots_waits_for(struct convoy_worker_slots *worker,
                                   const struct convoy_model_record *model);
/* Takes completions, a bounded number per call. Returns how many were invalid: of a slot that the worker did
 * not have. */
uint32_t convoy_worker_slots_collect(struct convoy_worker_slots *worker);
/* The worker process died. Its slots in flight become suspects: they run again, one at a time, after the
 * slots that wait when the next process comes up; after two deaths in a row with other slots than suspects in
 * flight, the suspects run first, or they would starve. A slot that was alone in flight and a suspect already
 * is divided by eight; a single image that is left gets -EIO, a single file -EBADMSG. blame_slots is false
 * when the process is known to have died of something else (loading a model). Returns how many images run
 * again. */
uint32_t convoy_worker_slots_down(struct convoy_worker_slots *worker, bool blame_slots);
/* No process could be started in place of the one that died: the remaining slots go to other workers now. */
void convoy_worker_slots_lost(struct convoy_worker_slots *worker);
/* How many slots the worker process has. */
uint32_t convoy_worker_slots_in_flight(struct convoy_worker_slots *worker);
/* One row of the model took so long when the worker loaded it: an estimate until a slot of it has run. us: 0
 * is no estimate. */
void convoy_worker_slots_first_run(struct convoy_worker_slots *worker,
                                   const struct convoy_model_record *model, uint64_t us);
/* One row took so long when all that a first run does was done: admission's guess until batches have ended
 * (service_time.h). us: 0 is no guess. */
void convoy_worker_slots_row(struct convoy_worker_slots *worker, const struct convoy_model_record *model,
                             uint64_t us);

/* How long the slots in flight have been without progress. A completion is progress, and so is what the
 * worker reports while it computes (convoy_channel_progress()): a slot that takes long is no hang. */
struct convoy_stall {
    uint64_t quiet_us; /* since the last progress; 0 when no slot is in flight */
    uint64_t since_us; /* since the last completion, or the submission after idleness */
    /* For how long some slot has been in flight after as many others were completed as the worker has slots,
     * so that it waits for none. */
    uint64_t passed_us;
    /* What is a hang: hang_us beyond five times what the slots that run should take, by what images of their
     * models cost lately, but at most unknown_us (or hang_us, if that is more); unknown_us where no row of a
     * model has run yet. */
    uint64_t limit_us;
    /* quiet_us is beyond limit_us, or since_us beyond ten times that: a worker that reports progress for ever
     * and completes nothing ends as well. Or passed_us is beyond four times limit_us: one stream of a device
     * may hang while others go on. */
    bool hangs;
};
/* To be called every few hundred milliseconds at least, as progress is counted from when it is noticed.
 * now_us: convoy_now_us(). */
void convoy_worker_slots_stall(struct convoy_worker_slots *worker, uint64_t now_us, uint64_t hang_us,
                               uint64_t unknown_us, struct convoy_stall *stall);
/* Begins these times at 0 again, because this process itself was stopped for a while. */
void convoy_worker_slots_forgive(struct convoy_worker_slots *worker);

#endif
