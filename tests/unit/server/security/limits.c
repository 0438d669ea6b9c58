/* Token buckets of clients, under a clock of the test's own. */
#include "server/security/limits.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct convoy_client_id client(uint32_t number)
{
    struct convoy_client_id id = {{0}};
    memcpy(id.bytes, &number, sizeof number);
    return id;
}

static uint64_t ticket;
static int retry_s;

static enum convoy_limit begin(struct convoy_limits *limits, uint32_t number, uint64_t now_ns)
{
    struct convoy_client_id id = client(number);
    return convoy_limits_begin(limits, &id, now_ns, &ticket, &retry_s);
}

/* A request that is answered at once. */
static enum convoy_limit once(struct convoy_limits *limits, uint32_t number, uint64_t now_ns)
{
    enum convoy_limit limit = begin(limits, number, now_ns);
    if (limit == CONVOY_LIMIT_NONE)
        convoy_limits_end(limits, ticket);
    return limit;
}

Test(limits, a_burst_passes_and_then_the_rate)
{
    const struct convoy_limit_config config = {.requests_per_second = 2, .burst = 3};
    struct convoy_limits *limits = convoy_limits_new(&config);
    uint64_t now = 1000 * SECOND;
    for (int i = 0; i < 3; i++)
        cr_assert_eq(once(limits, 1, now), CONVOY_LIMIT_NONE);
    cr_assert_eq(once(limits, 1, now), CONVOY_LIMIT_REQUESTS);
    cr_assert_eq(retry_s, 1);
    cr_assert_eq(once(limits, 2, now), CONVOY_LIMIT_NONE, "another client");
    cr_assert_eq(once(limits, 1, now + SECOND / 2 - 1), CONVOY_LIMIT_REQUESTS);
    cr_assert_eq(once(limits, 1, now + SECOND / 2), CONVOY_LIMIT_NONE);
    cr_assert_eq(once(limits, 1, now + SECOND / 2), CONVOY_LIMIT_REQUESTS,
                 "what was refused counts for nothing");
    for (int i = 0; i < 3; i++)
        cr_assert_eq(once(limits, 1, now + 100 * SECOND), CONVOY_LIMIT_NONE,
                     "no more than a burst is saved up");
    cr_assert_eq(once(limits, 1, now + 100 * SECOND), CONVOY_LIMIT_REQUESTS);
    convoy_limits_free(limits);
}

Test(limits, retry_after_is_when_the_next_one_passes)
{
    const struct convoy_limit_config config = {.requests_per_second = 0.1};
    struct convoy_limits *limits = convoy_limits_new(&config);
    cr_assert_eq(once(limits, 1, SECOND), CONVOY_LIMIT_NONE);
    cr_assert_eq(once(limits, 1, SECOND), CONVOY_LIMIT_REQUESTS);
    cr_assert_eq(retry_s, 10);
    cr_assert_eq(once(limits, 1, 10 * SECOND + SECOND / 2), CONVOY_LIMIT_REQUESTS);
    cr_assert_eq(retry_s, 1);
    cr_assert_eq(once(limits, 1, 11 * SECOND), CONVOY_LIMIT_NONE);
    convoy_limits_free(limits);
}

Test(limits, images_overdraw_and_are_paid_off)
{
    const struct convoy_limit_config config = {.images_per_second = 10};
    struct convoy_limits *limits = convoy_limits_new(&config);
    cr_assert_eq(begin(limits, 1, SECOND), CONVOY_LIMIT_NONE);
    convoy_limits_charge(limits, ticket, 50, SECOND);
    convoy_limits_end(limits, ticket);
    cr_assert_eq(once(limits, 1, SECOND), CONVOY_LIMIT_IMAGES);
    /* The bucket holds ten: four seconds for the debt, and a tenth for one more. */
    cr_assert_eq(retry_s, 5);
    cr_assert_eq(once(limits, 1, 5 * SECOND + SECOND / 10 - 1), CONVOY_LIMIT_IMAGES);
    cr_assert_eq(once(limits, 1, 5 * SECOND + SECOND / 10), CONVOY_LIMIT_NONE);
    /* A debt is forgiven after an hour. */
    cr_assert_eq(begin(limits, 2, SECOND), CONVOY_LIMIT_NONE);
    convoy_limits_charge(limits, ticket, 4000000, SECOND);
    convoy_limits_end(limits, ticket);
    cr_assert_eq(once(limits, 2, 3600 * SECOND), CONVOY_LIMIT_IMAGES);
    cr_assert_eq(once(limits, 2, 3601 * SECOND), CONVOY_LIMIT_NONE);
    /* Of a rate below one a second the bucket holds one. */
    const struct convoy_limit_config slow = {.images_per_second = 0.01};
    struct convoy_limits *slower = convoy_limits_new(&slow);
    cr_assert_eq(begin(slower, 1, SECOND), CONVOY_LIMIT_NONE);
    convoy_limits_charge(slower, ticket, 1, SECOND);
    convoy_limits_end(slower, ticket);
    cr_assert_eq(once(slower, 1, 101 * SECOND - 1), CONVOY_LIMIT_IMAGES);
    cr_assert_eq(once(slower, 1, 101 * SECOND), CONVOY_LIMIT_NONE);
    convoy_limits_free(slower);
    convoy_limits_free(limits);
}

