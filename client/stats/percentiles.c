#include "client/stats/percentiles.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void client_sort(double *values, size_t count)
{
    if (count)
        qsort(values, count, sizeof *values, ascending);
}

double client_percentile(const double *sorted, size_t count, double percent)
{
    if (count == 0)
        return NAN;
    /* 99.9 / 100 * 1000 is slightly more than 999: without the slack its rank would be 1,000. */
    double rank = ceil(percent / 100 * (double)count - 1e-9);
    if (rank < 1)
        rank = 1;
    return sorted[rank >= (double)count ? count - 1 : (size_t)rank - 1];
}

double client_mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count ? sum / (double)count : NAN;
}
