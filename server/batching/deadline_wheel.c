#include "server/batching/deadline_wheel.h"

static struct convoy_deadline *deadline_of(struct convoy_list *link)
{
    return convoy_list_entry(link, struct convoy_deadline, link);
}

void convoy_deadline_wheel_init(struct convoy_deadline_wheel *wheel, uint64_t now_us)
{
    *wheel = (struct convoy_deadline_wheel){.slice = now_us >> CONVOY_WHEEL_SLICE_SHIFT};
    for (uint32_t i = 0; i < CONVOY_WHEEL_BUCKETS; i++)
        convoy_list_init(&wheel->buckets[i]);
}

void convoy_deadline_wheel_add(struct convoy_deadline_wheel *wheel, struct convoy_deadline *deadline,
                               uint64_t when_us)
{
    uint64_t slice = when_us >> CONVOY_WHEEL_SLICE_SHIFT;
    if (slice < wheel->slice)
        slice = wheel->slice; /* it expires with the slice that is next */
    uint32_t bucket = (uint32_t)(slice % CONVOY_WHEEL_BUCKETS);
    deadline->when_us = when_us;
    convoy_list_add_last(&wheel->buckets[bucket], &deadline->link);
    wheel->occupied[bucket / 64] |= UINT64_C(1) << bucket % 64;
}

/* Moves what expired out of one bucket; what expires in a later turn, or later in this slice, stays. */
static void expire_bucket(struct convoy_deadline_wheel *wheel, uint32_t bucket, uint64_t now_us,
                          struct convoy_list *expired)
{
    convoy_list_for_each(at, following, &wheel->buckets[bucket]) {
        if (deadline_of(at)->when_us > now_us)
            continue;
        convoy_list_remove(at);
        convoy_list_add_last(expired, at);
    }
    if (convoy_list_empty(&wheel->buckets[bucket]))
        wheel->occupied[bucket / 64] &= ~(UINT64_C(1) << bucket % 64);
}

/* How many buckets behind `from` the next one is that may hold something; CONVOY_WHEEL_BUCKETS when none. */
static uint32_t next_occupied(const struct convoy_deadline_wheel *wheel, uint32_t from)
{
    for (uint32_t passed = 0; passed < CONVOY_WHEEL_BUCKETS;) {
        uint32_t bucket = (from + passed) % CONVOY_WHEEL_BUCKETS;
        uint64_t word = wheel->occupied[bucket / 64] >> bucket % 64;
        if (word != 0) {
            passed += (uint32_t)__builtin_ctzll(word);
            return passed < CONVOY_WHEEL_BUCKETS ? passed : CONVOY_WHEEL_BUCKETS;
        }
        passed += 64 - bucket % 64;
    }
    return CONVOY_WHEEL_BUCKETS;
}

void convoy_deadline_wheel_expire(struct convoy_deadline_wheel *wheel, uint64_t now_us,
                                  struct convoy_list *expired)
{
    uint64_t last = now_us >> CONVOY_WHEEL_SLICE_SHIFT;
    if (last < wheel->slice)
        return;
    uint64_t slices = last - wheel->slice + 1;
    if (slices > CONVOY_WHEEL_BUCKETS)
        slices = CONVOY_WHEEL_BUCKETS; /* a turn looks at all */
    uint32_t first = (uint32_t)((last + 1 - slices) % CONVOY_WHEEL_BUCKETS);
    for (uint32_t passed = 0; passed < slices; passed++) {
        passed += next_occupied(wheel, (first + passed) % CONVOY_WHEEL_BUCKETS);
        if (passed < slices)
            expire_bucket(wheel, (first + passed) % CONVOY_WHEEL_BUCKETS, now_us, expired);
    }
    wheel->slice = last;
}

uint64_t convoy_deadline_wheel_next_us(const struct convoy_deadline_wheel *wheel)
{
    uint32_t passed = next_occupied(wheel, (uint32_t)(wheel->slice % CONVOY_WHEEL_BUCKETS));
    if (passed == CONVOY_WHEEL_BUCKETS)
        return UINT64_MAX;
    return (wheel->slice + passed + 1) << CONVOY_WHEEL_SLICE_SHIFT;
}
