/* What the files of the batcher share. Everything here is guarded by batcher->lock unless said otherwise.
 *
 * batcher.c               the batcher, models' queues, admission
 * batcher_timer.c         when the control loop wakes
 * batcher_combine.c       short work under the lock that threads do for each other
 * batcher_fill.c          gives images rows, or parks them
 * batcher_hold.c          rows that a thread commits together
 * batcher_parked.c        parked images, and the threads that write their rows
 * batcher_choose.c        which worker an image goes to
 * batcher_worker_slots.c  one worker's slots: what is submitted when
 * batcher_collect.c       completions of a worker
 * batcher_stall.c         how long a worker's slots have been without progress
 * batcher_worker_down.c   a worker's death: what runs again, and which row is to blame
 * batcher_redispatch.c    moves the slots of a worker that is gone to others
 * batcher_deadline.c      ends images without an answer */
#ifndef CONVOY_SERVER_BATCHER_INTERNAL_H
#define CONVOY_SERVER_BATCHER_INTERNAL_H

#include "server/batching/batcher.h"
#include "server/batching/completion_estimate.h"
#include "server/batching/fair_queue.h"
#include "server/batching/service_time.h"

#include <pthread.h>
#include <stdatomic.h>

#define NO_SLOT (-1)

/* Rows of a suspect slot that still have to run; eighths of eighths of at most 65,535 rows fit: seven more
 * for each of six divisions. */
#define MAX_RANGES 43

enum slot_state {
    SLOT_FREE,
    SLOT_OPEN,     /* takes rows; its number stands in worker->open */
    SLOT_SEALED,   /* takes no more rows; waits to be submitted */
    SLOT_IN_FLIGHT /* the worker has it; of the front's threads the control loop alone touches it and its
                      items */
};

struct row_range {
    uint32_t first, rows;
};

struct worker_slot {
    struct convoy_model_record *model;
    enum convoy_input_layout layout;
    enum convoy_priority priority; /* of all its rows */
    double charged_us;             /* what its model was charged for the run in flight (fair_queue.h) */
    double priced_us;              /* its rows' part of worker->load.backlog_us */
    bool profile;
    uint32_t map;
    bool given_up; /* too late to run: the control loop is about to answer its rows */
    bool suspect;  /* was in flight when a worker died: runs alone */
    uint32_t capacity, reserved;
    uint64_t files_end, pixels; /* of files: where the next one goes, and the pixels of all */
    uint32_t live;              /* rows that a request waits for: entries of items that are not NULL */
    uint32_t abandoned;         /* rows whose items were abandoned before they ran */
    uint32_t retries;
    uint64_t opened_us; /* when its first row was reserved */
    uint64_t order;     /* counts slots as they are opened */
    uint64_t left_us;   /* when the worker was given it */
    uint32_t passed;    /* slots that the worker has completed since */
    uint64_t passed_us; /* when these were as many as it has slots: all that were before this one are done */
    /* What follows is kept when the slot is opened again. */
    _Atomic enum slot_state state; /* read without the lock where rows are committed */
    _Atomic uint32_t unwritten;    /* reserved rows that are not committed; falls without the lock */
    struct convoy_item **items;    /* by row; NULL where the request gave up */
    uint32_t generation;           /* counts submissions: an old completion matches no later one */
    struct row_range ranges[MAX_RANGES];
    uint32_t range_count; /* ranges[range_count - 1] runs next, or is running */
};

enum worker_model { WORKER_UNKNOWN, WORKER_SERVES, WORKER_REFUSES };

