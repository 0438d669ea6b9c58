/* A chart of points, joined by a line, whose axes both run from 0 to 100 %; a diagonal shows where they are
 * equal. */
#ifndef CONVOY_CLIENT_PLOT_H
#define CONVOY_CLIENT_PLOT_H

#include "client/chart/frame.h"

struct client_plot {
    struct client_frame frame; /* id to height are the caller's; the rest is filled here */
    const double *x, *y; /* in percent, in the order in which the line joins them; a point that is not finite
                            is left out */
    const double *low, *high; /* ends of error bars of y; what is not finite has none */
    const char *const *about; /* the tip of each point */
    size_t count;
};

/* Writes the plot as one SVG element. Without a point that can be drawn it says so in the picture. */
void client_plot_draw(FILE *out, struct client_plot *plot);

#endif
