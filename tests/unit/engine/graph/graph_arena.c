/* Placing tensors: nothing that lives at the same time overlaps, and little is wasted. */
#include "engine/graph/arena.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

static void expect_apart(const struct convoy_arena_item *items, int count, size_t total)
{
    for (int i = 0; i < count; i++) {
        cr_expect(items[i].offset % CONVOY_ARENA_ALIGNMENT == 0);
        cr_expect(items[i].offset + items[i].bytes <= total);
        for (int k = 0; k < i; k++) {
            bool together = items[i].first <= items[k].last && items[k].first <= items[i].last;
            bool apart = items[i].offset + items[i].bytes <= items[k].offset ||
                         items[k].offset + items[k].bytes <= items[i].offset;
            cr_expect(!together || apart || items[i].bytes == 0 || items[k].bytes == 0, "%d and %d overlap",
                      i, k);
        }
    }
}

Test(graph_arena, a_chain_needs_its_two_largest_neighbours)
{
    struct convoy_arena_item items[] = {{1000, 0, 1}, {4000, 1, 2}, {2000, 2, 3}, {3000, 3, 4}, {10, 4, 5}};
    size_t total;
    cr_assert(convoy_arena_place(items, 5, &total) == 0);
    expect_apart(items, 5, total);
    cr_expect(total == 4032 + 2048, "%zu", total); /* in units of 64 */
}

Test(graph_arena, a_residual_keeps_its_place)
{
    struct convoy_arena_item items[] = {{640, 0, 3}, {640, 1, 2}, {640, 2, 3}, {640, 3, 4}};
    size_t total;
    cr_assert(convoy_arena_place(items, 4, &total) == 0);
    expect_apart(items, 4, total);
    cr_expect(total == 3 * 640, "%zu", total);
}

Test(graph_arena, what_needs_no_place_gets_none)
{
    struct convoy_arena_item items[] = {{0, 0, 9}, {64, 0, 9}, {0, 0, 9}};
    size_t total;
    cr_assert(convoy_arena_place(items, 3, &total) == 0);
    cr_expect(total == 64);
    cr_assert(convoy_arena_place(items, 0, &total) == 0);
    cr_expect(total == 0);
}

Test(graph_arena, sizes_that_overflow_are_refused)
{
    struct convoy_arena_item items[] = {{SIZE_MAX / 2, 0, 1}, {SIZE_MAX / 2, 0, 1}, {SIZE_MAX / 2, 0, 1}};
    size_t total;
    cr_expect(convoy_arena_place(items, 3, &total) == -EOVERFLOW);
    items[0].bytes = SIZE_MAX;
    cr_expect(convoy_arena_place(items, 1, &total) == -EOVERFLOW);
}

Test(graph_arena, random_graphs)
{
    uint64_t state = 99;
    for (int round = 0; round < 200; round++) {
        struct convoy_arena_item items[60];
        size_t total, most = 0;
        for (int i = 0; i < 60; i++) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            int first = i - (int)(state >> 62);
            items[i] = (struct convoy_arena_item){(state >> 40) % 5000, first, first + (int)(state >> 33) % 6,
                                                  12345};
        }
        cr_assert(convoy_arena_place(items, 60, &total) == 0);
        expect_apart(items, 60, total);
        for (int step = -3; step < 70; step++) {
            size_t alive = 0;
            for (int i = 0; i < 60; i++)
                if (items[i].first <= step && step <= items[i].last)
                    alive += (items[i].bytes + 63) / 64 * 64;
            most = alive > most ? alive : most;
        }
        cr_expect(total >= most && total <= most * 3 / 2, "%zu bytes where %zu live at once", total, most);
    }
}
