/* The numbers of a run: percentiles, means, standard errors, arrivals. Pure functions. */
#ifndef CONVOY_CLIENT_PERCENTILES_H
#define CONVOY_CLIENT_PERCENTILES_H

#include <stddef.h>
#include <stdint.h>

/* Sorts values ascending, in place. */
void client_sort(double *values, size_t count);

/* The smallest of the sorted values that at least percent (0 to 100) of them do not exceed (the nearest
 * rank: no value is made up between two). NaN when count is 0. */
double client_percentile(const double *sorted, size_t count, double percent);

/* NaN when count is 0. */
double client_mean(const double *values, size_t count);

/* The standard error of a share right / total of independent trials: sqrt(p (1 - p) / total), the binomial's
 * normal approximation (0 at 0 % and 100 %, where it says nothing). NaN when total is 0. */
double client_share_error(size_t right, size_t total);

/* The gap in seconds to the next arrival of a Poisson process of rate (arrivals a second): exponentially
 * distributed, by inversion of a xorshift64* generator (S. Vigna, An experimental exploration of Marsaglia's
 * xorshift generators, scrambled, 2016). *state is the generator's, any number but 0. */
double client_poisson_gap(uint64_t *state, double rate);

#endif
