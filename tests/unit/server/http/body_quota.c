#include "server/http/body_quota.h"

#include <criterion/criterion.h>
#include <stdint.h>

Test(body_quota, is_bounded_and_given_back)
{
    cr_assert(convoy_body_quota_take(60, 100));
    cr_assert(convoy_body_quota_take(40, 100));
    cr_assert_not(convoy_body_quota_take(1, 100));
    cr_assert_not(convoy_body_quota_take(SIZE_MAX, 100), "a sum that wraps around is no room");
    convoy_body_quota_give(40);
    cr_assert_not(convoy_body_quota_take(41, 100));
    cr_assert(convoy_body_quota_take(40, 100));
    convoy_body_quota_give(100);
}

Test(body_quota, the_last_eighth_is_for_small_bodies)
{
    const size_t most = 1 << 20, all = most * CONVOY_BODIES_AT_ONCE;
    cr_expect_eq(convoy_body_quota_limit(most, CONVOY_SMALL_BODY), all);
    cr_expect_eq(convoy_body_quota_limit(most, CONVOY_SMALL_BODY + 1), all - all / 8);
}
