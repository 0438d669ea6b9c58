/* The channel between the front and one worker: shared memory (a memfd) that holds equal slots, a ring of
 * submissions, a ring of completions, and a pair of connected sockets ("doorbell"): each end rings at its
 * socket, and its socket is readable when the other end rang.
 *
 *     front                                                worker
 *     writes a slot's rows and header
 *     convoy_channel_submit()     -- submission ring -->   convoy_channel_take_submitted()
 *                                                          runs the batch, writes outputs and report
 *     convoy_channel_take_done()  <-- completion ring --   convoy_channel_finish()
 *
 * Layout of the memfd; every part begins on a page of its own:
 *     header with both rings | slot headers | slot reports | class maps | slot 0: rows, 2 x outputs | ...
 *
 * At any time a slot serves one model and one layout of rows (engine/base/input_layout.h). Its rows lie
 * input_stride bytes apart, its outputs output_stride bytes apart; both are multiples of CONVOY_SLOT_ALIGN.
 * The outputs of a row are float32, all of the model's outputs one after the other.
 *
 * Each slot has two areas for outputs, of which one is in use (struct convoy_channel's `turn`). A device may
 * copy outputs into a dead worker's area for as long as its driver has not taken down what that process had
 * opened. When another worker is to begin before that, the front exchanges the areas: what the dead one's
 * device writes late reaches no answer. The turn is told on the control socket and is nowhere in this memory,
 * which devices can write. Outputs are all that a device writes here: reports, class maps, rings and the
 * count of progress are written by the worker's threads, and rows are only read.
 *
 * Who writes what: only the front writes slot headers and the submission ring; only the worker writes
 * outputs, reports, class maps, the completion ring and the count of progress.
 *
 * Trust: neither end can make the other read outside the mapping. The front does not trust the worker:
 * convoy_channel_take_done() bounds what it reads, and the caller compares slot and generation with its own
 * table. The worker checks each slot header against its own table of models. The memfd is sealed, so the
 * worker cannot shrink it under the front.
 *
 * Each end has a socket of its own, and sets the flags of each call itself. So neither end can make a call of
 * the other one wait, as it could with an eventfd, where both ends share the file's flags and its count.
 * Each worker process gets a new pair, so that what a dead worker left behind cannot ring for its successor.
 *
 * Threads: each ring has one producer and one consumer. Each end lets only one of its threads at a time call
 * the functions of one ring. Both ends can wait for a doorbell with poll, epoll or libuv.
 *
 * A ring is a system call and often wakes a core. So an end that looks at its ring without being told says
 * that it attends, and is not rung:
 *
 *     convoy_channel_attend(true)
 *     for (;;) {
 *         take what is there
 *         if (convoy_channel_sleep()) { wait for the doorbell; clear it; convoy_channel_attend(true); }
 *     }
 *
 * Either what was queued is seen by the last look of convoy_channel_sleep(), or the other end sees that this
 * one sleeps. An end that calls neither is rung each time. A worker that lies about either end delays its own
 * slots alone.
 *
 * Lifetime: the front creates the memfd empty and lays it out once the models' shapes are known. A worker
 * that replaces a dead one maps the same memfd. So does a front that replaces a dead one: the master
 * (server/master) holds the descriptors meanwhile. The worker finishes what it has begun for the dead front,
 * passes by what it has not begun, and says so on its control socket; only then does the new front take the
 * channel over and submit slots. Generations of different fronts differ. */
#ifndef CONVOY_ENGINE_CHANNEL_H
#define CONVOY_ENGINE_CHANNEL_H

#include "engine/base/error.h"
#include "engine/base/input_layout.h"
#include "engine/base/jpeg_row.h"
#include "engine/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Raised with each change of what lies in the memory, of a layout's number or of the control socket's
 * messages. tests/next_abi builds programs that have another one. */
#ifndef CONVOY_CHANNEL_ABI
#define CONVOY_CHANNEL_ABI 6
#endif
#define CONVOY_MAX_SLOTS      64
#define CONVOY_MAX_MODELS     1024        /* a slot's model number is below */
#define CONVOY_SLOT_ALIGN     64          /* rows and outputs start on a cache line */
#define CONVOY_SLOT_MAX_BYTES (64u << 20) /* of a slot's rows, and of its outputs */
#define CONVOY_ROWS_MAX       65535       /* rows of a slot; configurations stay below */

/* Descriptors of a worker, as the front hands them over. 0 to 2 are the standard streams. */
enum { CONVOY_FD_CONTROL = 3, CONVOY_FD_MEMORY, CONVOY_FD_DOORBELL };

