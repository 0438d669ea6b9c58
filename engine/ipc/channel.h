/* The channel between the front and one worker: a memfd of equal slots, two rings, two doorbells.
 *
 * Layout of the memfd, every part on a page of its own:
 *   header | slot headers | slot reports | slot 0: rows, outputs | slot 1: rows, outputs | ...
 *
 * A slot serves one model and one layout at a time. Its rows lie input_stride bytes apart, its outputs
 * output_stride bytes apart, both multiples of 64. A row is 8-bit H x W x C interleaved or float32 C x H x W;
 * the outputs of a row are float32, all of the model's outputs one after the other.
 *
 * Who writes what: the front alone writes slot headers and the submission ring's tail; the worker alone
 * writes outputs, reports, the completion ring's tail and the submission ring's head. The front trusts
 * nothing that comes back: convoy_channel_take_done() bounds what it reads, and the caller compares slot and
 * generation with its own table. The worker checks slot headers against its own model table, so neither end
 * can make the other read outside the mapping.
 *
 * Rings hold one producer and one consumer. Each end takes care that only one of its threads at a time calls
 * the functions of one ring. Doorbells are eventfds, so both ends can wait in poll, epoll or libuv.
 *
 * The memfd is made by the front with size 0 and laid out once the models' shapes are known
 * (convoy_channel_lay_out()); a worker that is started again maps the same one. */
#ifndef CONVOY_ENGINE_CHANNEL_H
#define CONVOY_ENGINE_CHANNEL_H

#include "engine/base/error.h"
#include "engine/base/input_layout.h"
#include "engine/base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVOY_CHANNEL_ABI    1
#define CONVOY_MAX_SLOTS      64
#define CONVOY_MAX_MODELS     1024 /* a slot's model number is below */
#define CONVOY_SLOT_ALIGN     64   /* rows and outputs start on a cache line */
#define CONVOY_SLOT_MAX_BYTES (64u << 20)
#define CONVOY_ROWS_MAX       65535 /* rows of a slot; configurations stay below */

/* Descriptors of a worker, as the front hands them over. 0 to 2 are the standard streams. */
enum { CONVOY_FD_CONTROL = 3, CONVOY_FD_MEMORY, CONVOY_FD_SUBMIT, CONVOY_FD_DONE };

/* Written by the front before the slot is submitted. first and rows choose the part that runs: after a fault
 * a slot runs again in halves. */
struct convoy_slot {
    uint32_t model;         /* the front's number for it, as in LOAD */
    uint32_t layout;        /* enum convoy_input_layout, below CONVOY_SLOT_LAYOUTS */
    uint32_t first, rows;   /* rows [first, first + rows) */
    uint32_t generation;    /* of this submission; the completion carries it back */
    uint32_t profile;       /* 1: time each layer */
    uint64_t input_stride;  /* bytes, multiple of 64 */
    uint64_t output_stride; /* bytes, multiple of 64 */
};

/* Written by the worker before the completion. Times are microseconds on the device, 0 where a stage does not
 * exist. */
struct convoy_slot_report {
    float input_us, compute_us, output_us;
    uint32_t layers; /* 0 unless profiled */
    float layer_us[CONVOY_MAX_LAYERS];
};

struct convoy_done {
    uint32_t slot;
    uint32_t generation;
    int32_t status; /* 0, or a negative errno: this job failed though the worker lives */
};

struct convoy_channel_size {
    uint32_t slots;        /* 1 to CONVOY_MAX_SLOTS */
    uint64_t input_bytes;  /* of rows in each slot */
    uint64_t output_bytes; /* of outputs in each slot */
};

struct convoy_channel {
    struct convoy_channel_size size;
    int memory_fd, submit_fd, done_fd; /* owned by the front's end; the worker's end leaves them open */
    void *base;                        /* NULL until laid out or attached */
    size_t bytes;
    uint32_t done_head, submit_head; /* the consumer's own copies: the other end cannot move them */
};

/* The front's end: makes an empty memfd and the doorbells (all close-on-exec). */
int convoy_channel_create(struct convoy_channel *channel, struct convoy_error *error);

/* The front's end: sizes and maps the memfd. Once per channel. */
int convoy_channel_lay_out(struct convoy_channel *channel, const struct convoy_channel_size *size,
                           struct convoy_error *error);

/* The worker's end: maps what the front laid out; refuses a memfd whose size or ABI does not fit. */
int convoy_channel_attach(struct convoy_channel *channel, int memory_fd, int submit_fd, int done_fd,
                          const struct convoy_channel_size *size, struct convoy_error *error);

/* Unmaps; the front's end also closes the descriptors. */
void convoy_channel_destroy(struct convoy_channel *channel);

/* The front, when no worker runs: forgets submissions and completions of the worker that died. */
void convoy_channel_reset(struct convoy_channel *channel);

/* Pointers into the mapping; slot < size.slots. */
struct convoy_slot *convoy_channel_slot(const struct convoy_channel *channel, uint32_t slot);
struct convoy_slot_report *convoy_channel_report(const struct convoy_channel *channel, uint32_t slot);
uint8_t *convoy_channel_rows(const struct convoy_channel *channel, uint32_t slot);
uint8_t *convoy_channel_outputs(const struct convoy_channel *channel, uint32_t slot);

/* Front: queues a slot and rings the worker. At most size.slots can be under way, so the ring has room. */
void convoy_channel_submit(struct convoy_channel *channel, uint32_t slot);
/* Worker: takes the oldest submission; false when there is none. */
bool convoy_channel_take_submitted(struct convoy_channel *channel, uint32_t *slot);
/* Worker: reports a finished slot and rings the front. */
void convoy_channel_finish(struct convoy_channel *channel, const struct convoy_done *done);
/* Front: takes the oldest completion; false when there is none. What it says is not checked yet. */
bool convoy_channel_take_done(struct convoy_channel *channel, struct convoy_done *done);
/* Either: empties a doorbell before looking at its ring. */
void convoy_channel_clear_doorbell(int doorbell);

/* bytes rounded up to CONVOY_SLOT_ALIGN. */
static inline uint64_t convoy_slot_round(uint64_t bytes)
{
    return (bytes + CONVOY_SLOT_ALIGN - 1) & ~(uint64_t)(CONVOY_SLOT_ALIGN - 1);
}

#endif