struct convoy_worker_slots {
    struct convoy_batcher *batcher;
    struct convoy_channel *channel;
    uint32_t number; /* its place in batcher->workers */
    char device[32];
    struct convoy_device_metrics *metrics;
    bool up;
    uint32_t suspects;
    /* in_flight: slots; 0 while it is not up. streams: so many it runs at once; and one for each in flight
     * that asks for a map, as others must not wait while a network is loaded for it. Read without the lock
     * where rows are committed: streams is never too small then. */
    _Atomic uint32_t streams, in_flight;
    _Atomic uint32_t running[2]; /* of in_flight: those of pixels and floats, and those of files */
    _Atomic uint32_t ahead;      /* slots of files that are staged behind the running ones, besides one */
    uint32_t used;               /* slots that are not free */
    uint64_t chosen;             /* value of batcher->choices when it was last given an image */
    uint64_t down_us;            /* when its process died; 0: suspects do not wait for the next one */
    struct convoy_worker_load load;
    struct convoy_image_cost *costs; /* by model number */
    uint64_t *first_run_us;          /* of one row when its model was loaded, by model number; 0: unknown */
    uint64_t first_until;            /* slots opened before this order go before the suspects */
    uint32_t deaths_of_others;       /* in a row, with a slot in flight that was no suspect */
    uint64_t progress_us;            /* of the last completion, or of the first submission after idleness */
    uint64_t noticed_us;             /* of that, or when progress_count was last seen to change */
    uint32_t progress_count;         /* convoy_channel_progress_count() */
    uint8_t *models;                 /* enum worker_model by model number */
    struct worker_layers {
        struct convoy_layer_name *names;
        uint32_t count;
    } * layers;                                        /* by model number */
    int *open[CONVOY_SLOT_LAYOUTS][CONVOY_PRIORITIES]; /* the open slot by model number, or NO_SLOT */
    struct worker_slot slots[CONVOY_MAX_SLOTS];
};

/* What admission reads and changes, without the lock. On a cache line of its own: all HTTP threads write to
 * it. */
struct admission_state {
    /* Images that are admitted and not in flight, which max_queue bounds: COUNT_BITS for each priority. */
    _Alignas(64) _Atomic uint64_t queued;
    _Atomic uint32_t running; /* rows in flight */
    _Atomic uint32_t max_queue;
    atomic_bool ready, gone;
    _Atomic double image_us, company; /* the estimate's (service_time.h), as convoy_queue_publish() left it */
};

/* Work of a thread under the lock, on its stack. */
struct batcher_work {
    void (*run)(struct batcher_work *work); /* with the lock, which it keeps; by any thread */
    struct batcher_work *next;
    atomic_bool done;
};

/* Holds three priorities, and the greatest max_queue, 1,000,000, for each. */
#define COUNT_BITS 21

/* A model's queue. */
struct model_queue {
    struct admission_state admission;
    struct convoy_batcher_limits limits;
    struct convoy_model_metrics *metrics; /* shared by the versions of a name */
    uint64_t input_stride[CONVOY_SLOT_LAYOUTS], output_stride;
    uint32_t outputs_per_row;
    uint32_t waiting; /* images that are queued and decoded: rows of slots, and parked ones */
    bool late;        /* images run into their deadlines while they run */
    bool takes_files; /* all devices that serve the model decode JPEG files */
    struct convoy_service_time service;
    struct convoy_fair_queue fair;
    struct convoy_image_cost cost; /* on all workers */
    /* Images that wait for a row, of each priority the oldest first. */
    struct convoy_list parked[CONVOY_PRIORITIES];
    uint32_t heap_place; /* in batcher->parked, plus 1; 0: nothing is parked */
};

struct convoy_batcher {
    pthread_mutex_t lock;
    /* What threads ask the one that has the lock to do, the newest first; pushed without the lock. */
    _Alignas(64) struct batcher_work *_Atomic asked;
    struct convoy_metrics *metrics;
    uint32_t model_limit; /* numbers that there can be */
    uint32_t model_count; /* one above the highest number that was ever set up */
    uint32_t worker_limit, worker_count;
    struct model_queue *queues; /* by model number */
    struct convoy_worker_slots **workers;
    uint64_t pending; /* submitted, done() not called yet */
    uint64_t orders, choices;
    enum worker_model at_first; /* what workers are taken for until they answer for a model */
    uint64_t to_ring;           /* bits by worker number: it was given slots, and its doorbell not rung yet */
    void (*begin_done)(void);   /* convoy_batcher_done_in_rounds() */
    void (*end_done)(void);
    bool orphaned;     /* a slot may be at a worker that does not serve its model (batcher_redispatch.c) */
    double virtual_us; /* the virtual time of fair_queue.h */
    uint32_t slots_in_use;
    _Atomic uint64_t slot_bytes; /* of the first worker; read without the lock, with each inference request */
    atomic_bool stopped;
    int timer_fd;
    _Atomic uint64_t timer_at; /* when the control loop is to wake, if not before; UINT64_MAX: at no time */
    bool to_arm;               /* timer_at was changed, and the timer not armed for it yet */

    /* Groups with items, by their deadline; those whose items are to be ended are in `ending` instead. */
    struct convoy_deadline_wheel deadlines;
    struct convoy_list ending;
    bool deserted; /* a slot may be given up, or hold no row that a request waits for */

