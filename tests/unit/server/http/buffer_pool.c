#include "server/http/buffer_pool.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1024u * 1024)

Test(buffer, a_large_one_is_kept_for_the_next_that_fits)
{
    void *buffer = convoy_buffer_pool_new(3 * MIB);
    memset(buffer, 1, 3 * MIB);
    convoy_buffer_pool_free(buffer);
    cr_assert_null(convoy_buffer_pool_kept(4 * MIB + 65536), "it is not as large");
    cr_assert_null(convoy_buffer_pool_kept(MIB / 2), "it is much too large");
    cr_assert_eq(convoy_buffer_pool_new(2 * MIB), buffer);
    cr_assert_null(convoy_buffer_pool_kept(2 * MIB), "it was given to two");
    convoy_buffer_pool_free(buffer);
}

Test(buffer, the_smallest_that_fits_is_taken)
{
    void *large = convoy_buffer_pool_new(8 * MIB), *small = convoy_buffer_pool_new(1 * MIB);
    void *middle = convoy_buffer_pool_new(4 * MIB);
    convoy_buffer_pool_free(middle);
    convoy_buffer_pool_free(small);
    convoy_buffer_pool_free(large);
    cr_assert_eq(convoy_buffer_pool_kept(2 * MIB), middle);
    cr_assert_null(convoy_buffer_pool_kept(1 * MIB + MIB / 2),
                   "the large one is more than four times as large");
    cr_assert_eq(convoy_buffer_pool_kept(3 * MIB), large);
    cr_assert_eq(convoy_buffer_pool_kept(1 * MIB), small);
    convoy_buffer_pool_free(large);
    convoy_buffer_pool_free(small);
    convoy_buffer_pool_free(middle);
}

Test(buffer, small_ones_are_not_kept)
{
    void *buffer = convoy_buffer_pool_new(1000);
    cr_assert_not_null(buffer);
    convoy_buffer_pool_free(buffer);
    cr_assert_null(convoy_buffer_pool_kept(1000));
    convoy_buffer_pool_free(NULL);
}

/* Takes all that are kept and fit; returns how many bytes they have. */
static size_t take_all(size_t bytes, void **buffers, int *n)
{
    size_t kept = 0;
    for (*n = 0; (buffers[*n] = convoy_buffer_pool_kept(bytes)) != NULL; ++*n)
        kept += malloc_usable_size(buffers[*n]);
    return kept;
}

Test(buffer, so_much_is_kept_and_no_more)
{
    void *buffers[32], *more[32];
    int n;
    for (int i = 0; i < 16; i++)
        buffers[i] = malloc(8 * MIB - 65536);
    for (int i = 0; i < 16; i++)
        convoy_buffer_pool_free(buffers[i]);
    size_t kept = take_all(7 * MIB, buffers, &n);
    cr_assert_leq(kept, CONVOY_BUFFER_POOL_BYTES);
    cr_assert_gt(kept, CONVOY_BUFFER_POOL_BYTES / 2);
    /* While those are lent, there is room for no others. */
    for (int i = 0; i < 16; i++)
        more[i] = malloc(8 * MIB - 65536);
    for (int i = 0; i < 16; i++)
        convoy_buffer_pool_free(more[i]);
    cr_assert_leq(take_all(7 * MIB, more, &n), CONVOY_BUFFER_POOL_BYTES - kept);
    for (int i = 0; i < n; i++)
        convoy_buffer_pool_free(more[i]);
    for (int i = 0; i < 7; i++)
        convoy_buffer_pool_free(buffers[i]);
    cr_assert_geq(take_all(7 * MIB, buffers, &n), 7 * (8 * MIB - 65536), "they are not kept again");
}

Test(buffer, what_is_lent_stays_however_long)
{
    void *buffers[32];
    int n;
    for (int i = 0; i < 16; i++)
        buffers[i] = malloc(8 * MIB);
    for (int i = 0; i < 16; i++)
        convoy_buffer_pool_free(buffers[i]);
    take_all(8 * MIB, buffers, &n);
    for (int i = 0; i < 1000; i++)
        convoy_buffer_pool_free(malloc(8 * MIB));
    for (int i = 0; i < n; i++)
        memset(buffers[i], i, 8 * MIB); /* a fault where it was freed */
    for (int i = 0; i < n; i++)
        convoy_buffer_pool_free(buffers[i]);
}

Test(buffer, what_lies_idle_makes_room)
{
    void *buffers[300];
    int n;
    for (int i = 0; i < 300; i++)
        buffers[i] = malloc(MIB / 4);
    for (int i = 0; i < 300; i++)
        convoy_buffer_pool_free(buffers[i]);
    cr_assert_gt(take_all(MIB / 4, buffers, &n), CONVOY_BUFFER_POOL_BYTES / 2, "the place is taken");
    for (int i = 0; i < n; i++)
        convoy_buffer_pool_free(buffers[i]);
    convoy_buffer_pool_free(malloc(8 * MIB));
    cr_assert_null(convoy_buffer_pool_kept(8 * MIB), "what was used just now had to go");
    for (int i = 0; i < 300; i++)
        convoy_buffer_pool_free(malloc(8 * MIB));
    void *buffer = convoy_buffer_pool_kept(8 * MIB);
    cr_assert_not_null(buffer, "an unused buffer keeps its place for ever");
    convoy_buffer_pool_free(buffer);
}

Test(buffer, one_that_was_lent_and_grew_is_kept_as_it_is)
{
    for (int i = 0; i < 200; i++) {
        convoy_buffer_pool_free(malloc(MIB));
        char *buffer = convoy_buffer_pool_kept(MIB);
        cr_assert_not_null(buffer, "after %d that grew there is no room for others", i);
        buffer = convoy_buffer_pool_grow(buffer, 5 * MIB);
        memset(buffer, 1, 5 * MIB);
        convoy_buffer_pool_free(buffer);
        buffer = convoy_buffer_pool_kept(5 * MIB);
        cr_assert_not_null(buffer);
        free(convoy_buffer_pool_grow(buffer, 7 * MIB)); /* no longer counted */
    }
}

Test(buffer, growing_copies_only_when_it_must)
{
    char *buffer = convoy_buffer_pool_new(MIB);
    memset(buffer, 7, MIB);
    convoy_buffer_pool_free(buffer);
    buffer = convoy_buffer_pool_kept(MIB / 2);
    cr_assert_not_null(buffer);
    cr_assert_eq(convoy_buffer_pool_grow(buffer, MIB / 4), buffer);
    cr_assert_geq(malloc_usable_size(buffer), MIB, "it was made smaller");
    cr_assert_eq(convoy_buffer_pool_grow(buffer, MIB), buffer, "it has that room");
    memset(buffer, 9, MIB);
    char *grown = convoy_buffer_pool_grow(buffer, 16 * MIB);
    cr_assert_not_null(grown);
    for (size_t i = 0; i < MIB; i++)
        cr_assert_eq(grown[i], 9);
    memset(grown, 3, 16 * MIB);
    convoy_buffer_pool_free(grown);
    grown = convoy_buffer_pool_grow(NULL, 100);
    cr_assert_not_null(grown);
    convoy_buffer_pool_free(grown);
}
