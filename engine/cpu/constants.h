/* A network's resident constants: each weight is reordered once, at load, into the layout that a primitive
 * asked for, and shared by all buckets that ask for the same. */
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
};

/* The values at `source` (layout `from`, read during the call only, but its address is the key: it must stay
 * allocated until the last call) in layout `to`; from and to have equal dims. *data lives until
 * convoy_cpu_constants_free(). `node` is for messages. */
int convoy_cpu_constants_get(struct convoy_cpu_constants *constants, const float *source,
                             const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, const char *node,
                             const void **data, struct convoy_error *error);
/* The layout of these dimensions in which large weights (1 MiB and more) lie already, or NULL: a plan that
 * can do with it spares the memory of another. Valid until the next call. */
const dnnl_memory_desc_t *convoy_cpu_constants_layout(const struct convoy_cpu_constants *constants,
                                                      const float *source, int rank, const dnnl_dims_t dims);
void convoy_cpu_constants_free(struct convoy_cpu_constants *constants);

#endif
