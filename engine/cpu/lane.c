#include "engine/cpu/lane.h"
#include "engine/cpu/check.h"
#include "engine/cpu/threads.h"

#include <stdlib.h>

int convoy_cpu_lane_add(struct convoy_cpu_lane *lane, const struct convoy_cpu_source *source, int64_t rows,
                        int threads, struct convoy_error *error)
{
    struct convoy_cpu_plan *plan = &lane->buckets[lane->bucket_count++];
    plan->rows = rows;
    plan->threads = threads;
    omp_set_num_threads(threads);
    int failed =
        convoy_cpu_lower(source->graph, source->groups, source->constants, plan, source->kernels, error);
    return failed ? failed : convoy_cpu_plan_place(plan, error);
}

size_t convoy_cpu_lane_arena_for(const struct convoy_cpu_lane *lane, int64_t rows)
{
    const struct convoy_cpu_plan *last = &lane->buckets[lane->bucket_count - 1];
    return last->arena_bytes / (size_t)last->rows * (size_t)rows;
}

int convoy_cpu_lane_finish(struct convoy_cpu_lane *lane, dnnl_engine_t engine, struct convoy_error *error)
{
    size_t arena = 64;
    size_t scratch = 64;
    for (int i = 0; i < lane->bucket_count; i++) {
        arena = lane->buckets[i].arena_bytes > arena ? lane->buckets[i].arena_bytes : arena;
        scratch = lane->buckets[i].scratch_bytes > scratch ? lane->buckets[i].scratch_bytes : scratch;
    }
    scratch = (scratch + 63) / 64 * 64;
    lane->arena = aligned_alloc(64, arena);
    lane->scratch = aligned_alloc(64, scratch);
    if (lane->arena == NULL || lane->scratch == NULL)
        return convoy_cpu_no_memory(error, "input", "activations", arena + scratch);
    for (int i = 0; i < lane->bucket_count; i++) {
        int failed = convoy_cpu_plan_finish(&lane->buckets[i], engine, lane->arena, lane->scratch, error);
        if (failed)
            return failed;
    }
    if (lane->stream != NULL)
        return 0;
    lane->own_stream = true;
    return convoy_cpu_check(dnnl_stream_create(&lane->stream, engine, dnnl_stream_default_flags), error,
                            "cpu", "make a stream");
}

const struct convoy_cpu_plan *convoy_cpu_lane_bucket(const struct convoy_cpu_lane *lane, int64_t rows)
{
    int i = lane->bucket_count - 1;
    while (i > 0 && lane->buckets[i].rows > rows)
        i--;
    return &lane->buckets[i];
}

void convoy_cpu_lane_free(struct convoy_cpu_lane *lane)
{
    for (int i = 0; i < lane->bucket_count; i++)
        convoy_cpu_plan_free(&lane->buckets[i]);
    if (lane->own_stream)
        dnnl_stream_destroy(lane->stream);
    free(lane->arena);
    free(lane->scratch);
}
