#include "server/image/resize.h"

#include "engine/base/image_filter.h"
#include "server/image/weighted_sums.h"
#include "server/image/window.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define MOST_CHANNELS 4

/* Rows of pixels somewhere in memory, columns wide; column and row 0 of it are source column and row base_x
 * and base_y. */
struct view {
    const uint8_t *pixels;
    size_t stride;
    int64_t columns;
    int64_t base_x, base_y;
};

static inline uint8_t level_of_double(double value)
{
    return (uint8_t)(value >= 254.5 ? 255.0 : value + 0.5);
}

static int columns_by_table(struct convoy_image_scratch *scratch, const struct view *view, int64_t rows,
                            int channels, const struct convoy_axis *x, uint8_t *to)
{
    size_t most = (convoy_window_most(x) + CONVOY_WINDOW_TOGETHER - 1) / CONVOY_WINDOW_TOGETHER *
                  CONVOY_WINDOW_TOGETHER,
           out = (size_t)x->out;
    size_t stride = most * (size_t)channels;
    int32_t *weights = convoy_image_buffer_reserve(&scratch->weights, out, stride, sizeof *weights);
    struct convoy_taps *taps = convoy_image_buffer_reserve(&scratch->windows, out, sizeof *taps, 1);
    if (weights == NULL || taps == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < out; i++) {
        const struct convoy_window window = convoy_window_of(x, (int)i);
        taps[i] =
            convoy_window_taps(x, &window, view->base_x, view->columns, channels, weights + i * stride, most);
    }
    convoy_mean_along_rows(view->pixels, view->stride, (size_t)rows, channels, out, taps, weights, stride,
                           to);
    return 0;
}

/* So many pixels are summed up in whole numbers: 255 x 4096^2 / 2 stays below 2^31. */
#define FAR_BLOCK 4096

/* Adds count pixels, at most FAR_BLOCK, of which pixel k has the weight first + k slope. */
static inline void add_ramp(const uint8_t *from, int channels, int count, double first, double slope,
                            double *sums)
{
    uint32_t levels[MOST_CHANNELS] = {0}, moments[MOST_CHANNELS] = {0};

    /* The analyzer does not know that there are 1, 3 or 4 channels. NOLINTBEGIN(clang-analyzer-core.*) */
    for (int k = 0; k < count; k++, from += channels)
        for (int c = 0; c < channels; c++) {
            levels[c] += from[c];
            moments[c] += from[c] * (uint32_t)k;
        }
    for (int c = 0; c < channels; c++)
        sums[c] += first * levels[c] + slope * moments[c];
    /* NOLINTEND(clang-analyzer-core.*) */
}

/* Adds the source pixels from start to end, all on one side of the window's centre: there the triangle is a
 * straight line, so what is summed up pixel by pixel is their levels and where they are. */
static inline void add_side(const uint8_t *row, int channels, const struct convoy_window *window,
                            int64_t start, int64_t end, double slope, double *sums, double *total)
{
    double first = 1.0 - fabs(((double)start + 0.5 - window->centre) * slope), n = (double)(end - start);

    *total += n * first + n * (n - 1) / 2 * slope;
    for (int64_t at = start; at < end; at += FAR_BLOCK) {
        int count = end - at < FAR_BLOCK ? (int)(end - at) : FAR_BLOCK;
        add_ramp(row + at * channels, channels, count, first + (double)(at - start) * slope, slope, sums);
    }
}

/* One output pixel. */
static inline void far_pixel(const uint8_t *row, int channels, const struct convoy_window *window,
                             double inverse_reach, uint8_t *to)
{
    double sums[MOST_CHANNELS] = {0.0}, total = 0.0;
    int64_t middle = (int64_t)(window->centre + 0.5); /* the first pixel whose centre is not before it */

    if (middle < window->start)
        middle = window->start;
    if (middle > window->end)
        middle = window->end;
    add_side(row, channels, window, window->start, middle, inverse_reach, sums, &total);
    add_side(row, channels, window, middle, window->end, -inverse_reach, sums, &total);
    for (int c = 0; c < channels; c++)
        to[c] = level_of_double(sums[c] / total);
}

