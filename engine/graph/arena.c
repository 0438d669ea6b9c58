#include "engine/graph/arena.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static int by_size_falling(const void *left, const void *right)
{
    const struct convoy_arena_item *a = *(const struct convoy_arena_item *const *)left;
    const struct convoy_arena_item *b = *(const struct convoy_arena_item *const *)right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a > b) - (a < b);
}

static bool overlap_in_time(const struct convoy_arena_item *a, const struct convoy_arena_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static size_t rounded(size_t bytes)
{
    return (bytes + CONVOY_ARENA_ALIGNMENT - 1) & ~(size_t)(CONVOY_ARENA_ALIGNMENT - 1);
}

/* The smallest gap that holds the item between those placed already, which are kept in order of offset; the
 * end of the last one if no gap does. */
static size_t best_offset(struct convoy_arena_item *const *placed, int count,
                          const struct convoy_arena_item *item)
{
    size_t end = 0, best = SIZE_MAX, best_gap = SIZE_MAX, wanted = rounded(item->bytes);
    for (int i = 0; i < count; i++) {
        if (!overlap_in_time(placed[i], item))
            continue;
        if (placed[i]->offset > end && placed[i]->offset - end >= wanted &&
            placed[i]->offset - end < best_gap) {
            best_gap = placed[i]->offset - end;
            best = end;
        }
        size_t stops = placed[i]->offset + rounded(placed[i]->bytes);
        end = stops > end ? stops : end;
    }
    return best != SIZE_MAX ? best : end;
}

int convoy_arena_place(struct convoy_arena_item *items, int count, size_t *total)
{
    *total = 0;
    struct convoy_arena_item **by_size = calloc((size_t)count + 1, sizeof(*by_size));
    struct convoy_arena_item **placed = calloc((size_t)count + 1, sizeof(*placed));
    int status = -ENOMEM;
    if (by_size == NULL || placed == NULL)
        goto out;

    int wanted = 0;
    size_t sum = 0;
    status = -EOVERFLOW;
    for (int i = 0; i < count; i++) {
        items[i].offset = 0;
        if (items[i].bytes == 0)
            continue;
        if (items[i].bytes > SIZE_MAX / 2 || __builtin_add_overflow(sum, rounded(items[i].bytes), &sum))
            goto out;
        by_size[wanted++] = &items[i];
    }
    qsort(by_size, (size_t)wanted, sizeof(*by_size), by_size_falling);

    for (int i = 0; i < wanted; i++) {
        struct convoy_arena_item *item = by_size[i];
        item->offset = best_offset(placed, i, item);
        int at = i;
        for (; at > 0 && placed[at - 1]->offset > item->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = item;
        size_t stops = item->offset + rounded(item->bytes);
        *total = stops > *total ? stops : *total;
    }
    status = 0;
out:
    free(by_size);
    free(placed);
    return status;
}
