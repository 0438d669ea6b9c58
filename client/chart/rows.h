/* Charts with a row for each thing that has a name: stacked bars, and points with error bars. */
#ifndef CONVOY_CLIENT_ROWS_H
#define CONVOY_CLIENT_ROWS_H

#include "client/chart/frame.h"

/* id, title, description, x_name and width of the frame are the caller's; the height follows from the rows.
 */
struct client_stack {
    struct client_frame frame;
    const char *const *names; /* of the rows */
    const bool *pale;         /* rows to be compared with, drawn paler; NULL: none */
    size_t rows;
    const char *const *parts; /* of each row, from left to right */
    const int *colours;       /* of the parts */
    size_t part_count;        /* at most CLIENT_FRAME_COLOURS */
    const double *values;     /* rows x part_count; what is not finite or below 0 is 0 */
    const char *unit;         /* for the tips */
};

void client_stack_draw(FILE *out, struct client_stack *stack);

struct client_ranges {
    struct client_frame frame;
    const char *const *names;
    const double *values, *low, *high; /* in percent, 0 to 100; rows without a value are not finite */
    const char *const *about;          /* what each row's value is made of, for its tip */
    size_t rows;
    double all; /* a line across all rows: the value of all together; NaN: none */
};

void client_ranges_draw(FILE *out, struct client_ranges *ranges);

#endif
