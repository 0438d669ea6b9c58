/* What is kept in parts by thread, under many threads: a writer of the shared lock is alone, readers see what
 * it wrote, and counters neither lose anything nor fall. */
#include "engine/base/part_count.h"
#include "engine/base/shared_lock.h"
#include "server/metrics/metrics_internal.h"
#include "server/metrics/statistics.h"
#include "tests/threads/check.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define READERS 6
#define ROUNDS  20000 /* of each reader */

static struct convoy_shared_lock lock;
static uint64_t twice[2]; /* under the lock: always equal */
static struct convoy_part_count counter, open_now;
static struct convoy_metrics *metrics;
static struct convoy_model_metrics *model;
static struct convoy_statistics *statistics;
static pthread_barrier_t start;
static atomic_uint at_work = READERS;

static void *serve(void *context)
{
    uint64_t seen = 0;
    (void)context;
    pthread_barrier_wait(&start);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        convoy_part_count_add(&open_now, 1);
        convoy_shared_lock_read(&lock);
        CHECK(twice[0] == twice[1] && twice[0] >= seen);
        seen = twice[0];
        convoy_shared_lock_end_read(&lock);
        convoy_part_count_add(&counter, 1);
        convoy_metrics_queue_add(model, 1);
        convoy_metrics_observe(model, CONVOY_STAGE_REQUEST, i % 5000);
        convoy_metrics_decoded(model, 1, 0);
        convoy_statistics_answered(statistics, i % 2 == 0, 3);
        CHECK(convoy_part_count_get(&open_now) > 0);
        convoy_part_count_add(&open_now, UINT64_MAX);
    }
    atomic_fetch_sub(&at_work, 1);
    return NULL;
}

static uint64_t count_of(const struct convoy_histogram *histogram)
{
    uint64_t count = 0;
    for (unsigned i = 0; i <= CONVOY_TIME_BUCKETS; i++)
        count += atomic_load(&histogram->counts[i]);
    return count;
}

int main(void)
{
    pthread_t threads[READERS];
    uint64_t counted = 0, observed = 0, answered = 0, written = 0, left = 0;
    struct convoy_statistics_counts counts;
    struct convoy_histogram requests;

    metrics = convoy_metrics_new();
    CHECK(metrics != NULL);
    model = convoy_metrics_model(metrics, "m");
    statistics = convoy_statistics_new(4);
    CHECK(model != NULL && statistics != NULL);
    convoy_shared_lock_init(&lock);
    CHECK(pthread_barrier_init(&start, NULL, READERS + 1) == 0);
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_create(&threads[i], NULL, serve, NULL) == 0);
    pthread_barrier_wait(&start);
    while (atomic_load(&at_work) > 0) {
        convoy_shared_lock_write(&lock);
        twice[0]++;
        twice[1]++;
        convoy_shared_lock_end_write(&lock);
        written++;

        /* Images leave the queue on another thread than they came on. */
        uint64_t now = convoy_metrics_sum_model(model).queue;
        CHECK(now <= (uint64_t)READERS * ROUNDS);
        convoy_metrics_queue_add(model, -(int64_t)now);
        left += now;

        uint64_t sum = convoy_part_count_get(&counter);
        CHECK(sum >= counted);
        counted = sum;
        convoy_metrics_sum_stage(model, CONVOY_STAGE_REQUEST, &requests);
        CHECK(count_of(&requests) >= observed);
        observed = count_of(&requests);
        convoy_statistics_counts(statistics, &counts);
        CHECK(counts.success.count + counts.fail.count >= answered);
        answered = counts.success.count + counts.fail.count;
    }
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(written == twice[0] && twice[0] == twice[1]);
    CHECK(convoy_part_count_get(&counter) == (uint64_t)READERS * ROUNDS);
    CHECK(convoy_part_count_get(&open_now) == 0);
    convoy_metrics_sum_stage(model, CONVOY_STAGE_REQUEST, &requests);
    CHECK(count_of(&requests) == (uint64_t)READERS * ROUNDS);
    CHECK(convoy_metrics_sum_model(model).queue + left == (uint64_t)READERS * ROUNDS);
    CHECK(convoy_metrics_sum_model(model).decoded_by_cpu == (uint64_t)READERS * ROUNDS);
    convoy_statistics_counts(statistics, &counts);
    CHECK(counts.success.count == READERS * ROUNDS / 2 && counts.fail.count == READERS * ROUNDS / 2);
    CHECK(counts.success.us + counts.fail.us == 3ull * READERS * ROUNDS);
    convoy_statistics_release(statistics);
    convoy_metrics_free(metrics);
    convoy_shared_lock_destroy(&lock);
    pthread_barrier_destroy(&start);
    return 0;
}
