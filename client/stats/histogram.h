/* A Prometheus histogram (cumulative counts by upper bound), and its quantiles. Pure functions, any thread.
 */
#ifndef CONVOY_CLIENT_HISTOGRAM_H
#define CONVOY_CLIENT_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>

#define CLIENT_HISTOGRAM_BUCKETS 40 /* convoyd's have 18 */

/* Zeroed, it is empty. */
struct client_histogram {
    size_t buckets;
    double bounds[CLIENT_HISTOGRAM_BUCKETS]; /* ascending; the last may be infinite */
    double counts[CLIENT_HISTOGRAM_BUCKETS]; /* observations that were at most the bound: cumulative */
    double sum;                              /* of the observations */
    bool invalid;                            /* a bucket was wrong; the histogram stays empty */
};

/* Appends a bucket. If there are too many, the count is not a number, or bound or count do not increase, the
 * whole histogram is unreliable: it is emptied and stays empty. */
void client_histogram_add(struct client_histogram *histogram, double bound, double count);

/* Returns the number of observations, which is the last bucket's count. */
double client_histogram_total(const struct client_histogram *histogram);

/* Computes the observations between two readings: later minus earlier. If the buckets differ or a count
 * decreased (the server restarted), the difference is all of later. */
void client_histogram_since(const struct client_histogram *earlier, const struct client_histogram *later,
                            struct client_histogram *difference);

/* Returns the value that a share (0 to 1) of the observations do not exceed, as Prometheus'
 * histogram_quantile(): observations are assumed to be spread evenly over their bucket, and the first bucket
 * begins at 0 if its bound is above 0. A quantile in the last bucket, which has no bound, is the highest
 * bound, and *beyond (may be NULL) becomes true: the value is larger. NaN without observations. */
double client_histogram_quantile(const struct client_histogram *histogram, double share, bool *beyond);

/* Returns the bound of the bucket that contains the quantile, for integers, which need no interpolation.
 * Infinite if the bucket has no bound, NaN without observations. */
double client_histogram_bound(const struct client_histogram *histogram, double share);

/* Returns the mean; NaN without observations. */
double client_histogram_mean(const struct client_histogram *histogram);

#endif
