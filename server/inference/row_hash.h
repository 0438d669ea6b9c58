/* A keyed universal hash of rows: a client that chooses rows without knowing the key makes two of them
 * collide in m given bits with a probability of at most 2^-m + n / 2^61, where a row has n pieces of seven
 * bytes. So chains of a table stay short, whatever clients send.
 *
 * It is a polynomial over the row, modulo the prime 2^61 - 1, at a secret point (Carter and Wegman, Universal
 * classes of hash functions, 1979), then multiplied and shifted by secrets (Dietzfelbinger, Universal hashing
 * and k-wise independent random variables via integer arithmetic without primes, 1996). Fast hashes that are
 * merely seeded promise less: for many of them there are collisions under every seed.
 *
 * Threads: any; a key does not change. */
#ifndef CONVOY_SERVER_ROW_HASH_H
#define CONVOY_SERVER_ROW_HASH_H

#include "engine/base/error.h"

#include <stddef.h>
#include <stdint.h>

struct convoy_row_hash_key {
    uint64_t point;         /* 1 to 2^61 - 2 */
    uint64_t multiplier[2]; /* 128 bits each, low half first */
    uint64_t summand[2];
};

/* A key of the kernel's random numbers. Errors: those of getrandom(2). */
int convoy_row_hash_key(struct convoy_row_hash_key *key, struct convoy_error *error);

/* about: what the row is besides its bytes, below 2^56. length: below 2^56. */
uint64_t convoy_row_hash(const struct convoy_row_hash_key *key, uint64_t about, const void *row,
                         size_t length);

#endif
