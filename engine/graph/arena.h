/* Places the tensors of a plan in one block of memory (an arena), for any backend. */
#ifndef CONVOY_ENGINE_GRAPH_ARENA_H
#define CONVOY_ENGINE_GRAPH_ARENA_H

#include <stddef.h>

#define CONVOY_ARENA_ALIGNMENT 64

/* One tensor: alive from step `first` (which writes it) to step `last` (the last that reads it), both
 * included, so that a step's output never overlaps its inputs. */
struct convoy_arena_item {
    size_t bytes; /* 0: takes no room, gets offset 0 */
    int first, last;
    size_t offset; /* filled in; a multiple of CONVOY_ARENA_ALIGNMENT */
};

/* Fills in *total and every item's offset, so that no two items that live at the same time overlap. Items are
 * placed from the largest to the smallest, each at the lowest gap that fits best (greedy by size, Pisarchyk
 * and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). That is O(n^2) for the first
 * 2,048. Those after them are looked at together with what lives at the same time; where that is much (512,
 * and 128 on average), they are placed behind it without a look for gaps. So the time stays near n log n.
 * Returns 0, -ENOMEM, or -EOVERFLOW if the arena would not fit into size_t. Any thread. */
int convoy_arena_place(struct convoy_arena_item *items, int count, size_t *total);

#endif
