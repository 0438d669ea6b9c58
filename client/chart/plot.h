/* A chart of points joined by lines, with error bars where they are given. */
#ifndef CONVOY_CLIENT_PLOT_H
#define CONVOY_CLIENT_PLOT_H

#include "client/chart/frame.h"

#define CLIENT_PLOT_SERIES 8

struct client_series {
    struct client_legend legend;
    const double *x, *y; /* in the order in which lines join them; a point that is not finite is left out */
    const double *low, *high;  /* ends of error bars; NULL: none; what is not finite has none */
    const char *const *about;  /* the tip of each point */
    const char *const *labels; /* written above each point, as far as there is room; NULL: none */
    const bool *hollow;        /* points that are drawn as a ring; NULL: none */
    size_t count;
};

struct client_plot {
    struct client_frame frame; /* id to height are the caller's; the rest is filled here */
    const struct client_series *series;
    size_t count; /* at most CLIENT_PLOT_SERIES */
    bool shares;  /* both axes run from 0 to 100 %, and a diagonal shows where they are equal; otherwise they
                     begin at 0 and end as the data does */
    bool y_log;   /* then what is not above 0 is left out */
};

/* Writes the plot as one SVG element. Without a point that can be drawn it says so in the picture. */
void client_plot_draw(FILE *out, struct client_plot *plot);

#endif
