#include <criterion/criterion.h>

#include "client/stats/interval.h"

/* Known values: R. G. Newcombe, Two-sided confidence intervals for the single proportion, Statistics in
 * Medicine 17 (1998), table I, the score method without continuity correction, to the four digits that are
 * printed there. */
Test(client_interval, wilson)
{
    static const struct {
        size_t right, total;
        double low, high;
    } known[] = {
        {81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct client_interval got = client_interval_wilson(known[i].right, known[i].total);
        cr_assert_float_eq(got.low, known[i].low, 5e-5, "%zu of %zu: %.6f", known[i].right, known[i].total,
                           got.low);
        cr_assert_float_eq(got.high, known[i].high, 5e-5, "%zu of %zu: %.6f", known[i].right, known[i].total,
                           got.high);
    }
    struct client_interval none = client_interval_wilson(0, 0);
    cr_assert(none.low == 0 && none.high == 1);
    for (size_t total = 1; total < 2000; total += 7) {
        struct client_interval least = client_interval_wilson(0, total),
                               most = client_interval_wilson(total, total);
        cr_assert(least.low == 0 && least.high > 0 && most.high == 1 && most.low < 1);
    }
}
