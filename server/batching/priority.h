/* How urgent an image is among those of its model. */
#ifndef CONVOY_SERVER_PRIORITY_H
#define CONVOY_SERVER_PRIORITY_H

#include <stdint.h>

enum convoy_priority {
    CONVOY_PRIORITY_NORMAL,
    CONVOY_PRIORITY_URGENT,
    CONVOY_PRIORITY_BACKGROUND,
    CONVOY_PRIORITIES
};

/* Clients give 1 for urgent, 2 or 0 for normal, 3 for background, as in Triton's schedule policy, where less
 * is more urgent and 0 the usual level. */
#define CONVOY_PRIORITY_NUMBER_MOST 3

static inline enum convoy_priority convoy_priority_of(uint64_t number)
{
    static const enum convoy_priority priorities[CONVOY_PRIORITY_NUMBER_MOST + 1] = {
        CONVOY_PRIORITY_NORMAL, CONVOY_PRIORITY_URGENT, CONVOY_PRIORITY_NORMAL, CONVOY_PRIORITY_BACKGROUND};
    return priorities[number];
}

/* 0 goes first. */
static inline uint32_t convoy_priority_rank(enum convoy_priority priority)
{
    static const uint32_t ranks[CONVOY_PRIORITIES] = {
        [CONVOY_PRIORITY_URGENT] = 0, [CONVOY_PRIORITY_NORMAL] = 1, [CONVOY_PRIORITY_BACKGROUND] = 2};
    return ranks[priority];
}

#endif
