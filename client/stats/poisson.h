/* Arrival times of a Poisson process, for `convoy bench` in open loop. Pure functions. */
#ifndef CONVOY_CLIENT_POISSON_H
#define CONVOY_CLIENT_POISSON_H

#include <stdint.h>

/* Returns the gap in seconds to the next arrival of a Poisson process of rate (arrivals a second):
 * exponentially distributed, by inversion of a xorshift64* generator (S. Vigna, An experimental exploration
 * of Marsaglia's xorshift generators, scrambled, 2016). *state is the generator's state, any number but 0. */
double client_poisson_gap(uint64_t *state, double rate);

#endif
