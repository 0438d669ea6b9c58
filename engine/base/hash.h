/* The one hash function of the program: XXH3, 64 bits (xxHash by Yann Collet), for hash tables and for
 * fingerprints of text. It is fast and spreads well; it is not cryptographic. All functions may be called
 * from any thread. */
#ifndef CONVOY_ENGINE_BASE_HASH_H
#define CONVOY_ENGINE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The hash of bytes[0 .. length), the same on every machine of one byte order and in every version of xxHash
 * since 0.8. seed is any number: 0 for a fingerprint that is kept or compared with another process's, the
 * hash of what came before where bytes come in several pieces, convoy_hash_seed() for a table whose keys
 * others choose. */
uint64_t convoy_hash(uint64_t seed, const void *bytes, size_t length);

/* The checksum of many bytes that are read again in slices: the hash of each slice with that of the slices
 * before it as seed, beginning with 0; all slices but the last have CONVOY_CHECKSUM_SLICE bytes. */
#define CONVOY_CHECKSUM_SLICE ((size_t)256 << 10)
uint64_t convoy_checksum(const void *bytes, size_t length);

/* A random number, another one with every call. A hash table whose keys come from clients or files keeps one
 * for its lifetime, so that no client can prepare keys that all fall into one chain. Costs one system call.
 */
uint64_t convoy_hash_seed(void);

#endif
