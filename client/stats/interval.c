#include "client/stats/interval.h"

#include <math.h>

/* 97.5 % of the normal distribution lie below: 2.5 % on each side are left out. */
#define QUANTILE 1.959963984540054

struct client_interval client_interval_wilson(size_t right, size_t total)
{
    if (total == 0)
        return (struct client_interval){0, 1};
    double count = (double)total, share = (double)right / count, square = QUANTILE * QUANTILE;
    double middle = (share + square / (2 * count)) / (1 + square / count);
    double half =
        QUANTILE / (1 + square / count) * sqrt(share * (1 - share) / count + square / (4 * count * count));
    /* The ends are exact; rounding would miss them by a bit. */
    return (struct client_interval){right == 0 ? 0 : fmax(middle - half, 0),
                                    right == total ? 1 : fmin(middle + half, 1)};
}
