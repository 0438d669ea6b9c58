/* The hash function: xxHash's own values, seeds, pieces. */
#include "engine/base/hash.h"

#include <criterion/criterion.h>

/* Fingerprints are kept on disk: the function has to be XXH3 itself, whatever the compiler and the version of
 * xxHash. The values are those of libxxhash 0.8.1's XXH3_64bits() and XXH3_64bits_withSeed(). */
Test(hash, is_xxh3)
{
    unsigned char bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
    cr_assert_eq(convoy_hash(0, "", 0), UINT64_C(0x2d06800538d394c2));
    cr_assert_eq(convoy_hash(0, "convoy", 6), UINT64_C(0xc6572b87d8a424ab));
    cr_assert_eq(convoy_hash(1, "convoy", 6), UINT64_C(0x6ec437e2b8660eed));
    cr_assert_eq(convoy_hash(0, bytes, sizeof bytes), UINT64_C(0x935960848d04785c));
}

Test(hash, pieces_depend_on_what_came_before)
{
    uint64_t first = convoy_hash(convoy_hash(0, "a", 1), "c", 1);
    cr_assert_eq(convoy_hash(convoy_hash(0, "a", 1), "c", 1), first);
    cr_assert_neq(convoy_hash(convoy_hash(0, "b", 1), "c", 1), first);
}

Test(hash, every_seed_is_another)
{
    uint64_t first = convoy_hash_seed();
    cr_assert_neq(convoy_hash_seed(), first);
}