static void columns_by_formula(const struct view *view, int64_t rows, int channels,
                               const struct convoy_axis *x, uint8_t *to)
{
    double inverse_reach = 1.0 / convoy_window_reach(x);
    size_t row_bytes = (size_t)x->out * (size_t)channels;
    for (int i = 0; i < x->out; i++, to += channels) {
        struct convoy_window window = convoy_window_of(x, i);
        window.start -= view->base_x;
        window.end -= view->base_x;
        window.centre -= (double)view->base_x;
        const uint8_t *row = view->pixels;
        for (int64_t y = 0; y < rows; y++, row += view->stride)
            if (channels == 1)
                far_pixel(row, 1, &window, inverse_reach, to + (size_t)y * row_bytes);
            else if (channels == 4)
                far_pixel(row, 4, &window, inverse_reach, to + (size_t)y * row_bytes);
            else
                far_pixel(row, 3, &window, inverse_reach, to + (size_t)y * row_bytes);
    }
}

/* The pass along rows: `rows` rows of view become rows of x->out pixels. */
static int pass_columns(struct convoy_image_scratch *scratch, const struct view *view, int64_t rows,
                        int channels, const struct convoy_axis *x, uint8_t *to)
{
    if (convoy_window_has_table(x))
        return columns_by_table(scratch, view, rows, channels, x, to);
    columns_by_formula(view, rows, channels, x, to);
    return 0;
}

static int rows_by_table(struct convoy_image_scratch *scratch, const struct view *view, size_t row_bytes,
                         const struct convoy_axis *y, uint8_t *to)
{
    int32_t *weights =
        convoy_image_buffer_reserve(&scratch->weights, convoy_window_most(y), sizeof *weights, 1);
    if (weights == NULL)
        return -ENOMEM;
    for (int i = 0; i < y->out; i++, to += row_bytes) {
        struct convoy_window window = convoy_window_of(y, i);
        convoy_window_weights(y, &window, 1, weights);
        convoy_mean_of_rows(view->pixels + (size_t)(window.start - view->base_y) * view->stride, view->stride,
                            (size_t)(window.end - window.start), weights, row_bytes, to);
    }
    return 0;
}

static int rows_by_formula(struct convoy_image_scratch *scratch, const struct view *view, size_t row_bytes,
                           const struct convoy_axis *y, uint8_t *to)
{
    double *sums = convoy_image_buffer_reserve(&scratch->sums, row_bytes, sizeof *sums, 1);
    if (sums == NULL)
        return -ENOMEM;
    double inverse_reach = 1.0 / convoy_window_reach(y);
    for (int i = 0; i < y->out; i++, to += row_bytes) {
        struct convoy_window window = convoy_window_of(y, i);
        double total = 0.0;
        memset(sums, 0, row_bytes * sizeof *sums);
        for (int64_t at = window.start; at < window.end; at++) {
            const uint8_t *from = view->pixels + (size_t)(at - view->base_y) * view->stride;
            double weight = convoy_filter_weight(CONVOY_FILTER_BILINEAR,
                                                 ((double)at + 0.5 - window.centre) * inverse_reach);
            total += weight;
            for (size_t b = 0; b < row_bytes; b++)
                sums[b] += weight * from[b];
        }
        for (size_t b = 0; b < row_bytes; b++)
            to[b] = level_of_double(sums[b] / total);
    }
    return 0;
}

/* The pass down columns: view, rows of row_bytes, becomes y->out rows of row_bytes. */
static int pass_rows(struct convoy_image_scratch *scratch, const struct view *view, size_t row_bytes,
                     const struct convoy_axis *y, uint8_t *to)
{
    return convoy_window_has_table(y) ? rows_by_table(scratch, view, row_bytes, y, to)
                                      : rows_by_formula(scratch, view, row_bytes, y, to);
}

