/* What an image costs, learnt from batches that the test makes up. Times are microseconds. */
#include "server/batching/service_time.h"

#include <criterion/criterion.h>

static uint64_t wait_us(const struct convoy_service_time *service, uint64_t images)
{
    return convoy_service_time_wait_us(convoy_service_time_image_us(service),
                                       convoy_service_time_company(service), images);
}

/* Batches of images that end one every_us after the other while others wait; returns when the last ended. */
static uint64_t busy(struct convoy_service_time *service, uint64_t now, int batches, uint32_t images,
                     uint64_t every_us)
{
    for (int i = 0; i < batches; i++) {
        now += every_us;
        convoy_service_time_finished(service, now, images, every_us * 4, true);
    }
    return now;
}

static void assert_about(uint64_t is, uint64_t expected)
{
    cr_assert(is >= expected - expected / 50 && is <= expected + expected / 50, "%llu, not about %llu",
              (unsigned long long)is, (unsigned long long)expected);
}

Test(service_time, of_what_never_ran_nothing_is_known)
{
    struct convoy_service_time service = {0};
    cr_assert_eq(wait_us(&service, 1000000), 0);
    convoy_service_time_finished(&service, 5000, 1, 5000, false);
    cr_assert_eq(wait_us(&service, 1000000), 0, "a lone batch says nothing of many");
}

Test(service_time, until_two_batches_have_ended_the_least_guess_counts)
{
    struct convoy_service_time service = {0};
    convoy_service_time_guess(&service, 0);
    cr_assert_eq(wait_us(&service, 100), 0, "0 is no guess");
    convoy_service_time_guess(&service, 3000);
    convoy_service_time_guess(&service, 5000);
    cr_assert_eq(wait_us(&service, 100), 300000);
    cr_assert_eq(convoy_service_time_run_us(&service, 100), 0, "a guess gives up no slot");
    convoy_service_time_finished(&service, 1000000, 4, 900000, true);
    cr_assert_eq(wait_us(&service, 100), 300000, "the first batch says nothing yet");
    convoy_service_time_finished(&service, 1004000, 4, 8000, true);
    assert_about(wait_us(&service, 96), 100000);
}

Test(service_time, a_batch_with_nothing_behind_it_ends_the_guess)
{
    struct convoy_service_time service = {0};
    convoy_service_time_guess(&service, 3000);
    convoy_service_time_finished(&service, 1000000, 1, 3000, false);
    cr_assert_eq(wait_us(&service, 100), 0);
}

Test(service_time, while_images_wait_the_time_between_ends_counts)
{
    struct convoy_service_time service = {0};
    busy(&service, 1000000, 20, 4, 10000);
    /* 2500 us an image; four that may come along in its batch */
    assert_about(wait_us(&service, 96), 250000);
}

Test(service_time, a_rest_is_no_work)
{
    struct convoy_service_time service = {0};
    uint64_t now = busy(&service, 1000000, 20, 4, 10000);
    convoy_service_time_finished(&service, now + 10000, 4, 10000, false); /* nothing waits behind this one */
    convoy_service_time_finished(&service, now + 3600000000u, 4, 20000, true);
    assert_about(wait_us(&service, 96), 250000);
}

Test(service_time, an_interruption_is_no_work)
{
    struct convoy_service_time service = {0};
    uint64_t now = busy(&service, 1000000, 20, 4, 10000);
    convoy_service_time_interrupted(&service);
    convoy_service_time_finished(&service, now + 5000000, 4, 40000, true);
    assert_about(wait_us(&service, 96), 250000);
}

Test(service_time, a_device_that_slows_down_is_noticed)
{
    struct convoy_service_time service = {0};
    uint64_t now = busy(&service, 1000000, 1000, 4, 10000);
    busy(&service, now, 600, 4, 30000);
    assert_about(wait_us(&service, 96), 750000);
}

Test(service_time, long_batches_are_remembered_too)
{
    struct convoy_service_time service = {0};
    uint64_t now = 1000000;
    /* Two streams end together: only both say what an image costs, and neither alone may be believed. */
    for (int i = 0; i < 40; i++) {
        now = busy(&service, now, 1, 256, 2400000);
        uint64_t first = wait_us(&service, 256);
        now = busy(&service, now, 1, 256, 1);
        uint64_t both = wait_us(&service, 256);
        cr_assert(i < 30 || (first < 2800000 && both > 2000000), "%llu, then %llu", (unsigned long long)first,
                  (unsigned long long)both);
    }
}

Test(service_time, what_is_remembered_of_bad_times_does_not_refuse_for_ever)
{
    struct convoy_service_time service = {0};
    uint64_t now = busy(&service, 1000000, 20, 1, 4000000); /* four seconds an image */
    convoy_service_time_finished(&service, now + 1000, 1, 1000, false);
    /* Alone, and done in 3 ms. */
    convoy_service_time_finished(&service, now + 9000000, 1, 3000, false);
    assert_about(wait_us(&service, 99), 300000);
}
