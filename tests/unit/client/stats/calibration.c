#include <criterion/criterion.h>
#include <math.h>

#include "client/stats/calibration.h"

Test(client_calibration, sums)
{
    struct client_calibration calibration = {0};
    cr_assert(isnan(client_calibration_error(&calibration)));
    /* Ten claim 0.75, of which six are right; ten claim 0.95, all right; one claims 0.3 and is wrong. */
    for (int i = 0; i < 10; i++) {
        client_calibration_count(&calibration, 0.75, i < 6);
        client_calibration_count(&calibration, 0.95, true);
    }
    client_calibration_count(&calibration, 0.3, false);
    cr_assert_eq(client_calibration_total(&calibration), 21);
    cr_assert(calibration.bins[7].count == 10 && calibration.bins[7].right == 6);
    cr_assert_float_eq(calibration.bins[7].sum, 7.5, 1e-12);
    cr_assert(calibration.bins[9].count == 10 && calibration.bins[9].right == 10);
    cr_assert(calibration.bins[2].count == 1 && calibration.bins[2].right == 0);
    cr_assert_float_eq(client_calibration_error(&calibration), (1.5 + 0.5 + 0.3) / 21, 1e-12);
}

Test(client_calibration, bounds_belong_to_the_bin_below)
{
    struct client_calibration calibration = {0};
    static const double tenths[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0};
    for (int i = 0; i < 10; i++)
        client_calibration_count(&calibration, tenths[i], true);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(calibration.bins[i].count, 1, "bin %d", i);
    /* 0.1 + 0.2 is slightly more than 0.3: rounding moves nothing to the next bin. */
    client_calibration_count(&calibration, 0.1 + 0.2, true);
    cr_assert(calibration.bins[2].count == 2 && calibration.bins[3].count == 1);
    client_calibration_count(&calibration, 0, true);
    client_calibration_count(&calibration, 0.100001, true);
    cr_assert(calibration.bins[0].count == 2 && calibration.bins[1].count == 2);
}

Test(client_calibration, what_is_no_probability)
{
    struct client_calibration calibration = {0};
    static const double odd[] = {NAN, -0.01, 1.01, 17, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        client_calibration_count(&calibration, odd[i], true);
    cr_assert(calibration.without == 6 && client_calibration_total(&calibration) == 0);
    cr_assert(isnan(client_calibration_error(&calibration)));
}
