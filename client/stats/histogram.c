#include "client/stats/histogram.h"

#include <math.h>

void client_histogram_add(struct client_histogram *histogram, double bound, double count)
{
    size_t last = histogram->buckets;
    if (histogram->invalid || last == CLIENT_HISTOGRAM_BUCKETS || isnan(bound) || bound == -INFINITY ||
        !isfinite(count) || count < 0 ||
        (last > 0 && (bound <= histogram->bounds[last - 1] || count < histogram->counts[last - 1]))) {
        histogram->invalid = true;
        histogram->buckets = 0;
        return;
    }
    histogram->bounds[last] = bound;
    histogram->counts[last] = count;
    histogram->buckets++;
}

double client_histogram_total(const struct client_histogram *histogram)
{
    return histogram->buckets ? histogram->counts[histogram->buckets - 1] : 0;
}

static bool follows(const struct client_histogram *earlier, const struct client_histogram *later)
{
    double below_then = 0, below_now = 0;
    if (earlier->buckets != later->buckets)
        return false;
    for (size_t i = 0; i < later->buckets; i++) {
        double then = earlier->counts[i] - below_then, now = later->counts[i] - below_now;
        if (earlier->bounds[i] != later->bounds[i] || now < then)
            return false;
        below_then = earlier->counts[i];
        below_now = later->counts[i];
    }
    return true;
}

void client_histogram_since(const struct client_histogram *earlier, const struct client_histogram *later,
                            struct client_histogram *difference)
{
    *difference = *later;
    if (!follows(earlier, later))
        return;
    for (size_t i = 0; i < later->buckets; i++)
        difference->counts[i] -= earlier->counts[i];
    /* The server may write the sum slightly before the counts; the difference must not be negative. */
    difference->sum = later->sum > earlier->sum ? later->sum - earlier->sum : 0;
}

/* Returns the bucket of the observation of this rank; there is at least one. */
static size_t bucket_of(const struct client_histogram *histogram, double rank)
{
    size_t bucket = 0;
    while (bucket + 1 < histogram->buckets && histogram->counts[bucket] < rank)
        bucket++;
    return bucket;
}

double client_histogram_bound(const struct client_histogram *histogram, double share)
{
    double total = client_histogram_total(histogram);
    return total > 0 ? histogram->bounds[bucket_of(histogram, share * total)] : NAN;
}

double client_histogram_quantile(const struct client_histogram *histogram, double share, bool *beyond)
{
    double total = client_histogram_total(histogram), rank = share * total;
    if (beyond)
        *beyond = false;
    if (!(total > 0))
        return NAN;
    size_t bucket = bucket_of(histogram, rank);
    double high = histogram->bounds[bucket];
    if (!isfinite(high)) {
        if (beyond)
            *beyond = true;
        return bucket ? histogram->bounds[bucket - 1] : NAN;
    }
    if (bucket == 0 && high <= 0)
        return high;
    double low = bucket ? histogram->bounds[bucket - 1] : 0;
    double below = bucket ? histogram->counts[bucket - 1] : 0;
    double inside = histogram->counts[bucket] - below;
    return inside > 0 ? low + (high - low) * (rank - below) / inside : low;
}

double client_histogram_mean(const struct client_histogram *histogram)
{
    double total = client_histogram_total(histogram);
    return total > 0 ? histogram->sum / total : NAN;
}
