/* Quantiles from buckets against numbers worked out by hand, which promtool's histogram_quantile() gives too
 * (tests/integration/test_top.sh asks it). */
#include <criterion/criterion.h>
#include <math.h>

#include "client/stats/histogram.h"

static struct client_histogram made(size_t buckets, const double *bounds, const double *counts, double sum)
{
    struct client_histogram histogram = {.sum = sum};
    for (size_t i = 0; i < buckets; i++)
        client_histogram_add(&histogram, bounds[i], counts[i]);
    return histogram;
}

static void close_to(double is, double wanted)
{
    cr_assert(fabs(is - wanted) < 1e-12, "%.17g is not %.17g", is, wanted);
}

static double quantile(const struct client_histogram *histogram, double share)
{
    return client_histogram_quantile(histogram, share, NULL);
}

Test(client_histogram, quantiles)
{
    /* 2 up to 1, 6 from 1 to 2, none from 2 to 4, 2 from 4 to 8. */
    struct client_histogram h = made(5, (double[]){1, 2, 4, 8, INFINITY}, (double[]){2, 8, 8, 10, 10}, 25);
    cr_assert_eq(client_histogram_total(&h), 10);
    close_to(client_histogram_mean(&h), 2.5);
    close_to(quantile(&h, 0.1), 0.5);
    close_to(quantile(&h, 0.2), 1);
    close_to(quantile(&h, 0.5), 1.5);
    close_to(quantile(&h, 0.8), 2);
    close_to(quantile(&h, 0.9), 6);
    close_to(quantile(&h, 0.99), 7.8);
    close_to(quantile(&h, 1), 8);
    close_to(quantile(&h, 0), 0);
    cr_assert_eq(client_histogram_bound(&h, 0.5), 2);
    cr_assert_eq(client_histogram_bound(&h, 0.9), 8);
}

Test(client_histogram, beyond_the_last_bound)
{
    struct client_histogram h = made(3, (double[]){1, 2, INFINITY}, (double[]){1, 2, 4}, 9);
    bool beyond = true;
    close_to(client_histogram_quantile(&h, 0.5, &beyond), 2);
    cr_assert_not(beyond);
    close_to(client_histogram_quantile(&h, 0.51, &beyond), 2);
    cr_assert(beyond);
    cr_assert_eq(client_histogram_bound(&h, 0.51), INFINITY);
    struct client_histogram lone = made(1, (double[]){INFINITY}, (double[]){4}, 9);
    cr_assert(isnan(client_histogram_quantile(&lone, 0.5, &beyond)));
    cr_assert(beyond);
}

Test(client_histogram, nothing_observed)
{
    struct client_histogram none = {0}, zero = made(2, (double[]){1, INFINITY}, (double[]){0, 0}, 0);
    cr_assert(isnan(quantile(&none, 0.5)) && isnan(quantile(&zero, 0.5)));
    cr_assert(isnan(client_histogram_mean(&none)) && isnan(client_histogram_bound(&zero, 0.9)));
    cr_assert_eq(client_histogram_total(&none), 0);
}

Test(client_histogram, negative_bounds)
{
    struct client_histogram h = made(3, (double[]){-1, 1, INFINITY}, (double[]){5, 10, 10}, 0);
    close_to(quantile(&h, 0.25), -1);
    close_to(quantile(&h, 0.75), 0);
}

Test(client_histogram, a_bucket_of_no_use_spoils_it)
{
    static const double wrong[][2] = {{2, 3},   {1.5, 5},      {3, 4},        {NAN, 9},
                                      {3, NAN}, {3, INFINITY}, {-INFINITY, 9}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct client_histogram h = made(2, (double[]){1, 2}, (double[]){5, 5}, 3);
        client_histogram_add(&h, wrong[i][0], wrong[i][1]);
        client_histogram_add(&h, 100, 200);
        cr_assert_eq(client_histogram_total(&h), 0, "%g %g", wrong[i][0], wrong[i][1]);
    }
    struct client_histogram first = {0};
    client_histogram_add(&first, 1, -1);
    cr_assert(first.invalid);
    struct client_histogram many = {0};
    for (int i = 0; i <= CLIENT_HISTOGRAM_BUCKETS; i++) {
        cr_assert_not(many.invalid);
        client_histogram_add(&many, i, i);
    }
    cr_assert(many.invalid && many.buckets == 0);
}

Test(client_histogram, what_happened_in_between)
{
    const double bounds[] = {1, 2, INFINITY};
    struct client_histogram then = made(3, bounds, (double[]){5, 6, 6}, 7);
    struct client_histogram now = made(3, bounds, (double[]){5, 10, 12}, 27), between;
    client_histogram_since(&then, &now, &between);
    cr_assert(between.counts[0] == 0 && between.counts[1] == 4 && between.counts[2] == 6 &&
              between.sum == 20);
    close_to(quantile(&between, 0.5), 1.75);
    client_histogram_since(&now, &now, &between);
    cr_assert_eq(client_histogram_total(&between), 0);
    /* Another process: a total that rose, over a bucket that fell. */
    struct client_histogram other = made(3, bounds, (double[]){20, 20, 20}, 2);
    client_histogram_since(&now, &other, &between);
    cr_assert(between.counts[0] == 20 && between.counts[2] == 20 && between.sum == 2);
    struct client_histogram shorter = made(2, bounds, (double[]){50, 60}, 2);
    client_histogram_since(&now, &shorter, &between);
    cr_assert(between.buckets == 2 && between.counts[1] == 60);
    /* A sum that lags behind. */
    struct client_histogram lags = made(3, bounds, (double[]){6, 11, 13}, 26);
    client_histogram_since(&now, &lags, &between);
    cr_assert(client_histogram_total(&between) == 1 && between.sum == 0);
}
