/* The response cache under many threads: an answer that is found is the row's own, whichever thread inserts,
 * evicts or asks meanwhile, and the bytes never pass the bound. */
#include "server/inference/response_cache.h"
#include "server/metrics/metrics_internal.h"
#include "tests/threads/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 4
#define LOOKUPS 30000 /* of each */
#define ROWS    2000  /* that there are: more than fit */
#define BYTES   (256u << 10)
#define OUTPUTS 10

static struct convoy_response_cache *cache;
static struct convoy_cache_metrics *counts;
static pthread_barrier_t start; /* so that the threads really meet */
static atomic_uint at_work = WORKERS;
static _Atomic uint64_t hits, inserted;

/* What the network would answer. */
static void compute(uint32_t number, float outputs[OUTPUTS])
{
    for (uint32_t i = 0; i < OUTPUTS; i++)
        outputs[i] = (float)(number * OUTPUTS + i);
}

static void ask(uint32_t number)
{
    uint8_t row[300];
    float outputs[OUTPUTS], wanted[OUTPUTS];
    struct convoy_response *response;

    memset(row, (int)(number & 0xFF), sizeof row);
    memcpy(row + 100, &number, sizeof number);
    const struct convoy_response_key key = {.model = number % 3,
                                            .load = 1,
                                            .layout =
                                                number % 2 ? CONVOY_LAYOUT_U8_HWC : CONVOY_LAYOUT_F32_CHW,
                                            .row = row,
                                            .row_bytes = 200 + 50 * (number % 3),
                                            .output_count = OUTPUTS};
    compute(number, wanted);
    if (convoy_response_cache_lookup(cache, &key, outputs, &response)) {
        CHECK(response == NULL);
        CHECK(memcmp(outputs, wanted, sizeof wanted) == 0);
        atomic_fetch_add(&hits, 1);
        return;
    }
    CHECK(response != NULL);
    if (number % 17 == 0) { /* it failed */
        convoy_response_free(response);
        return;
    }
    convoy_response_cache_insert(cache, response, wanted);
    atomic_fetch_add(&inserted, 1);
}

static void *work(void *context)
{
    unsigned seed = (unsigned)(uintptr_t)context;

    pthread_barrier_wait(&start);
    for (int i = 0; i < LOOKUPS; i++) {
        uint32_t number = (uint32_t)rand_r(&seed);
        ask(number % 4 ? number / 4 % 50 : number / 4 % ROWS); /* some are asked for more than others */
    }
    atomic_fetch_sub(&at_work, 1);
    return NULL;
}

int main(void)
{
    pthread_t workers[WORKERS];
    struct convoy_metrics *metrics = convoy_metrics_new();
    struct convoy_error error;

    CHECK(metrics != NULL);
    counts = convoy_metrics_cache(metrics);
    CHECK(convoy_response_cache_new(BYTES, counts, &cache, &error) == 0);
    CHECK(pthread_barrier_init(&start, NULL, WORKERS + 1) == 0);
    for (uintptr_t i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&workers[i], NULL, work, (void *)(i + 1)) == 0);
    pthread_barrier_wait(&start);
    while (atomic_load(&at_work) > 0) {
        CHECK(atomic_load(&counts->bytes) <= BYTES);
        sched_yield();
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    CHECK(atomic_load(&hits) > LOOKUPS && atomic_load(&counts->evictions) > 0);
    /* The same row may be inserted twice; only one of them stays. */
    CHECK(atomic_load(&counts->entries) + atomic_load(&counts->evictions) <= atomic_load(&inserted));
    CHECK(atomic_load(&counts->bytes) > BYTES / 2 && atomic_load(&counts->bytes) <= BYTES);
    convoy_response_cache_free(cache);
    convoy_metrics_free(metrics);
    pthread_barrier_destroy(&start);
    puts("passed");
    return 0;
}
