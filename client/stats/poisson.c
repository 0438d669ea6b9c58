#include "client/stats/poisson.h"

#include <math.h>

double client_poisson_gap(uint64_t *state, double rate)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    /* 53 bits, in (0, 1]: the logarithm is finite. */
    double uniform = ((double)((*state * 0x2545F4914F6CDD1DULL) >> 11) + 1) * 0x1p-53;
    return -log(uniform) / rate;
}