    /* Models with parked images, a binary heap with the one that is next on top (batcher_parked.c). */
    struct model_queue **parked;
    struct model_queue **skipped; /* room for as many */
    uint32_t parked_count;

    /* Items that have a row which the writers are to write, and how many of them are at it. */
    struct convoy_list to_write;
    uint32_t writing, writer_count;
    bool writers_end;
    pthread_cond_t to_write_filled, written;
    pthread_t writers[CONVOY_BATCHER_WRITERS];
};

/* Runs the work under the lock, here or by the thread that has it, and returns when that was done. Without
 * the lock. */
void convoy_batcher_run(struct convoy_batcher *batcher, struct batcher_work *work);
/* Does what other threads asked for. Under the lock. */
void convoy_batcher_do_asked(struct convoy_batcher *batcher);

/* Does what other threads asked for, gives up the lock, rings the workers that were given slots under it, and
 * arms the timer: system calls, of which a ring wakes another process, which would often run at once, on this
 * processor, while all threads wait for the lock. */
void convoy_batcher_unlock(struct convoy_batcher *batcher);

static inline struct model_queue *queue_of(struct convoy_batcher *batcher,
                                           const struct convoy_model_record *model)
{
    return &batcher->queues[model->number];
}

static inline struct convoy_item *item_of(struct convoy_list *link)
{
    return convoy_list_entry(link, struct convoy_item, link);
}

/* True when the worker can be given the model's slots now. */
static inline bool convoy_worker_slots_serve(const struct convoy_worker_slots *worker,
                                             const struct convoy_model_record *model)
{
    return worker->up && worker->models[model->number] == WORKER_SERVES;
}

/* True when some worker can. */
static inline bool convoy_batcher_serves(const struct convoy_batcher *batcher,
                                         const struct convoy_model_record *model)
{
    for (uint32_t i = 0; i < batcher->worker_count; i++)
        if (convoy_worker_slots_serve(batcher->workers[i], model))
            return true;
    return false;
}

/* The slots in flight of the same kind: files beside pixels, for the device decodes some while it computes
 * others. */
static inline _Atomic uint32_t *running_of(struct convoy_worker_slots *worker,
                                           enum convoy_input_layout layout)
{
    return &worker->running[layout == CONVOY_LAYOUT_JPEG];
}

/* So many of that kind at most, before one more is staged. */
static inline uint32_t convoy_worker_slots_most(const struct convoy_worker_slots *worker,
                                                enum convoy_input_layout layout)
{
    return atomic_load(&worker->streams) + (layout == CONVOY_LAYOUT_JPEG ? atomic_load(&worker->ahead) : 0);
}

/* Where the number of the open slot for rows like item's is kept. */
static inline int *open_slot_of(struct convoy_worker_slots *worker, const struct convoy_item *item)
{
    return &worker->open[item->layout][item->priority][item->model->number];
}

/* Wakes the control loop at when_us, unless it wakes earlier, and then looks at everything. */
void convoy_batcher_wake_at(struct convoy_batcher *batcher, uint64_t when_us);
/* Arms the timer for the time that is wanted last. Without the lock. */
void convoy_batcher_arm(struct convoy_batcher *batcher);

/* The worker that would finish item first and has a row for it; NULL when none has one. now:
 * convoy_now_us(). */
struct convoy_worker_slots *convoy_batcher_choose_worker(struct convoy_batcher *batcher,
                                                         const struct convoy_item *item, uint64_t now);

/* The number of a free slot of the worker, or NO_SLOT. */
int convoy_worker_slots_free_slot(const struct convoy_worker_slots *worker);

/* Adds price_us, for rows that were reserved, to the slot's and the worker's backlog. */
void convoy_slot_price(struct convoy_worker_slots *worker, struct worker_slot *slot, double price_us);

/* Moves rows that wait at workers which do not serve their model to workers that do. On the control loop;
 * drops the lock around each copy. The caller calls convoy_batcher_unpark() next. */
void convoy_batcher_redispatch(struct convoy_batcher *batcher);

/* Parks an item in front of another of its model and priority, or behind all where `before` is the list's
 * head. Takes time that grows with the logarithm of the models that have parked images. */
void convoy_item_link_parked(struct convoy_batcher *batcher, struct convoy_item *item,
                             struct convoy_list *before);
void convoy_item_unlink_parked(struct convoy_batcher *batcher, struct convoy_item *item);
/* The parked item of the model that is next: the most urgent, of those the oldest; NULL when none is. */
struct convoy_item *convoy_parked_next(const struct model_queue *queue);
/* The model's clock (fair_queue.h) changed. */
void convoy_parked_reorder(struct convoy_batcher *batcher, struct model_queue *queue);

