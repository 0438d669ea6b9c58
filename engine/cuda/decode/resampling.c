#include "engine/cuda/decode/resampling.h"

#include "kernels/fit_images.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846
/* As in server/image/resize.c: half of a window, and how far centres are added up. */
#define MOST_TAPS     4096.0
#define NEAREST_STEPS (1 << 20)

static int64_t half_to_even(int64_t twice)
{
    int64_t down = twice / 2;
    return twice % 2 == 0 ? down : down + down % 2;
}

static void crop(const struct convoy_image_fitting *fitting, struct convoy_resampling *resampling)
{
    struct convoy_resampling_axis *x = &resampling->x, *y = &resampling->y;
    int64_t width = fitting->cover_width > 0 ? fitting->cover_width : fitting->width;
    int64_t height = fitting->cover_height > 0 ? fitting->cover_height : fitting->height;
    x->scaled = width;
    y->scaled = height;
    if (width * y->in >= height * x->in)
        y->scaled = width * y->in / x->in;
    else
        x->scaled = height * x->in / y->in;
    x->first = half_to_even(x->scaled - x->out);
    y->first = half_to_even(y->scaled - y->out);
}

static int contained(int64_t in, int64_t other_in, int other_out, int most)
{
    double length = rint((double)in / (double)other_in * other_out);
    return length < 1.0 ? 1 : length > most ? most : (int)length;
}

static void pad(const struct convoy_image_fitting *fitting, struct convoy_resampling *resampling)
{
    struct convoy_resampling_axis *x = &resampling->x, *y = &resampling->y;
    double image = (double)x->in / (double)y->in, room = (double)x->out / y->out;
    if (image > room)
        y->out = contained(y->in, x->in, x->out, y->out);
    else if (image < room)
        x->out = contained(x->in, y->in, y->out, x->out);
    x->scaled = x->out;
    y->scaled = y->out;
    resampling->left = (int)half_to_even((int64_t)fitting->width - x->out);
    resampling->top = (int)half_to_even((int64_t)fitting->height - y->out);
}

void convoy_resampling_choose(const struct convoy_image_fitting *fitting, uint32_t width, uint32_t height,
                              struct convoy_resampling *resampling)
{
    struct convoy_resampling_axis *x = &resampling->x, *y = &resampling->y;
    *resampling = (struct convoy_resampling){0};
    *x = (struct convoy_resampling_axis){
        .in = width, .scaled = fitting->width, .out = (int)fitting->width, .filter = fitting->filter};
    *y = (struct convoy_resampling_axis){
        .in = height, .scaled = fitting->height, .out = (int)fitting->height, .filter = fitting->filter};
    if (fitting->kind == CONVOY_FITTING_CROP)
        crop(fitting, resampling);
    else if (fitting->kind == CONVOY_FITTING_PAD)
        pad(fitting, resampling);
    resampling->rows_first = y->scaled < y->in && y->in - y->scaled > 2 * (x->in - x->scaled);
}

static double filter_reach(enum convoy_fitting_filter filter)
{
    return filter == CONVOY_FITTING_LANCZOS ? 3.0 : filter == CONVOY_FITTING_BICUBIC ? 2.0 : 1.0;
}

static double bicubic(double x)
{
    const double a = -0.5;
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

static double sinc(double x)
{
    return x == 0.0 ? 1.0 : sin(PI * x) / (PI * x);
}

static double filter_weight(enum convoy_fitting_filter filter, double x)
{
    x = fabs(x);
    switch (filter) {
    case CONVOY_FITTING_BICUBIC:
        return bicubic(x);
    case CONVOY_FITTING_LANCZOS:
        return x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
    default:
        return x < 1.0 ? 1.0 - x : 0.0;
    }
}

static double axis_scale(const struct convoy_resampling_axis *axis)
{
    return (double)axis->in / (double)axis->scaled;
}

static double axis_unit(const struct convoy_resampling_axis *axis)
{
    return fmax(axis_scale(axis), 1.0);
}

static bool takes_one(const struct convoy_resampling_axis *axis)
{
    return axis->scaled == axis->in || axis->filter == CONVOY_FITTING_NEAREST;
}

size_t convoy_resampling_taps(const struct convoy_resampling_axis *axis)
{
    double reach = axis_unit(axis) * filter_reach(axis->filter);
    if (axis->scaled < 1)
        return 0;
    if (takes_one(axis))
        return 1;
    return reach > MOST_TAPS ? 0 : (size_t)ceil(reach) * 2 + 1;
}

int64_t convoy_resampling_span(const struct convoy_resampling_axis *axis, size_t taps, int count)
{
    int64_t most = (int64_t)ceil((count - 1) * axis_scale(axis)) + 1 + (int64_t)taps;
    return most < axis->in ? most : axis->in;
}

#define KEPT 256 /* weights of a window that need not be computed twice */

/* One window: where it begins, how long it is, and weights. */
static void fill_window(const struct convoy_resampling_axis *axis, int i, size_t taps, int32_t *entry)
{
    double reach = axis_unit(axis) * filter_reach(axis->filter), per_unit = 1.0 / axis_unit(axis);
    double centre = ((double)(axis->first + i) + 0.5) * axis_scale(axis), sum = 0.0, kept[KEPT];
    int64_t start = (int64_t)(centre - reach + 0.5), end = (int64_t)(centre + reach + 0.5);
    start = start < 0 ? 0 : start;
    end = end > axis->in ? axis->in : end;
    for (int64_t x = start; x < end; x++) {
        double weight = filter_weight(axis->filter, ((double)x + 0.5 - centre) * per_unit);
        sum += weight;
        if (x - start < KEPT)
            kept[x - start] = weight;
    }
    memset(entry, 0, (2 + taps) * sizeof(*entry));
    entry[0] = (int32_t)start;
    entry[1] = (int32_t)(end - start);
    for (int64_t x = start; x < end; x++) {
        double weight = x - start < KEPT ? kept[x - start]
                                         : filter_weight(axis->filter, ((double)x + 0.5 - centre) * per_unit);
        weight /= sum;
        entry[2 + x - start] =
            (int32_t)(weight * (1 << CONVOY_FIT_WEIGHT_BITS) + (weight < 0.0 ? -0.5 : 0.5));
    }
}

/* Centres are added up one by one, as Pillow does: their rounding decides between two pixels. */
static void fill_nearest(const struct convoy_resampling_axis *axis, int32_t *table)
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

void convoy_resampling_fill(const struct convoy_resampling_axis *axis, size_t taps, int32_t *table)
{
    if (axis->scaled == axis->in)
        for (int i = 0; i < axis->out; i++, table += 3) {
            table[0] = (int32_t)(axis->first + i);
            table[1] = 1;
            table[2] = 1 << CONVOY_FIT_WEIGHT_BITS;
        }
    else if (axis->filter == CONVOY_FITTING_NEAREST)
        fill_nearest(axis, table);
    else
        for (int i = 0; i < axis->out; i++, table += 2 + taps)
            fill_window(axis, i, taps, table);
}
