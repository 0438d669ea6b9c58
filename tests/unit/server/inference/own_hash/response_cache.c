/* The response cache: what it finds, what it forgets first, and that it never takes more than it was given.
 * The hash is the test's own, so that rows can be made to meet; row_hash.c tests the real one. */
#include "server/inference/response_cache.h"
#include "server/config/config.h"
#include "server/inference/row_hash.h"
#include "server/metrics/metrics_internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS  16
#define ROW     64
#define OUTPUTS 3

/* ---- In place of the library's, which the linker then leaves out ---- */

static bool all_alike; /* every hash is the same */

int convoy_row_hash_key(struct convoy_row_hash_key *key, struct convoy_error *error)
{
    (void)error;
    memset(key, 0, sizeof *key);
    return 0;
}

uint64_t convoy_row_hash(const struct convoy_row_hash_key *key, uint64_t about, const void *row,
                         size_t length)
{
    const uint8_t *bytes = row;
    uint64_t hash = UINT64_C(14695981039346656037) ^ about; /* FNV-1a, stirred */
    (void)key;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    hash = (hash ^ hash >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    return all_alike ? 42 : hash ^ hash >> 29;
}

static struct convoy_metrics *metrics;
static struct convoy_cache_metrics *counts;
static struct convoy_response_cache *cache;
static struct convoy_error error;

static void open_cache(uint64_t bytes)
{
    convoy_response_cache_free(cache);
    convoy_metrics_free(metrics);
    metrics = convoy_metrics_new();
    counts = convoy_metrics_cache(metrics);
    cr_assert_eq(convoy_response_cache_new(bytes, counts, &cache, &error), 0, "%s", error.message);
}

static void begin(void)
{
    all_alike = false;
    open_cache(1u << 20);
}

static void end(void)
{
    convoy_response_cache_free(cache);
    convoy_metrics_free(metrics);
}

TestSuite(response_cache, .init = begin, .fini = end);

/* A row of ROW bytes that tells its number. */
static const uint8_t *row_of(uint32_t number)
{
    static uint8_t row[ROW];
    memset(row, 0x5A, sizeof row);
    memcpy(row + ROW - sizeof number, &number, sizeof number);
    return row;
}

static struct convoy_response_key key_of(uint32_t number)
{
    return (struct convoy_response_key){.model = 3,
                                        .load = 1,
                                        .layout = CONVOY_LAYOUT_U8_HWC,
                                        .row = row_of(number),
                                        .row_bytes = ROW,
                                        .output_count = OUTPUTS};
}

static void fill_outputs(float outputs[OUTPUTS], float value)
{
    for (int i = 0; i < OUTPUTS; i++)
        outputs[i] = value + (float)i;
}

/* Found, and then with this value. */
static bool has(const struct convoy_response_key *key, float value)
{
    float outputs[OUTPUTS], wanted[OUTPUTS];
    struct convoy_response *response;
    bool hit = convoy_response_cache_lookup(cache, key, outputs, &response);
    cr_assert(!hit || response == NULL);
    fill_outputs(wanted, value);
    if (hit)
        cr_assert_eq(memcmp(outputs, wanted, sizeof wanted), 0, "found %f instead of %f", (double)outputs[0],
                     (double)value);
    convoy_response_free(response);
    return hit;
}

/* False when it is not kept. */
static bool put(const struct convoy_response_key *key, float value)
{
    float outputs[OUTPUTS];
    struct convoy_response *response;
    cr_assert_not(convoy_response_cache_lookup(cache, key, outputs, &response));
    if (response == NULL)
        return false;
    fill_outputs(outputs, value);
    convoy_response_cache_insert(cache, response, outputs);
    return true;
}

static bool has_number(uint32_t number)
{
    struct convoy_response_key key = key_of(number);
    return has(&key, (float)number);
}

static void put_number(uint32_t number)
{
    struct convoy_response_key key = key_of(number);
    cr_assert(put(&key, (float)number));
}

Test(response_cache, finds_what_was_inserted_and_nothing_else)
{
    cr_assert_not(has_number(1));
    put_number(1);
    cr_assert(has_number(1));
    cr_assert(has_number(1), "a second time");
    cr_assert_not(has_number(2));
    for (uint32_t i = 2; i < 500; i++)
        put_number(i);
    for (uint32_t i = 1; i < 500; i++)
        cr_assert(has_number(i), "%u", i);
    cr_assert_eq(counts->entries, 499);
    cr_assert_eq(counts->evictions, 0);
    cr_assert_gt(counts->bytes, 499 * (ROW + OUTPUTS * sizeof(float)));
}

Test(response_cache, a_row_is_compared_to_its_last_byte)
{
    struct convoy_response_key key = key_of(0);
    uint8_t row[ROW];
    all_alike = true;
    put_number(0);
    for (size_t i = 0; i < ROW; i++) {
        memcpy(row, row_of(0), ROW);
        row[i] ^= 1;
        key.row = row;
        cr_assert_not(has(&key, 0), "byte %zu does not matter", i);
    }
}

/* The same bytes, computed from something else. */
Test(response_cache, keeps_models_loads_forms_and_shapes_apart)
{
    struct convoy_response_key keys[8];
    for (int alike = 0; alike < 2; alike++) {
        begin();
        all_alike = alike;
        for (int i = 0; i < 8; i++)
            keys[i] = key_of(9);
        keys[1].model = 4;
        keys[2].load = 2;
        keys[3].layout = CONVOY_LAYOUT_F32_CHW;
        keys[4].model = 4, keys[4].load = 2;
        keys[5].model = 4, keys[5].layout = CONVOY_LAYOUT_F32_CHW;
        keys[6].model = 1023, keys[6].load = UINT32_MAX;
        keys[7].row_bytes = ROW - 1;
        for (int i = 0; i < 8; i++)
            cr_assert(put(&keys[i], (float)(100 * i)), "%d is taken for another", i);
        for (int i = 0; i < 8; i++)
            cr_assert(has(&keys[i], (float)(100 * i)), "%d is lost", i);
        cr_assert_eq(counts->entries, 8);
    }
}

/* One chain, one shard, one hash. */
Test(response_cache, rows_of_one_hash_get_their_own_answers)
{
    all_alike = true;
    for (uint32_t i = 0; i < 200; i++)
        put_number(i);
    for (uint32_t i = 0; i < 200; i++)
        cr_assert(has_number(i), "%u", i);
    cr_assert_not(has_number(200));
    cr_assert_eq(counts->entries, 200);
}

/* How many of ROW bytes a shard of the smallest cache holds. */
static uint32_t fill_one_shard(void)
{
    open_cache(CONVOY_RESPONSE_CACHE_LEAST);
    all_alike = true;
    uint32_t number = 0;
    while (counts->evictions == 0) {
        cr_assert_lt(number, 1000, "it has room for all");
        put_number(number++);
    }
    return number - 1;
}

Test(response_cache, the_least_recently_used_goes_first)
{
    uint32_t held = fill_one_shard();
    cr_assert_gt(held, 4);
    cr_assert_eq(counts->entries, held);
    /* 0 went, 1 is the oldest now. */
    cr_assert_not(has_number(0));
    cr_assert(has_number(2)); /* used: from now on the newest */
    put_number(1000);
    cr_assert_not(has_number(1));
    put_number(1001);
    cr_assert(has_number(2), "what was used went before what was not");
    cr_assert_not(has_number(3));
    /* The rest goes in the order in which it came. */
    for (uint32_t i = 4; i <= held; i++) {
        put_number(2000 + i);
        cr_assert_eq(counts->entries, held);
    }
    cr_assert_eq(counts->evictions, held);
    cr_assert(has_number(2) && has_number(1000) && has_number(1001));
    for (uint32_t i = 4; i <= held; i++)
        cr_assert(!has_number(i) && has_number(2000 + i), "%u", i);
}

Test(response_cache, the_faster_one_stays)
{
    struct convoy_response_key key = key_of(5);
    struct convoy_response *first, *second;
    float outputs[OUTPUTS];
    cr_assert_not(convoy_response_cache_lookup(cache, &key, outputs, &first));
    cr_assert_not(convoy_response_cache_lookup(cache, &key, outputs, &second));
    fill_outputs(outputs, 1);
    convoy_response_cache_insert(cache, second, outputs);
    fill_outputs(outputs, 2);
    convoy_response_cache_insert(cache, first, outputs);
    cr_assert(has(&key, 1));
    cr_assert_eq(counts->entries, 1);
}

/* The caller's row is another one by the time of the insertion. */
Test(response_cache, a_miss_remembers_the_row)
{
    uint8_t row[ROW];
    float outputs[OUTPUTS];
    struct convoy_response *response;
    struct convoy_response_key key = key_of(1);
    memcpy(row, row_of(1), ROW);
    key.row = row;
    cr_assert_not(convoy_response_cache_lookup(cache, &key, outputs, &response));
    memcpy(row, row_of(2), ROW);
    fill_outputs(outputs, 1);
    convoy_response_cache_insert(cache, response, outputs);
    cr_assert(has_number(1) && !has_number(2));
}

Test(response_cache, an_answer_larger_than_a_share_is_not_kept)
{
    static uint8_t row[CONVOY_RESPONSE_CACHE_LEAST];
    struct convoy_response_key key = {.row = row, .output_count = OUTPUTS};
    size_t share = CONVOY_RESPONSE_CACHE_LEAST / SHARDS;
    open_cache(CONVOY_RESPONSE_CACHE_LEAST);
    bool kept = true;
    size_t largest = 0;
    for (key.row_bytes = share / 2; key.row_bytes <= sizeof row; key.row_bytes += 16) {
        bool now = put(&key, 1);
        cr_assert(kept || !now, "what is larger fits again at %zu", key.row_bytes);
        kept = now;
        if (kept)
            largest = key.row_bytes;
        cr_assert_leq(counts->bytes, CONVOY_RESPONSE_CACHE_LEAST);
    }
    cr_assert(largest > share * 9 / 10 && largest < share, "%zu of %zu", largest, share);
    key.row_bytes = largest;
    cr_assert(has(&key, 1), "the largest is there");
    key.row_bytes = share;
    key.output_count = 1u << 30; /* not even asked for */
    float outputs[1];
    struct convoy_response *response;
    cr_assert_not(convoy_response_cache_lookup(cache, &key, outputs, &response));
    cr_assert_null(response);
}

/* Rows of all sizes, each of which is asked for again and again, in caches of several sizes. */
Test(response_cache, never_takes_more_than_it_was_given, .timeout = 60)
{
    static const uint64_t sizes[] = {CONVOY_RESPONSE_CACHE_LEAST, 100001, 1u << 20, 2500000};
    static uint8_t row[20000];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint64_t hits = 0, kept = 0;
        open_cache(sizes[s]);
        srand((unsigned)s + 1);
        for (uint32_t i = 0; i < 40000; i++) {
            uint32_t number = (uint32_t)rand() % 3000;
            struct convoy_response_key key = {.model = number,
                                              .row = row,
                                              .row_bytes = number % 16 == 0 ? number * 6 : number % 1000,
                                              .output_count = OUTPUTS};
            memset(row, (int)number, key.row_bytes);
            if (has(&key, (float)number))
                hits++;
            else
                kept += put(&key, (float)number);
            cr_assert_leq(counts->bytes, sizes[s], "after %u", i);
            cr_assert_eq(counts->entries + counts->evictions, kept);
        }
        cr_assert(hits > 0 && counts->evictions > 0, "%llu hits, %llu evictions", (unsigned long long)hits,
                  (unsigned long long)counts->evictions);
        cr_assert_gt(counts->bytes, sizes[s] / 2, "most of the room is used");
    }
}

Test(response_cache, counts_are_optional)
{
    convoy_response_cache_free(cache);
    cr_assert_eq(convoy_response_cache_new(CONVOY_RESPONSE_CACHE_LEAST, NULL, &cache, &error), 0);
    for (uint32_t i = 0; i < 2000; i++)
        put_number(i);
    cr_assert(has_number(1999));
    convoy_response_free(NULL);
    convoy_response_cache_free(NULL);
}
