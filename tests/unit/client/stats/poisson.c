#include <criterion/criterion.h>
#include <math.h>

#include "client/stats/poisson.h"

/* An exponential distribution: mean and standard deviation are both 1 / rate, and a share of exp(-1) is
 * longer than the mean. 100,000 draws: the bounds are some six standard errors. */
Test(client_poisson, arrivals_are_poisson)
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
