/* Scales of charts: from values to places, with ticks at round numbers. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_SCALE_H
#define CONVOY_CLIENT_SCALE_H

#include <stdbool.h>
#include <stddef.h>

#define CLIENT_SCALE_TICKS 32

struct client_scale {
    bool logarithmic;
    double low, high; /* the values at the ends, low < high */
    double from, to;  /* their places, in any unit; from may lie above to */
    double ticks[CLIENT_SCALE_TICKS];
    size_t tick_count;
};

/* Makes a linear scale that holds low to high, rounded outwards to ticks 1, 2 or 5 times a power of ten
 * apart, about `wanted` (1 to 15) of them. Bounds that are not numbers below 1e100, or the wrong way round,
 * give 0 to 1; equal ones get room around them. Places are 0 to 1; set from and to afterwards. */
void client_scale_linear(struct client_scale *scale, double low, double high, size_t wanted);

/* Makes a logarithmic scale that holds low to high, rounded outwards to 1, 2 or 5 times a power of ten. Where
 * that is many decades, there are ticks at powers of ten only, or at some of them. Bounds that are not from
 * 1e-100 to 1e100 give 1 to 10. */
void client_scale_log(struct client_scale *scale, double low, double high);

/* Returns the place of a value, clamped to the ends. NaN for NaN, and for what a logarithmic scale cannot
 * show (0 and below). */
double client_scale_place(const struct client_scale *scale, double value);

/* Writes a value as people read it on an axis: 0.05, 250, 4000, 20k, 1.5M. 24 bytes suffice. Returns text. */
const char *client_scale_label(double value, char *text, size_t bytes);

#endif
