/* Durations in logarithmic bins: percentiles stay within the stated error of exact ones. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "client/stats/bins.h"

static struct client_bins bins;

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

Test(client_bins, percentiles_are_within_half_a_percent)
{
    static const double percents[] = {0.1, 1, 10, 33, 50, 66.6, 90, 99, 99.9};
    static double values[10000];
    uint64_t state = 42;
    for (size_t i = 0; i < 10000; i++) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        /* Evenly over the logarithm, from 1 us to 1,000 s. */
        values[i] = pow(10, (double)(state >> 11) * 0x1p-53 * 9);
        client_bins_add(&bins, values[i]);
    }
    qsort(values, 10000, sizeof *values, ascending);
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        double exact = values[(size_t)ceil(percents[i] * 100 - 1e-9) - 1];
        double got = client_bins_percentile(&bins, percents[i]);
        cr_expect_lt(fabs(got / exact - 1), 0.005, "%g %%: %g, not %g", percents[i], got, exact);
    }
    cr_assert_eq(client_bins_percentile(&bins, 100), values[9999]);
    cr_assert(bins.min_us == values[0] && bins.max_us == values[9999] && bins.count == 10000);
}

Test(client_bins, ranks_are_nearest)
{
    /* 1,000 values far enough apart that each has a bin of its own. */
    for (int i = 0; i < 1000; i++)
        client_bins_add(&bins, pow(1.02, i));
    static const struct {
        double percent;
        int rank;
    } cases[] = {{50, 500}, {90, 900}, {99, 990}, {99.9, 999}, {100, 1000}, {0, 1}, {0.1, 1}, {0.11, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_float_eq(client_bins_percentile(&bins, cases[i].percent) / pow(1.02, cases[i].rank - 1), 1,
                           0.005, "%g", cases[i].percent);
}

Test(client_bins, few_durations)
{
    cr_assert(isnan(client_bins_percentile(&bins, 50)) && isnan(client_bins_mean(&bins)));
    client_bins_add(&bins, 1234.5);
    cr_assert(client_bins_percentile(&bins, 1) == 1234.5 && client_bins_percentile(&bins, 99) == 1234.5);
    /* No percentile lies below the least or above the most, where the bin's middle does. */
    client_bins_add(&bins, 1234.5);
    cr_assert_eq(client_bins_percentile(&bins, 50), 1234.5);
    client_bins_add(&bins, 1e4);
    cr_assert_float_eq(client_bins_percentile(&bins, 50) / 1234.5, 1, 0.005);
    cr_assert_eq(client_bins_mean(&bins), (2 * 1234.5 + 1e4) / 3);
}

/* What no bin is for is counted, too. */
Test(client_bins, odd_durations)
{
    static const double odd[] = {NAN, -1, -INFINITY, INFINITY, 0, 0.25, 1e300};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        client_bins_add(&bins, odd[i]);
    cr_assert(bins.count == 7 && bins.counts[0] == 6 && bins.counts[CLIENT_BINS - 1] == 1);
    cr_assert(bins.min_us == 0 && bins.max_us == 1e300);
    cr_assert_leq(client_bins_percentile(&bins, 50), 1.01);
    cr_assert_eq(client_bins_percentile(&bins, 100), 1e300);
}

Test(client_bins, bounds_hold_what_is_counted)
{
    for (size_t i = 0; i < CLIENT_BINS; i++) {
        struct client_bins one = {0};
        client_bins_add(&one, sqrt(client_bins_bound(i) * client_bins_bound(i + 1)));
        cr_assert_eq(one.counts[i], 1, "bin %zu", i);
    }
    cr_assert(client_bins_bound(0) == 1 && client_bins_bound(CLIENT_BINS) > 1.1e9);
}
