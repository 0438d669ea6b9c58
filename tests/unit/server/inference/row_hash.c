/* The hash of rows: what it depends on, and that rows which were made to be alike spread over chains. */
#include "server/inference/row_hash.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct convoy_row_hash_key key;
static struct convoy_error error;

static void make_key(void)
{
    cr_assert_eq(convoy_row_hash_key(&key, &error), 0, "%s", error.message);
}

TestSuite(row_hash, .init = make_key);

/* What the head comment says, written as plainly as it can be: one word after the other, one bit after the
 * other, on a key of the test's own. */
#define PRIME ((UINT64_C(1) << 61) - 1)

static uint64_t add_modulo(uint64_t a, uint64_t b)
{
    return (a + b) % PRIME;
}

static uint64_t multiply_modulo(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    for (int bit = 60; bit >= 0; bit--) {
        product = add_modulo(product, product);
        if (b >> bit & 1)
            product = add_modulo(product, a);
    }
    return product;
}

static uint64_t plainly(uint64_t about, const uint8_t *row, size_t length)
{
    /* A block of four words is read while another byte stands behind it; the words' order is that of the row
     * either way. */
    uint64_t hash = 0;
    for (size_t at = 0; at < length; at += 7) {
        uint64_t word = 0;
        for (size_t i = 0; i < 7 && at + i < length; i++)
            word |= (uint64_t)row[at + i] << 8 * i;
        hash = add_modulo(multiply_modulo(hash, key.point), word);
    }
    hash = add_modulo(multiply_modulo(hash, key.point), length);
    hash = add_modulo(multiply_modulo(hash, key.point), about);
    /* (multiplier * hash + summand) / 2^64, in 32-bit pieces */
    const uint64_t factor[4] = {key.multiplier[0] & UINT32_MAX, key.multiplier[0] >> 32,
                                key.multiplier[1] & UINT32_MAX, key.multiplier[1] >> 32};
    const uint64_t hashes[2] = {hash & UINT32_MAX, hash >> 32};
    uint64_t sum[5] = {key.summand[0] & UINT32_MAX, key.summand[0] >> 32, key.summand[1] & UINT32_MAX,
                       key.summand[1] >> 32, 0};
    for (int i = 0; i < 2; i++) {
        uint64_t carry = 0;
        for (int j = 0; i + j < 4; j++) {
            carry += sum[i + j] + factor[j] * hashes[i];
            sum[i + j] = carry & UINT32_MAX;
            carry >>= 32;
        }
    }
    return sum[3] << 32 | sum[2];
}

Test(row_hash, is_what_its_header_says)
{
    uint8_t row[300];
    for (size_t i = 0; i < sizeof row; i++)
        row[i] = (uint8_t)rand();
    for (size_t length = 0; length <= sizeof row; length++) {
        uint8_t *exactly = malloc(length + 1); /* the sanitizer sees a byte too many */
        uint8_t *moved = exactly + 1;
        memcpy(moved, row, length);
        cr_assert_eq(convoy_row_hash(&key, length, moved, length), plainly(length, row, length), "%zu",
                     length);
        free(exactly);
    }
    memset(row, 0xFF, sizeof row);
    cr_assert_eq(convoy_row_hash(&key, (UINT64_C(1) << 56) - 1, row, sizeof row),
                 plainly((UINT64_C(1) << 56) - 1, row, sizeof row));
    key = (struct convoy_row_hash_key){.point = PRIME - 1, .multiplier = {1, 1}}; /* the largest */
    cr_assert_eq(convoy_row_hash(&key, 5, row, sizeof row), plainly(5, row, sizeof row));
}

Test(row_hash, depends_on_every_byte_on_the_rest_and_on_the_key)
{
    uint8_t row[3 * 32 * 32] = {0};
    uint64_t hash = convoy_row_hash(&key, 1, row, sizeof row);
    cr_assert_eq(convoy_row_hash(&key, 1, row, sizeof row), hash);
    cr_assert_neq(convoy_row_hash(&key, 2, row, sizeof row), hash);
    for (size_t i = 0; i < sizeof row; i++) {
        row[i] = 1;
        cr_assert_neq(convoy_row_hash(&key, 1, row, sizeof row), hash, "byte %zu", i);
        row[i] = 0;
    }
    make_key();
    cr_assert_neq(convoy_row_hash(&key, 1, row, sizeof row), hash, "two keys are alike");
}

/* The greatest number of 4096 rows that are alike in one of 256 chains, under the key of now: by the highest
 * bits of the hash and by the lowest. 16 fall into one on average. */
static unsigned longest_chain(void)
{
    unsigned highest[256] = {0}, lowest[256] = {0}, longest = 0;
    uint8_t row[784];

    memset(row, 0xFF, sizeof row);
    for (uint32_t i = 0; i < 4096; i++) {
        uint32_t number = i << 8;
        memcpy(row + 700, &number, sizeof number);
        uint64_t hash = convoy_row_hash(&key, 7, row, sizeof row);
        highest[hash >> 56]++;
        lowest[hash & 255]++;
    }
    for (int i = 0; i < 256; i++) {
        longest = highest[i] > longest ? highest[i] : longest;
        longest = lowest[i] > longest ? lowest[i] : longest;
    }
    return longest;
}

/* A universal hash promises short chains for most keys, not for each: these rows are in arithmetic
 * progression, so their hashes are, too, and a step near a fraction with a small denominator fills few
 * chains. A chain of 80 came with 94 of 20,000 keys. A bad hash has hundreds in one chain under every key. */
Test(row_hash, spreads_rows_that_are_alike)
{
    enum { KEYS = 31 };
    unsigned keys_with_long_chains = 0;

    for (int i = 0; i < KEYS; i++) {
        make_key();
        keys_with_long_chains += longest_chain() >= 80;
    }
    cr_assert(keys_with_long_chains <= KEYS / 2, "%u of %d keys", keys_with_long_chains, KEYS);
}