/* Starts the writers. Errors: -EAGAIN. */
int convoy_batcher_writers_start(struct convoy_batcher *batcher, uint32_t writers,
                                 struct convoy_error *error);
/* Waits until they have written everything, and ends them. Without the lock. */
void convoy_batcher_writers_end(struct convoy_batcher *batcher);
/* Waits, with the lock given up, until the writers have written what they were given: a few milliseconds, the
 * time of copying all slots once. */
void convoy_batcher_wait_written(struct convoy_batcher *batcher);

/* Reserves rows for the first of n items, which are of one kind, in an open slot or else in a free one.
 * Returns how many got one: as many as that slot takes; 0 when every slot is in use. */
uint32_t convoy_batcher_reserve(struct convoy_batcher *batcher, struct convoy_item *const *items, uint32_t n,
                                struct convoy_worker_slots **where);
/* Writes the rows of n items, which lie one behind the other in one slot. Without the lock: other threads
 * write their rows of the same slot meanwhile. */
void convoy_batcher_write(struct convoy_batcher *batcher, struct convoy_worker_slots *worker,
                          struct convoy_item *const *items, uint32_t n);
/* `rows` reserved rows of the slot are written. Its items may be done from here on. Under the lock; the
 * second takes it only where the slot may leave; the third without it, and later where the thread holds rows
 * (convoy_batcher_hold()). */
void convoy_batcher_commit(struct convoy_worker_slots *worker, struct worker_slot *slot, uint32_t rows);
void convoy_batcher_commit_unlocked(struct convoy_worker_slots *worker, struct worker_slot *slot,
                                    uint32_t rows);
void convoy_batcher_commit_held(struct convoy_worker_slots *worker, struct worker_slot *slot, uint32_t rows);

/* Makes a copy of item's row its source: of row (stride bytes in a slot), or, when row is NULL, of what item
 * would write. False when memory is out. */
bool convoy_item_keep_row(struct convoy_item *item, const uint8_t *row, uint64_t stride);
/* Frees such a copy, if there is one. */
void convoy_item_forget_row(struct convoy_item *item);

/* Submits the slots of this worker that may leave now. */
void convoy_worker_slots_pump(struct convoy_worker_slots *worker);

/* Gives free rows to parked images, and the rows to the writers; drops the lock around each copy where there
 * are none. */
void convoy_batcher_unpark(struct convoy_batcher *batcher);

/* Ends the files of the model that are not in flight with -EBADMSG, where a device serves it that takes none.
 * On the control loop; the slots are released at the next tick. */
void convoy_batcher_return_files(struct convoy_batcher *batcher, const struct convoy_model_record *model,
                                 struct convoy_list *finished);

/* Bytes that a file takes in a slot, beside its header. */
static inline uint64_t convoy_file_room(const struct convoy_item *item)
{
    return convoy_slot_round(item->source_bytes);
}

/* How many images of the range still have a request that waits. */
uint32_t convoy_slot_live(const struct worker_slot *slot, const struct row_range *range);

/* Takes item out of its slot or parked list, with this status, to the end of the list `finished`. */
void convoy_item_finish(struct convoy_batcher *batcher, struct convoy_item *item, int status, uint64_t now,
                        struct convoy_list *finished);

/* n items of one group were given rows, or parked. Wakes the control loop when they are to be ended. */
void convoy_item_group_join(struct convoy_batcher *batcher, struct convoy_item *const *items, uint32_t n);
void convoy_item_group_leave(struct convoy_item *item);
/* The row of an item was written, so that it can be ended again: wakes the control loop when it is to be. */
void convoy_item_look_again(struct convoy_batcher *batcher, const struct convoy_item *item);

/* Empties the list and calls done() of each item; on the control loop, without the lock. */
void convoy_items_done(struct convoy_batcher *batcher, struct convoy_list *finished);

/* A slot of the worker is completed. */
void convoy_stall_completed(struct convoy_worker_slots *worker, uint64_t now_us);

void convoy_slot_release(struct convoy_worker_slots *worker, struct worker_slot *slot);
/* So many images of that priority more, or fewer, are queued. */
void convoy_queue_add(struct model_queue *queue, enum convoy_priority priority, int64_t images);
/* Shows admission, which reads it without the lock, the estimate as it is now. */
void convoy_queue_publish(struct model_queue *queue);

#endif
