#include "server/inference/row_hash.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define PRIME ((UINT64_C(1) << 61) - 1)

/* Seven bytes are below the prime, and no two of them are equal modulo it; eight would be. */
#define WORD       7
#define WORD_MASK  ((UINT64_C(1) << 56) - 1)
#define LANES      4
#define BLOCK      (LANES * WORD)
#define BLOCK_READ (BLOCK + 1) /* the last word is read as eight bytes */

int convoy_row_hash_key(struct convoy_row_hash_key *key, struct convoy_error *error)
{
    ssize_t got;

    do
        got = getrandom(key, sizeof *key, 0);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof *key)
        return convoy_fail(error, got < 0 ? -errno : -EIO, "the kernel has no random numbers");
    key->point = 1 + key->point % (PRIME - 1);
    return 0;
}

/* a * b + c modulo PRIME; a and b are below it, c below 2^61. */
static uint64_t step(uint64_t a, uint64_t b, uint64_t c)
{
    unsigned __int128 product = (unsigned __int128)a * b + c;
    uint64_t sum = ((uint64_t)product & PRIME) + (uint64_t)(product >> 61); /* since 2^61 is 1 */

    return sum >= PRIME ? sum - PRIME : sum;
}

static uint64_t read_word(const uint8_t *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
    return word & WORD_MASK;
}

uint64_t convoy_row_hash(const struct convoy_row_hash_key *key, uint64_t about, const void *row,
                         size_t length)
{
    const uint8_t *at = row, *end = at + length;
    uint64_t lanes[LANES] = {0}, point = key->point;
    uint64_t square = step(point, point, 0), fourth = step(square, square, 0);

    /* Horner's rule four times beside each other: one alone would wait for each of its products. */
    for (; end - at >= BLOCK_READ; at += BLOCK)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] = step(lanes[lane], fourth, read_word(at + (ptrdiff_t)lane * WORD));
    uint64_t hash = lanes[0];
    for (int lane = 1; lane < LANES; lane++)
        hash = step(hash, point, lanes[lane]);
    while (at < end) {
        size_t rest = end - at < WORD ? (size_t)(end - at) : WORD;
        uint64_t word = 0;
        memcpy(&word, at, rest);
        hash = step(hash, point, word);
        at += rest;
    }
    hash = step(hash, point, length); /* of two rows that differ in zeros at the end alone */
    hash = step(hash, point, about);

    unsigned __int128 multiplier = (unsigned __int128)key->multiplier[1] << 64 | key->multiplier[0];
    unsigned __int128 summand = (unsigned __int128)key->summand[1] << 64 | key->summand[0];
    return (uint64_t)((multiplier * hash + summand) >> 64);
}
