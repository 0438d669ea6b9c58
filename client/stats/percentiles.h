/* Percentiles and means of measured values. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_PERCENTILES_H
#define CONVOY_CLIENT_PERCENTILES_H

#include <stddef.h>

/* Sorts values ascending, in place. */
void client_sort(double *values, size_t count);

/* Returns the smallest of the sorted values that at least percent (0 to 100) of them do not exceed (the
 * nearest rank: no value is interpolated between two). NaN when count is 0. */
double client_percentile(const double *sorted, size_t count, double percent);

/* Returns the arithmetic mean; NaN when count is 0. */
double client_mean(const double *values, size_t count);

#endif
