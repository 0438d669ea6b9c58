#include "engine/base/log_limit.h"

#include "engine/base/clock.h"

#include <criterion/criterion.h>

Test(log_limit, one_a_second_with_the_count_of_the_others, .timeout = 60)
{
    static struct convoy_log_limit limit;
    uint64_t unwritten = 99, begun = convoy_now_us();
    cr_assert(convoy_log_limit_pass(&limit, &unwritten));
    cr_assert_eq(unwritten, 0);
    uint64_t refused = 0;
    while (!convoy_log_limit_pass(&limit, &unwritten))
        refused++;
    cr_expect_geq(convoy_now_us() - begun, 1000000u);
    cr_expect_gt(refused, 0);
    cr_expect_eq(unwritten, refused);
    /* Lines that pass and are lost are counted, too, for those that are limited and those that are not. */
    convoy_log_limit_lost(&limit, 3);
    convoy_log_limit_lost(&limit, 4);
    cr_expect_eq(convoy_log_limit_take(&limit), 7);
    cr_expect_eq(convoy_log_limit_take(&limit), 0);
}
