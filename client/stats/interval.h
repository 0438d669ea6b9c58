/* How far a share that was measured may be from the true one. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_INTERVAL_H
#define CONVOY_CLIENT_INTERVAL_H

#include <stddef.h>

struct client_interval {
    double low, high; /* 0 to 1 */
};

/* Returns the 95 % score interval of right out of total independent trials (E. B. Wilson, Probable inference,
 * the law of succession, and statistical inference, 1927). Unlike the standard error it says something at 0 %
 * and 100 %, and never leaves 0 to 1. 0 to 1 when total is 0. */
struct client_interval client_interval_wilson(size_t right, size_t total);

#endif
