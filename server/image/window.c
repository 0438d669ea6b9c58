#include "server/image/window.h"

#include "engine/base/image_filter.h"

#include <math.h>
#include <string.h>

#define MAX_TABLE_REACH 4096.0

static double axis_scale(const struct convoy_axis *axis)
{
    return axis->extent / (double)axis->scaled;
}

/* Source pixels for a unit of the filter. */
static double axis_unit(const struct convoy_axis *axis)
{
    return fmax(axis_scale(axis), 1.0);
}

/* The filter, unless it is too wide. */
static enum convoy_image_filter axis_filter(const struct convoy_axis *axis)
{
    bool wide = axis_unit(axis) * convoy_filter_reach(axis->filter) > MAX_TABLE_REACH;
    return wide ? CONVOY_FILTER_BILINEAR : axis->filter;
}

double convoy_window_reach(const struct convoy_axis *axis)
{
    return axis_unit(axis) * convoy_filter_reach(axis_filter(axis));
}

bool convoy_window_has_table(const struct convoy_axis *axis)
{
    return convoy_window_reach(axis) <= MAX_TABLE_REACH;
}

size_t convoy_window_most(const struct convoy_axis *axis)
{
    return (size_t)ceil(convoy_window_reach(axis)) * 2 + 1;
}

struct convoy_window convoy_window_of(const struct convoy_axis *axis, int i)
{
    if (convoy_axis_is_copy(axis))
        return (struct convoy_window){axis->first + i, axis->first + i + 1, (double)(axis->first + i) + 0.5};
    double reach = convoy_window_reach(axis);
    double centre = axis->start + ((double)(axis->first + i) + 0.5) * axis_scale(axis);
    int64_t start = (int64_t)(centre - reach + 0.5);
    int64_t end = (int64_t)(centre + reach + 0.5);
    return (struct convoy_window){start < 0 ? 0 : start, end > axis->in ? axis->in : end, centre};
}

/* Additions up to here are made one by one, as Pillow makes them: where a centre lies on the edge between two
 * pixels, their rounding decides. */
#define NEAREST_STEPS (1 << 20)

void convoy_window_nearest(const struct convoy_axis *axis, size_t *places)
{
    double step = axis_scale(axis), centre = step * 0.5;
    bool near = axis->first + axis->out <= NEAREST_STEPS;

    for (int64_t i = 0; near && i < axis->first; i++)
        centre += step;
    for (int i = 0; i < axis->out; i++, centre += step) {
        int64_t at = (int64_t)(near ? centre : ((double)(axis->first + i) + 0.5) * step);
        places[i] = (size_t)(at < axis->in ? at : axis->in - 1);
    }
}

void convoy_window_weights(const struct convoy_axis *axis, const struct convoy_window *window, int times,
                           int32_t *weights)
{
    enum convoy_image_filter filter = axis_filter(axis);
    double per_unit = 1.0 / axis_unit(axis), sum = 0.0;
    for (int64_t x = window->start; x < window->end; x++)
        sum += convoy_filter_weight(filter, ((double)x + 0.5 - window->centre) * per_unit);
    for (int64_t x = window->start; x < window->end; x++) {
        double weight = convoy_filter_weight(filter, ((double)x + 0.5 - window->centre) * per_unit) / sum;
        for (int i = 0; i < times; i++)
            *weights++ = (int32_t)(weight * (1 << CONVOY_WEIGHT_BITS) + (weight < 0.0 ? -0.5 : 0.5));
    }
}

struct convoy_taps convoy_taps_together(size_t first, size_t count, size_t columns)
{
    size_t more = (count + CONVOY_WINDOW_TOGETHER - 1) / CONVOY_WINDOW_TOGETHER * CONVOY_WINDOW_TOGETHER;
    if (more > columns)
        more = count;
    return (struct convoy_taps){first + more > columns ? columns - more : first, more};
}

struct convoy_taps convoy_window_taps(const struct convoy_axis *axis, const struct convoy_window *window,
                                      int64_t base, int64_t columns, int channels, int32_t *weights,
                                      size_t most)
{
    size_t first = (size_t)(window->start - base);
    struct convoy_taps taps =
        convoy_taps_together(first, (size_t)(window->end - window->start), (size_t)columns);
    memset(weights, 0, most * (size_t)channels * sizeof *weights);
    convoy_window_weights(axis, window, channels, weights + (first - taps.first) * (size_t)channels);
    return taps;
}

bool convoy_window_rows_first(const struct convoy_axis *x, const struct convoy_axis *y)
{
    return y->scaled < y->in && y->in - y->scaled > 2 * (x->in - x->scaled);
}
