/* A histogram of Prometheus, as counts of what was at most a bound, and the quantiles that can be had from
 * it. Pure functions, any thread. */
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
    bool invalid;                            /* a bucket was of no use: it stays empty */
};

/* Adds a bucket to the end. When there are too many, the count is none, or bound or count do not rise, no
 * part of the histogram can be relied on: it is emptied, and stays empty. */
void client_histogram_add(struct client_histogram *histogram, double bound, double count);

/* How many were observed: the last bucket's count. */
double client_histogram_total(const struct client_histogram *histogram);

/* What was observed between the two: later less earlier. Where the buckets differ or some count fell (another
 * process counts there now), it is the later one whole. */
void client_histogram_since(const struct client_histogram *earlier, const struct client_histogram *later,
                            struct client_histogram *difference);

/* The value that a share (0 to 1) of the observations do not exceed, as Prometheus' histogram_quantile() has
 * it: observations are taken to lie evenly in their bucket, the first bucket begins at 0 (where its bound is
 * above 0), and a quantile in a bucket without a bound is the highest bound (*beyond, may be NULL, is true
 * then: it is more than that). NaN when nothing was observed. */
double client_histogram_quantile(const struct client_histogram *histogram, double share, bool *beyond);

/* The bound of the bucket that the quantile lies in: for whole numbers, between which nothing lies. Infinite
 * where the bucket has none, NaN when nothing was observed. */
double client_histogram_bound(const struct client_histogram *histogram, double share);

/* NaN when nothing was observed. */
double client_histogram_mean(const struct client_histogram *histogram);

#endif
