#include "engine/cuda/decode/resampling.h"

#include "kernels/fit_images.h"

#include <math.h>
#include <string.h>

/* As in server/image/resize.c: half of a window, and how far centres are added up. */
#define MOST_TAPS     4096.0
#define NEAREST_STEPS (1 << 20)

void convoy_resampling_choose(const struct convoy_image_fitting *fitting, uint32_t width, uint32_t height,
                              struct convoy_resampling *resampling)
{
    struct convoy_axis *x = &resampling->x, *y = &resampling->y;
    *resampling =
        (struct convoy_resampling){.x = convoy_axis_of(width, (int)fitting->width, fitting->filter),
                                   .y = convoy_axis_of(height, (int)fitting->height, fitting->filter)};
    if (fitting->kind == CONVOY_FITTING_CROP) {
        convoy_axes_crop(fitting->cover_width, fitting->cover_height, fitting->cuts_down, x, y);
    } else if (fitting->kind == CONVOY_FITTING_PAD) {
        convoy_axes_pad(x, y);
        resampling->left = (int)convoy_image_padding(x->out, (int)fitting->width);
        resampling->top = (int)convoy_image_padding(y->out, (int)fitting->height);
    } else {
        convoy_axes_stretch(fitting->cover_width, fitting->cover_height, fitting->cuts_down, x, y);
    }
    resampling->rows_first = y->scaled < y->in && y->in - y->scaled > 2 * (x->in - x->scaled);
}

static double axis_scale(const struct convoy_axis *axis)
{
    return (double)axis->in / (double)axis->scaled;
}

static double axis_unit(const struct convoy_axis *axis)
{
    return fmax(axis_scale(axis), 1.0);
}

static bool takes_one(const struct convoy_axis *axis)
{
    return axis->scaled == axis->in || axis->filter == CONVOY_FILTER_NEAREST;
}

size_t convoy_resampling_taps(const struct convoy_axis *axis)
{
    double reach = axis_unit(axis) * convoy_filter_reach(axis->filter);
    if (axis->scaled < 1)
        return 0;
    if (takes_one(axis))
        return 1;
    return reach > MOST_TAPS ? 0 : (size_t)ceil(reach) * 2 + 1;
}

int64_t convoy_resampling_span(const struct convoy_axis *axis, size_t taps, int count)
{
    int64_t most = (int64_t)ceil((count - 1) * axis_scale(axis)) + 1 + (int64_t)taps;
    return most < axis->in ? most : axis->in;
}

#define KEPT 256 /* weights of a window that need not be computed twice */

/* One window: where it begins, how long it is, and weights. */
static void fill_window(const struct convoy_axis *axis, int i, size_t taps, int32_t *entry)
{
    double reach = axis_unit(axis) * convoy_filter_reach(axis->filter), per_unit = 1.0 / axis_unit(axis);
    double centre = ((double)(axis->first + i) + 0.5) * axis_scale(axis), sum = 0.0, kept[KEPT];
    int64_t start = (int64_t)(centre - reach + 0.5), end = (int64_t)(centre + reach + 0.5);
    start = start < 0 ? 0 : start;
    end = end > axis->in ? axis->in : end;
    for (int64_t x = start; x < end; x++) {
        double weight = convoy_filter_weight(axis->filter, ((double)x + 0.5 - centre) * per_unit);
        sum += weight;
        if (x - start < KEPT)
            kept[x - start] = weight;
    }
    memset(entry, 0, (2 + taps) * sizeof(*entry));
    entry[0] = (int32_t)start;
    entry[1] = (int32_t)(end - start);
    for (int64_t x = start; x < end; x++) {
        double weight = x - start < KEPT
                            ? kept[x - start]
                            : convoy_filter_weight(axis->filter, ((double)x + 0.5 - centre) * per_unit);
        weight /= sum;
        entry[2 + x - start] =
            (int32_t)(weight * (1 << CONVOY_FIT_WEIGHT_BITS) + (weight < 0.0 ? -0.5 : 0.5));
    }
}

/* Centres are added up one by one, as Pillow does: their rounding decides between two pixels. */
static void fill_nearest(const struct convoy_axis *axis, int32_t *table)
{
    double step = axis_scale(axis), centre = step * 0.5;
    bool near = axis->first + axis->out <= NEAREST_STEPS;
    for (int64_t i = 0; near && i < axis->first; i++)
        centre += step;
    for (int i = 0; i < axis->out; i++, centre += step, table += 3) {
        int64_t at = (int64_t)(near ? centre : ((double)(axis->first + i) + 0.5) * step);
        table[0] = (int32_t)(at < axis->in ? at : axis->in - 1);
        table[1] = 1;
        table[2] = 1 << CONVOY_FIT_WEIGHT_BITS;
    }
}

void convoy_resampling_fill(const struct convoy_axis *axis, size_t taps, int32_t *table)
{
    if (axis->scaled == axis->in)
        for (int i = 0; i < axis->out; i++, table += 3) {
            table[0] = (int32_t)(axis->first + i);
            table[1] = 1;
            table[2] = 1 << CONVOY_FIT_WEIGHT_BITS;
        }
    else if (axis->filter == CONVOY_FILTER_NEAREST)
        fill_nearest(axis, table);
    else
        for (int i = 0; i < axis->out; i++, table += 2 + taps)
            fill_window(axis, i, taps, table);
}
