/* A chart of points joined by lines, with error bars where they are given. */
#ifndef CONVOY_CLIENT_PLOT_H
#define CONVOY_CLIENT_PLOT_H

#include "client/chart/frame.h"

struct client_series {
    struct client_legend legend;
    const double *x, *y; /* in the order in which lines join them; a point that is not finite is left out */
    const double *low, *high; /* ends of error bars; NULL: none */
    const char *const *about; /* what each point is, for its tip; NULL: the numbers alone */
    size_t count;
};

struct client_plot {
    struct client_frame frame; /* id to height and left_room are the caller's; the rest is filled here */
    const struct client_series *series;
    size_t count; /* at most CLIENT_PLOT_SERIES */
    bool x_log, y_log;
    bool from_zero;        /* linear scales begin at 0 */
    bool shares;           /* both axes run from 0 to 100 %, and a diagonal shows where they are equal */
    const double *x_ticks; /* where the x axis is labelled; NULL: at round numbers */
    size_t x_tick_count;
    const char *x_unit, *y_unit; /* for the tips */
};

#define CLIENT_PLOT_SERIES 16

/* Writes the plot as one SVG element. Without a point that can be drawn it says so in the picture. */
void client_plot_draw(FILE *out, struct client_plot *plot);

#endif
