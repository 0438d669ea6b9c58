#include "engine/graph/arena.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* The first items, which are the largest, are compared with all before them; networks have no more. Of those
 * after them, so many that live at the same time as an item are looked at, and so many for each item on
 * average. */
#define FULLY          2048
#define MOST_OF_ITEM   512
#define PAIRS_PER_ITEM 128

/* The items sorted by when their lives begin, with two segment trees over that order (node k has the children
 * 2k and 2k + 1, leaves begin at `leaves`). Two lives overlap exactly if one of their beginnings lies in
 * both, so an item's life is a range of positions in that order. */
struct arena {
    int count;  /* of items with bytes */
    int leaves; /* a power of two, at least count */
    struct convoy_arena_item **by_first;
    int *latest; /* the latest end of the lives of placed items below each node; INT_MIN: none is placed */
    size_t *top; /* where the highest placed item ends that lives at a position below each node */
    size_t *all; /* the same, of items that live at all positions below the node */
    struct convoy_arena_item **found;  /* those that live at the same time as an item */
    struct convoy_arena_item **placed; /* the first FULLY, by offset */
    size_t pairs;                      /* that may still be looked at */
    int most;                          /* of them for the next item */
};

static int by_size_falling(const void *left, const void *right)
{
    const struct convoy_arena_item *a = *(const struct convoy_arena_item *const *)left;
    const struct convoy_arena_item *b = *(const struct convoy_arena_item *const *)right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a > b) - (a < b);
}

static int by_first(const void *left, const void *right)
{
    const struct convoy_arena_item *a = *(const struct convoy_arena_item *const *)left;
    const struct convoy_arena_item *b = *(const struct convoy_arena_item *const *)right;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return (a > b) - (a < b);
}