Test(limits, requests_at_a_time)
{
    const struct convoy_limit_config config = {.concurrent = 2};
    struct convoy_limits *limits = convoy_limits_new(&config);
    uint64_t first;
    cr_assert_eq(begin(limits, 1, SECOND), CONVOY_LIMIT_NONE);
    first = ticket;
    cr_assert_eq(begin(limits, 1, SECOND), CONVOY_LIMIT_NONE);
    cr_assert_eq(begin(limits, 1, SECOND), CONVOY_LIMIT_CONCURRENT);
    cr_assert_eq(ticket, 0);
    convoy_limits_end(limits, first);
    cr_assert_eq(begin(limits, 1, SECOND), CONVOY_LIMIT_NONE);
    convoy_limits_free(limits);
}

static uint64_t resident_kb(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert_eq(fscanf(file, "%lu %lu", &pages, &resident), 2);
    fclose(file);
    return resident * 4;
}

Test(limits, a_million_clients_take_less_than_64_mb_and_one_that_is_over_its_limit_stays_so)
{
    const struct convoy_limit_config config = {.requests_per_second = 1, .burst = 2};
    struct convoy_limits *limits = convoy_limits_new(&config);
    uint64_t before = resident_kb();
    for (int i = 0; i < 2; i++)
        cr_assert_eq(once(limits, 0, SECOND), CONVOY_LIMIT_NONE);
    /* Each is nearer to a full bucket than client 0, so it is not client 0 that is forgotten. */
    for (uint32_t i = 1; i <= 1000000; i++)
        cr_assert_eq(once(limits, i, SECOND), CONVOY_LIMIT_NONE);
    cr_assert_eq(once(limits, 0, SECOND), CONVOY_LIMIT_REQUESTS);
    uint64_t took = resident_kb() - before;
#if !defined(__SANITIZE_ADDRESS__)
    cr_assert_lt(took, 64 * 1024, "%lu kB", (unsigned long)took);
#else
    (void)took;
#endif
    convoy_limits_free(limits);
}

Test(limits, a_client_with_an_open_request_keeps_its_place)
{
    const struct convoy_limit_config config = {.requests_per_second = 1000, .concurrent = 1};
    struct convoy_limits *limits = convoy_limits_new(&config);
    cr_assert_eq(begin(limits, 0, SECOND), CONVOY_LIMIT_NONE);
    uint64_t open = ticket;
    for (uint32_t i = 1; i <= 2000000; i++)
        once(limits, i, SECOND);
    cr_assert_eq(begin(limits, 0, 10 * SECOND), CONVOY_LIMIT_CONCURRENT);
    convoy_limits_end(limits, open);
    cr_assert_eq(begin(limits, 0, 10 * SECOND), CONVOY_LIMIT_NONE);
    convoy_limits_free(limits);
}

Test(limits, other_rates_hold_at_once_and_debts_at_the_old_ones_are_forgotten)
{
    struct convoy_limit_config config = {
        .requests_per_second = 0.01, .images_per_second = 0.01, .concurrent = 2};
    struct convoy_limits *limits = convoy_limits_new(&config);
    uint64_t now = 1000 * SECOND, open;
    cr_assert_eq(begin(limits, 1, now), CONVOY_LIMIT_NONE);
    open = ticket;
    convoy_limits_charge(limits, open, 20, now);
    cr_assert_eq(once(limits, 1, now), CONVOY_LIMIT_REQUESTS);
    convoy_limits_change(limits, &config);
    cr_assert_eq(once(limits, 1, now), CONVOY_LIMIT_REQUESTS, "the same rates change nothing");
    config.requests_per_second = 2;
    convoy_limits_change(limits, &config);
    cr_assert_eq(once(limits, 1, now), CONVOY_LIMIT_NONE);
    cr_assert_eq(once(limits, 1, now), CONVOY_LIMIT_NONE);
    cr_assert_eq(once(limits, 1, now), CONVOY_LIMIT_REQUESTS, "the new rate is kept");
    config.concurrent = 1;
    convoy_limits_change(limits, &config);
    cr_assert_eq(once(limits, 1, now + SECOND), CONVOY_LIMIT_CONCURRENT, "an open request counts on");
    convoy_limits_charge(limits, open, 1, now + SECOND);
    convoy_limits_end(limits, open);
    config = (struct convoy_limit_config){0};
    convoy_limits_change(limits, &config);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(begin(limits, 1, now + SECOND), CONVOY_LIMIT_NONE, "none is left");
    convoy_limits_free(limits);
}
