/* A chart with a row for each thing that has a name: points with error bars. */
#ifndef CONVOY_CLIENT_ROWS_H
#define CONVOY_CLIENT_ROWS_H

#include "client/chart/frame.h"

/* id, title, description, x_name and width of the frame are the caller's; the height follows from the rows.
 */
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