/* The header of a slot. The front writes it before it submits the slot. first and rows select the rows that
 * run: after a fault the front submits a slot again in parts. */
struct convoy_slot {
    uint32_t model;         /* the front's number for it, as in the load command */
    uint32_t layout;        /* enum convoy_input_layout, below CONVOY_SLOT_LAYOUTS */
    uint32_t first, rows;   /* rows [first, first + rows) */
    uint32_t generation;    /* of this submission; its completion carries the same number */
    uint32_t profile;       /* 1: time each layer */
    uint32_t map;           /* a class activation map of its one row: CONVOY_MAP_..., or that of a class */
    uint64_t input_stride;  /* bytes, multiple of CONVOY_SLOT_ALIGN */
    uint64_t output_stride; /* bytes, multiple of CONVOY_SLOT_ALIGN */
};

/* Of a slot's `map`. With a map a slot is not profiled, and of its outputs the first is computed; the others
 * are 0. Its row is no file. */
#define CONVOY_MAP_NONE  0
#define CONVOY_MAP_BEST  1 /* of the class with the highest score, of equal ones the first */
#define CONVOY_MAP_CLASS 2 /* plus a class's index */

/* The worker writes a slot's report before its completion. Times are microseconds on the device, 0 where the
 * backend lacks the stage. */
struct convoy_slot_report {
    float input_us, compute_us, output_us;
    uint64_t undecoded[CONVOY_JPEG_ROWS_MAX / 64]; /* as in convoy_job_times, bit 0 is the row `first` */
    uint32_t layers; /* entries of layer_us; 0 unless the slot asked for a profile */
    /* Of convoy_channel_class_map(); 0 x 0 unless the slot asked for a map. */
    uint32_t map_class, map_height, map_width;
    float layer_us[CONVOY_MAX_LAYERS];
};

/* A completion. */
struct convoy_done {
    uint32_t slot;
    uint32_t generation;
    int32_t status; /* 0, or a negative errno: this job failed, the worker goes on. Of a slot that asks for a
                     * map also -EAGAIN: its worker may not load what computes maps yet; -ENOTSUP, -ENOMEM:
                     * it cannot */
};

struct convoy_channel_size {
    uint32_t slots;        /* 1 to CONVOY_MAX_SLOTS */
    uint64_t input_bytes;  /* for rows, in each slot */
    uint64_t output_bytes; /* for outputs, in each slot twice */
};

/* One end of a channel. */
struct convoy_channel {
    struct convoy_channel_size size;
    int memory_fd, doorbell_fd; /* owned by the front's end; the worker's end leaves them open */
    int worker_doorbell_fd;     /* the front's end: the worker's socket until it is handed over; else -1 */
    void *base;                 /* NULL until laid out or attached */
    size_t bytes;
    bool is_worker;
    uint32_t turn; /* which area of outputs is in use, 0 or 1. The worker's end: as it was told */
    uint32_t done_head, submit_head; /* the consumer's own positions, which the other end cannot change */
    uint32_t first_generation;       /* the front's end: generations of its submissions are above */
};

/* --- making and ending; return 0, or a negative errno with error filled in --- */

/* Front: makes an empty memfd and a doorbell, all close-on-exec. */
int convoy_channel_create(struct convoy_channel *channel, struct convoy_error *error);

/* Front: sets the size of the memfd, seals it and maps it. Once per channel. -EINVAL: size is out of bounds.
 */
int convoy_channel_lay_out(struct convoy_channel *channel, const struct convoy_channel_size *size,
                           struct convoy_error *error);

/* Worker: maps what the front laid out. -EINVAL: the memfd has another size, or the front another ABI. */
int convoy_channel_attach(struct convoy_channel *channel, int memory_fd, int doorbell_fd,
                          const struct convoy_channel_size *size, struct convoy_error *error);

/* Front, instead of creating and laying out: the end of a front that is gone, whose worker has said that
 * nothing is under way and how large the channel is. The descriptors belong to the channel from now on, also
 * after an error. epoch: counts fronts. -EINVAL: the memfd is none that a front of this ABI laid out so. */
int convoy_channel_take_over(struct convoy_channel *channel, int memory_fd, int doorbell_fd,
                             const struct convoy_channel_size *size, uint32_t epoch,
                             struct convoy_error *error);

/* Worker: the front is another one. Passes by what the one before submitted and this end has not taken. */
void convoy_channel_pass_by(struct convoy_channel *channel);

/* Either end: unmaps the memory and closes the descriptors. */
void convoy_channel_destroy(struct convoy_channel *channel);

