/* What the files of the batcher share. Everything here is guarded by batcher->lock unless said otherwise.
 *
 * batcher.c               the batcher, models' queues, admission
 * batcher_fill.c          gives images rows, or parks them
 * batcher_choose.c        which worker an image goes to
 * batcher_worker_slots.c  one worker's slots: submission, completions, faults
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

/* Rows of a suspect slot that still have to run; halves of halves of at most 65,535 rows fit. */
#define MAX_RANGES 40

enum slot_state {
    SLOT_FREE,
    SLOT_OPEN,     /* takes rows; its number stands in worker->open */
    SLOT_SEALED,   /* takes no more rows; waits to be submitted */
    SLOT_IN_FLIGHT /* the worker has it */
};

struct row_range {
    uint32_t first, rows;
};

struct worker_slot {
    enum slot_state state;
    struct convoy_model_record *model;
    enum convoy_input_layout layout;
    enum convoy_priority priority; /* of all its rows */
    double charged_us;             /* what its model was charged for the run in flight (fair_queue.h) */
    double priced_us;              /* its rows' part of worker->load.backlog_us */
    bool profile;
    bool given_up; /* too late to run: the control loop is about to answer its rows */
    bool suspect;  /* was in flight when a worker died: runs alone */
    uint32_t capacity, reserved, committed;
    uint32_t abandoned; /* rows whose items were abandoned before they ran */
    uint32_t retries;
    uint64_t opened_us; /* when its first row was reserved */
    uint64_t order;     /* counts slots as they are opened */
    uint64_t left_us;   /* when the worker was given it */
    /* What follows is kept when the slot is opened again. */
    struct convoy_item **items; /* by row; NULL where the request gave up */
    uint32_t generation;        /* counts submissions: an old completion matches no later one */
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
    uint32_t streams, in_flight, suspects;
    uint32_t used;    /* slots that are not free */
    uint64_t chosen;  /* value of batcher->choices when it was last given an image */
    uint64_t down_us; /* when its process died; 0: suspects do not wait for the next one */
    struct convoy_worker_load load;
    struct convoy_image_cost *costs; /* by model number */
    uint64_t first_until;            /* slots opened before this order go before the suspects */
    uint32_t deaths_of_others;       /* in a row, with a slot in flight that was no suspect */
    uint64_t progress_us;            /* of the last completion, or of the first submission after idleness */
    uint8_t *models;                 /* enum worker_model by model number */
    struct worker_layers {
        struct convoy_layer_name *names;
        uint32_t count;
    } * layers;                                        /* by model number */
    int *open[CONVOY_SLOT_LAYOUTS][CONVOY_PRIORITIES]; /* the open slot by model number, or NO_SLOT */
    struct worker_slot slots[CONVOY_MAX_SLOTS];
};

/* A model's queue. */
struct model_queue {
    struct convoy_batcher_limits limits;
    struct convoy_model_metrics *metrics; /* shared by the versions of a name */
    bool ready, gone;
    uint64_t input_stride[CONVOY_SLOT_LAYOUTS], output_stride;
    uint32_t outputs_per_row;
    uint32_t queued[CONVOY_PRIORITIES]; /* admitted and not in flight: what max_queue bounds */
    uint32_t waiting;                   /* those of them that are decoded: rows of slots, and parked images */
    uint32_t running;                   /* rows in flight */
    bool late;                          /* images run into their deadlines while they run */
    struct convoy_service_time service;
    struct convoy_fair_queue fair;
    struct convoy_image_cost cost; /* on all workers */
    /* Images that wait for a row, of each priority the oldest first. */
    struct convoy_list parked[CONVOY_PRIORITIES];
};