/* Both axes change: two passes and a buffer between them, over the needed part of the source alone. */
static int resize_both(struct convoy_image_scratch *scratch, const uint8_t *source, size_t stride,
                       int channels, const struct convoy_axis *x, const struct convoy_axis *y,
                       uint8_t *result)
{
    int64_t left = convoy_window_of(x, 0).start;
    int64_t top = convoy_window_of(y, 0).start;
    int64_t columns = convoy_window_of(x, x->out - 1).end - left;
    int64_t rows = convoy_window_of(y, y->out - 1).end - top;
    size_t pixel = (size_t)channels;
    struct view view = {source + (size_t)top * stride + (size_t)left * pixel, stride, columns, left, top};

    bool rows_first = convoy_window_rows_first(x, y);
    size_t middle_columns = rows_first ? (size_t)columns : (size_t)x->out;
    size_t middle_rows = rows_first ? (size_t)y->out : (size_t)rows;
    uint8_t *middle = convoy_image_buffer_reserve(&scratch->middle, middle_rows, middle_columns, pixel);
    if (middle == NULL)
        return -ENOMEM;
    struct view between = {middle, middle_columns * pixel, columns, left, top};
    int code = rows_first ? pass_rows(scratch, &view, middle_columns * pixel, y, middle)
                          : pass_columns(scratch, &view, rows, channels, x, middle);
    if (code != 0)
        return code;
    return rows_first ? pass_columns(scratch, &between, y->out, channels, x, result)
                      : pass_rows(scratch, &between, middle_columns * pixel, y, result);
}

/* Where each output pixel is taken from, in units. */
static size_t *nearest(struct convoy_image_buffer *buffer, const struct convoy_axis *axis, size_t unit)
{
    size_t *places = convoy_image_buffer_reserve(buffer, (size_t)axis->out, sizeof *places, 1);

    if (places == NULL)
        return NULL;
    convoy_window_nearest(axis, places);
    for (int i = 0; i < axis->out; i++)
        places[i] *= unit;
    return places;
}

static int resize_nearest(struct convoy_image_scratch *scratch, const uint8_t *source, size_t stride,
                          size_t pixel, const struct convoy_axis *x, const struct convoy_axis *y,
                          uint8_t *result)
{
    const size_t *columns = nearest(&scratch->windows, x, pixel);
    const size_t *rows = nearest(&scratch->weights, y, stride);
    if (columns == NULL || rows == NULL)
        return -ENOMEM;
    for (int j = 0; j < y->out; j++)
        for (int i = 0; i < x->out; i++, result += pixel)
            memcpy(result, source + rows[j] + columns[i], pixel);
    return 0;
}

int convoy_image_resize(struct convoy_image_scratch *scratch, const uint8_t *source, int channels,
                        const struct convoy_axis *x, const struct convoy_axis *y, uint8_t *result,
                        struct convoy_error *error)
{
    size_t pixel = (size_t)channels;
    size_t stride = (size_t)x->in * pixel;
    size_t row_bytes = (size_t)x->out * pixel;
    struct view view = {source, stride, x->in, 0, 0};
    int code = 0;
    if (convoy_axis_is_copy(x) && convoy_axis_is_copy(y)) {
        for (int64_t i = 0; i < y->out; i++)
            memcpy(result + (size_t)i * row_bytes,
                   source + (size_t)(y->first + i) * stride + (size_t)x->first * pixel, row_bytes);
    } else if (x->filter == CONVOY_FILTER_NEAREST) {
        code = resize_nearest(scratch, source, stride, pixel, x, y, result);
    } else if (convoy_axis_is_copy(x)) {
        view.pixels += (size_t)x->first * pixel;
        code = pass_rows(scratch, &view, row_bytes, y, result);
    } else if (convoy_axis_is_copy(y)) {
        view.pixels += (size_t)y->first * stride;
        code = pass_columns(scratch, &view, y->out, channels, x, result);
    } else {
        code = resize_both(scratch, source, stride, channels, x, y, result);
    }
    if (code != 0)
        return convoy_fail(error, code,
                           "out of memory while resizing an image: send a smaller one or try again");
    return 0;
}