static int by_offset(const void *left, const void *right)
{
    const struct convoy_arena_item *a = *(const struct convoy_arena_item *const *)left;
    const struct convoy_arena_item *b = *(const struct convoy_arena_item *const *)right;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static size_t rounded(size_t bytes)
{
    return (bytes + CONVOY_ARENA_ALIGNMENT - 1) & ~(size_t)(CONVOY_ARENA_ALIGNMENT - 1);
}

static size_t end_of(const struct convoy_arena_item *item)
{
    return item->offset + rounded(item->bytes);
}

/* How many items begin before `step`. */
static int begun_before(const struct arena *arena, int64_t step)
{
    int low = 0, high = arena->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (arena->by_first[middle]->first < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Adds to found the placed items at positions [begin, end) of node, below `before`, that live at `first` or
 * later. Returns how many there are then, or -1 when they are more than `most`. */
static int find(const struct arena *arena, int node, int begin, int end, int before, int first, int count)
{
    if (begin >= before || arena->latest[node] < first)
        return count;
    if (end - begin == 1) {
        if (count == arena->most)
            return -1;
        arena->found[count] = arena->by_first[begin];
        return count + 1;
    }
    int middle = begin + (end - begin) / 2;
    count = find(arena, 2 * node, begin, middle, before, first, count);
    return count < 0 ? count : find(arena, 2 * node + 1, middle, end, before, first, count);
}

static bool overlap_in_time(const struct convoy_arena_item *a, const struct convoy_arena_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The smallest gap that holds the item between those of the count placed ones that live at the same time;
 * they are in order of offset. The end of the last one if no gap does. */
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
        end = end_of(placed[i]) > end ? end_of(placed[i]) : end;
    }
    return best != SIZE_MAX ? best : end;
}

/* Where all that is placed at positions [from, to) ends. */
static size_t top_of(const struct arena *arena, int node, int begin, int end, int from, int to)
{
    if (begin >= to || end <= from)
        return 0;
    if (begin >= from && end <= to)
        return arena->top[node];
    int middle = begin + (end - begin) / 2;
    size_t left = top_of(arena, 2 * node, begin, middle, from, to);
    size_t right = top_of(arena, 2 * node + 1, middle, end, from, to);
    size_t below = left > right ? left : right;
    return below > arena->all[node] ? below : arena->all[node];
}

static void raise(struct arena *arena, int node, int begin, int end, int from, int to, size_t top)
{
    if (begin >= to || end <= from)
        return;
    arena->top[node] = top > arena->top[node] ? top : arena->top[node];
    if (begin >= from && end <= to) {
        arena->all[node] = top > arena->all[node] ? top : arena->all[node];
        return;
    }
    int middle = begin + (end - begin) / 2;
    raise(arena, 2 * node, begin, middle, from, to, top);
    raise(arena, 2 * node + 1, middle, end, from, to, top);
}

/* Places the item, one of the first, where all that is placed already is looked at. */
static void place_fully(struct arena *arena, struct convoy_arena_item *item, int count)
{
    int at = count;
    item->offset = best_offset(arena->placed, count, item);
    for (; at > 0 && arena->placed[at - 1]->offset > item->offset; at--)
        arena->placed[at] = arena->placed[at - 1];
    arena->placed[at] = item;
}

/* Places the item among those that the trees know. Where too many live at the same time it goes on top of
 * them. */
static void place(struct arena *arena, struct convoy_arena_item *item)
{
    int from = begun_before(arena, item->first), to = begun_before(arena, (int64_t)item->last + 1);
    arena->most = arena->pairs < MOST_OF_ITEM ? (int)arena->pairs : MOST_OF_ITEM;
    int found = find(arena, 1, 0, arena->leaves, to, item->first, 0);
    arena->pairs -= (size_t)(found >= 0 ? found : arena->most);
    if (found >= 0) {
        qsort(arena->found, (size_t)found, sizeof(*arena->found), by_offset);
        item->offset = best_offset(arena->found, found, item);
    } else {
        item->offset = top_of(arena, 1, 0, arena->leaves, from, to);
    }
}

/* Tells the trees of a placed item. */
static void note(struct arena *arena, const struct convoy_arena_item *item)
{
    int from = begun_before(arena, item->first), to = begun_before(arena, (int64_t)item->last + 1);
    raise(arena, 1, 0, arena->leaves, from, to, end_of(item));
    const void *at = bsearch(&item, arena->by_first, (size_t)arena->count, sizeof(item), by_first);
    int node = arena->leaves + (int)((struct convoy_arena_item *const *)at - arena->by_first);
    for (; node > 0; node /= 2)
        arena->latest[node] = item->last > arena->latest[node] ? item->last : arena->latest[node];
}

static int begin(struct arena *arena, struct convoy_arena_item **by_size)
{
    size_t count = (size_t)arena->count;
    for (arena->leaves = 1; arena->leaves < arena->count;)
        arena->leaves *= 2;
    size_t nodes = 2 * (size_t)arena->leaves;
    arena->by_first = malloc((count + 1) * sizeof(*arena->by_first));
    arena->found = malloc(MOST_OF_ITEM * sizeof(*arena->found));
    arena->placed = malloc(FULLY * sizeof(*arena->placed));
    arena->latest = malloc(nodes * sizeof(*arena->latest));
    arena->top = calloc(nodes, sizeof(*arena->top));
    arena->all = calloc(nodes, sizeof(*arena->all));
    if (arena->by_first == NULL || arena->found == NULL || arena->latest == NULL || arena->top == NULL ||
        arena->placed == NULL || arena->all == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < nodes; i++)
        arena->latest[i] = INT_MIN;
    for (size_t i = 0; i < count; i++)
        arena->by_first[i] = by_size[i];
    qsort(arena->by_first, count, sizeof(*arena->by_first), by_first);
    qsort(by_size, count, sizeof(*by_size), by_size_falling);
    arena->pairs = PAIRS_PER_ITEM * count;
    return 0;
}

int convoy_arena_place(struct convoy_arena_item *items, int count, size_t *total)
{
    *total = 0;
    struct arena arena = {0};
    struct convoy_arena_item **by_size = malloc(((size_t)count + 1) * sizeof(*by_size));
    int status = -ENOMEM;
    if (by_size == NULL)
        goto out;

    size_t sum = 0;
    status = -EOVERFLOW;
    for (int i = 0; i < count; i++) {
        items[i].offset = 0;
        if (items[i].bytes == 0)
            continue;
        if (items[i].bytes > SIZE_MAX / 2 || __builtin_add_overflow(sum, rounded(items[i].bytes), &sum))
            goto out;
        by_size[arena.count++] = &items[i];
    }
    status = begin(&arena, by_size);
    for (int i = 0; i < arena.count && status == 0; i++) {
        if (i < FULLY)
            place_fully(&arena, by_size[i], i);
        else
            place(&arena, by_size[i]);
        if (arena.count > FULLY)
            note(&arena, by_size[i]);
        *total = end_of(by_size[i]) > *total ? end_of(by_size[i]) : *total;
    }
out:
    free(by_size);
    free(arena.by_first);
    free(arena.found);
    free(arena.placed);
    free(arena.latest);
    free(arena.top);
    free(arena.all);
    return status;
}