struct convoy_batcher {
    pthread_mutex_t lock;
    struct convoy_metrics *metrics;
    uint32_t model_limit; /* numbers that there can be */
    uint32_t model_count; /* one above the highest number that was ever set up */
    uint32_t worker_limit, worker_count;
    struct model_queue *queues; /* by model number */
    struct convoy_worker_slots **workers;
    uint64_t pending; /* submitted, done() not called yet */
    uint64_t orders, choices;
    uint32_t to_ring;  /* bits by worker number: it was given slots, and its doorbell not rung yet */
    bool orphaned;     /* a slot may be at a worker that does not serve its model (batcher_redispatch.c) */
    double virtual_us; /* the virtual time of fair_queue.h */
    uint32_t slots_in_use;
    _Atomic uint64_t slot_bytes; /* of the first worker; read without the lock, with each inference request */
    bool stopped;
    int timer_fd;
    uint64_t timer_at;         /* UINT64_MAX: not armed */
    uint64_t next_deadline_us; /* no item's deadline is earlier */
};

/* Gives up the lock, and rings the workers that were given slots under it: the ring is a system call that
 * wakes another process, which would often run at once, on this processor, while all threads wait for the
 * lock. */
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

/* The parked item that is next: the most urgent, of those the oldest; NULL when none is. */
static inline struct convoy_item *next_parked_of(struct model_queue *queue)
{
    struct convoy_item *next = NULL;
    for (int priority = 0; priority < CONVOY_PRIORITIES; priority++) {
        if (convoy_list_empty(&queue->parked[priority]))
            continue;
        struct convoy_item *item = item_of(queue->parked[priority].next);
        if (next == NULL || convoy_priority_rank(item->priority) < convoy_priority_rank(next->priority))
            next = item;
    }
    return next;
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

/* Where the number of the open slot for rows like item's is kept. */
static inline int *open_slot_of(struct convoy_worker_slots *worker, const struct convoy_item *item)
{
    return &worker->open[item->layout][item->priority][item->model->number];
}

/* Arms the timer for when_us unless it fires earlier. */
void convoy_batcher_wake_at(struct convoy_batcher *batcher, uint64_t when_us);

/* The worker that would finish item first and has a row for it; NULL when none has one. */
struct convoy_worker_slots *convoy_batcher_choose_worker(struct convoy_batcher *batcher,
                                                         const struct convoy_item *item);

/* The number of a free slot of the worker, or NO_SLOT. */
int convoy_worker_slots_free_slot(const struct convoy_worker_slots *worker);

/* Adds price_us, for rows that were reserved, to the slot's and the worker's backlog. */
void convoy_slot_price(struct convoy_worker_slots *worker, struct worker_slot *slot, double price_us);

/* Moves rows that wait at workers which do not serve their model to workers that do. On the control loop;
 * drops the lock around each copy. The caller calls convoy_batcher_unpark() next. */
void convoy_batcher_redispatch(struct convoy_batcher *batcher);

/* Parks an item in front of another of its model and priority, or behind all where `before` is the list's
 * head. */
void convoy_item_link_parked(struct convoy_item *item, struct convoy_list *before);
void convoy_item_unlink_parked(struct convoy_item *item);

/* Makes a copy of item's row its source: of row (stride bytes in a slot), or, when row is NULL, of what item
 * would write. False when memory is out. */
bool convoy_item_keep_row(struct convoy_item *item, const uint8_t *row, uint64_t stride);
/* Frees such a copy, if there is one. */
void convoy_item_forget_row(struct convoy_item *item);

/* Submits the slots of this worker that may leave now. */
void convoy_worker_slots_pump(struct convoy_worker_slots *worker);

/* Moves parked images into free rows. Drops the lock around each copy. */
void convoy_batcher_unpark(struct convoy_batcher *batcher);

/* How many images of the range still have a request that waits. */
uint32_t convoy_slot_live(const struct worker_slot *slot, const struct row_range *range);

/* Takes item out of its slot or parked list, with this status, to the end of the list `finished`. */
void convoy_item_finish(struct convoy_batcher *batcher, struct convoy_item *item, int status, uint64_t now,
                        struct convoy_list *finished);

/* Empties the list and calls done() of each item; without the lock. */
void convoy_items_done(struct convoy_list *finished);

void convoy_slot_release(struct convoy_worker_slots *worker, struct worker_slot *slot);
/* So many images of that priority more, or fewer, are queued. */
void convoy_queue_add(struct model_queue *queue, enum convoy_priority priority, int64_t images);

#endif
