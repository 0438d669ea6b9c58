/* Which source pixels an output pixel sees, and with which weights: resize.h says how. Inside server/image/
 * only; pure functions. */
#ifndef CONVOY_SERVER_IMAGE_WINDOW_H
#define CONVOY_SERVER_IMAGE_WINDOW_H

#include "server/image/fit.h"
#include "server/image/taps.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Vectors take so many pixels. */
#define CONVOY_WINDOW_TOGETHER 4

/* The source pixels from start to end; of NEAREST one. From output pixel to output pixel neither start nor
 * end falls. */
struct convoy_window {
    int64_t start, end;
    double centre; /* not of NEAREST */
};

/* Half the width of the filter, in source pixels. */
double convoy_window_reach(const struct convoy_axis *axis);

/* Whether weights are whole numbers in a table, as below. A filter that reaches farther has too few bits left
 * for a weight, and its table would be larger than the image: for such axes the weights of the bilinear
 * filter are computed in double where they are needed. */
bool convoy_window_has_table(const struct convoy_axis *axis);

/* At most this many source pixels are in a window. */
size_t convoy_window_most(const struct convoy_axis *axis);

/* Of output pixel i; not for NEAREST. */
struct convoy_window convoy_window_of(const struct convoy_axis *axis, int i);

/* For NEAREST, the source pixel that each of the axis->out output pixels takes. */
void convoy_window_nearest(const struct convoy_axis *axis, size_t *places);

/* Fixed-point weights of a window with a table, each so many times; their sum is 2^22 up to rounding. */
void convoy_window_weights(const struct convoy_axis *axis, const struct convoy_window *window, int times,
                           int32_t *weights);

/* So many pixels from first on, as taps over rows of `columns` pixels. Where the row has room for it, pixels
 * are added to a multiple of CONVOY_WINDOW_TOGETHER. */
struct convoy_taps convoy_taps_together(size_t first, size_t count, size_t columns);

/* The weights as taps over rows that begin at source pixel base and have `columns` pixels. weights has room
 * for `most` pixels, a multiple of CONVOY_WINDOW_TOGETHER. Pixels that are added have no weight. */
struct convoy_taps convoy_window_taps(const struct convoy_axis *axis, const struct convoy_window *window,
                                      int64_t base, int64_t columns, int channels, int32_t *weights,
                                      size_t most);

/* Pillow 13's rule of which pass is first: rows where the height loses more than twice as many pixels as the
 * width. It also bounds what lies between the passes: by the source, or by the result and the few pixels
 * around it that a filter sees. */
bool convoy_window_rows_first(const struct convoy_axis *x, const struct convoy_axis *y);

#endif
