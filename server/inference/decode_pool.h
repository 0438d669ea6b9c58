/* Threads for work that would keep an HTTP thread from its other connections: decoding large images.
 *
 * Jobs take turns, an index at a time, so a request of a thousand images does not hold up one that came
 * later, and several threads work on it.
 *
 * Memory: with as many threads as the machine has cores, each at the largest image that is allowed, decoding
 * could take tens of gigabytes. So there is one budget for all that is being decoded: an index whose memory
 * does not fit waits in the list, in order with others that need memory, while the threads go on with those
 * that need none. No thread waits for memory. */
#ifndef CONVOY_SERVER_DECODE_POOL_H
#define CONVOY_SERVER_DECODE_POOL_H

#include "engine/base/error.h"
#include "engine/base/list.h"
#include "server/http/suspension.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_decode_pool;

struct convoy_decode_job {
    uint32_t count; /* at least 1 */
    uint64_t size;  /* of all its images, in units of which each costs about the same */
    /* Called once for each index below count, on any of the threads, several at a time; returns the
     * microseconds that the image took, 0 if it was skipped. The pool does not touch the job after the
     * last call has begun, so the last one to end may free it. */
    uint64_t (*work)(struct convoy_decode_job *job, uint32_t index);
    bool
        first; /* goes before all waiting jobs but other such: writing an answer does not wait for decoding */
    uint64_t
        memory; /* bytes of the budget that each index takes while it is worked on; 0: too few to count */
    /* The pool's. */
    uint32_t taken;
    struct convoy_list link;
};

/* memory: the budget, in bytes. One index is always let in, whatever it takes. */
int convoy_decode_pool_start(uint32_t threads, uint64_t memory, struct convoy_decode_pool **pool,
                             struct convoy_error *error);

/* Hands job over; any thread. */
void convoy_decode_pool_add(struct convoy_decode_pool *pool, struct convoy_decode_job *job);

/* The same, or false, with nothing done, once the pool ends (convoy_decode_pool_end()). */
bool convoy_decode_pool_try(struct convoy_decode_pool *pool, struct convoy_decode_job *job);

/* Takes back what no thread has begun. Returns the first index for which work() is not called, job->count
 * when it was or is called for all. Any thread, while the job exists. */
uint32_t convoy_decode_pool_withdraw(struct convoy_decode_pool *pool, struct convoy_decode_job *job);

/* Suspends a request and hands job over, which resumes it; false, with nothing done, when the daemon is
 * stopping (convoy_suspend()). On the request's HTTP thread. */
bool convoy_decode_pool_suspend(struct convoy_decode_pool *pool, struct convoy_suspension *suspension,
                                struct convoy_decode_job *job);

/* Whether images wait that no thread has begun. Any thread. */
bool convoy_decode_pool_busy(struct convoy_decode_pool *pool);

/* How long until a newcomer of that size would be decoded, in microseconds: what waits before it and its own,
 * at what a unit cost of late, over all threads. 0 while nothing waits. Any
 * thread. */
uint64_t convoy_decode_pool_wait_us(struct convoy_decode_pool *pool, uint64_t size);

/* Waits until all jobs are done and ends the threads. After it, nothing may be added;
 * convoy_decode_pool_wait_us() may still be called. NULL is allowed. */
void convoy_decode_pool_end(struct convoy_decode_pool *pool);

/* Ends the threads unless convoy_decode_pool_end() did, and frees. NULL is allowed. */
void convoy_decode_pool_stop(struct convoy_decode_pool *pool);

#endif
