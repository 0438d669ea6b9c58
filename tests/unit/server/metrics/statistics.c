/* What is counted of a version of a model, and that /metrics tells the same. */
#include "server/metrics/statistics.h"
#include "server/models/model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_BATCH = 8 };

static uint64_t epoch_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

#define assert_duration(duration, n, sum)                                                                    \
    do {                                                                                                     \
        cr_assert_eq((duration).count, (uint64_t)(n));                                                       \
        cr_assert_eq((duration).us, (uint64_t)(sum));                                                        \
    } while (0)

Test(statistics, begin_at_nothing)
{
    struct convoy_statistics *statistics = convoy_statistics_new(MAX_BATCH);
    struct convoy_statistics_counts counts;
    struct convoy_batch_times sums;
    convoy_statistics_counts(statistics, &counts);
    cr_assert_eq(counts.last_run_ms, 0);
    assert_duration(counts.success, 0, 0);
    assert_duration(counts.fail, 0, 0);
    assert_duration(counts.queue, 0, 0);
    cr_assert_eq(convoy_statistics_max_batch(statistics), MAX_BATCH);
    for (uint32_t rows = 0; rows <= MAX_BATCH + 1; rows++)
        cr_assert_eq(convoy_statistics_batches(statistics, rows, &sums), 0);
    convoy_statistics_release(statistics);
}

Test(statistics, requests_and_images_are_counted_with_their_times)
{
    struct convoy_statistics *statistics = convoy_statistics_new(MAX_BATCH);
    struct convoy_statistics_counts counts;
    convoy_statistics_answered(statistics, true, 100);
    convoy_statistics_answered(statistics, true, 23);
    convoy_statistics_answered(statistics, false, 5);
    convoy_statistics_waited(statistics, 7, 1);
    convoy_statistics_waited(statistics, 8, 2);
    convoy_statistics_counts(statistics, &counts);
    assert_duration(counts.success, 2, 123);
    assert_duration(counts.fail, 1, 5);
    assert_duration(counts.queue, 3, 15);
    cr_assert_eq(counts.last_run_ms, 0, "no batch ran");
    convoy_statistics_release(statistics);
}

Test(statistics, lookups_in_the_response_cache_are_counted_in_nanoseconds)
{
    struct convoy_statistics *statistics = convoy_statistics_new(MAX_BATCH);
    struct convoy_statistics_counts counts;
    convoy_statistics_counts(statistics, &counts);
    cr_assert(counts.hit.count == 0 && counts.hit.ns == 0 && counts.miss.count == 0 && counts.miss.ns == 0);
    convoy_statistics_looked_up(statistics, true, 300);
    convoy_statistics_looked_up(statistics, false, 40);
    convoy_statistics_looked_up(statistics, false, 5);
    convoy_statistics_inserted(statistics, 1000); /* more time of a miss, not another one */
    convoy_statistics_counts(statistics, &counts);
    cr_assert(counts.hit.count == 1 && counts.hit.ns == 300);
    cr_assert(counts.miss.count == 2 && counts.miss.ns == 1045);
    assert_duration(counts.queue, 0, 0);
    convoy_statistics_release(statistics);
}

Test(statistics, batches_are_kept_by_their_size)
{
    struct convoy_statistics *statistics = convoy_statistics_new(MAX_BATCH);
    struct convoy_statistics_counts counts;
    struct convoy_batch_times sums;
    uint64_t before = epoch_ms();
    for (uint32_t rows = 1; rows <= MAX_BATCH; rows++)
        for (uint32_t i = 0; i < rows; i++)
            convoy_statistics_ran(statistics, rows,
                                  &(struct convoy_batch_times){rows, 10 * rows, 100 * rows});
    for (uint32_t rows = 1; rows <= MAX_BATCH; rows++) {
        cr_assert_eq(convoy_statistics_batches(statistics, rows, &sums), rows);
        cr_assert_eq(sums.input_us, (uint64_t)rows * rows);
        cr_assert_eq(sums.compute_us, (uint64_t)10 * rows * rows);
        cr_assert_eq(sums.output_us, (uint64_t)100 * rows * rows);
    }
    convoy_statistics_counts(statistics, &counts);
    cr_assert(counts.last_run_ms >= before && counts.last_run_ms <= epoch_ms());
    convoy_statistics_release(statistics);
}

/* The sanitizer sees an index too far. */
Test(statistics, a_batch_that_cannot_be_is_not_counted)
{
    struct convoy_statistics *statistics = convoy_statistics_new(1);
    struct convoy_batch_times times = {1, 1, 1};
    convoy_statistics_ran(statistics, 0, &times);
    convoy_statistics_ran(statistics, 2, &times);
    convoy_statistics_ran(statistics, UINT32_MAX, &times);
    cr_assert_eq(convoy_statistics_batches(statistics, 0, &times), 0);
    cr_assert_eq(convoy_statistics_batches(statistics, 1, &times), 0);
    cr_assert_eq(convoy_statistics_batches(statistics, 2, &times), 0);
    convoy_statistics_release(statistics);
}

