/* A histogram: columns over ranges of a value on a logarithmic axis, and optionally the outline of another
 * one of the same ranges. The axis is as long as columns are not empty. */
#ifndef CONVOY_CLIENT_COLUMNS_H
#define CONVOY_CLIENT_COLUMNS_H

#include "client/chart/frame.h"

struct client_columns {
    struct client_frame frame; /* id to height are the caller's; the rest is filled here */
    struct client_legend legend;
    const double *bounds;  /* count + 1, ascending, above 0: column i lies between bounds i and i + 1 */
    const double *heights; /* at least 0; what is not finite is 0 */
    size_t count;
    struct client_legend outline_legend;
    const double *outline;       /* heights of the other one; NULL: none */
    double x_low, x_high;        /* what the axis holds at least, so that charts compare; 0: neither */
    const char *x_unit, *y_unit; /* for the tips */
};

/* Writes the histogram as one SVG element. */
void client_columns_draw(FILE *out, struct client_columns *columns);

#endif
