#include "engine/cpu/plan_set.h"
#include "engine/cpu/check.h"
#include "engine/cpu/memory.h"
#include "engine/cpu/openmp.h"

int convoy_cpu_plan_set_add(struct convoy_cpu_plan_set *set, const struct convoy_cpu_source *source,
                            int64_t rows, int threads, struct convoy_error *error)
{
    struct convoy_cpu_plan *plan = &set->buckets[set->bucket_count++];
    plan->rows = rows;
    plan->threads = threads;
    omp_set_num_threads(threads);
    int failed =
        convoy_cpu_lower(source->graph, source->groups, source->constants, plan, source->kernels, error);
    return failed ? failed : convoy_cpu_plan_place(plan, error);
}

size_t convoy_cpu_plan_set_arena_for(const struct convoy_cpu_plan_set *set, int64_t rows)
{
    const struct convoy_cpu_plan *last = &set->buckets[set->bucket_count - 1];
    return last->arena_bytes / (size_t)last->rows * (size_t)rows;
}

int convoy_cpu_plan_set_finish(struct convoy_cpu_plan_set *set, dnnl_engine_t engine,
                               struct convoy_error *error)
{
    size_t arena = 64;
    size_t scratch = 64;
    for (int i = 0; i < set->bucket_count; i++) {
        arena = set->buckets[i].arena_bytes > arena ? set->buckets[i].arena_bytes : arena;
        scratch = set->buckets[i].scratch_bytes > scratch ? set->buckets[i].scratch_bytes : scratch;
    }
    scratch = (scratch + 63) / 64 * 64;
    set->arena = convoy_cpu_allocate(set->arena_bytes = arena);
    set->scratch = convoy_cpu_allocate(set->scratch_bytes = scratch);
    if (set->arena == NULL || set->scratch == NULL)
        return convoy_cpu_no_memory(error, "input", "activations", arena + scratch);
    for (int i = 0; i < set->bucket_count; i++) {
        int failed = convoy_cpu_plan_finish(&set->buckets[i], engine, set->arena, set->scratch, error);
        if (failed)
            return failed;
    }
    if (set->stream != NULL)
        return 0;
    set->own_stream = true;
    return convoy_cpu_check(dnnl_stream_create(&set->stream, engine, dnnl_stream_default_flags), error, "cpu",
                            "make a stream");
}

const struct convoy_cpu_plan *convoy_cpu_plan_set_bucket(const struct convoy_cpu_plan_set *set, int64_t rows)
{
    int i = set->bucket_count - 1;
    while (i > 0 && set->buckets[i].rows > rows)
        i--;
    return &set->buckets[i];
}

void convoy_cpu_plan_set_free(struct convoy_cpu_plan_set *set)
{
    for (int i = 0; i < set->bucket_count; i++)
        convoy_cpu_plan_free(&set->buckets[i]);
    if (set->own_stream)
        dnnl_stream_destroy(set->stream);
    convoy_cpu_free(set->arena, set->arena_bytes);
    convoy_cpu_free(set->scratch, set->scratch_bytes);
}
