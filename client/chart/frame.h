/* What all charts share: the SVG element with a title for readers of screens, axes with ticks and names, a
 * legend. Colours are classes (c0, c1, ...) that the page's style defines for light and dark
 * (client/chart/page.h). */
#ifndef CONVOY_CLIENT_FRAME_H
#define CONVOY_CLIENT_FRAME_H

#include <stdbool.h>
#include <stdio.h>

#include "client/chart/scale.h"

#define CLIENT_FRAME_COLOURS 6

/* How a value or an entry of a legend is drawn: shapes differ, because colours alone are not told apart by
 * all. */
enum client_mark {
    CLIENT_MARK_CIRCLE,
    CLIENT_MARK_SQUARE,
    CLIENT_MARK_TRIANGLE,
    CLIENT_MARK_DIAMOND,
    CLIENT_MARK_BLOCK, /* legends only: a filled area */
    CLIENT_MARK_LINE,  /* legends only: a line without marks */
};

struct client_legend {
    const char *name;
    int colour; /* below CLIENT_FRAME_COLOURS */
    enum client_mark mark;
    bool dashed; /* a dashed line; a pale block */
};

struct client_frame {
    const char *id;          /* unique in the page: letters, digits and '-' */
    const char *title;       /* shown above, and the name of the picture */
    const char *description; /* one sentence about what is seen, for who does not see it; NULL: none */
    const char *x_name;      /* with the unit; NULL: none */
    const char *y_name;
    double width, height; /* of the picture, in pixels */
    double left_room;     /* for the labels on the left; 0: enough for numbers */
    double right_room;    /* free place right of the area; 0: little */
    double head_room;     /* free place above the area */
    bool rows;            /* y is rows with names, which the chart draws itself: no scale, no ticks */
    struct client_scale x, y;
    const struct client_legend *legend;
    size_t legend_count;
    double left, right, top, bottom; /* out: the area that data is drawn in */
};

/* Computes the area, sets the places of both scales to it, and writes everything but the data. */
void client_frame_open(FILE *out, struct client_frame *frame);

/* Ends the SVG element. */
void client_frame_close(FILE *out);

/* Returns the height that title, legend and axis take of a picture of that width: what the area does not get.
 */
double client_frame_border(const struct client_frame *frame);

/* Draws a mark in the current colour, as a ring when it is hollow. `tip` is shown when the pointer rests on
 * it; NULL: none. */
void client_frame_mark(FILE *out, enum client_mark mark, bool hollow, double x, double y, const char *tip);

/* Writes a <title> with that text, if there is one. */
void client_frame_tip(FILE *out, const char *tip);

#endif
