/* One budget of memory for all images that are being decoded: with as many threads as the machine has cores,
 * each at the largest image that is allowed, decoding could take tens of gigabytes. A thread waits until the
 * images that others decode leave room for its own. Small images (up to CONVOY_DECODE_SMALL pixels) are not
 * counted. Any thread. */
#ifndef CONVOY_SERVER_DECODE_MEMORY_H
#define CONVOY_SERVER_DECODE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#define CONVOY_DECODE_SMALL (1u << 20)

/* So many images of the greatest size may be decoded at a time. */
#define CONVOY_DECODE_LARGEST 8u

/* Takes bytes of most; waits while there is no room, until deadline_us, a convoy_now_us() time. False: it
 * passed. One image is always let in. */
bool convoy_decode_memory_take(uint64_t bytes, uint64_t most, uint64_t deadline_us);
void convoy_decode_memory_give(uint64_t bytes);

#endif
