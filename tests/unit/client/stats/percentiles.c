/* Percentiles, standard errors and arrivals against numbers worked out by hand; the arguments of bench. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "client/commands/bench.h"
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

Test(client_percentiles, the_error_of_a_share)
{
    cr_assert_float_eq(client_share_error(80, 100), 0.04, 1e-12);
    cr_assert_float_eq(client_share_error(50, 100), 0.05, 1e-12);
    cr_assert_eq(client_share_error(100, 100), 0);
    cr_assert_eq(client_share_error(0, 5), 0);
    cr_assert(isnan(client_share_error(0, 0)));
}

/* An exponential distribution: mean and standard deviation are both 1 / rate, and a share of exp(-1) is
 * longer than the mean. 100,000 draws: the bounds are some six standard errors. */
Test(client_percentiles, arrivals_are_poisson)
{
    uint64_t state = 1;
    double sum = 0, squares = 0;
    int longer = 0;
    const int count = 100000;
    for (int i = 0; i < count; i++) {
        double gap = client_poisson_gap(&state, 4);
        cr_assert(gap >= 0 && isfinite(gap));
        sum += gap;
        squares += gap * gap;
        longer += gap > 0.25;
    }
    double mean = sum / count;
    cr_assert_float_eq(mean, 0.25, 0.005);
    cr_assert_float_eq(sqrt(squares / count - mean * mean), 0.25, 0.008);
    cr_assert_float_eq((double)longer / count, exp(-1), 0.01);
}

Test(client_percentiles, bench_arguments)
{
    struct client_bench_arguments arguments;
    struct convoy_failure failure;
    char *plain[] = {"bench", "a", "b", NULL};
    cr_assert_eq(client_bench_arguments(3, plain, &arguments, &failure), 0);
    cr_assert(arguments.connections == 8 && arguments.rate == 0 && arguments.seconds == 10 &&
              arguments.batch == 1);
    cr_assert_eq(arguments.path_count, 2);
    char *open_loop[] = {"bench", "a", "--rate", "2.5", "--seconds=0.5", "--batch", "16", NULL};
    cr_assert_eq(client_bench_arguments(7, open_loop, &arguments, &failure), 0, "%s", failure.message);
    cr_assert(arguments.connections == 128 && arguments.rate == 2.5 && arguments.seconds == 0.5);
    cr_assert_eq(arguments.batch, 16);
    static const char *const wrong[][2] = {{"--rate", "0"},    {"--rate", "-1"}, {"--rate", "nan"},
                                           {"--seconds", "0"}, {"--batch", "0"}, {"--connections", "1e3"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *argv[] = {"bench", "a", (char *)wrong[i][0], (char *)wrong[i][1], NULL};
        cr_assert_eq(client_bench_arguments(4, argv, &arguments, &failure), -EINVAL, "%s", wrong[i][0]);
        cr_assert(strstr(failure.message, wrong[i][0]), "%s", failure.message);
    }
    char *none[] = {"bench", NULL};
    cr_assert_eq(client_bench_arguments(1, none, &arguments, &failure), -EINVAL);
}
