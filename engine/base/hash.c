#include "engine/base/hash.h"

#include "engine/base/clock.h"

#include <sys/random.h>

/* The header's inline implementation instead of libxxhash.so: the keys are short, the code exists once
 * because only this file includes it, and neither a package nor a backend module needs one more library at
 * run time. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t convoy_hash(uint64_t seed, const void *bytes, size_t length)
{
    return XXH3_64bits_withSeed(bytes, length, seed);
}

uint64_t convoy_checksum(const void *bytes, size_t length)
{
    uint64_t hash = 0;
    for (size_t done = 0; done < length; done += CONVOY_CHECKSUM_SLICE) {
        size_t left = length - done;
        hash = convoy_hash(hash, (const char *)bytes + done,
                           left < CONVOY_CHECKSUM_SLICE ? left : CONVOY_CHECKSUM_SLICE);
    }
    return hash;
}

uint64_t convoy_hash_seed(void)
{
    uint64_t seed;
    /* Early after boot the kernel may have no random bytes yet: the clock and an address (ASLR) are better
     * than a wait. */
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        const uint64_t poor[] = {convoy_now_us(), (uint64_t)(uintptr_t)&seed};
        seed = convoy_hash(0, poor, sizeof poor);
    }
    return seed;
}
