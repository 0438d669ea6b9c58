/* Deadlines that will pass, most of which never do: what has one is added and removed in constant time,
 * however many there are.
 *
 * A hashed timing wheel (Varghese, Lauck: Hashed and Hierarchical Timing Wheels, SOSP 1987): entries lie in
 * CONVOY_WHEEL_BUCKETS lists by the slice of time in which they expire. One that is further away than a turn
 * of the wheel is looked at once a turn.
 *
 * Times are microseconds of convoy_now_us(). Plain data; the batcher's lock guards it. */
#ifndef CONVOY_SERVER_DEADLINE_WHEEL_H
#define CONVOY_SERVER_DEADLINE_WHEEL_H

#include "engine/base/list.h"

#include <stdbool.h>
#include <stdint.h>

#define CONVOY_WHEEL_SLICE_SHIFT 12u   /* a slice is 4,096 us */
#define CONVOY_WHEEL_BUCKETS     4096u /* a turn is 16.8 s, more than the default deadline */

/* What expires. Its owner embeds it. */
struct convoy_deadline {
    struct convoy_list link;
    uint64_t when_us;
};

struct convoy_deadline_wheel {
    struct convoy_list buckets[CONVOY_WHEEL_BUCKETS];
    uint64_t occupied[CONVOY_WHEEL_BUCKETS / 64]; /* a bit for each bucket; may be set for an empty one */
    uint64_t slice;                               /* all earlier ones have expired */
};

void convoy_deadline_wheel_init(struct convoy_deadline_wheel *wheel, uint64_t now_us);

/* deadline is in no list; removing its link from its list takes it out of the wheel again. */
void convoy_deadline_wheel_add(struct convoy_deadline_wheel *wheel, struct convoy_deadline *deadline,
                               uint64_t when_us);

/* When convoy_deadline_wheel_expire() finds what expires at when_us: at most a slice later. */
static inline uint64_t convoy_deadline_wheel_due_us(uint64_t when_us)
{
    return ((when_us >> CONVOY_WHEEL_SLICE_SHIFT) + 1) << CONVOY_WHEEL_SLICE_SHIFT;
}

/* Moves what expired by now_us to the end of the list. */
void convoy_deadline_wheel_expire(struct convoy_deadline_wheel *wheel, uint64_t now_us,
                                  struct convoy_list *expired);

/* When convoy_deadline_wheel_expire() should be called next: at most a slice after the earliest deadline, and
 * perhaps for nothing; UINT64_MAX when there is none. */
uint64_t convoy_deadline_wheel_next_us(const struct convoy_deadline_wheel *wheel);

#endif
