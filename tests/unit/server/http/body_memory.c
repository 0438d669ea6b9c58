#include "server/http/body_memory.h"

#include <criterion/criterion.h>
#include <stdint.h>

Test(body_memory, is_bounded_and_given_back)
{
    cr_assert(convoy_body_memory_take(60, 100));
    cr_assert(convoy_body_memory_take(40, 100));
    cr_assert_not(convoy_body_memory_take(1, 100));
    cr_assert_not(convoy_body_memory_take(SIZE_MAX, 100), "a sum that wraps around is no room");
    convoy_body_memory_give(40);
    cr_assert_not(convoy_body_memory_take(41, 100));
    cr_assert(convoy_body_memory_take(40, 100));
    convoy_body_memory_give(100);
}
