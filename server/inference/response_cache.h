/* The response cache: outputs by input, so that an equal input is not computed again.
 *
 * An answer is kept under everything that it was computed from: the model's version, which of its loads, the
 * layout of the row and every byte of it, as the slot would get them: of an image that the front decoded its
 * pixels, of one that a device decodes (CONVOY_LAYOUT_JPEG) the file. So the two never get each other's. A
 * row is found by its hash and then compared whole, so rows whose hashes are equal, by chance or on purpose,
 * never get each other's answers; the hash has a secret key (row_hash.h), so that no client can make long
 * chains.
 *
 * Bounded by bytes: rows, outputs, what keeping them costs and the tables themselves together stay within
 * what convoy_response_cache_new() was given, always; the answers used least recently make room. The answers
 * are spread over 16 shards, each with a lock, a sixteenth of the room and an order of use of its own; an
 * answer that is larger than a sixteenth is not kept. What a heap loses between its pieces is not counted.
 *
 * A miss prepares what will be inserted, with a copy of the row, since the row's bytes are gone when its
 * outputs come; until then it is the caller's and in no count.
 *
 * Threads: any but for new and free. Under a shard's lock at most one row is compared and its outputs are
 * copied; memory is taken and given back outside. */
#ifndef CONVOY_SERVER_RESPONSE_CACHE_H
#define CONVOY_SERVER_RESPONSE_CACHE_H

#include "engine/base/error.h"
#include "engine/ipc/channel.h"
#include "server/metrics/metrics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct convoy_response_cache;

/* An answer, or one that is going to be. */
struct convoy_response;

struct convoy_response_key {
    uint32_t model; /* its number, below CONVOY_MAX_MODELS */
    uint32_t load;  /* of the model, counted: another load may have read another file */
    enum convoy_input_layout layout;
    const void *row;
    size_t row_bytes;
    uint32_t output_count; /* floats; the same for all rows of a model */
};

/* bytes: CONVOY_RESPONSE_CACHE_LEAST to _MOST (config.h). metrics may be NULL and must outlive the cache.
 * Errors: -ENOMEM, those of getrandom(2). */
int convoy_response_cache_new(uint64_t bytes, struct convoy_cache_metrics *metrics,
                              struct convoy_response_cache **cache, struct convoy_error *error);
void convoy_response_cache_free(struct convoy_response_cache *cache); /* NULL is allowed */

/* True: outputs are filled. False: *response is what convoy_response_cache_insert() takes once the outputs
 * are known, or NULL when the answer could not be kept (too large, memory is out). */
bool convoy_response_cache_lookup(struct convoy_response_cache *cache, const struct convoy_response_key *key,
                                  float *outputs, struct convoy_response **response);

/* Takes response over. If another thread has inserted the same answer, that one stays. */
void convoy_response_cache_insert(struct convoy_response_cache *cache, struct convoy_response *response,
                                  const float *outputs);

/* For a response that is not inserted; NULL is allowed. It needs no cache, and may come after its end. */
void convoy_response_free(struct convoy_response *response);

#endif
