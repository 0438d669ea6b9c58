/* Percentiles and means against numbers worked out by hand. */
#include <criterion/criterion.h>
#include <math.h>

#include "client/stats/percentiles.h"

Test(client_percentiles, percentiles_are_values_that_were_measured)
{
    double values[1000];
    for (int i = 0; i < 1000; i++)
        values[i] = (i * 7 + 3) % 1000 + 1;
    client_sort(values, 1000);
    cr_assert_eq(values[0], 1);
    cr_assert_eq(values[999], 1000);
    cr_assert_eq(client_percentile(values, 1000, 50), 500);
    cr_assert_eq(client_percentile(values, 1000, 90), 900);
    cr_assert_eq(client_percentile(values, 1000, 99), 990);
    cr_assert_eq(client_percentile(values, 1000, 99.9), 999);
    cr_assert_eq(client_percentile(values, 1000, 100), 1000);
    cr_assert_eq(client_percentile(values, 1000, 0), 1);
    cr_assert_eq(client_mean(values, 1000), 500.5);
}

Test(client_percentiles, few_values)
{
    double values[] = {3, 1, 2};
    client_sort(values, 3);
    cr_assert_eq(client_percentile(values, 3, 50), 2);
    cr_assert_eq(client_percentile(values, 3, 33), 1);
    cr_assert_eq(client_percentile(values, 3, 34), 2);
    cr_assert_eq(client_percentile(values, 3, 67), 3);
    cr_assert_eq(client_percentile(values, 3, 99.9), 3);
    cr_assert_eq(client_percentile(values, 1, 1), 1);
    cr_assert(isnan(client_percentile(values, 0, 50)));
    cr_assert(isnan(client_mean(values, 0)));
    client_sort(NULL, 0);
}
