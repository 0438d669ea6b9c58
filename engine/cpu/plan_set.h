/* A plan set: the plans of one network at a few batch sizes (buckets) over memory of their own. One thread at
 * a time runs a set. The sets of a network share its weights. */
#ifndef CONVOY_ENGINE_CPU_PLAN_SET_H
#define CONVOY_ENGINE_CPU_PLAN_SET_H

#include "engine/cpu/lower.h"

#define CONVOY_CPU_MAX_BUCKETS 3

struct convoy_cpu_plan_set {
    dnnl_stream_t stream; /* borrowed from the device unless own_stream */
    bool own_stream;
    int bucket_count;
    struct convoy_cpu_plan buckets[CONVOY_CPU_MAX_BUCKETS]; /* by rising rows */
    void *arena, *scratch;
    size_t arena_bytes, scratch_bytes;
};

/* What plans are made from; all borrowed. */
struct convoy_cpu_source {
    const struct convoy_graph *graph;
    const struct convoy_cpu_groups *groups;
    struct convoy_cpu_constants *constants;
    struct convoy_cpu_kernel *kernels;
};

/* Appends the plan for `rows` images, to be run by `threads`. Sizes are known afterwards, memory comes with
 * convoy_cpu_plan_set_finish(). Changes the calling thread's OpenMP team size. */
int convoy_cpu_plan_set_add(struct convoy_cpu_plan_set *set, const struct convoy_cpu_source *source,
                            int64_t rows, int threads, struct convoy_error *error);

/* Bytes of activations for `rows` images, going by the largest bucket so far (there is one). */
size_t convoy_cpu_plan_set_arena_for(const struct convoy_cpu_plan_set *set, int64_t rows);

/* Allocates the set's memory and, unless it has a stream, makes one. */
int convoy_cpu_plan_set_finish(struct convoy_cpu_plan_set *set, dnnl_engine_t engine,
                               struct convoy_error *error);

/* The bucket for the next pass: the largest of at most `rows` images. A bucket is never filled up with empty
 * rows: they would cost as much as real ones. */
const struct convoy_cpu_plan *convoy_cpu_plan_set_bucket(const struct convoy_cpu_plan_set *set, int64_t rows);

void convoy_cpu_plan_set_free(struct convoy_cpu_plan_set *set);

#endif
