#include "engine/cpu/parallel.h"
#include "engine/cpu/openmp.h"

#define GRAIN 16 /* of floats: a cache line that two threads write is slow */

struct parallel_job {
    void (*work)(void *context, struct convoy_cpu_range range);
    void *context;
    int64_t count;
};

static int64_t start_of(int64_t count, int part, int parts)
{
    int64_t grains = (count + GRAIN - 1) / GRAIN;
    int64_t start = grains * part / parts * GRAIN;
    return start < count ? start : count;
}

static void run_part(void *context)
{
    const struct parallel_job *job = context;
    int part = omp_get_thread_num(), parts = omp_get_num_threads();
    struct convoy_cpu_range range = {start_of(job->count, part, parts),
                                     start_of(job->count, part + 1, parts)};
    if (range.first < range.end)
        job->work(job->context, range);
}

void convoy_cpu_parallel(int threads, int64_t count, void (*work)(void *context, struct convoy_cpu_range),
                         void *context)
{
    if (threads == 1) {
        work(context, (struct convoy_cpu_range){0, count});
        return;
    }
    struct parallel_job job = {work, context, count};
    GOMP_parallel(run_part, &job, (unsigned)threads, 0);
}
