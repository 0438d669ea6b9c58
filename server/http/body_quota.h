/* How much memory the bodies of all requests take together, and how much what is made to answer them: a bound
 * per request alone would let many slow uploads, or many clients that do not read, take all of the machine's.
 * Process-wide, lock-free, any thread. */
#ifndef CONVOY_SERVER_BODY_QUOTA_H
#define CONVOY_SERVER_BODY_QUOTA_H

#include <stdbool.h>
#include <stddef.h>

/* Bodies of the largest size that may be in memory at once; smaller ones in proportion. */
#define CONVOY_BODIES_AT_ONCE 16

/* Bodies up to this size have the last eighth of the memory to themselves, so that a few large ones cannot
 * keep all others out. */
#define CONVOY_SMALL_BODY (64u * 1024)

/* The limit for a body that takes so many bytes, also when it is unpacked or a tensor is made of it. */
static inline size_t convoy_body_quota_limit(size_t max_body_bytes, size_t bytes)
{
    size_t limit = max_body_bytes * CONVOY_BODIES_AT_ONCE;
    return bytes > CONVOY_SMALL_BODY ? limit - limit / 8 : limit;
}

/* Counts bytes more; false, and nothing counted, when the sum would pass limit. */
bool convoy_body_quota_take(size_t bytes, size_t limit);
void convoy_body_quota_give(size_t bytes);

/* A few bytes can be an image, and an image thousands of numbers: outputs and answers have a sum of their
 * own, so that those who do not read theirs keep no body out. */
#define CONVOY_ANSWERS_AT_ONCE 64
#define CONVOY_ANSWER_SHARE    8                 /* one request takes at most this part of all */
#define CONVOY_ANSWERS_LEAST   ((size_t)2 << 30) /* however small bodies must be */

static inline size_t convoy_answer_quota_limit(size_t max_body_bytes, size_t bytes)
{
    size_t limit = max_body_bytes * CONVOY_ANSWERS_AT_ONCE;
    if (limit < CONVOY_ANSWERS_LEAST)
        limit = CONVOY_ANSWERS_LEAST;
    return bytes > CONVOY_SMALL_BODY ? limit - limit / 8 : limit;
}

/* As those of bodies. */
bool convoy_answer_quota_take(size_t bytes, size_t limit);
void convoy_answer_quota_give(size_t bytes);

#endif
