/* Durations counted in logarithmic bins: memory does not grow with their number, and percentiles are right to
 * within half a percent. Pure functions; the caller locks. */
#ifndef CONVOY_CLIENT_BINS_H
#define CONVOY_CLIENT_BINS_H

#include <stddef.h>
#include <stdint.h>

#define CLIENT_BINS       2100
#define CLIENT_BINS_RATIO 1.01

/* Zeroed, it is empty. Bin i counts durations from CLIENT_BINS_RATIO^i to CLIENT_BINS_RATIO^(i + 1)
 * microseconds. The first bin counts shorter ones, too, the last (20 minutes) longer ones. */
struct client_bins {
    uint64_t counts[CLIENT_BINS];
    uint64_t count;                /* of all */
    double sum_us, min_us, max_us; /* exact; min and max are 0 without a duration */
};

/* Counts a duration in microseconds. What is below 0 or not finite counts as 0. */
void client_bins_add(struct client_bins *bins, double us);

/* Returns the lower bound of bin i in microseconds; that of CLIENT_BINS is the upper bound of the last. */
double client_bins_bound(size_t i);

/* Returns in microseconds the duration that percent (0 to 100) of all do not exceed (nearest rank): the
 * geometric middle of its bin, at most 0.5 % off, or 1 us where it is below 1 us. The last of all is exact.
 * NaN without a duration. */
double client_bins_percentile(const struct client_bins *bins, double percent);

/* Returns the exact mean in microseconds; NaN without a duration. */
double client_bins_mean(const struct client_bins *bins);

#endif