/* Front, while no worker runs: drops the submissions and completions of the worker that died. */
void convoy_channel_reset(struct convoy_channel *channel);

/* Front: the next worker writes outputs into the other area than the one before, whose threads have ended but
 * whose device may still write. The area must not be that of another such worker. Take what the one before
 * has finished first: its outputs are not found any more. */
void convoy_channel_exchange_outputs(struct convoy_channel *channel);

/* Front, while no worker runs: makes another doorbell, for the next worker. doorbell_fd keeps its number, so
 * other threads may ring meanwhile; it must not be watched at that moment. */
int convoy_channel_renew_doorbell(struct convoy_channel *channel, struct convoy_error *error);
/* The same with the front's end of a doorbell whose other end the next worker has already. `doorbell` is
 * closed, also after an error. */
int convoy_channel_give_doorbell(struct convoy_channel *channel, int doorbell, struct convoy_error *error);
/* Front, while no worker runs and no slot is in use: other memory of the same size, at the same address and
 * under the same descriptor, so that the next worker sees nothing of what the one before it was given.
 * Doorbells stay. */
int convoy_channel_renew_memory(struct convoy_channel *channel, struct convoy_error *error);
/* Front: closes the worker's socket once the worker has it, so that doorbell_fd ends when the worker does. */
void convoy_channel_handed_over(struct convoy_channel *channel);

/* --- memory: pointers into the mapping; slot < size.slots --- */

struct convoy_slot *convoy_channel_slot(const struct convoy_channel *channel, uint32_t slot);
struct convoy_slot_report *convoy_channel_report(const struct convoy_channel *channel, uint32_t slot);
/* CONVOY_MAX_CLASS_MAP values, of which report's map_height x map_width are written, row after row. */
float *convoy_channel_class_map(const struct convoy_channel *channel, uint32_t slot);
uint8_t *convoy_channel_rows(const struct convoy_channel *channel, uint32_t slot);
/* In the area that is in use. */
uint8_t *convoy_channel_outputs(const struct convoy_channel *channel, uint32_t slot);

/* --- rings; none of these waits --- */

/* Front: queues a slot. The ring has room, as at most size.slots are in flight. The worker looks at it after
 * convoy_channel_ring(), which is a call of its own because it is a system call unless the worker attends:
 * not for under a lock, and once for several slots. Any thread may ring. */
void convoy_channel_submit(struct convoy_channel *channel, uint32_t slot);
/* Unless the other end attends. */
void convoy_channel_ring(struct convoy_channel *channel);
/* Worker: takes the oldest submission; false if there is none. */
bool convoy_channel_take_submitted(struct convoy_channel *channel, uint32_t *slot);
/* Worker: queues the completion of a slot and rings the front's doorbell, unless the front attends. */
void convoy_channel_finish(struct convoy_channel *channel, const struct convoy_done *done);
/* Front: takes the oldest completion; false if there is none. The caller has to check what it says. */
bool convoy_channel_take_done(struct convoy_channel *channel, struct convoy_done *done);
/* --- attention: either end, on the thread that takes from its ring, which counts as empty before the channel
 * is laid out or attached --- */

/* true: from here to convoy_channel_sleep() this end looks at its ring without being rung. false: it is rung
 * each time, as at first. */
void convoy_channel_attend(struct convoy_channel *channel, bool attends);
/* This end is about to wait for its doorbell. False: its ring has something, and it attends on. */
bool convoy_channel_sleep(struct convoy_channel *channel);
/* Whether its ring has something. */
bool convoy_channel_pending(const struct convoy_channel *channel);

/* Worker, any thread: a part of a slot that is under way is done. Costs an atomic addition. */
void convoy_channel_progress(struct convoy_channel *channel);
/* Front, any thread: a number that differs from the last one when the worker reported progress since. A
 * worker can report what it likes. 0 until the channel is laid out. */
uint32_t convoy_channel_progress_count(const struct convoy_channel *channel);
/* Either end, when its doorbell is readable: takes what has rung. Call it before looking at the ring, so that
 * no ring is lost. false: the other end has closed it or plays with it, and watching it would never rest. */
bool convoy_channel_clear_doorbell(int doorbell);

/* Returns bytes rounded up to a multiple of CONVOY_SLOT_ALIGN. */
static inline uint64_t convoy_slot_round(uint64_t bytes)
{
    return (bytes + CONVOY_SLOT_ALIGN - 1) & ~(uint64_t)(CONVOY_SLOT_ALIGN - 1);
}

#endif
