#include "server/metrics/statistics.h"

#include "engine/base/thread_part.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct duration {
    _Atomic uint64_t count, us;
};

struct lookups {
    _Atomic uint64_t count, ns;
};

struct batches {
    _Atomic uint64_t count, input_us, compute_us, output_us;
};

/* What HTTP threads count with each request. */
struct part {
    _Alignas(64) struct duration success, fail;
};

struct convoy_statistics {
    struct part parts[CONVOY_THREAD_PARTS];
    atomic_uint holders;
    _Atomic uint64_t last_run_ms;
    struct duration queue;
    struct lookups hit, miss;
    uint32_t max_batch;
    struct batches batches[]; /* those of n rows at n - 1 */
};

static void add(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

struct convoy_statistics *convoy_statistics_new(uint32_t max_batch)
{
    size_t align = _Alignof(struct convoy_statistics);
    size_t bytes = sizeof(struct convoy_statistics) + max_batch * sizeof(struct batches);
    bytes = (bytes + align - 1) / align * align;
    struct convoy_statistics *statistics = aligned_alloc(align, bytes);

    if (statistics == NULL)
        return NULL;
    memset(statistics, 0, bytes);
    statistics->max_batch = max_batch;
    atomic_init(&statistics->holders, 1);
    return statistics;
}

struct convoy_statistics *convoy_statistics_hold(struct convoy_statistics *statistics)
{
    atomic_fetch_add(&statistics->holders, 1);
    return statistics;
}

void convoy_statistics_release(struct convoy_statistics *statistics)
{
    if (statistics != NULL && atomic_fetch_sub(&statistics->holders, 1) == 1)
        free(statistics);
}

static void count(struct duration *duration, uint64_t us, uint32_t times)
{
    add(&duration->count, times);
    add(&duration->us, us);
}

void convoy_statistics_answered(struct convoy_statistics *statistics, bool well, uint64_t us)
{
    if (statistics == NULL)
        return;
    struct part *part = &statistics->parts[convoy_thread_part()];
    count(well ? &part->success : &part->fail, us, 1);
}

void convoy_statistics_waited(struct convoy_statistics *statistics, uint64_t us, uint32_t images)
{
    if (statistics != NULL)
        count(&statistics->queue, us, images);
}

void convoy_statistics_looked_up(struct convoy_statistics *statistics, bool hit, uint64_t ns)
{
    if (statistics == NULL)
        return;
    struct lookups *lookups = hit ? &statistics->hit : &statistics->miss;
    add(&lookups->count, 1);
    add(&lookups->ns, ns);
}

void convoy_statistics_inserted(struct convoy_statistics *statistics, uint64_t ns)
{
    if (statistics != NULL)
        add(&statistics->miss.ns, ns);
}

static uint64_t epoch_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

void convoy_statistics_ran(struct convoy_statistics *statistics, uint32_t rows,
                           const struct convoy_batch_times *times)
{
    if (statistics == NULL || rows == 0 || rows > statistics->max_batch)
        return;
    struct batches *batches = &statistics->batches[rows - 1];
    add(&batches->count, 1);
    add(&batches->input_us, times->input_us);
    add(&batches->compute_us, times->compute_us);
    add(&batches->output_us, times->output_us);
    atomic_store_explicit(&statistics->last_run_ms, epoch_ms(), memory_order_relaxed);
}

static void add_duration(struct convoy_duration *sum, const struct duration *duration)
{
    sum->count += get(&duration->count);
    sum->us += get(&duration->us);
}

static struct convoy_lookups read_lookups(const struct lookups *lookups)
{
    return (struct convoy_lookups){.count = get(&lookups->count), .ns = get(&lookups->ns)};
}

void convoy_statistics_counts(const struct convoy_statistics *statistics,
                              struct convoy_statistics_counts *counts)
{
    *counts = (struct convoy_statistics_counts){0};
    if (statistics == NULL)
        return;
    counts->last_run_ms = get(&statistics->last_run_ms);
    for (uint32_t i = 0; i < CONVOY_THREAD_PARTS; i++) {
        add_duration(&counts->success, &statistics->parts[i].success);
        add_duration(&counts->fail, &statistics->parts[i].fail);
    }
    add_duration(&counts->queue, &statistics->queue);
    counts->hit = read_lookups(&statistics->hit);
    counts->miss = read_lookups(&statistics->miss);
}

uint32_t convoy_statistics_max_batch(const struct convoy_statistics *statistics)
{
    return statistics == NULL ? 0 : statistics->max_batch;
}

uint64_t convoy_statistics_batches(const struct convoy_statistics *statistics, uint32_t rows,
                                   struct convoy_batch_times *sums)
{
    *sums = (struct convoy_batch_times){0};
    if (rows == 0 || rows > convoy_statistics_max_batch(statistics))
        return 0;
    const struct batches *batches = &statistics->batches[rows - 1];
    sums->input_us = get(&batches->input_us);
    sums->compute_us = get(&batches->compute_us);
    sums->output_us = get(&batches->output_us);
    return get(&batches->count);
}