Test(statistics, may_be_missing)
{
    struct convoy_statistics_counts counts;
    struct convoy_batch_times times = {1, 1, 1};
    convoy_statistics_answered(NULL, true, 1);
    convoy_statistics_waited(NULL, 1, 1);
    convoy_statistics_looked_up(NULL, true, 1);
    convoy_statistics_inserted(NULL, 1);
    convoy_statistics_ran(NULL, 1, &times);
    convoy_statistics_counts(NULL, &counts);
    assert_duration(counts.success, 0, 0);
    cr_assert_eq(convoy_statistics_max_batch(NULL), 0);
    cr_assert_eq(convoy_statistics_batches(NULL, 1, &times), 0);
    cr_assert_eq(times.compute_us, 0);
    convoy_statistics_release(NULL);
}

/* ---- Together with /metrics ---- */

static char *text; /* of /metrics */

/* The value of a sample of the model m, in millionths: times are written in seconds. */
static uint64_t sample(const char *name, const char *labels)
{
    char start[100];
    snprintf(start, sizeof start, "\nconvoyd_%s{model=\"m\"%s} ", name, labels);
    const char *at = strstr(text, start);
    cr_assert_not_null(at, "%s is missing in:\n%s", start + 1, text);
    return (uint64_t)(strtod(at + strlen(start), NULL) * 1e6 + 0.5);
}

static void assert_histogram(const char *name, uint64_t count, uint64_t us)
{
    char member[60];
    snprintf(member, sizeof member, "%s_count", name);
    cr_assert_eq(sample(member, ""), count * 1000000, "%s", member);
    snprintf(member, sizeof member, "%s_sum", name);
    cr_assert_eq(sample(member, ""), us, "%s", member);
}

/* Two versions of one name, since /metrics knows the name alone. */
Test(statistics, agree_with_the_metrics_of_the_name)
{
    struct convoy_metrics *metrics = convoy_metrics_new();
    struct convoy_device_metrics *device = convoy_metrics_device(metrics, "cpu");
    struct convoy_statistics_counts all = {0};
    struct convoy_batch_times sums = {0};
    uint64_t images = 0, batches = 0, hits = 0, misses = 0;
    convoy_metrics_cache(metrics);
    struct convoy_model_record versions[2];
    for (int v = 0; v < 2; v++)
        versions[v] = (struct convoy_model_record){.name = "m",
                                                   .metrics = convoy_metrics_model(metrics, "m"),
                                                   .statistics = convoy_statistics_new(MAX_BATCH)};
    for (uint64_t i = 0; i < 1000; i++) {
        struct convoy_model_record *model = &versions[i % 3 == 0];
        convoy_model_answered(model, i % 5 != 0, 11 * i);
        struct convoy_observations waits = {0};
        convoy_observations_add(&waits, 7 * i);
        convoy_observations_add(&waits, 60 * i);
        convoy_model_waited(model, &waits);
        convoy_model_looked_up(model, i % 7 == 0, i);
        convoy_model_inserted(model, i);
        convoy_model_ran(model, device, 1 + (uint32_t)i % MAX_BATCH,
                         &(struct convoy_batch_times){i, 2 * i, 3 * i});
    }
    size_t length;
    text = convoy_metrics_render(metrics, &length);
    cr_assert_not_null(text);
    for (int v = 0; v < 2; v++) {
        struct convoy_statistics_counts counts;
        convoy_statistics_counts(versions[v].statistics, &counts);
        cr_assert_gt(counts.fail.count, 0);
        cr_assert_eq(counts.queue.count, v == 0 ? 2 * 666 : 2 * 334);
        all.success.count += counts.success.count + counts.fail.count;
        all.success.us += counts.success.us + counts.fail.us;
        all.queue.count += counts.queue.count;
        all.queue.us += counts.queue.us;
        hits += counts.hit.count;
        misses += counts.miss.count;
        for (uint32_t rows = 1; rows <= MAX_BATCH; rows++) {
            struct convoy_batch_times times;
            uint64_t count = convoy_statistics_batches(versions[v].statistics, rows, &times);
            images += rows * count;
            batches += count;
            sums.input_us += times.input_us;
            sums.compute_us += times.compute_us;
            sums.output_us += times.output_us;
        }
    }
    assert_histogram("request_seconds", all.success.count, all.success.us);
    assert_histogram("queue_seconds", all.queue.count, all.queue.us);
    assert_histogram("input_seconds", batches, sums.input_us);
    assert_histogram("compute_seconds", batches, sums.compute_us);
    assert_histogram("output_seconds", batches, sums.output_us);
    cr_assert_eq(sample("batch_size_sum", ""), images * 1000000);
    cr_assert_eq(hits, 143);
    cr_assert_eq(sample("cache_hits_total", ""), hits * 1000000);
    cr_assert_eq(sample("cache_misses_total", ""), misses * 1000000);
    cr_assert_eq(sample("images_total", ""), images * 1000000);
    cr_assert_eq(sample("batches_total", ",device=\"cpu\""), batches * 1000000);
    free(text);
    for (int v = 0; v < 2; v++)
        convoy_statistics_release(versions[v].statistics);
    convoy_metrics_free(metrics);
}
