#include "client/stats/bins.h"

#include <math.h>

void client_bins_add(struct client_bins *bins, double us)
{
    size_t bin = 0;
    if (!isfinite(us) || us < 0)
        us = 0;
    if (us >= 1) {
        double place = log(us) / log(CLIENT_BINS_RATIO);
        bin = place < CLIENT_BINS - 1 ? (size_t)place : CLIENT_BINS - 1;
    }
    bins->counts[bin]++;
    bins->min_us = bins->count == 0 || us < bins->min_us ? us : bins->min_us;
    bins->max_us = us > bins->max_us ? us : bins->max_us;
    bins->sum_us += us;
    bins->count++;
}

double client_bins_bound(size_t i)
{
    return pow(CLIENT_BINS_RATIO, (double)i);
}

double client_bins_percentile(const struct client_bins *bins, double percent)
{
    uint64_t below = 0;
    if (bins->count == 0)
        return NAN;
    /* 99.9 / 100 * 1000 is slightly more than 999: without the slack its rank would be 1,000. */
    double rank = ceil(percent / 100 * (double)bins->count - 1e-9);
    if (rank >= (double)bins->count)
        return bins->max_us;
    for (size_t i = 0; i < CLIENT_BINS; i++) {
        below += bins->counts[i];
        if ((double)below >= rank && below > 0) {
            double middle = sqrt(client_bins_bound(i) * client_bins_bound(i + 1));
            return fmin(fmax(middle, bins->min_us), bins->max_us);
        }
    }
    return bins->max_us;
}

double client_bins_mean(const struct client_bins *bins)
{
    return bins->count ? bins->sum_us / (double)bins->count : NAN;
}
