/* When a device would be done with an image: what runs teach, what fades, what is left of what runs. */
#include "server/batching/completion_estimate.h"

#include <criterion/criterion.h>

#define SECOND 1000000u

static struct convoy_image_cost here, everywhere;

static void assert_near(double got, double wanted)
{
    cr_assert(got > wanted * 0.99 && got < wanted * 1.01, "%g, expected %g", got, wanted);
}

static void begin(void)
{
    here = everywhere = (struct convoy_image_cost){0};
}

TestSuite(completion_estimate, .init = begin);

Test(completion_estimate, where_nothing_is_known_images_count)
{
    assert_near(convoy_image_cost_us(&here, &everywhere, SECOND), 1);
}

Test(completion_estimate, a_device_that_ran_nothing_yet_is_as_the_others)
{
    convoy_image_cost_ran(&everywhere, 10, 500, SECOND);
    assert_near(convoy_image_cost_us(&here, &everywhere, SECOND), 50);
}

Test(completion_estimate, each_device_has_its_own_price)
{
    struct convoy_image_cost fast = {0};
    for (int i = 0; i < 100; i++) {
        convoy_image_cost_ran(&here, 10, 500, SECOND);
        convoy_image_cost_ran(&fast, 10, 100, SECOND);
        convoy_image_cost_ran(&everywhere, 10, 500, SECOND);
        convoy_image_cost_ran(&everywhere, 10, 100, SECOND);
    }
    assert_near(convoy_image_cost_us(&here, &everywhere, SECOND), 50);
    assert_near(convoy_image_cost_us(&fast, &everywhere, SECOND), 10);
}

Test(completion_estimate, small_batches_make_no_slow_device)
{
    for (int i = 0; i < 8; i++) {
        convoy_image_cost_ran(&here, 256, 512, SECOND);
        convoy_image_cost_ran(&here, 1, 100, SECOND);
    }
    everywhere = here;
    cr_assert_lt(convoy_image_cost_us(&here, &everywhere, SECOND), 3);
}

Test(completion_estimate, a_price_fades_while_nothing_runs)
{
    convoy_image_cost_ran(&here, 1, 1000, SECOND);
    convoy_image_cost_ran(&everywhere, 1, 100, SECOND);
    assert_near(convoy_image_cost_us(&here, &everywhere, SECOND), 1000);
    assert_near(convoy_image_cost_us(&here, &everywhere, 6 * SECOND), 550);
    assert_near(convoy_image_cost_us(&here, &everywhere, 20 * SECOND), 100);
}

Test(completion_estimate, a_run_too_short_to_measure_is_not_for_nothing)
{
    convoy_image_cost_ran(&here, 100, 0, SECOND);
    cr_assert_gt(convoy_image_cost_us(&here, &here, SECOND), 0);
}

Test(completion_estimate, what_ran_for_a_while_is_nearly_done)
{
    struct convoy_worker_load load = {.backlog_us = 1000, .running_us = 400};
    assert_near(convoy_completion_estimate_us(&load, 5000, 5000, 10), 1010);
    assert_near(convoy_completion_estimate_us(&load, 5000, 5300, 10), 710);
    assert_near(convoy_completion_estimate_us(&load, 5000, 9000, 10), 610);
    cr_assert(convoy_completion_as_good(1120, 1000));
    cr_assert_not(convoy_completion_as_good(1150, 1000));
    cr_assert(convoy_completion_as_good(9, 1));
}
