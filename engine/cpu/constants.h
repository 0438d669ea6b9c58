/* A network's resident constants. Each weight is reordered at load into the layout that a primitive wants;
 * all buckets that want the same layout share one copy. */
#ifndef CONVOY_ENGINE_CPU_CONSTANTS_H
#define CONVOY_ENGINE_CPU_CONSTANTS_H

#include "engine/base/error.h"

#include <dnnl.h>
#include <stdint.h>

struct convoy_cpu_constant;

struct convoy_cpu_constants {
    dnnl_engine_t engine; /* borrowed */
    dnnl_stream_t stream; /* borrowed */
    int count, capacity;
    struct convoy_cpu_constant *entries;
    uint64_t bytes; /* resident */
    /* where convoy_cpu_constants_verify() goes on, and the checksum of the constant there so far */
    int verified;
    size_t verified_bytes;
    uint64_t verified_hash;
};

/* Sets *data to the values at `source` in layout `to`. `source` has the layout `from`, with equal dims; it is
 * read during the call only, but its address is the key, so it must stay allocated until the last call. *data
 * lives until convoy_cpu_constants_free(). `node` is for messages. Returns 0 or a negative errno. */
int convoy_cpu_constants_get(struct convoy_cpu_constants *constants, const float *source,
                             const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, const char *node,
                             const void **data, struct convoy_error *error);
/* Returns the layout of these dimensions in which a large weight (1 MiB or more) is resident already, or
 * NULL. A plan that uses it needs no second copy. Valid until the next call. */
const dnnl_memory_desc_t *convoy_cpu_constants_layout(const struct convoy_cpu_constants *constants,
                                                      const float *source, int rank, const dnnl_dims_t dims);
/* Reads for about budget_us what is resident and compares it with what convoy_cpu_constants_get() laid out.
 * Returns 1: there is more to read, 0: all was read, -EBADMSG with a sentence. */
int convoy_cpu_constants_verify(struct convoy_cpu_constants *constants, int64_t budget_us,
                                struct convoy_error *error);
void convoy_cpu_constants_free(struct convoy_cpu_constants *constants);

#endif
