/* Placing tensors: nothing that lives at the same time overlaps, and little is wasted. */
#include "engine/graph/arena.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

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

static uint64_t random_state;

static unsigned below(unsigned limit)
{
    random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(random_state >> 33) % limit;
}

/* Lives of tensors: one step after the other, a few that live long, all at once, any. */
enum lives { CHAIN, SKIPS, ALL, ANY, LIVES };

static struct convoy_arena_item *make_items(int count, enum lives lives)
{
    struct convoy_arena_item *items = calloc((size_t)count, sizeof *items);
    cr_assert_not_null(items);
    random_state = (uint64_t)count * LIVES + lives;
    for (int i = 0; i < count; i++) {
        unsigned length = lives == CHAIN || below(20) > 0 ? below(4) : below((unsigned)count);
        int first = lives == ANY ? (int)below((unsigned)count) : lives == ALL ? 0 : i;
        int last = lives == ANY   ? first + (int)below((unsigned)count)
                   : lives == ALL ? count
                                  : first + 1 + (int)length;
        items[i] = (struct convoy_arena_item){1 + below(1u << 20), first, last, 12345};
    }
    return items;
}

/* The same in the plainest way: each item, from the largest on, in the smallest gap that holds it. */
static size_t place_plainly(struct convoy_arena_item *items, int count)
{
    bool placed[600] = {false};
    size_t total = 0;
    for (int turn = 0; turn < count; turn++) {
        int next = -1;
        for (int i = 0; i < count; i++)
            if (!placed[i] && (next < 0 || items[i].bytes > items[next].bytes))
                next = i;
        struct convoy_arena_item *item = &items[next];
        size_t best = SIZE_MAX, best_gap = SIZE_MAX, size = (item->bytes + 63) / 64 * 64;
        for (int k = -1; k < count; k++) { /* it begins at 0 or where another ends */
            size_t at = k < 0 ? 0 : items[k].offset + (items[k].bytes + 63) / 64 * 64, until = SIZE_MAX;
            bool free = k < 0 || (placed[k] && items[k].first <= item->last && item->first <= items[k].last);
            for (int o = 0; o < count && free; o++) {
                if (!placed[o] || items[o].first > item->last || item->first > items[o].last)
                    continue;
                if (items[o].offset >= at)
                    until = items[o].offset < until ? items[o].offset : until;
                else if (items[o].offset + (items[o].bytes + 63) / 64 * 64 > at)
                    free = false;
            }
            if (free && until - at >= size &&
                (until - at < best_gap || (until - at == best_gap && at < best))) {
                best_gap = until - at;
                best = at;
            }
        }
        item->offset = best;
        placed[next] = true;
        total = best + size > total ? best + size : total;
    }
    return total;
}

Test(graph_arena, each_is_where_the_plain_way_puts_it)
{
    for (int lives = CHAIN; lives < LIVES; lives++) {
        struct convoy_arena_item *items = make_items(300, (enum lives)lives);
        struct convoy_arena_item *plain = make_items(300, (enum lives)lives);
        size_t total;
        cr_assert(convoy_arena_place(items, 300, &total) == 0);
        cr_expect_eq(total, place_plainly(plain, 300));
        for (int i = 0; i < 300; i++)
            cr_assert_eq(items[i].offset, plain[i].offset, "kind %d, item %d", lives, i);
        free(items);
        free(plain);
    }
}

/* Past the number for which each is compared with each. */
Test(graph_arena, thousands_of_tensors_lie_apart)
{
    for (int lives = CHAIN; lives < LIVES; lives++) {
        struct convoy_arena_item *items = make_items(6000, (enum lives)lives);
        size_t total, most = 0;
        cr_assert(convoy_arena_place(items, 6000, &total) == 0);
        for (int i = 0; i < 6000; i++) {
            size_t alive = 0;
            for (int k = 0; k < 6000; k++) {
                bool together = items[i].first <= items[k].last && items[k].first <= items[i].last;
                bool apart = items[i].offset + items[i].bytes <= items[k].offset ||
                             items[k].offset + items[k].bytes <= items[i].offset;
                cr_assert(i == k || !together || apart, "kind %d: %d and %d overlap", lives, i, k);
                if (items[k].first <= items[i].first && items[i].first <= items[k].last)
                    alive += (items[k].bytes + 63) / 64 * 64;
            }
            most = alive > most ? alive : most;
        }
        cr_expect(total >= most && total <= most * 3 / 2, "kind %d: %zu bytes where %zu live at once", lives,
                  total, most);
        free(items);
    }
}

static double seconds(int count, enum lives lives)
{
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        struct convoy_arena_item *items = make_items(count, lives);
        struct timespec from, to;
        size_t total;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        cr_assert(convoy_arena_place(items, count, &total) == 0);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
        double took = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
        best = took < best ? took : best;
        free(items);
    }
    return best;
}

/* Ten times as many take about 13 times as long, and 100 times where each is compared with each. */
Test(graph_arena, time_is_not_quadratic)
{
    for (int lives = CHAIN; lives < LIVES; lives++) {
        double few = seconds(6000, (enum lives)lives), many = seconds(60000, (enum lives)lives);
        cr_expect_lt(many, few * 40, "kind %d: %.3f s, then %.3f s", lives, few, many);
    }
}
